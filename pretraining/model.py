"""Masked LM and next sentence prediction on one encoder (paper section 3.1).

A packed row (pretraining/packing.py) holds up to K sequences, each with a
next sentence label of its own. Attention, positions and heads treat them as
rows of their own, and both losses are normalized over the whole batch. So a
packed batch has the loss and the gradient of its sequences unpacked.

Dimensions: B rows, S tokens, H hidden size, P predictions per row, V
vocabulary, K sequences a packed row may have.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

import modeling
from modeling import BertConfig, DenseActivation, Layer, LayerNorm, TaskModel
from ops import elementwise, losses
from ops.elementwise import fused, shape_of
from records.streaming import Batch
from training.objective import Objective, Sums, example_weights

# --- Heads -------------------------------------------------------------------


def vectors_at(sequence_output: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return the vectors [B * P, H] of [B, S, H] at positions [B, P]."""
    batch, length, hidden = shape_of(sequence_output)
    # Gather from a matrix: position p of row b is row b * S + p.
    starts = tf.range(batch)[:, None] * length  # [B, 1]
    rows = tf.reshape(positions + starts, [-1])  # [B * P]
    x = tf.reshape(sequence_output, [-1, hidden])  # [B * S, H]
    return tf.gather(x, rows)  # [B * P, H]


class MaskedLmTransform(DenseActivation):
    """Dense layer, activation and layer norm before the output matrix."""

    def __init__(self, config: BertConfig):
        hidden, act = config.hidden_size, config.hidden_act
        super().__init__(config, hidden, act, "transform")
        self.norm = LayerNorm(hidden)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return [B * P, H] for x [B * P, H]."""
        gamma, beta = self.norm.gamma, self.norm.beta
        return fused(elementwise.layer_norm, super().call(x), gamma, beta)


class MaskedLmHead(Layer):
    """Task 1: predict the token at each masked position.

    The output matrix is the word embeddings; the head has a bias of its own.
    Only the P masked positions are projected to the vocabulary, since logits
    of all S tokens would take most of the time of a small model.
    """

    def __init__(self, config: BertConfig):
        super().__init__("predictions")
        self.vocab_size = config.vocab_size
        self.transform = MaskedLmTransform(config)

    def build(self) -> None:
        """Create the transform's weights and the output bias."""
        self.transform.build()
        self.output_bias = self.weight("output_bias", [self.vocab_size], 0)

    def call(
        self,
        sequence_output: tf.Tensor,
        masked_lm_positions: tf.Tensor,
        word_embeddings: Any,
    ) -> tf.Tensor:
        """Return float32 logits [B, P, V] of the masked positions.

        Args:
            sequence_output: [B, S, H], the encoder's.
            masked_lm_positions: int [B, P].
            word_embeddings: variable [V, H].
        """
        x = self.transformed(sequence_output, masked_lm_positions)  # [B * P, H]
        logits = modeling.project(
            x, word_embeddings, self.output_bias
        )  # [B * P, V]
        batch, predictions = shape_of(masked_lm_positions)
        return tf.reshape(logits, [batch, predictions, self.vocab_size])

    def masked_lm_loss(
        self,
        sequence_output: tf.Tensor,
        features: dict[str, tf.Tensor],
        word_embeddings: Any,
    ) -> losses.Loss:
        """Return the loss of the predictions, as sums over B and P.

        The same as `classification_loss` of the logits, but without keeping
        the logits, which are the largest tensor of a training step.

        Args:
            sequence_output: [B, S, H], the encoder's.
            features: the three masked_lm features, [B, P].
            word_embeddings: variable [V, H].
        """
        x = self.transformed(
            sequence_output, features["masked_lm_positions"]
        )  # [B * P, H]
        labels, weights = losses.flatten_labels(
            features["masked_lm_ids"], features["masked_lm_weights"]
        )  # [B * P] both
        loss, correct = losses.projected_cross_entropy(
            x,
            tf.convert_to_tensor(word_embeddings),
            tf.convert_to_tensor(self.output_bias),
            labels,
            weights,
        )
        return losses.Loss(loss, tf.reduce_sum(weights), correct)

    def transformed(
        self, sequence_output: tf.Tensor, positions: tf.Tensor
    ) -> tf.Tensor:
        """Return the transformed vectors [B * P, H] of positions [B, P]."""
        return self.transform(vectors_at(sequence_output, positions))


class PreTrainingHeads(Layer):
    """Both heads, with the name they have in checkpoints: `cls`."""

    def __init__(self, config: BertConfig):
        super().__init__("cls")
        self.predictions = MaskedLmHead(config)
        # Task 2: does B follow A? A linear layer on the pooled [CLS] vector.
        self.seq_relationship = modeling.OutputLayer(
            config.hidden_size, 2, "seq_relationship", config.initializer_range
        )
        self.build()


