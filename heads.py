"""One small head per task on the encoder of modeling.py, and its loss.

A head's losses and counts are sums over examples: means are formed once, by
whoever knows the whole batch. Dimension letters are those of modeling.py,
and R stands for any number of rows.
"""

import zlib
from typing import Any, NamedTuple

import keras
import tensorflow as tf

import numerics
from modeling import (
    BertConfig,
    DenseActivation,
    Layer,
    LayerNorm,
    TaskModel,
    draw_seed,
    shape_of,
)
from numerics import fused


class Loss(NamedTuple):
    """Sums over the rows of a batch, three float32 scalars."""

    loss: tf.Tensor  # sum of weight * cross entropy
    weight: tf.Tensor  # sum of weights
    correct: tf.Tensor  # sum of weights of rows whose best class is right


def classification_loss(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None = None
) -> Loss:
    """Return the cross entropy of logits.

    Args:
        logits: float32 [..., K].
        labels: [...] or [..., 1], the right class of each row.
        weights: like labels, 0 for rows that do not count; default ones.
    """
    logits = tf.reshape(logits, [-1, shape_of(logits)[-1]])  # [R, K]
    labels, weights = _flat(labels, weights)  # [R], [R]
    loss, correct = numerics.cross_entropy(logits, labels, weights)
    return Loss(loss, tf.reduce_sum(weights), correct)


