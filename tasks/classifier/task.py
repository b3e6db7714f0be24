"""A class, labels or a number for a text or a pair of texts."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from checkpoints.trained_for import id2label_of
from tasks import long_texts
from tasks.rows import Unit
from tasks.task import Outputs, Prediction, RowTask, TaskSettings, number

# The probability from which on a label is predicted, where none was tuned.
THRESHOLD = 0.5


class Classification(RowTask):
    """A label with probabilities, or a number, for a text or a pair."""

    name = "classifier"
    model = "classifier.model.BertForSequenceClassification"
    graph = "classifier.model.ClassifierGraph"
    described = (*RowTask.described, "labels", "sentence_pairs")
    head, trained_as = "output_weights", (None,)
    multi_label = False
    takes_long_texts = True

    def __init__(self, settings: TaskSettings):
        if settings.checkpoint.trained_for.sentence_pairs:
            self.text_names = ("text_a", "text_b")
        super().__init__(settings)

    @property
    def predicted(self) -> tuple[str, ...]:
        """The fields of a class, or of a number."""
        return (
            ("label", "score", "probabilities") if self.labels else ("value",)
        )

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return label, score and probabilities; or value."""
        if self.labels is None:
            return {"value": number(outputs["value"])}
        named = self.named(outputs["probabilities"])
        label = self.labels[int(outputs["probabilities"].argmax())]
        return {"label": label, "score": named[label], "probabilities": named}

    def named(self, shares: np.ndarray) -> dict[str, float]:
        """Return {label: its probability} of probabilities [K]."""
        shown = map(number, shares.tolist())
        return dict(zip(self.labels, shown, strict=True))

    def cells(self, prediction: Prediction) -> dict[str, Any]:
        """Return label and probability of the label; or value."""
        if "label" not in prediction:
            return prediction
        label, score = prediction["label"], prediction["score"]
        told = self.predicted
        others = {n: v for n, v in prediction.items() if n not in told}
        return {"label": label, "probability": score} | others

    # --- Model ---------------------------------------------------------------

    @classmethod
    def completed(cls, settings: TaskSettings) -> TaskSettings:
        """Return the settings with the labels, and whether texts are pairs.

        The labels of a regression, whose head has one row, are None.
        """
        checkpoint = settings.checkpoint
        count = checkpoint.shapes["output_weights"][0]  # of [num_labels, H]
        labels, pairs = None, bool(checkpoint.trained_for.sentence_pairs)
        if count > 1:
            labels = id2label_of(checkpoint.trained_for.class_names(count))
        long_texts.check_single(checkpoint.long_texts, pairs)
        used = checkpoint.changed(id2label=labels, sentence_pairs=pairs)
        return settings._replace(checkpoint=used)


class MultiLabel(Classification):
    """Labels with a probability each, for a text or a pair."""

    name = "multi_label_classification"
    graph = "classifier.model.MultiLabelGraph"
    described = (*Classification.described, "thresholds")
    trained_as = (name,)
    multi_label = True
    predicted = ("labels", "probabilities")

    @property
    def thresholds(self) -> np.ndarray:
        """The probability [K] from which on each label is predicted."""
        found = self.checkpoint.trained_for.thresholds
        return thresholds_of(found, len(self.labels))

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the predicted labels, and the probabilities of all."""
        names, shares = np.array(self.labels), outputs["probabilities"]
        labels = names[shares >= self.thresholds].tolist()
        return {"labels": labels, "probabilities": self.named(shares)}

    def cells(self, prediction: Prediction) -> dict[str, Any]:
        """Return also the labels as a file of examples has them."""
        return {**prediction, "labels": joined(prediction["labels"] or ())}


def joined(labels: Sequence[str]) -> str:
    """Return several labels as a file has them, see task_files.split_labels."""
    if any("," in label for label in labels):
        return json.dumps(labels, ensure_ascii=False)
    return ",".join(labels)


def thresholds_of(found: Sequence[float] | None, count: int) -> np.ndarray:
    """Return the thresholds [K] of `count` labels; None: none was tuned."""
    return np.array(found or [THRESHOLD] * count)
