"""The output layer of classifiers and taggers, and the dropout before it."""

import zlib
from typing import Any

import keras
import tensorflow as tf

from modeling import PLAIN, Compute, Seed
from ops import elementwise

# The original's classifier has these numbers in its code: initializer_range and
# hidden_dropout_prob of the configuration change the encoder alone.
_CLASSIFIER_STDDEV = 0.02
_CLASSIFIER_DROPOUT = 0.1


def output_variables(num_outputs: int, size: int) -> tuple[Any, Any]:
    """Return a classifier's output_weights [K, size] and output_bias [K].

    Variables of no layer: these names are their whole paths in a checkpoint.
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


def head_dropout(
    x: tf.Tensor, seed: Seed, name: str, compute: Compute = PLAIN
) -> tf.Tensor:
    """Return x with a classifier's dropout; `name` names its random stream."""
    if seed is None:
        return x
    seed = elementwise.fold_seed(seed, zlib.crc32(name.encode()))
    return elementwise.fused(
        elementwise.dropout,
        x,
        seed,
        is_compiled=compute.fuse,
        rate=_CLASSIFIER_DROPOUT,
    )
