"""Fine-tuning on sentences and pairs: a class, labels or a number for each."""

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from base import cluster, file_system, logs, tables, text_files
from base.errors import UserError, counted

import numpy as np
from absl import logging

from checkpoints import lookup, published
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor, id2label_of
from records import in_memory, tfrecord
from tasks import long_texts, rows, signs
from tasks.classifier import data as classifier_data
from tasks.classifier import model as classifier_model
from tasks.classifier import scores as classifier_scores
from tasks.classifier import task_files
from tasks.classifier.flags import Options
from tasks.classifier.task import THRESHOLD, MultiLabel, joined, thresholds_of
from tasks.classifier.task_files import Example
from tasks.job import DataSet, FineTuningJob, Learned, LoadedModel, Scored
from tasks.settings import RunSettings
from tasks.task import Outputs

HELD_OUT = "heldout.csv"  # the rows that a fraction of the training set is

BALANCED = "balanced"  # class_weights

_SHOWN = 5  # examples in the log, as in the original


class ClassifierJob(FineTuningJob):
    """A class or a number for each sentence or pair."""

    task_name = "classifier"
    objective = classifier_model.CLASSIFICATION
    kept = (
        *FineTuningJob.kept,
        "id2label",
        "sentence_pairs",
        "output_activation",
    )

    def __init__(
        self,
        settings: RunSettings,
        source: Checkpoint,
        files: task_files.TaskFiles,
        options: Options,
    ):
        source = source.changed(
            id2label=files.names and id2label_of(files.names),
            sentence_pairs=files.takes_pairs,
            output_activation=files.output_activation,
        )
        super().__init__(settings, source)
        self.files, self.flags = files, options
        self.is_regression = files.labels is None
        for name in ("label_smoothing", "class_weights"):
            value = getattr(options, name)
            if value and self.is_regression:
                raise UserError(
                    f"--{name}={value} is for classes, and this task has "
                    "numbers: leave it out"
                )
        self.class_weights: Sequence[float] | str | None = options.class_weights
        if self.class_weights and self.class_weights != BALANCED:
            self.class_weights = classifier_data.read_class_weights(
                options.class_weights, files.labels
            )
        long_texts.check_single(source.long_texts, files.takes_pairs)
        if self.is_regression:
            self.objective = classifier_model.REGRESSION
        (train,) = _data_sets("train", {"train": files.train})
        dev = _data_sets("eval", files.dev)
        test = _data_sets("predict", files.test)
        for data in test:
            names = [_results_name(data), _results_name(data, "csv")]
            folder, file = os.path.split(data.source.path)
            folders = map(os.path.realpath, (folder, settings.output_dir))
            if len(set(folders)) == 2:
                names.append(f"{data.title}.tsv")
            # With test.csv and test.tsv in one folder, neither would be read
            # again.
            elif settings.do_predict and file.startswith(f"{data.title}."):
                raise UserError(
                    f"--output_dir={settings.output_dir} has the test file "
                    f"{file}: --do_predict writes {data.title}.tsv; use "
                    "another --output_dir"
                )
            self.result_files += tuple(names)
        if files.train and "heldout_seed" in (files.train.drawn or {}):
            self.result_files += (HELD_OUT,)
        kind = "float32" if self.is_regression else "int64"
        schema = rows.labeled_schema(source.row_length, kind)
        if files.multi_label:
            schema["label_ids"] = tfrecord.Feature(
                kind, len(files.labels), per_token=False
            )
        self.open_data(schema, train, dev, test)

    def deciding_metric(self) -> str:
        """Return the task's first score, of its first development set."""
        if not self.dev:
            raise UserError(
                "there is no development file to find the best weights with: "
                "name a --dev_file, or a --data_dir that has one"
            )
        return self.prefix(self.dev[0]) + self.files.metrics[0]

    # --- Data ----------------------------------------------------------------

    def read(self, data: DataSet) -> Sequence[Example]:
        """Return the examples of a data set."""
        return data.source.examples or classifier_data.read_examples(
            data.source, self.files
        )

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        return {
            **data.source.identity,
            "language": self.files.language,
            **self.text_fingerprint(),
            "labels": self.files.labels,
            # Earlier versions left out rows of empty cells.
            **({"rows": "all"} if data in self.test else {}),
            **({"multi_label": True} if self.files.multi_label else {}),
        }

    def convert(
        self, data: DataSet, examples: Sequence[Example]
    ) -> Iterator[rows.Record]:
        """Yield the record of every example; log the first ones."""
        task, sizes = self.task, []
        for number, example in enumerate(examples):
            row = task.row(example.text_a, example.text_b)
            label_id = self.files.label_id(example.label)
            if number < _SHOWN:
                label = f"{example.label} (id = {label_id})"
                rows.log_example(
                    number,
                    ("guid", example.guid),
                    ("tokens", self.tokens_of(row.input_ids)),
                    # A test file has none.
                    *([] if example.label is None else [("label", label)]),
                )
            sizes.append((len(row.input_ids), row.left_out))
            yield rows.labeled(row, label_id)
        labels = [x.label for x in examples if x.label is not None]
        if self.files.multi_label:
            several = map(task_files.split_labels, labels)
            labels = itertools.chain.from_iterable(several)
        logs.say(
            "%s: %s %s%s; %s",
            data.title,
            f"{len(examples):,}",
            "pairs of texts" if self.files.takes_pairs else "texts",
            "" if self.is_regression else rows.counts_of(labels),
            long_texts.what_is_read(self.source, sizes),
        )

    def begin(
        self, loaded: LoadedModel, data: in_memory.ShortRecords
    ) -> in_memory.ShortRecords:
        """Return the training records.

        Writes down the rows that were held out of the training set, if any.
        """
        if HELD_OUT in self.result_files:
            dev = self.dev[0]
            rows_of = classifier_data.rows_by_guid(dev.source)
            held_out = [rows_of[x.guid][1] for x in self.examples(dev)]
            logs.say(
                "Held out %s of %s, to score the model on: %s",
                counted(len(held_out), "row"),
                dev.source.path,
                self.path(HELD_OUT),
            )
            self.write_table(HELD_OUT, held_out, dev.source.path)
        return data

    def learned(self) -> Learned:
        """Return the training records, and the objective that they decide."""
        learned = super().learned()
        labels, ids = self.files.labels, learned.data.features["label_ids"]
        if labels is None:
            return learned
        counts = ids.sum(axis=0)  # [n, K] with several labels
        if ids.ndim == 1:
            counts = np.bincount(ids, minlength=len(labels))
        if not counts.all():
            logging.warning(
                "No training example has the label %s: the model does not "
                "learn it",
                ", ".join(labels[n] for n in np.flatnonzero(counts == 0)),
            )
        weights = np.ones(len(labels))
        if self.class_weights:
            what = "positives" if self.files.multi_label else "classes"
            if self.class_weights != BALANCED:
                weights = np.array(self.class_weights)
            elif self.files.multi_label:
                weights = positive_weights(counts, len(ids))
            else:
                weights = balanced_weights(counts)
            pairs = zip(labels, weights, strict=True)
            shown = (f"{label} {weight:.4g}" for label, weight in pairs)
            logging.info("Weights of the %s: %s", what, ", ".join(shown))
        smoothing = self.flags.label_smoothing
        if self.files.multi_label and (weights != 1).any():
            objective = classifier_model.positives_objective(weights)
        elif smoothing or (weights != weights[0]).any():
            objective = classifier_model.label_objective(smoothing, weights)
        else:
            return learned
        return learned._replace(objective=objective)

    def adjustable(self) -> dict[str, Any]:
        """Return the settings of the loss."""
        return {
            "label_smoothing": self.flags.label_smoothing or None,
            "class_weights": self.class_weights,
        }

    # --- Scores and predictions ----------------------------------------------

    def named(self, results: dict[str, float]) -> dict[str, float]:
        """Return the scores under the original's names too.

        They are those of the first set: eval_loss, loss and, for classes,
        eval_accuracy.
        """
        first = self.prefix(self.dev[0])
        loss = results.pop(first + "loss")
        results["eval_loss"] = results["loss"] = loss
        if not self.is_regression:
            results["eval_accuracy"] = results[first + "accuracy"]
        return results

    def score(self, data: DataSet, outputs: Outputs) -> Scored:
        """Return the scores of a development set."""
        label_ids = self.records(data).features["label_ids"]
        if self.is_regression:
            values = outputs["value"]
            return Scored(
                classifier_scores.number_scores(
                    values, label_ids, self.files.metrics
                ),
                signs.same_number(values, label_ids),
                (values, label_ids),
            )
        logits = outputs["logits"]
        scores = classifier_scores.scores(
            logits, label_ids, self.files.metrics, self.files.positive_id
        )
        sign = signs.no_better_class(
            logits.argmax(-1), label_ids, self.files.labels
        )
        return Scored(scores, sign, (logits, label_ids), len(label_ids))

    def write_predictions(self, data: DataSet, outputs: Outputs) -> str:
        """Write the predictions of a test set.

        They are test_results.tsv, its readable sibling test_results.csv with
        the texts and their labels, and the submission.
        """
        found = outputs["value" if self.is_regression else "probabilities"]
        lines, submission = classifier_scores.prediction_lines(
            found,
            [example.guid for example in self.examples(data)],
            self.submitted(found),
        )
        task, columns, table = self.task, data.source.columns, []
        for place, example in enumerate(self.examples(data)):
            own = {name: values[place] for name, values in outputs.items()}
            answer = task.prediction([], own)
            texts = {str(columns.text_a): example.text_a}
            if example.text_b is not None:
                texts[str(columns.text_b)] = example.text_b
            if self.files.is_own and not all(map(str.strip, texts.values())):
                answer = dict.fromkeys(task.predicted)
                lines[place] = "\t" * lines[place].count("\t")
                submission[place + 1] = f"{example.guid}\t"
            cells = task.cells(answer)
            table.append(tables.renamed(texts, cells) | cells)
        self.write_lines(_results_name(data), lines)
        self.write_lines(f"{data.title}.tsv", submission)
        name = _results_name(data, "csv")
        self.write_table(name, table, data.source.path)
        return name

    def write_table(
        self, name: str, table: Sequence[Mapping[str | int, Any]], like: str
    ) -> None:
        """Write rows to output_dir as CSV; see tables.csv_text."""
        text = tables.csv_text(table, like)
        self.write_lines(name, text.split("\n")[:-1])

    def submitted(self, outputs: np.ndarray) -> list[str]:
        """Return the answers of a submission, of outputs [n] or [n, K]."""
        if self.is_regression:
            return [f"{value:.3f}" for value in outputs]
        return [self.files.labels[number] for number in outputs.argmax(-1)]


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Return the weights [K] of classes by their numbers of examples [K].

    As in scikit-learn, each class has the same share of the sum of the
    examples' weights, whose mean is 1. A class without examples has no share.

    >>> balanced_weights(np.array([30, 10, 0]))
    array([0.66666667, 2.        , 0.        ])
    """
    shares = counts.sum() / np.count_nonzero(counts)
    return np.where(counts, shares / np.maximum(counts, 1), 0.0)


def _data_sets(
    name: str, files: Mapping[str, task_files.DataFile | None]
) -> list[DataSet]:
    """Return the data sets of {title: file}; those after the first get titles.

    A file is None if the task has no training file.
    """
    found: list[DataSet] = []
    for title, file in files.items():
        own = [name, title if found else "", file.part if file else ""]
        found.append(DataSet("_".join(filter(None, own)), title, file))
    return found


def _results_name(data: DataSet, ending: str = "tsv") -> str:
    """Return "test_results.tsv" for the test set "predict"."""
    return f"{data.name.replace('predict', 'test_results')}.{ending}"


# --- Any number of labels -----------------------------------------------------


class MultiLabelJob(ClassifierJob):
    """Labels of each sentence or pair."""

    task_name = MultiLabel.name
    # The probability [K] from which on a label is predicted, and whether a
    # model that is used as it is has decided that.
    thresholds: tuple[float, ...] | None = None
    are_fixed = False

    def trained_for(self) -> TrainedFor:
        """Return also the thresholds."""
        return super().trained_for()._replace(thresholds=self.thresholds)

    def restored(self, trained_for: TrainedFor) -> None:
        """Take the thresholds of the weights, if they have some."""
        found = trained_for.thresholds
        self.thresholds = tuple(found) if found else None
        self.are_fixed = bool(found) and not self.settings.do_train

    # --- Scores and predictions ----------------------------------------------

    def tune(self, data: DataSet, outputs: Outputs, prefix: str | None) -> None:
        """Choose the thresholds, after training or if the model has none.

        Those of the weights to keep are stored with the model.
        """
        if self.are_fixed:
            return
        labels = self.records(data).features["label_ids"]
        best = best_thresholds(labels, outputs["probabilities"])
        self.thresholds = tuple(best.tolist())
        shown = zip(self.files.labels, self.thresholds, strict=True)
        logging.info(
            "Thresholds with the best F1 of each label on %d texts of %s: %s",
            len(labels),
            data.title,
            ", ".join(f"{name} {value:.3f}" for name, value in shown),
        )
        path = self.path(published.BERT_CONFIG_NAME)
        is_kept = prefix and lookup.folder_of(prefix) == os.path.dirname(path)
        if is_kept and cluster.is_chief() and file_system.exists(path):
            config = text_files.read_json_object(path)
            config["thresholds"] = self.thresholds
            text_files.write_json(path, config, ensure_ascii=False)

    def score(self, data: DataSet, outputs: Outputs) -> Scored:
        """Return the scores of a development set."""
        probs = outputs["probabilities"]
        labels = self.records(data).features["label_ids"]
        predicted = self.predicted(probs)
        found = classifier_scores.label_scores(
            outputs["logits"], labels, predicted
        )
        sign = signs.no_better_labels(predicted, labels)
        return Scored(found, sign, (probs, labels), len(labels))

    def predicted(self, probs: np.ndarray) -> np.ndarray:
        """Return which labels are predicted, bool [n, K]."""
        return probs >= thresholds_of(self.thresholds, probs.shape[1])

    def names(self, row: np.ndarray) -> str:
        """Return the labels of a row [K] as a file of predictions has them."""
        return joined([self.files.labels[k] for k in np.flatnonzero(row)])

    def submitted(self, outputs: np.ndarray) -> list[str]:
        """Return the predicted labels, of probabilities [n, K]."""
        return [self.names(row) for row in self.predicted(outputs)]


def positive_weights(counts: np.ndarray, total: int) -> np.ndarray:
    """Return the weight of each label's positives, negatives / positives [K].

    `counts` are the examples that have each label, of `total` examples.

    A label of no example or of all of them has nothing to balance, and 1.

    >>> positive_weights(np.array([10, 25, 0, 40]), 40)
    array([3. , 0.6, 1. , 1. ])
    """
    others = total - counts
    return np.where(counts * others, others / np.maximum(counts, 1), 1.0)


def best_thresholds(labels: np.ndarray, probs: np.ndarray) -> np.ndarray:
    """Return the threshold of each label, [K], with the best F1 of that label.

    It lies in the middle between two probabilities of the data, so that a
    rounding difference of another backend changes no prediction. A label
    without an example keeps 0.5. Labels, 0 or 1, and probs are [n, K].
    """
    from sklearn import metrics

    probs = probs.astype(np.float64)  # which has numbers between any two
    found = np.full(labels.shape[1], THRESHOLD)
    for number in np.flatnonzero(labels.any(axis=0)):
        precision, recall, candidates = metrics.precision_recall_curve(
            labels[:, number], probs[:, number]
        )  # candidates ascend; the last point of both has no candidate
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-12)
        best = int(f1[:-1].argmax())
        below = candidates[best - 1] if best else 0.0
        found[number] = (candidates[best] + below) / 2
    return found
