"""The labels of a text or a pair of texts, any number of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.classifier.task import Classification
from tasks.rows import Unit
from tasks.task import Outputs, Prediction, number

if TYPE_CHECKING:
    import modeling
    from checkpoints.checkpoint import Checkpoint
    from tasks.multi_label import model

# The probability from which on a label is predicted, where none was tuned.
THRESHOLD = 0.5


class MultiLabel(Classification):
    """Labels with a probability each, for a text or a pair."""

    name = "multi_label_classification"
    graph_class = ("tasks.multi_label.model", "MultiLabelGraph")
    described = (*Classification.described, "thresholds")

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

    # --- Model ---------------------------------------------------------------

    @classmethod
    def options_of(
        cls, checkpoint: "Checkpoint", given: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return also the thresholds."""
        found = super().options_of(checkpoint, given)
        thresholds = checkpoint.trained_for.thresholds
        return found | {"thresholds": thresholds and tuple(thresholds)}

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.BertForMultiLabel":
        """Return the encoder with a vector for each label."""
        from tasks import bilstm
        from tasks.multi_label import model

        return model.BertForMultiLabel(
            config,
            len(self.settings.labels),
            dtype,
            bilstm.size_in(self.settings.trained_for),
            self.settings.windows,
        )
