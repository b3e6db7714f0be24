"""The heads of pre-training: a language model and next sentence prediction.

The language model's head predicts tokens, masked ones (paper section 3.1) or
next ones (table 5, LTR), with the same weights under the same names.

Dimensions: B rows, S tokens, H hidden size, P predictions per row, V
vocabulary, R positions that are predicted, of all rows.
"""

from typing import Any

import tensorflow as tf

import modeling
from modeling import (
    PLAIN,
    BertConfig,
    Compute,
    DenseActivation,
    Layer,
    LayerNorm,
)
from ops import losses
from ops.elementwise import shape_of


def vectors_at(sequence_output: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return the vectors [B * P, H] of [B, S, H] at positions [B, P]."""
    batch, length, hidden = shape_of(sequence_output)
    # Gather from a matrix: position p of row b is row b * S + p.
    starts = tf.expand_dims(tf.range(batch) * length, 1)  # [B, 1]
    rows = tf.reshape(positions + starts, [-1])  # [B * P]
    x = tf.reshape(sequence_output, [-1, hidden])  # [B * S, H]
    return tf.gather(x, rows)  # [B * P, H]


class LanguageModelTransform(DenseActivation):
    """Dense layer, activation and layer norm before the output matrix."""

    def __init__(self, config: BertConfig):
        hidden, act = config.hidden_size, config.hidden_act
        super().__init__(config, hidden, act, "transform")
        self.norm = LayerNorm(hidden)

    def call(self, x: tf.Tensor, compute: Compute = PLAIN) -> tf.Tensor:
        """Return [R, H] for x [R, H]."""
        return self.norm(super().call(x, compute), compute=compute)


class LanguageModelHead(Layer):
    """Predicts a token from the vector of a position.

    The output matrix is the word embeddings; the head has a bias of its own.
    """

    def __init__(self, config: BertConfig):
        super().__init__("predictions")
        self.vocab_size = config.vocab_size
        self.transform = LanguageModelTransform(config)

    def build(self) -> None:
        """Create the transform's weights and the output bias."""
        self.transform.build()
        self.output_bias = self.weight("output_bias", [self.vocab_size], 0)

    def call(
        self,
        sequence_output: tf.Tensor,
        masked_lm_positions: tf.Tensor,
        word_embeddings: Any,
        compute: Compute = PLAIN,
    ) -> tf.Tensor:
        """Return float32 logits [B, P, V] of the masked positions.

        Args:
            sequence_output: [B, S, H], the encoder's.
            masked_lm_positions: int [B, P].
            word_embeddings: variable [V, H].
            compute: how.
        """
        x = self.transform(
            vectors_at(sequence_output, masked_lm_positions), compute=compute
        )
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
        compute: Compute = PLAIN,
    ) -> losses.Loss:
        """Return the loss of the masked tokens [B, P], as sums over B and P.

        The same as `classification_loss` of the logits, but without keeping the
        logits, which are the largest tensor of a training step. Only the P
        masked positions of sequence_output [B, S, H] are projected to the
        vocabulary, since logits of all S tokens would take most of the time of
        a small model.
        """
        positions = features["masked_lm_positions"]
        x = self.transform(
            vectors_at(sequence_output, positions), compute=compute
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
            compute.fuse,
        )
        return losses.Loss(loss, tf.reduce_sum(weights), correct)

    def next_token_loss(
        self,
        sequence_output: tf.Tensor,
        next_ids: tf.Tensor,
        weights: tf.Tensor,
        word_embeddings: Any,
        max_rows: tf.Tensor | int,
        training: bool,
        compute: Compute = PLAIN,
    ) -> losses.Loss:
        """Return the loss of the token next_ids after each position, as sums.

        All S positions are projected to the vocabulary, in slices of max_rows
        (see `sliced_cross_entropy`). `weights` are 0 where nothing is to be
        predicted. Without `training` the loss has no gradient.
        """
        hidden = sequence_output.shape[-1]
        x = self.transform(
            tf.reshape(sequence_output, [-1, hidden]), compute=compute
        )
        next_ids, weights = losses.flatten_labels(next_ids, weights)  # [B * S]
        loss, correct = losses.sliced_cross_entropy(
            x,
            tf.convert_to_tensor(word_embeddings),
            tf.convert_to_tensor(self.output_bias),
            next_ids,
            weights,
            max_rows,
            training,
            compute.fuse,
        )
        return losses.Loss(loss, tf.reduce_sum(weights), correct)


class PreTrainingHeads(Layer):
    """Both heads, with the name they have in checkpoints: `cls`."""

    def __init__(self, config: BertConfig):
        super().__init__("cls")
        self.predictions = LanguageModelHead(config)
        # Does sentence B follow A? A linear layer on the pooled [CLS] vector.
        self.seq_relationship = modeling.OutputLayer(
            config.hidden_size, 2, "seq_relationship", config.initializer_range
        )
        self.build()
