"""The model that finds answers, and its objective (paper sections 4.2, 4.3)."""

from collections.abc import Mapping

import tensorflow as tf

import modeling
from modeling import BertConfig, Layer, TaskModel
from ops import losses
from records.streaming import Batch
from training.objective import Objective, Sums, example_weights

# --- Answers in a paragraph (paper sections 4.2 and 4.3) ----------------------


class SquadHead(Layer):
    """Start and end vectors, under the name `cls/squad`."""

    def __init__(self, config: BertConfig):
        super().__init__("cls")
        # 0.02 whatever the configuration says, as in the original.
        self.squad = modeling.OutputLayer(config.hidden_size, 2, "squad")
        self.build()


class BertForQuestionAnswering(TaskModel):
    """A score for every token to be an answer's first, and its last."""

    uses_pooler = False

    def __init__(self, config: BertConfig, dtype: str = "float32"):
        super().__init__(config, dtype)
        self.cls = SquadHead(config)

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 logits [2, B, S]: of starts, of ends."""
        output = self.encode(features, training, dropout_seed)
        logits = self.cls.squad(output.sequence_output)  # [B, S, 2]
        return tf.transpose(logits, [2, 0, 1])

    def losses(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tuple[losses.Loss, losses.Loss]:
        """Return the cross entropies of start_positions and end_positions.

        Over the tokens of a row: padding is left out, so that the loss does
        not depend on how far a batch is padded.
        """
        logits = self(features, training, dropout_seed)
        is_padding = tf.cast(features["input_mask"], tf.float32) - 1.0  # [B, S]
        starts, ends = tf.unstack(logits + 10000.0 * is_padding)
        weights = features.get("example_weights")
        return (
            losses.classification_loss(
                starts, features["start_positions"], weights
            ),
            losses.classification_loss(
                ends, features["end_positions"], weights
            ),
        )


# --- Answers in a paragraph -------------------------------------------------


def _span_weights(batch: Batch) -> dict[str, tf.Tensor]:
    total = tf.reduce_sum(example_weights(batch, "start_positions"))
    return {"start_loss": total, "end_loss": total}


def _span_sums(
    model: BertForQuestionAnswering,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> Sums:
    """Losses and accuracies of starts and ends."""
    start, end = model.losses(batch, training, dropout_seed)
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    return {
        "start_loss": (start.loss, start.weight),
        "end_loss": (end.loss, end.weight),
        "start_accuracy": (start.correct, start.weight),
        "end_accuracy": (end.correct, end.weight),
        "tokens": (tokens, start.weight),
    }


def _span_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """The mean of the two means."""
    start = sums["start_loss"] / weights["start_loss"]
    return (start + sums["end_loss"] / weights["end_loss"]) / 2.0


QUESTION_ANSWERING = Objective(
    loss_weights=_span_weights,
    forward=_span_sums,
    total_loss=_span_loss,
    names=(
        "start_loss",
        "end_loss",
        "start_accuracy",
        "end_accuracy",
        "tokens",
    ),
)
