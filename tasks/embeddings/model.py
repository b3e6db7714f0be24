"""The model of sentence vectors.

Letters in shapes: those of modeling.py, W numbers that a module reads or gives,
and D numbers of a vector.
"""

from collections.abc import Sequence

import tensorflow as tf

import modeling
from checkpoints.trained_for import NORMALIZE, Module
from ops import windows as ops_windows
from tasks.embeddings.task import Embeddings
from tasks.heads import ACTIVATIONS, in_rows
from training.task_model import TaskModel


class SentenceEncoder(TaskModel):
    """An encoder and the modules that make a vector of its last layer.

    Args:
        task: says how.
        dtype: type of the matrix products.

    Attributes:
        poolings: see `pool`.
        steps: the modules that follow, but for a Normalize at the end.
        normalize: whether vectors are divided by their length in the end.
        size: numbers of a vector that are normalized then; None: all.
        windows: how long rows are read; the vectors of windows are pooled
            before the steps read them.
        width: numbers that are kept after that, D.
    """

    uses_pooler = False

    def __init__(self, task: Embeddings, dtype: str = "float32"):
        super().__init__(task.checkpoint.config, dtype)
        first, *others = task.checkpoint.trained_for.modules
        self.poolings = first.poolings
        self.normalize = others[-1:] == [NORMALIZE]
        others = others[: len(others) - self.normalize]
        self.steps = [Step(*numbered) for numbered in enumerate(others, 2)]
        for step in self.steps:  # attributes have the variables
            setattr(self, step.name, step)
            step.build()
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
            self.poolings,
            self.config.attention_direction,
        )
        x = ops_windows.pooled(x, is_there, self.windows)  # [B, W]
        for step in self.steps:
            x = step(x)
        x = x[:, : self.size]
        if self.normalize:
            x = unit_length(x)
        x = x[:, : self.width]
        # LiteRT in JavaScript loses an output whose shape is computed.
        return tf.reshape(x, [*leading, self.width]) if leading[1:] else x

    def outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the vector of each text, [B, D]."""
        return {"embedding": self(features)}


# --- Modules -----------------------------------------------------------------


class Step(modeling.Layer):
    """One module, with the variables of `Module.shapes`.

    Its number and kind are its name, as sentence-transformers has them in its
    folders: 2_Dense/kernel.
    """

    def __init__(self, number: int, module: Module):
        super().__init__(f"{number}_{module.kind}")
        self.module = module

    def build(self) -> None:
        self.own = {
            name: self.weight(name, shape, 0.02)
            for name, shape in self.module.shapes.items()
        }

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return the vectors [B, W] that the module makes of others."""
        if self.module.kind == "Normalize":
            return unit_length(x)
        if self.module.kind == "LayerNorm":
            mean, variance = tf.nn.moments(x, -1, keepdims=True)
            # BERT has an epsilon of 1e-12, torch this one.
            x = (x - mean) * tf.math.rsqrt(variance + 1e-5)
            return x * self.own["gamma"] + self.own["beta"]
        x = tf.matmul(x, self.own["kernel"]) + self.own.get("bias", 0.0)
        return ACTIVATIONS[self.module.activation](x)


def pool(
    x: tf.Tensor, input_mask: tf.Tensor, poolings: Sequence[str], direction: str
) -> tf.Tensor:
    """Return a vector for the tokens [R, S, H] of each row.

    Each pooling, one of TOKEN_POOLINGS, gives H numbers of it. They read all
    tokens that are not padding, [CLS] and [SEP] included; cls reads the one
    that represents a row (see modeling.class_vectors).
    """
    found = [_pooled(x, input_mask, one, direction) for one in poolings]
    return tf.concat(found, axis=-1) if len(found) > 1 else found[0]


def _pooled(
    x: tf.Tensor, input_mask: tf.Tensor, pooling: str, direction: str
) -> tf.Tensor:
    """Return a vector [R, H] for the tokens [R, S, H] of each row.

    Rows of padding alone get 0, or the vector of their first token.
    """
    if pooling in ("cls", "lasttoken"):
        if pooling == "lasttoken":
            direction = modeling.LEFT_TO_RIGHT
        return modeling.class_vectors(x, input_mask, direction)
    # Not [..., None]: see serving/litert/convert.py.
    mask = tf.expand_dims(tf.cast(input_mask, tf.float32), -1)  # [R, S, 1]
    if pooling == "max":
        x = tf.reduce_max(x + (mask - 1.0) * 1e9, axis=1)  # [R, H]
        return x * tf.reduce_max(mask, axis=1)
    if pooling == "weightedmean":  # by positions, 1 that of the first token
        mask *= tf.cumsum(mask, axis=1)
    count = tf.maximum(tf.reduce_sum(mask, axis=1), 1.0)  # [R, 1]
    if pooling == "mean_sqrt_len_tokens":
        count = tf.sqrt(count)
    return tf.reduce_sum(x * mask, axis=1) / count


def unit_length(x: tf.Tensor) -> tf.Tensor:
    """Return vectors [..., D] divided by their length; 0 stays 0."""
    return tf.math.l2_normalize(x, axis=-1, epsilon=1e-24)
