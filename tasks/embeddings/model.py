"""The model of sentence vectors.

Letters in shapes: those of modeling.py, and D numbers of a vector.
"""

import tensorflow as tf

import modeling
from ops import windows as ops_windows
from tasks.embeddings.task import Embeddings
from tasks.heads import in_rows
from training.task_model import TaskModel


class SentenceEncoder(TaskModel):
    """An encoder whose last layer is pooled to a vector for each text.

    Args:
        task: says how.
        dtype: type of the matrix products.

    Attributes:
        pooling: mean or max over all tokens, [CLS] and [SEP] included; cls:
            the one that represents a row (see modeling.class_vectors).
        normalize: whether vectors are divided by their length.
        size: numbers of a vector that are normalized; None: all, H.
        windows: how long rows are read; the vectors of windows are pooled
            before they are cut and normalized.
        width: numbers that are kept after that, D.
    """

    uses_pooler = False

    def __init__(self, task: Embeddings, dtype: str = "float32"):
        super().__init__(task.checkpoint.config, dtype)
        own = task.checkpoint.trained_for
        self.pooling, self.normalize = own.pooling, own.normalize
        self.windows = task.checkpoint.windows
        self.size = task.options.embedding_size
        self.width = task.width

    def __call__(
        self, features: dict[str, tf.Tensor], seed: modeling.Seed = None
    ) -> tf.Tensor:
        """Return float32 vectors [..., D] of rows [..., S]."""
        leading, rows = in_rows(features)  # [R, S]
        rows, is_there = ops_windows.split(rows, self.windows)
        output = self.bert(**self.encoder_inputs(rows, seed))
        x = pool(
            tf.cast(output.sequence_output, tf.float32),
            rows["input_mask"],
            self.pooling,
            self.config.attention_direction,
        )
        x = ops_windows.pooled(x, is_there, self.windows)  # [R, H]
        x = x[:, : self.size or self.config.hidden_size]
        if self.normalize:
            x = unit_length(x)
        return tf.reshape(x[:, : self.width], [*leading, self.width])

    def outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the vector of each text, [B, D]."""
        return {"embedding": self(features)}


def pool(
    x: tf.Tensor, input_mask: tf.Tensor, pooling: str, direction: str
) -> tf.Tensor:
    """Return a vector [R, H] for the tokens [R, S, H] of each row.

    Rows of padding alone get 0, or the vector of their first token.
    """
    if pooling == "cls":
        return modeling.class_vectors(x, input_mask, direction)
    # Not [..., None]: see serving/litert/convert.py.
    mask = tf.expand_dims(tf.cast(input_mask, tf.float32), -1)  # [R, S, 1]
    if pooling == "max":
        x = tf.reduce_max(x + (mask - 1.0) * 1e9, axis=1)  # [R, H]
        return x * tf.reduce_max(mask, axis=1)
    count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)  # [R, 1]
    return tf.reduce_sum(x * mask, axis=1) / count


def unit_length(x: tf.Tensor) -> tf.Tensor:
    """Return vectors [..., D] divided by their length; 0 stays 0."""
    return tf.math.l2_normalize(x, axis=-1, epsilon=1e-24)
