"""Fine-tuning on sentences and sentence pairs: a class or a number for each."""

import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base import file_system
from base.errors import UserError

import numpy as np
from absl import logging

from checkpoints.trained_for import TrainedFor, id2label_of
from records import text_records, tfrecord
from tasks import mistakes, signs
from tasks.classifier import data as classifier_data
from tasks.classifier import mistakes as classifier_mistakes
from tasks.classifier import model as classifier_model
from tasks.classifier import scores as classifier_scores
from tasks.classifier import tasks as classifier_tasks
from tasks.job import DataSet, Job, LoadedModel, Scored
from tasks.settings import RunSettings
from tasks.source import ModelSource

MATRIX, MATRIX_PICTURE = "confusion_matrix.tsv", "confusion_matrix.png"

_SHOWN = 5  # examples in the log, as in the original


class ClassifierJob(Job):
    """A class or a number for each sentence or pair.

    Args:
        settings: flags of the command.
        source: configuration and tokenizer of the model.
        is_training: whether the model is trained first.
        task: its files and labels.
        data_dir: the folder of the files.
        eval_batch_size: examples in a batch of the development set.
    """

    head_pattern = "^(output_|bilstm/)"
    task_name = "classifier"
    objective = classifier_model.CLASSIFICATION

    def __init__(
        self,
        settings: RunSettings,
        source: ModelSource,
        is_training: bool,
        task: classifier_tasks.Task,
        data_dir: str,
        eval_batch_size: int,
    ):
        super().__init__(settings, source)
        self.task, self.data_dir = task, data_dir
        self.is_regression = task.labels is None
        self.result_files = (*self.result_files, *self._own_result_files())
        if self.is_regression:
            self.objective = classifier_model.REGRESSION
        if settings.do_predict:
            self._check_output_dir()
        self.open_data(
            self.schema(),
            DataSet("train", "train", task.train),
            _data_sets("eval", task.dev),
            _data_sets("predict", task.test),
            is_training,
            eval_batch_size,
        )

    def _own_result_files(self) -> list[str]:
        """Return what evaluation and prediction write besides every job's."""
        names = [
            name_in_set(name, title)
            for title in ["", *list(self.task.dev)[1:]]
            for name in (mistakes.NAME, MATRIX, MATRIX_PICTURE)
        ]
        tests = _data_sets("predict", self.task.test)
        names += [_results_name(data) for data in tests]
        if not self._is_data_dir():  # else they may be the test files
            names += [f"{data.title}.tsv" for data in tests]
        return names

    def _is_data_dir(self) -> bool:
        """Return whether output_dir is the folder of the task's files."""
        output_dir = os.path.realpath(self.settings.output_dir)
        return output_dir == os.path.realpath(self.data_dir)

    def _check_output_dir(self) -> None:
        """Check that no predictions are written in place of the test set.

        Nor beside it: with test.csv and test.tsv in a folder, neither would be
        read again.

        Raises:
            UserError: output_dir is data_dir, and a file of predictions has
                the name of a test file, as those of a user's own files have.
        """
        output_dir = self.settings.output_dir
        if not self._is_data_dir():
            return
        for title, split in self.task.test.items():
            if os.path.splitext(split.file)[0] == title:
                raise UserError(
                    f"--output_dir={output_dir} is --data_dir too, which has "
                    f"the test file {split.file}: --do_predict writes "
                    f"{title}.tsv; use another --output_dir"
                )

    def deciding_metric(self) -> str:
        """Return the task's first score, of its first development set."""
        if not self.task.dev:
            raise UserError(
                f"{self.data_dir} has no development file to find the best "
                "weights with"
            )
        return self._first_prefix + self.task.metrics[0]

    @property
    def _first_prefix(self) -> str:
        """The prefix of the scores of the first development set."""
        return f"{self.dev[0].title}_" if len(self.dev) > 1 else ""

    def options(self) -> dict[str, Any]:
        """Return the labels, and whether texts come in pairs."""
        return {
            "labels": self.task.labels,
            "sentence_pairs": self.task.takes_pairs,
        }

    # --- Data ----------------------------------------------------------------

    def schema(self) -> dict[str, tfrecord.Feature]:
        """Return {feature: type and length} of the records."""
        return classifier_data.schema(
            self.source.max_seq_length, self.is_regression
        )

    def label_ids(self, label: str | None) -> Any:
        """Return the number of a label; None stands for a missing one."""
        return self.task.label_id(label)

    def read(self, data: DataSet) -> list[classifier_data.Example]:
        """Return the examples of a file."""
        return classifier_data.read_examples(
            self.data_dir,
            data.source,
            self.task.labels,
            self.task.language,
            self.is_regression,
            self.task.multi_label,
        )

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        return {
            **self.file_fingerprint(data),
            **self.text_fingerprint(),
            "labels": self.task.labels,
        }

    def file_fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the texts of a file depend on."""
        path = os.path.join(self.data_dir, data.source.file)
        return {
            "data": file_system.sha256(path),
            "columns": data.source.columns._asdict(),
            "language": self.task.language,
        }

    def convert(
        self, data: DataSet, examples: Sequence[classifier_data.Example]
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the features of all examples; log the first ones."""
        features, num_cut = classifier_data.convert_examples(
            examples,
            self.label_ids,
            self.source.max_seq_length,
            self.tokenizer,
        )
        label_type = np.float32 if self.is_regression else np.int64
        features["label_ids"] = features["label_ids"].astype(label_type)
        for row, example in enumerate(examples[:_SHOWN]):
            text_records.log_example(
                ("guid", example.guid),
                ("tokens", self.tokens_of(features, row)),
                (
                    "label",
                    f"{example.label} (id = {features['label_ids'][row]})",
                ),
            )
        logging.info(
            "%s: %d examples, %d of them cut to %d tokens",
            data.title,
            len(examples),
            num_cut,
            self.source.max_seq_length,
        )
        yield features

    # --- Scores and predictions ----------------------------------------------

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score every development set; look for constant predictions."""
        scored = super().evaluate(loaded)
        # The original's keys, of the first set: eval_loss, loss and, for
        # classes, eval_accuracy.
        results, first = scored.results, self._first_prefix
        loss = results.pop(first + "loss")
        results["eval_loss"] = results["loss"] = loss
        if not self.is_regression:
            results["eval_accuracy"] = results[first + "accuracy"]
        return scored

    def score(self, data: DataSet, outputs: dict[str, np.ndarray]) -> Scored:
        """Return the scores of a development set."""
        logits = outputs["logits"]
        label_ids = self.records(data).features["label_ids"]
        scores = classifier_scores.scores(
            logits,
            label_ids,
            self.task.metrics,
            self.is_regression,
            self.task.positive_id,
        )
        if self.is_regression:
            sign = signs.same_number(logits[:, 0], label_ids)
        else:
            sign = signs.same_class(
                logits.argmax(-1), label_ids, self.task.labels
            )
        return Scored(scores, [sign] if sign else [], (logits, label_ids))

    def write_mistakes_of(self, data: DataSet, scored: Scored) -> None:
        """Write errors.tsv and the confusion matrix of a development set."""
        logits, label_ids = scored.predictions
        examples, count = self.examples(data), self.settings.num_errors
        # Those of the first set have no title in their names.
        title = "" if data == self.dev[0] else data.title
        if self.is_regression:
            found = classifier_mistakes.wrong_numbers(
                logits[:, 0], label_ids, examples, count
            )
        else:
            found = classifier_mistakes.wrong_labels(
                logits, label_ids, self.task.labels, examples, count
            )
            self._write_confusion(logits.argmax(-1), label_ids, title)
        self.write_errors(found, name_in_set(mistakes.NAME, title))

    def _write_confusion(
        self, predictions: np.ndarray, label_ids: np.ndarray, title: str
    ) -> None:
        """Write the confusion matrix of a development set, and its picture.

        Args:
            predictions: class ids [n].
            label_ids: class ids [n].
            title: in the files' names.
        """
        labels = self.task.labels
        counts = classifier_mistakes.confusion(
            predictions, label_ids, len(labels)
        )
        self.write_lines(
            name_in_set(MATRIX, title),
            classifier_mistakes.confusion_table(counts, labels),
        )
        if classifier_mistakes.can_draw(len(labels)):
            self.draw(
                name_in_set(MATRIX_PICTURE, title),
                functools.partial(
                    classifier_mistakes.draw_confusion, counts, labels
                ),
            )

    def write_predictions(
        self, data: DataSet, outputs: dict[str, np.ndarray]
    ) -> None:
        """Write test_results.tsv and the submission of a test set."""
        rows, submission = classifier_scores.prediction_lines(
            outputs["logits"],
            [example.guid for example in self.examples(data)],
            self.task.labels,
        )
        self.write_lines(_results_name(data), rows)
        self.write_lines(f"{data.title}.tsv", submission)

    # --- The fine-tuned model ------------------------------------------------

    def trained_for(self) -> TrainedFor:
        """Return the labels, whether texts come in pairs, and their length."""
        labels = self.task.labels
        return (
            super()
            .trained_for()
            ._replace(
                id2label=None if labels is None else id2label_of(labels),
                sentence_pairs=self.task.takes_pairs,
            )
        )


def _data_sets(
    first: str, splits: Mapping[str, classifier_tasks.Split]
) -> list[DataSet]:
    """Return data sets with records eval, eval_dev_mismatched, ...; predict."""
    return [
        DataSet(f"{first}_{title}" if number else first, title, split)
        for number, (title, split) in enumerate(splits.items())
    ]


def _results_name(data: DataSet) -> str:
    """Return "test_results.tsv" for the test set "predict"."""
    return f"{data.name.replace('predict', 'test_results')}.tsv"


def name_in_set(name: str, title: str) -> str:
    """Return the name of a development set's file.

    >>> name_in_set("errors.tsv", "dev_mismatched")
    'errors_dev_mismatched.tsv'
    """
    base, ending = os.path.splitext(name)
    return f"{base}_{title}{ending}" if title else name
