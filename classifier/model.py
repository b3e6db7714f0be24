"""The model for sentences and pairs, and its objective (paper section 4.1)."""

from collections.abc import Mapping

import tensorflow as tf

import modeling
from modeling import BertConfig, TaskModel, draw_seed
from ops import losses
from records.streaming import Batch
from training.objective import Objective, Sums, example_weights


class BertForSequenceClassification(TaskModel):
    """One vector per class on the pooled output; one alone for regression.

    Args:
        config: of the encoder.
        num_labels: K; None for a number instead of a class.
        dtype: what matrix products are computed in.
    """

    def __init__(
        self,
        config: BertConfig,
        num_labels: int | None,
        dtype: str = "float32",
    ):
        super().__init__(config, dtype)
        self.is_regression = num_labels is None
        self.output_weights, self.output_bias = modeling.output_variables(
            num_labels or 1, config.hidden_size
        )

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 logits [B, K], [B, 1] for regression."""
        seed = draw_seed(training, dropout_seed)
        pooled = self.encode(features, training, seed).pooled_output
        pooled = modeling.head_dropout(pooled, seed, "classifier/dropout")
        return modeling.project(pooled, self.output_weights, self.output_bias)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> losses.Loss:
        """Return cross entropy, or squared error (correct is then 0).

        Args:
            features: as in the records, with label_ids [B];
                `example_weights` [B], where given, is 0 for rows that only
                fill a batch.
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        logits = self(features, training, dropout_seed)
        weights = features.get("example_weights")
        if not self.is_regression:
            return losses.classification_loss(
                logits, features["label_ids"], weights
            )
        errors = tf.square(logits[:, 0] - features["label_ids"])
        if weights is None:
            weights = tf.ones_like(errors)
        return losses.Loss(
            tf.reduce_sum(errors * weights),
            tf.reduce_sum(weights),
            tf.zeros([]),
        )


# --- One loss: sentences and pairs, choices, words ---------------------------


def _sentence_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return how many examples the loss of this batch is a mean over."""
    weights = example_weights(batch, "label_ids")
    return {"label_loss": tf.reduce_sum(weights)}


def label_sums(
    model: modeling.TaskModel,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> Sums:
    """The loss and, for classes, the accuracy of a batch."""
    label = model.loss(batch, training, dropout_seed)
    mask = tf.cast(batch["input_mask"], tf.float32)
    rows = tf.cast(tf.shape(mask)[0], tf.float32)
    sums = {
        "label_loss": (label.loss, label.weight),
        "tokens": (tf.reduce_sum(mask), rows),
    }
    if not getattr(model, "is_regression", False):
        sums["accuracy"] = (label.correct, label.weight)
    return sums


def mean_label_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    return sums["label_loss"] / weights["label_loss"]


CLASSIFICATION = Objective(
    loss_weights=_sentence_weights,
    forward=label_sums,
    total_loss=mean_label_loss,
    names=("label_loss", "accuracy", "tokens"),
)

REGRESSION = CLASSIFICATION._replace(names=("label_loss", "tokens"))
