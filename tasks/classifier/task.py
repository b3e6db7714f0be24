"""A class, labels or a number for a text or a pair of texts."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.rows import Unit
from tasks.task import (
    Outputs,
    Prediction,
    RowTask,
    Settings,
    number,
)

if TYPE_CHECKING:
    import modeling
    from checkpoints.checkpoint import Checkpoint
    from tasks.classifier import model

# The probability from which on a label is predicted, where none was tuned.
THRESHOLD = 0.5


class Classification(RowTask):
    """A label with probabilities, or a number, for a text or a pair."""

    name = "classifier"
    described = (*RowTask.described, "labels", "sentence_pairs")
    head, trained_as = "output_weights", (None,)
    multi_label = False
    takes_long_texts = True

    def __init__(self, settings: Settings):
        if settings.sentence_pairs:
            self.text_names = ("text_a", "text_b")
        super().__init__(settings)

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return label, score and probabilities; or value."""
        labels = self.settings.labels
        if labels is None:
            return {"value": number(outputs["value"])}
        shares = outputs["probabilities"]
        best = int(shares.argmax())
        return {
            "label": labels[best],
            "score": number(shares[best]),
            "probabilities": {
                name: number(share)
                for name, share in zip(labels, shares.tolist(), strict=True)
            },
        }

    # --- Model ---------------------------------------------------------------

    @classmethod
    def options_of(
        cls, checkpoint: "Checkpoint", given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return also the labels, and whether texts come in pairs.

        The labels of a regression, whose head has one row, are None.
        """
        count = checkpoint.shapes["output_weights"][0]  # of [num_labels, H]
        labels, trained_for = None, checkpoint.trained_for
        if count > 1:
            labels = tuple(trained_for.class_names(count))
        pairs = bool(trained_for.sentence_pairs)
        return {"labels": labels, "sentence_pairs": pairs} | dict(given)

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.BertForSequenceClassification":
        """Return the encoder with a vector for each class."""
        from tasks import bilstm
        from tasks.classifier import model

        labels = self.settings.labels
        return model.BertForSequenceClassification(
            config,
            labels and len(labels),
            dtype,
            bilstm.size_in(self.settings.trained_for),
            windows=self.settings.windows,
            activation=self.settings.trained_for.output_activation,
            multi_label=self.multi_label,
        )


class MultiLabel(Classification):
    """Labels with a probability each, for a text or a pair."""

    name = "multi_label_classification"
    described = (*Classification.described, "thresholds")
    trained_as = (name,)
    multi_label = True

    @property
    def thresholds(self) -> np.ndarray:
        """The probability [K] from which on each label is predicted."""
        found = self.settings.thresholds
        return np.array(found or [THRESHOLD] * len(self.settings.labels))

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the predicted labels, and the probabilities of all."""
        names, shares = np.array(self.settings.labels), outputs["probabilities"]
        return {
            "labels": names[shares >= self.thresholds].tolist(),
            "probabilities": dict(
                zip(names.tolist(), map(number, shares.tolist()), strict=True)
            ),
        }

    @classmethod
    def options_of(
        cls, checkpoint: "Checkpoint", given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return also the thresholds."""
        found = super().options_of(checkpoint, given)
        thresholds = checkpoint.trained_for.thresholds
        return found | {"thresholds": thresholds and tuple(thresholds)}
