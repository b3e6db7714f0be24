"""Fine-tuning on texts with any number of labels each."""

import json
import os
from typing import Any

from base import cluster, file_system, text_files

import numpy as np
from absl import logging

from checkpoints import lookup
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor
from records import tfrecord
from tasks.classifier import data as classifier_data
from tasks.classifier import scores as classifier_scores
from tasks.classifier.job import ClassifierJob
from tasks.classifier.task import THRESHOLD, MultiLabel, thresholds_of
from tasks.job import DataSet, LoadedModel, Scored
from tasks.settings import RunSettings
from tasks.task import Outputs


class MultiLabelJob(ClassifierJob):
    """Labels of each sentence or pair."""

    task_name = MultiLabel.name

    def __init__(
        self,
        settings: RunSettings,
        source: Checkpoint,
        *args: Any,
    ):
        # The probability [K] from which on a label is predicted: those of the
        # model, else tuned on the development set when it is scored.
        found = source.trained_for.thresholds
        self.tunes = settings.do_train or not found
        self.thresholds = None if self.tunes else tuple(found)
        super().__init__(settings, source, *args)

    def fingerprint(self, data: DataSet) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        return super().fingerprint(data) | {"multi_label": True}

    def trained_for(self) -> TrainedFor:
        """Return also the thresholds."""
        return super().trained_for()._replace(thresholds=self.thresholds)

    def use_tuned(self, trained_for: TrainedFor) -> None:
        """Take the thresholds of the weights, if they have some."""
        found = trained_for.thresholds
        self.tunes = self.tunes or not found
        self.thresholds = tuple(found) if found else None

    # --- Data ----------------------------------------------------------------

    def schema(self) -> dict[str, tfrecord.Feature]:
        """Return the schema of a classifier's records, with K labels."""
        count = len(self.files.labels)
        return super().schema() | {
            "label_ids": tfrecord.Feature("int64", count, per_token=False)
        }

    def label_ids(self, label: str | None) -> list[int]:
        """Return 1 for each label of an example, else 0, [K]."""
        found = classifier_data.split_labels(label or "")
        return [int(name in found) for name in self.files.labels]

    # --- Scores and predictions ----------------------------------------------

    def evaluate(self, loaded: LoadedModel) -> Scored:
        """Score the development set, at the thresholds of the model.

        After training, or if the model has no thresholds, they are tuned on
        this set first; those of the weights to keep are stored with the model.
        """
        scored = super().evaluate(loaded)
        folder = lookup.folder_of(loaded.prefix) if loaded.prefix else ""
        path = os.path.join(folder, lookup.BERT_CONFIG_NAME)
        if self.tunes and folder == self.settings.output_dir.rstrip("/"):
            if cluster.is_chief() and file_system.exists(path):
                config = text_files.read_json_object(path)
                config["thresholds"] = self.thresholds
                text = json.dumps(config, indent=2, ensure_ascii=False)
                file_system.write_text(path, text + "\n")
        return scored

    def score(self, data: DataSet, outputs: Outputs) -> Scored:
        """Return the scores of a development set."""
        probs = outputs["probabilities"]
        labels = self.records(data).features["label_ids"]
        if self.tunes:
            tuned = tune_thresholds(labels, probs)
            self.thresholds = tuple(tuned.tolist())
            shown = zip(self.files.labels, self.thresholds, strict=True)
            logging.info(
                "Thresholds with the best F1 of each label on %s: %s",
                data.title,
                ", ".join(f"{name} {value:.3f}" for name, value in shown),
            )
        found = classifier_scores.label_scores(
            outputs["logits"], labels, self.predicted(probs)
        )
        predicted, signs = self.predicted(probs), []
        is_same, is_right = ((x == x[0]).all() for x in (predicted, labels))
        if is_same and not is_right:
            signs = [f"all {len(labels):,} predictions are the same labels"]
        return Scored(found, signs, (probs, labels))

    def predicted(self, probs: np.ndarray) -> np.ndarray:
        """Return which labels are predicted, bool [n, K]."""
        thresholds = thresholds_of(self.thresholds, probs.shape[1])
        return probs >= thresholds

    def names(self, row: np.ndarray) -> str:
        """Return the labels of a row [K] as a file of predictions has them."""
        names = [self.files.labels[k] for k in np.flatnonzero(row)]
        if any("," in name for name in names):
            return json.dumps(names, ensure_ascii=False)
        return ",".join(names)

    def write_predictions(self, data: DataSet, outputs: Outputs) -> None:
        """Write test_results.tsv, a probability per label, and test.tsv."""
        probs = outputs["probabilities"]
        self.write_lines(
            "test_results.tsv", ["\t".join(map(str, row)) for row in probs]
        )
        lines = [
            f"{example.guid}\t{self.names(row)}"
            for example, row in zip(
                self.examples(data), self.predicted(probs), strict=True
            )
        ]
        self.write_lines(f"{data.title}.tsv", ["index\tprediction", *lines])


def tune_thresholds(labels: np.ndarray, probs: np.ndarray) -> np.ndarray:
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
