"""The question answering model and its objective (paper sections 4.2, 4.3).

Dimensions as in modeling.py: B rows of a batch, S tokens of a row.
"""

from collections.abc import Mapping

import tensorflow as tf

import modeling
from modeling import BertConfig, Layer, TaskModel
from ops import losses
from records.streaming import Batch
from tasks import bilstm
from tasks.bilstm import NO_BILSTM, BiLstmSize
from training.objective import Objective, Sums, example_weights

# --- Model -------------------------------------------------------------------


class SquadHead(Layer):
    """The start vector and the end vector, variables cls/squad/output_*."""

    def __init__(self, inputs: int):
        super().__init__("cls")
        # The original draws it with deviation 0.02, not initializer_range.
        self.squad = modeling.OutputLayer(inputs, 2, "squad")
        self.build()


class BertForQuestionAnswering(TaskModel):
    """Computes the start and the end logit of every token.

    They are the products of the token's vector with the start vector and the
    end vector (paper section 4.2), plus a bias each, as in the original.

    Args:
        config: of the encoder.
        dtype: of the matrix products.
        bilstm_size: of the BiLSTM between encoder and vectors, if any.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        dtype: str = "float32",
        bilstm_size: BiLstmSize = NO_BILSTM,
    ):
        super().__init__(config, dtype)
        self.bilstm = bilstm.create(bilstm_size, config.hidden_size)
        self.cls = SquadHead(
            bilstm.output_width(bilstm_size, config.hidden_size)
        )

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return the start logits and the end logits, float32 [2, B, S].

        Args:
            features: input_ids, input_mask and segment_ids [B, S].
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        seed = modeling.draw_seed(training, dropout_seed)
        x = self.encode(features, training, seed).sequence_output  # [B, S, H]
        if self.bilstm is not None:
            mask = bilstm.mask_of(features)
            x = self.bilstm(
                x, mask, seed, training=training, compute=self.compute
            )  # [B, S, 2 * U]
        logits = self.cls.squad(x)  # [B, S, 2]
        return tf.transpose(logits, [2, 0, 1])  # [2, B, S]

    def losses(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> tuple[losses.Loss, losses.Loss]:
        """Return the cross entropies of the start and of the end.

        The softmax is over the tokens of a row without padding, so that the
        loss does not depend on how far a batch is padded. The original
        includes padding.

        Args:
            logits: of the model for these features, [2, B, S].
            features: as for `__call__`, and start_positions and end_positions
                [B], 0 ([CLS]) for no answer; `example_weights` [B], if there,
                is 0 for rows that do not count.
        """
        return span_losses(without_padding(logits, features), features)


def without_padding(
    logits: tf.Tensor, features: dict[str, tf.Tensor]
) -> tf.Tensor:
    """Return logits [2, B, S] that are very small at padding."""
    is_padding = tf.cast(features["input_mask"], tf.float32) - 1.0  # [B, S]
    return logits + 10000.0 * is_padding


def span_losses(
    logits: tf.Tensor, features: dict[str, tf.Tensor]
) -> tuple[losses.Loss, losses.Loss]:
    """Return the cross entropies of the start and of the end.

    Args:
        logits: [2, B, S], see `without_padding`.
        features: as for `BertForQuestionAnswering.losses`.
    """
    starts, ends = tf.unstack(logits)  # [B, S] each
    weights = features.get("example_weights")
    return (
        losses.classification_loss(
            starts, features["start_positions"], weights
        ),
        losses.classification_loss(ends, features["end_positions"], weights),
    )


# --- Objective ---------------------------------------------------------------


def _loss_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the number of rows that count, for each of the two losses."""
    total = tf.reduce_sum(example_weights(batch, "start_positions"))
    return {"start_loss": total, "end_loss": total}


def _forward(
    model: BertForQuestionAnswering,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> Sums:
    """Return the losses and the accuracies of starts and ends."""
    logits = model(batch, training, dropout_seed)
    start, end = model.losses(logits, batch)
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    return {
        "start_loss": (start.loss, start.weight),
        "end_loss": (end.loss, end.weight),
        "start_accuracy": (start.correct, start.weight),
        "end_accuracy": (end.correct, end.weight),
        "tokens": (tokens, start.weight),
    }


def _total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """Return the mean of the two mean losses.

    The paper has their sum; the original's code has the mean.
    """
    start = sums["start_loss"] / weights["start_loss"]
    return (start + sums["end_loss"] / weights["end_loss"]) / 2.0


QUESTION_ANSWERING = Objective(
    loss_weights=_loss_weights,
    forward=_forward,
    total_loss=_total_loss,
    names=(
        "start_loss",
        "end_loss",
        "start_accuracy",
        "end_accuracy",
        "tokens",
    ),
)
