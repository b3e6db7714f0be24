"""Fine-tuning on sentences and sentence pairs: a class or a number for each."""

import functools
import os
from typing import Any

from base.errors import UserError

import numpy as np

from checkpoints.trained_for import TrainedFor, id2label_of
from finetuning import distillation
from records import in_memory
from tasks import graph_tokenizer, mistakes, signs
from tasks.classifier import export as classifier_export
from tasks.classifier import mistakes as classifier_mistakes
from tasks.classifier import model as classifier_model
from tasks.classifier import records as classifier_records
from tasks.classifier import scores as classifier_scores
from tasks.classifier import tasks as classifier_tasks
from tasks.classifier.distillation import ClassifierDistillation
from tasks.classifier.transfer import TransferTexts
from tasks.job import Job, LoadedModel, Scored
from tasks.settings import RunSettings
from tasks.source import ModelSource
from training import prediction

MATRIX, MATRIX_PICTURE = "confusion_matrix.tsv", "confusion_matrix.png"

SCATTER = "predictions.png"  # of a regression


class ClassifierJob(Job):
    """A class or a number for each sentence or pair.

    Args:
        settings: flags of the command.
        source: configuration and tokenizer of the model.
        is_training: whether the model is trained first.
        task: its files and labels.
        data_dir: the folder of the files.
        eval_batch_size: examples in a batch of the development set.
        distilling: teachers to learn from; None: labels alone.
        transfer_file: globs of more texts for them, if any.
    """

    head_pattern = "^(output_|bilstm/)"

    def __init__(
        self,
        settings: RunSettings,
        source: ModelSource,
        is_training: bool,
        task: classifier_tasks.Task,
        data_dir: str,
        eval_batch_size: int,
        distilling: distillation.Options | None = None,
        transfer_file: str | None = None,
    ):
        super().__init__(settings, source)
        self.task, self.data_dir = task, data_dir
        self.eval_batch_size = eval_batch_size
        self.is_regression = task.labels is None
        self.result_files = (
            *self.result_files,
            *(
                name_in_set(name, title)
                for title in _titles(task)
                for name in (mistakes.NAME, MATRIX, MATRIX_PICTURE, SCATTER)
            ),
            *self._prediction_files(),
        )
        self.objective = (
            classifier_model.REGRESSION
            if self.is_regression
            else classifier_model.CLASSIFICATION
        )
        self.records = classifier_records.ClassifierRecords(
            task,
            data_dir,
            settings.records_dir,
            source.tokenizer,
            source.config.vocab_size,
            source.max_seq_length,
            settings.pad_to_max_length,
        )
        self.distillation: ClassifierDistillation | None = None
        self._dev: dict[str, in_memory.ShortRecords] = {}
        if settings.do_predict:
            self._check_output_dir()
        self._check_files(is_training)
        if is_training and distilling:
            self._distil(distilling, transfer_file)

    def _prediction_files(self) -> list[str]:
        """Return the names of the files that --do_predict writes."""
        names = [_results_name(name) for name in self._test_splits()]
        if not self._is_data_dir():  # else they may be the test files
            names += [f"{title}.tsv" for title in self.task.test]
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

    def _check_files(self, is_training: bool) -> None:
        """Read the files that the run needs.

        So an error in them is reported before hours of training, not after.
        """
        if is_training:
            self.records.check("train", self.task.train)
        if self.settings.do_eval or self.settings.training.eval_steps:
            for name, split in self._dev_splits().items():
                self.records.check(name, split)
        if self.settings.do_predict:
            for name, split in self._test_splits().items():
                self.records.check(name, split)

    def _distil(
        self, distilling: distillation.Options, transfer_file: str | None
    ) -> None:
        """Learn from teachers: read their files, choose the objective."""
        texts = None
        if transfer_file:
            texts = TransferTexts(transfer_file, self.task.takes_pairs)
        self.distillation = ClassifierDistillation(
            distilling, texts, self.task, self.records
        )
        self.objective = self.distillation.objective

    def deciding_metric(self) -> str:
        """Return the task's first score, of its first development set."""
        if not self.task.dev:
            raise UserError(
                f"{self.data_dir} has no development file to find the best "
                "weights with"
            )
        return score_prefixes(self.task)[0] + self.task.metrics[0]

    def create_model(self) -> classifier_model.BertForSequenceClassification:
        """Return the encoder with a vector for each class."""
        labels = self.task.labels
        return classifier_model.BertForSequenceClassification(
            self.config,
            labels and len(labels),
            self.settings.training.dtype,
            self.source.bilstm,
        )

    # --- Data ----------------------------------------------------------------

    def data_fingerprint(self) -> dict[str, Any]:
        """Return everything the training records depend on."""
        return self.records.fingerprint(self.task.train)

    def train_data(self, loaded: LoadedModel) -> in_memory.ShortRecords:
        """Return the training records, with what teachers answer, if any."""
        data = self.records.split("train", self.task.train)
        if not self.distillation:
            return data
        return self.distillation.train_data(data, loaded, self.settings)

    def own_fingerprint(self) -> dict[str, Any]:
        """Return teachers, texts and loss of distillation."""
        if not self.distillation:
            return {**distillation.NO_FINGERPRINT, "transfer_file": None}
        return self.distillation.fingerprint()

    def own_adjustable(self) -> dict[str, Any]:
        """Return the commits of teachers on the hub."""
        if not self.distillation:
            return {}
        return self.distillation.options.adjustable()

    def _dev_splits(self) -> dict[str, classifier_tasks.Split]:
        """Return {name of the record file: split}; the original's is eval."""
        return _record_names("eval", self.task.dev)

    def _test_splits(self) -> dict[str, classifier_tasks.Split]:
        """Return {name of the record file: split}; the original's: predict."""
        return _record_names("predict", self.task.test)

    # --- Scores and predictions ----------------------------------------------

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score every development set; look for constant predictions."""
        results: dict[str, float] = {}
        found, logits = [], []
        prefixes = score_prefixes(self.task)
        for (name, split), prefix, title in zip(
            self._dev_splits().items(), prefixes, self.task.dev, strict=True
        ):
            if name not in self._dev:
                self._dev[name] = self.records.split(name, split)
            data = self._dev[name]
            outputs = loaded.predictor(data, self.eval_batch_size, title)
            prediction.check_finite(outputs["logits"], title)
            logits.append(outputs["logits"])
            scores = classifier_scores.scores(
                outputs["logits"],
                data.features["label_ids"],
                self.task.metrics,
                self.is_regression,
                self.task.positive_id,
            )
            results |= {prefix + key: value for key, value in scores.items()}
            sign = self._constant(outputs["logits"], data.features["label_ids"])
            if sign:
                found.append(f"{title}: {sign}" if prefix else sign)
        # The original's keys, of the first set: eval_loss, loss and, for
        # classes, eval_accuracy.
        loss = results.pop(prefixes[0] + "loss")
        results["eval_loss"] = results["loss"] = loss
        if not self.is_regression:
            results["eval_accuracy"] = results[prefixes[0] + "accuracy"]
        return Scored(results, found, logits)

    def write_mistakes(self, scored: Scored) -> None:
        """Write errors.tsv and the confusion matrix of every development set.

        A regression has a picture of the predictions over the labels instead
        of the matrix.
        """
        for (name, split), title, logits in zip(
            self._dev_splits().items(),
            _titles(self.task),
            scored.predictions,
            strict=True,
        ):
            label_ids = self._dev[name].features["label_ids"]
            examples = self.records.read(name, split)
            count = self.settings.num_errors
            if self.is_regression:
                found = classifier_mistakes.wrong_numbers(
                    logits[:, 0], label_ids, examples, count
                )
                self.draw(
                    name_in_set(SCATTER, title),
                    functools.partial(
                        classifier_mistakes.draw_scatter,
                        logits[:, 0],
                        label_ids,
                    ),
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

    def _constant(
        self, logits: np.ndarray, label_ids: np.ndarray
    ) -> str | None:
        """Return what is wrong if the predictions are constant, else None.

        Args:
            logits: [n, K], [n, 1] for regression.
            label_ids: [n] class ids, or numbers.
        """
        if self.is_regression:
            return signs.same_number(logits[:, 0], label_ids)
        return signs.same_class(logits.argmax(-1), label_ids, self.task.labels)

    def predict(self, loaded: LoadedModel) -> None:
        """Write test_results.tsv and the submission of every test set."""
        for (name, split), title in zip(
            self._test_splits().items(), self.task.test, strict=True
        ):
            data = self.records.split(name, split)
            outputs = loaded.predictor(
                data, self.settings.predict_batch_size, title
            )
            prediction.check_finite(outputs["logits"], title)
            guids = [e.guid for e in self.records.read(name, split)]
            rows, submission = classifier_scores.prediction_lines(
                outputs["logits"], guids, self.task.labels
            )
            self.write_lines(_results_name(name), rows)
            self.write_lines(f"{title}.tsv", submission)

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

    def create_export(
        self, loaded: LoadedModel, tokenizer: graph_tokenizer.Tokenizer
    ) -> classifier_export.Classifier:
        """Return the SavedModel: strings in, label and probabilities out."""
        labels = self.task.labels
        return classifier_export.Classifier(
            loaded.model,
            tokenizer,
            self.source.vocab_file,
            self.source.max_seq_length,
            labels=labels and list(labels),
            is_pair=self.task.takes_pairs,
        )


def _record_names(
    first: str, splits: dict[str, classifier_tasks.Split]
) -> dict[str, classifier_tasks.Split]:
    """Return {name of the record file: split}: eval, eval_mismatched, ..."""
    return {
        f"{first}_{name}" if number else first: split
        for number, (name, split) in enumerate(splits.items())
    }


def _results_name(split: str) -> str:
    """Return "test_results.tsv" for the test set "predict"."""
    return f"{split.replace('predict', 'test_results')}.tsv"


def _titles(task: classifier_tasks.Task) -> list[str]:
    """Return what the files of each development set have in their names.

    It is empty for the first one, whose scores are the task's.
    """
    return ["", *list(task.dev)[1:]]


def name_in_set(name: str, title: str) -> str:
    """Return the name of a development set's file.

    >>> name_in_set("errors.tsv", "dev_mismatched")
    'errors_dev_mismatched.tsv'
    """
    base, ending = os.path.splitext(name)
    return f"{base}_{title}{ending}" if title else name


def score_prefixes(task: classifier_tasks.Task) -> list[str]:
    """Return the prefix of each development set's scores; "" for one set.

    MNLI's are matched_ and mismatched_.
    """
    several = len(task.dev) > 1
    return [f"{name}_" if several else "" for name in task.dev]
