"""The model of pre-training: an encoder with both heads (paper section 3.1).

A packed row (pretraining/data/packing.py) holds up to K sequences, each with a
next sentence label of its own. Attention, positions and heads treat them as
rows of their own, and every loss is normalized over the whole batch. So a
packed batch has the loss and the gradient that its sequences have unpacked.

objectives.py says which of the losses here a run minimizes.

Dimensions: B rows, S tokens, H hidden size, P predictions per row, V
vocabulary. Otherwise than in modeling.py, K is the sequences that a packed row
may have, and R the vectors that a head projects, B * P of masked words.
"""

from typing import NamedTuple

import keras
import tensorflow as tf

import modeling
from modeling import (
    PLAIN,
    BertConfig,
    Compute,
    DenseActivation,
    Layer,
    LayerNorm,
    Seed,
)
from ops import losses
from ops.elementwise import shape_of
from training.objective import example_weights
from training.task_model import OutputLayer, TaskModel, project


def vectors_at(sequence_output: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Return the vectors [B * P, H] of [B, S, H] at positions [B, P]."""
    batch, length, hidden = shape_of(sequence_output)
    # Gather from a matrix: position p of row b is row b * S + p.
    starts = tf.expand_dims(tf.range(batch) * length, 1)  # [B, 1]
    rows = tf.reshape(positions + starts, [-1])  # [B * P]
    x = tf.reshape(sequence_output, [-1, hidden])  # [B * S, H]
    return tf.gather(x, rows)  # [B * P, H]


# --- Heads -------------------------------------------------------------------


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

    Masked tokens (paper section 3.1), next ones (table 5, LTR) or previous
    ones, with the same weights under the same names. The output matrix is the
    word embeddings; the head has a bias of its own.
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
        x: tf.Tensor,
        word_embeddings: keras.Variable,
        compute: Compute = PLAIN,
    ) -> tf.Tensor:
        """Return float32 logits [R, V] of x [R, H]."""
        x = self.transform(x, compute=compute)
        return project(x, word_embeddings, self.output_bias)


class PreTrainingHeads(Layer):
    """Both heads, with the name they have in checkpoints: `cls`."""

    def __init__(self, config: BertConfig):
        super().__init__("cls")
        self.predictions = LanguageModelHead(config)
        # Does sentence B follow A? A linear layer on the pooled [CLS] vector.
        self.seq_relationship = OutputLayer(
            config.hidden_size, 2, "seq_relationship", config.initializer_range
        )
        self.build()


# --- The model ---------------------------------------------------------------


class PreTrainingOutput(NamedTuple):
    """The logits of masked LM and next sentence prediction, float32."""

    masked_lm_logits: tf.Tensor  # [B, P, V]
    next_sentence_logits: tf.Tensor  # [B, 2] or [B, K, 2]; class 1: random B


class BertForPreTraining(TaskModel):
    """A language model and next sentence prediction on one encoder.

    Unless `predicts_next_sentence`, the pooler and the next sentence head,
    which no loss reads then, are not trained. They exist all the same, so that
    every pre-trained checkpoint has the same variables.
    """

    of_pooler = (*TaskModel.of_pooler, "cls/seq_relationship/")

    def __init__(
        self,
        config: BertConfig,
        dtype: str = "float32",
        predicts_next_sentence: bool = True,
    ):
        super().__init__(config, dtype)
        self.uses_pooler = predicts_next_sentence
        self.cls = PreTrainingHeads(config)

    def __call__(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> PreTrainingOutput:
        """Return the logits of both tasks for a batch of features.

        They are `input_ids` and `masked_lm_positions`; `input_mask` and
        `segment_ids` may be left out as in `BertModel.call`. Packed rows have
        `sequence_ids`, `position_ids` and `next_sentence_positions` too.
        """
        output = self.bert(**self.encoder_inputs(features, seed))
        positions = features["masked_lm_positions"]
        words = self.word_logits(vectors_at(output.sequence_output, positions))
        return PreTrainingOutput(
            tf.reshape(words, [*shape_of(positions), self.config.vocab_size]),
            self.next_sentence_logits(output, features),
        )

    def word_logits(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32 logits [R, V] of vectors [R, H] of the encoder."""
        return self.cls.predictions(
            x, self.bert.embeddings.word_embeddings, compute=self.compute
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
        first = vectors_at(output.sequence_output, positions)
        pooled = self.bert.pooler(first, compute=self.compute)
        logits = self.cls.seq_relationship(pooled)
        return tf.reshape(logits, [*shape_of(positions), 2])

    # --- Losses, as sums over the batch --------------------------------------
    # `output` is the encoder's for the batch `features` of records
    # (pretraining/data/schema.py), packed or not. `example_weights` [B], where
    # there are some, are 0 for rows that only fill the batch.

    def masked_lm_loss(
        self, output: modeling.BertOutput, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the loss of the masked tokens.

        The same as `classification_loss` of the logits, but without keeping
        them: they are the largest tensor of a training step. Only the P masked
        positions are projected to the vocabulary, since logits of all S tokens
        would take most of the time of a small model.
        """
        labels, weights = losses.flatten_labels(
            features["masked_lm_ids"], features["masked_lm_weights"]
        )  # [B * P] both
        x = vectors_at(output.sequence_output, features["masked_lm_positions"])
        loss, correct = losses.projected_cross_entropy(
            *self._projection(x), labels, weights, self.compute.fuse
        )
        return losses.Loss(loss, tf.reduce_sum(weights), correct)

    def next_sentence_loss(
        self, output: modeling.BertOutput, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the loss of the question whether B follows A."""
        return losses.classification_loss(
            self.next_sentence_logits(output, features),
            features["next_sentence_labels"],
            sequence_weights(features),
        )

    def next_token_loss(
        self,
        output: modeling.BertOutput,
        features: dict[str, tf.Tensor],
        training: bool,
    ) -> losses.Loss:
        """Return the loss of every token that `neighbors` names.

        Both `output` and `input_ids` are of the text with its masked tokens
        restored. Without `training` there is no gradient.
        """
        ids, weights = losses.flatten_labels(
            *neighbors(
                features["input_ids"], features, self.config.attention_direction
            )
        )
        x = output.sequence_output
        x = tf.reshape(x, [-1, x.shape[-1]])  # [B * S, H]
        # As many positions at a time as the masked LM projects.
        batch, predictions = shape_of(features["masked_lm_positions"])
        loss, correct = losses.sliced_cross_entropy(
            *self._projection(x),
            ids,
            weights,
            batch * predictions,
            training,
            self.compute.fuse,
        )
        return losses.Loss(loss, tf.reduce_sum(weights), correct)

    def _projection(self, x: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Return transformed x [R, H], output matrix [V, H] and bias [V]."""
        head = self.cls.predictions
        return (
            head.transform(x, compute=self.compute),
            tf.convert_to_tensor(self.bert.embeddings.word_embeddings),
            tf.convert_to_tensor(head.output_bias),
        )


# --- What is predicted -------------------------------------------------------


def sequence_weights(batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return 1 for each sequence of a batch and 0 for filling, [B] or [B, K].

    The rows that fill an evaluation batch hold zeros only, so their
    `next_sentence_weights` are 0 as `example_weights` are.
    """
    if "next_sentence_weights" in batch:
        return batch["next_sentence_weights"]
    return example_weights(batch, "next_sentence_labels")


def next_token_weights(batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return 1 where the next token is to be predicted, float32 [B, S].

    These are the positions whose token and next token are of one sequence. For
    a packed row of two sequences and one token of padding:

        sequence_ids   1 1 1 2 2 0      weights   1 1 0 1 0 0
    """
    # Without packing the mask takes the place of sequence_ids. Rows that fill
    # a batch are zeros in both.
    ids = batch.get("sequence_ids", batch["input_mask"])  # [B, S]
    same = (ids[:, :-1] == ids[:, 1:]) & (ids[:, 1:] != 0)  # [B, S - 1]
    return tf.pad(tf.cast(same, tf.float32), [[0, 0], [0, 1]])  # [B, S]


def neighbors(
    ids: tf.Tensor, batch: dict[str, tf.Tensor], attention_direction: str
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the token that each position predicts, and weights, [B, S].

    Left to right, it is the next one, and every token but the first of a
    sequence is predicted; right to left the previous one, and all but the last.
    """
    weights = next_token_weights(batch)
    if attention_direction == modeling.LEFT_TO_RIGHT:
        return tf.roll(ids, -1, axis=1), weights
    return tf.roll(ids, 1, axis=1), tf.roll(weights, 1, axis=1)


def unmasked_ids(batch: dict[str, tf.Tensor]) -> tf.Tensor:
    """Return input_ids [B, S] with the tokens that were masked.

    A row [CLS] [MASK] b [SEP] with masked_lm_positions 1 0, masked_lm_ids
    a [PAD] and masked_lm_weights 1 0 becomes [CLS] a b [SEP]: predictions of
    weight 0 fill the record, and do not count.
    """
    ids = batch["input_ids"]
    rows, length = shape_of(ids)
    # Unused predictions have position 0. Written there they would replace the
    # token; they go to a column behind the last, which is cut off again.
    positions = tf.where(
        batch["masked_lm_weights"] > 0,
        tf.cast(batch["masked_lm_positions"], tf.int32),
        length,
    )  # [B, P]
    row = tf.range(rows)[:, None] + tf.zeros_like(positions)  # [B, P]
    wide = tf.pad(ids, [[0, 0], [0, 1]])  # [B, S + 1]
    wide = tf.tensor_scatter_nd_update(
        wide,
        tf.stack([row, positions], axis=-1),  # [B, P, 2]
        tf.cast(batch["masked_lm_ids"], ids.dtype),
    )
    return wide[:, :length]