def _flat(
    labels: tf.Tensor, weights: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    if weights is None:
        weights = tf.ones_like(labels)
    return labels, tf.cast(tf.reshape(weights, [-1]), tf.float32)


def project(x: tf.Tensor, weights: Any, bias: Any) -> tf.Tensor:
    """Return x W^T + b in float32, W stored [out, in] as all heads store it."""
    weights = tf.cast(weights, x.dtype)
    logits = tf.matmul(x, weights, transpose_b=True)
    logits = tf.cast(logits, tf.float32)
    return logits + bias


class OutputLayer(Layer):
    """A head that is one product: variables output_weights, output_bias."""

    def __init__(
        self,
        hidden_size: int,
        num_outputs: int,
        name: str,
        stddev: float = 0.02,
    ):
        super().__init__(name)
        self.shape, self.stddev = [num_outputs, hidden_size], stddev

    def build(self) -> None:
        """Create output_weights [K, H] and output_bias [K]."""
        self.output_weights = self.weight(
            "output_weights", self.shape, self.stddev
        )
        self.output_bias = self.weight("output_bias", self.shape[:1], 0)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32 logits [..., K]."""
        return project(x, self.output_weights, self.output_bias)


# --- Pre-training (paper section 3.1) ---------------------------------------


class MaskedLmTransform(DenseActivation):
    """dense, activation, norm."""

    def __init__(self, config: BertConfig):
        hidden, act = config.hidden_size, config.hidden_act
        super().__init__(config, hidden, act, "transform")
        self.norm = LayerNorm(hidden)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return [B * P, H]."""
        gamma, beta = self.norm.gamma, self.norm.beta
        return fused(numerics.layer_norm, super().call(x), gamma, beta)


class MaskedLmHead(Layer):
    """Task 1: which word piece stood at each masked position."""

    def __init__(self, config: BertConfig):
        super().__init__("predictions")
        self.vocab_size = config.vocab_size
        self.transform = MaskedLmTransform(config)

    def build(self) -> None:
        """Create the bias; the matrix is the word embeddings'."""
        self.transform.build()
        self.output_bias = self.weight("output_bias", [self.vocab_size], 0)

    def call(
        self,
        sequence_output: tf.Tensor,
        masked_lm_positions: tf.Tensor,
        word_embeddings: Any,
    ) -> tf.Tensor:
        """Return float32 logits [B, P, V] of the masked positions alone."""
        x = self.transformed(sequence_output, masked_lm_positions)  # [B * P, H]
        logits = project(x, word_embeddings, self.output_bias)  # [B * P, V]
        batch, predictions = shape_of(masked_lm_positions)
        return tf.reshape(logits, [batch, predictions, self.vocab_size])

    def masked_lm_loss(
        self,
        sequence_output: tf.Tensor,
        features: dict[str, tf.Tensor],
        word_embeddings: Any,
    ) -> Loss:
        """Return classification_loss of the logits without keeping those.

        The original's mean is loss / (weight + 1e-5).
        """
        x = self.transformed(
            sequence_output, features["masked_lm_positions"]
        )  # [B * P, H]
        labels, weights = _flat(
            features["masked_lm_ids"], features["masked_lm_weights"]
        )  # [B * P] both
        loss, correct = numerics.projected_cross_entropy(
            x,
            tf.convert_to_tensor(word_embeddings),
            tf.convert_to_tensor(self.output_bias),
            labels,
            weights,
        )
        return Loss(loss, tf.reduce_sum(weights), correct)

    def transformed(
        self, sequence_output: tf.Tensor, positions: tf.Tensor
    ) -> tf.Tensor:
        """Return what is projected: [B * P, H] for positions [B, P]."""
        batch, length, hidden = shape_of(sequence_output)
        starts = tf.range(batch)[:, None] * length  # [B, 1]
        rows = tf.reshape(positions + starts, [-1])  # [B * P]
        x = tf.reshape(sequence_output, [-1, hidden])  # [B * S, H]
        return self.transform(tf.gather(x, rows))  # [B * P, H]


class PreTrainingHeads(Layer):
    """Both heads, under the name `cls`."""

    def __init__(self, config: BertConfig):
        super().__init__("cls")
        self.predictions = MaskedLmHead(config)
        self.seq_relationship = OutputLayer(
            config.hidden_size, 2, "seq_relationship", config.initializer_range
        )
        self.build()


class PreTrainingOutput(NamedTuple):
    """What BertForPreTraining returns, both float32."""

    masked_lm_logits: tf.Tensor  # [B, P, V]
    next_sentence_logits: tf.Tensor  # [B, 2]; 0 follows, 1 is random


class PreTrainingLosses(NamedTuple):
    """What BertForPreTraining.losses returns."""

    masked_lm: Loss
    next_sentence: Loss


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
        """Return the logits of both tasks for a batch of features."""
        output = self.encode(features, training, dropout_seed)
        return PreTrainingOutput(
            self.cls.predictions(
                output.sequence_output,
                features["masked_lm_positions"],
                self.bert.embeddings.word_embeddings,
            ),
            self.cls.seq_relationship(output.pooled_output),
        )

    def losses(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> PreTrainingLosses:
        """Return the losses of both tasks for a batch of records.

        Args:
            features: as in the records; `example_weights` [B], where given,
                is 0 for rows that only fill a batch.
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
            classification_loss(
                self.cls.seq_relationship(output.pooled_output),
                features["next_sentence_labels"],
                features.get("example_weights"),
            ),
        )


# --- Sentences and pairs (paper section 4.1) ---------------------------------

# Fixed in the original, whatever the configuration says.
_CLASSIFIER_DROPOUT = 0.1
_CLASSIFIER_STDDEV = 0.02


def output_variables(num_outputs: int, size: int) -> tuple[Any, Any]:
    """Return output_weights [K, size] and output_bias [K].

    In no layer: these stand at the root of a checkpoint.
    """
    weights = keras.Variable(
        keras.initializers.TruncatedNormal(stddev=_CLASSIFIER_STDDEV),
        shape=[num_outputs, size],
        dtype="float32",
        name="output_weights",
    )
    bias = keras.Variable(
        "zeros", shape=[num_outputs], dtype="float32", name="output_bias"
    )
    return weights, bias


def head_dropout(x: tf.Tensor, seed: tf.Tensor | None, name: str) -> tf.Tensor:
    """Drop a tenth of x, by a random stream of that name."""
    if seed is None:
        return x
    seed = numerics.fold_seed(seed, zlib.crc32(name.encode()))
    return fused(numerics.dropout, x, seed, rate=_CLASSIFIER_DROPOUT)


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
        self.output_weights, self.output_bias = output_variables(
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
        pooled = head_dropout(pooled, seed, "classifier/dropout")
        return project(pooled, self.output_weights, self.output_bias)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> Loss:
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
            return classification_loss(logits, features["label_ids"], weights)
        errors = tf.square(logits[:, 0] - features["label_ids"])
        if weights is None:
            weights = tf.ones_like(errors)
        return Loss(
            tf.reduce_sum(errors * weights),
            tf.reduce_sum(weights),
            tf.zeros([]),
        )


def training_flops(
    config: BertConfig, batch: int, seq: int, predictions: int = 0
) -> int:
    """Return the matrix-product operations of one training step.

    With predictions = 0 that of fine-tuning on the pooled output.

    A product [m, k] x [k, n] counts 2 m k n; the backward pass has two of the
    same size, hence the factor 3. Table lookups, norms, softmax, dropout and
    the optimizer count nothing.
    """
    hidden, inner = config.hidden_size, config.intermediate_size
    token = 4 * hidden**2 + 2 * hidden * inner  # q, k, v, output; both halves
    token += 2 * seq * hidden  # scores and contexts
    masked = hidden**2 + hidden * config.vocab_size
    pooled = hidden**2 + 2 * hidden
    row = config.num_hidden_layers * seq * token + predictions * masked + pooled
    return 3 * 2 * batch * row


# --- Answers in a paragraph (paper sections 4.2 and 4.3) ----------------------


class SquadHead(Layer):
    """Start and end vectors, under the name `cls/squad`."""

    def __init__(self, config: BertConfig):
        super().__init__("cls")
        # 0.02 whatever the configuration says, as in the original.
        self.squad = OutputLayer(config.hidden_size, 2, "squad")
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
    ) -> tuple[Loss, Loss]:
        """Return the cross entropies of start_positions and end_positions.

        Over the tokens of a row: padding is left out, so that the loss does
        not depend on how far a batch is padded.
        """
        logits = self(features, training, dropout_seed)
        is_padding = tf.cast(features["input_mask"], tf.float32) - 1.0  # [B, S]
        starts, ends = tf.unstack(logits + 10000.0 * is_padding)
        weights = features.get("example_weights")
        return (
            classification_loss(starts, features["start_positions"], weights),
            classification_loss(ends, features["end_positions"], weights),
        )


# --- Multiple choice (paper section 4.4) --------------------------------------


class BertForMultipleChoice(BertForSequenceClassification):
    """One vector, whose product with the pooled output scores a choice.

    Every choice of a question is a sequence of its own: sentence A the
    question, sentence B the choice. A softmax over the scores decides.
    """

    def __init__(self, config: BertConfig, dtype: str = "float32"):
        super().__init__(config, 1, dtype)

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 scores [...] of sequences [..., S]."""
        *leading, length = shape_of(features["input_ids"])
        rows = {
            name: tf.reshape(features[name], [-1, length])
            for name in ("input_ids", "input_mask", "segment_ids")
            if name in features
        }  # [R, S]
        scores = super().__call__(rows, training, dropout_seed)  # [R, 1]
        return tf.reshape(scores, leading)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> Loss:
        """Return the cross entropy of questions.

        Args:
            features: sequences [B, C, S] of C choices, label_ids [B, C], the
                number of the right one in the row of each.
            training: whether dropout is on.
            dropout_seed: see `BertModel.call`.
        """
        scores = self(features, training, dropout_seed)  # [B, C]
        return classification_loss(scores, features["label_ids"][:, 0])


# --- Words (paper sections 4 and 5.3) ----------------------------------------


def word_loss(logits: tf.Tensor, features: dict[str, tf.Tensor]) -> Loss:
    """Return the cross entropy of the words, all other positions left out.

    Args:
        logits: float32 [B, S, K].
        features: label_ids [B, S], negative where there is no word to
            classify; `example_weights` [B], where given, is 0 for rows that
            only fill a batch.
    """
    labels = features["label_ids"]
    weights = tf.cast(labels >= 0, tf.float32)  # [B, S]
    if "example_weights" in features:
        weights *= features["example_weights"][:, None]
    return classification_loss(logits, tf.maximum(labels, 0), weights)


class BertForTokenClassification(TaskModel):
    """One vector per class on the last layer, at every position.

    Args:
        config: of the encoder.
        num_labels: K.
        dtype: what matrix products are computed in.
    """

    uses_pooler = False

    def __init__(
        self, config: BertConfig, num_labels: int, dtype: str = "float32"
    ):
        super().__init__(config, dtype)
        self.output_weights, self.output_bias = output_variables(
            num_labels, config.hidden_size
        )

    def __call__(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> tf.Tensor:
        """Return float32 logits [B, S, K]."""
        seed = draw_seed(training, dropout_seed)
        x = self.encode(features, training, seed).sequence_output  # [B, S, H]
        x = head_dropout(x, seed, "classifier/dropout")
        return project(x, self.output_weights, self.output_bias)

    def loss(
        self,
        features: dict[str, tf.Tensor],
        training: bool = False,
        dropout_seed: tf.Tensor | int | None = None,
    ) -> Loss:
        """Return the cross entropy; features as for `word_loss`."""
        return word_loss(self(features, training, dropout_seed), features)