# --- Model -------------------------------------------------------------------


class PreTrainingOutput(NamedTuple):
    """The logits of both tasks, float32."""

    masked_lm_logits: tf.Tensor  # [B, P, V]
    next_sentence_logits: tf.Tensor  # [B, 2] or [B, K, 2]; class 1: random B


class PreTrainingLosses(NamedTuple):
    """The losses of both tasks, as sums over the batch."""

    masked_lm: losses.Loss
    next_sentence: losses.Loss


class BertForPreTraining(TaskModel):
    """Masked LM and next sentence prediction on one encoder."""

    def __init__(self, config: BertConfig, dtype: str = "float32"):
        super().__init__(config, dtype)
        self.cls = PreTrainingHeads(config)

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> PreTrainingOutput:
        """Return the logits of both tasks for a batch of features.

        Args:
            features: `input_ids` and `masked_lm_positions`; `input_mask` and
                `segment_ids` may be left out as in `BertModel.call`. Packed
                rows have `sequence_ids`, `position_ids` and
                `next_sentence_positions` too.
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        output = self.encode(features, training, dropout_seed)
        return PreTrainingOutput(
            self.cls.predictions(
                output.sequence_output,
                features["masked_lm_positions"],
                self.bert.embeddings.word_embeddings,
            ),
            self.next_sentence_logits(output, features),
        )

    def next_sentence_logits(
        self, output: modeling.BertOutput, features: dict[str, tf.Tensor]
    ) -> tf.Tensor:
        """Return float32 logits [B, 2]; [B, K, 2] for packed rows.

        Packed rows have a [CLS] at each of `next_sentence_positions` [B, K].
        """
        positions = features.get("next_sentence_positions")
        if positions is None:
            return self.cls.seq_relationship(output.pooled_output)
        first = vectors_at(output.sequence_output, positions)  # [B * K, H]
        logits = self.cls.seq_relationship(self.bert.pooler(first))
        return tf.reshape(logits, [*shape_of(positions), 2])

    def losses(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> PreTrainingLosses:
        """Return the losses of both tasks for a batch of records.

        Args:
            features: as in the records (pretraining/schema.py), packed or
                not. If there is `example_weights` [B], it is 0 for rows that
                only fill the batch.
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        output = self.encode(features, training, dropout_seed)
        return PreTrainingLosses(
            self.cls.predictions.masked_lm_loss(
                output.sequence_output,
                features,
                self.bert.embeddings.word_embeddings,
            ),
            losses.classification_loss(
                self.next_sentence_logits(output, features),
                features["next_sentence_labels"],
                _sequence_weights(features),
            ),
        )


# --- Objective ---------------------------------------------------------------


def _sequence_weights(batch: Batch) -> tf.Tensor:
    """Return 1 for each sequence of a batch and 0 for filling, [B] or [B, K].

    The rows that fill an evaluation batch hold zeros only, so their
    `next_sentence_weights` are 0 as `example_weights` are.
    """
    if "next_sentence_weights" in batch:
        return batch["next_sentence_weights"]
    return example_weights(batch, "next_sentence_labels")


def _loss_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return the denominators of the two mean losses of a batch.

    They depend on the records alone: with several replicas the denominators
    of the whole batch are needed before the first gradient.
    """
    return {
        "masked_lm_loss": tf.reduce_sum(batch["masked_lm_weights"]),
        "next_sentence_loss": tf.reduce_sum(_sequence_weights(batch)),
    }


def _forward(
    model: BertForPreTraining,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> Sums:
    """Return losses and metrics of a batch, as sums and counts."""
    masked, following = model.losses(batch, training, dropout_seed)
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    return {
        "masked_lm_loss": (masked.loss, masked.weight),
        "masked_lm_accuracy": (masked.correct, masked.weight),
        "next_sentence_loss": (following.loss, following.weight),
        "next_sentence_accuracy": (following.correct, following.weight),
        "tokens": (tokens, following.weight),
    }


def _total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """Return mean masked LM loss + mean next sentence loss (paper A.2).

    As in the original, 1e-5 is added to the number of predictions. So a batch
    without any has a masked LM loss of 0, not 0 / 0.
    """
    return (
        sums["masked_lm_loss"] / (weights["masked_lm_loss"] + 1e-5)
        + sums["next_sentence_loss"] / (weights["next_sentence_loss"])
    )


PRETRAINING = Objective(
    loss_weights=_loss_weights,
    forward=_forward,
    total_loss=_total_loss,
    names=(
        "masked_lm_loss",
        "masked_lm_accuracy",
        "next_sentence_loss",
        "next_sentence_accuracy",
        "tokens",
    ),
)
