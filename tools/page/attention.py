"""The attention probabilities of every layer and head.

The model computes them and keeps the weighted sums alone. So they are computed
again, from the layer's input and its query and key projections, by the
operations of modeling.SelfAttention.

Dimensions: S tokens of the row, F as queries ("from"), T as keys ("to"), N
heads, D size of a head.
"""

import math
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

import modeling
from ops import elementwise


def layer_inputs(
    model: modeling.TaskModel, features: dict[str, np.ndarray]
) -> list[tf.Tensor]:
    """Return the input of each layer for a row, L of [S, H].

    Args:
        model: has the encoder.
        features: input_ids, input_mask and segment_ids, [1, S].
    """
    tensors = {name: tf.constant(value) for name, value in features.items()}
    output = model.encode(tensors)
    # A layer's input is the output of the layer before.
    inputs = [output.embedding_output, *output.encoder_layers[:-1]]
    return [x[0] for x in inputs]


def attention_heads(
    model: modeling.TaskModel, features: dict[str, np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield the probabilities of each layer, float32 [N, F, T].

    Args:
        model: has the encoder.
        features: input_ids, input_mask and segment_ids, [1, S].
    """
    bias = bias_of(model, features)
    inputs = layer_inputs(model, features)
    for layer, x in zip(model.bert.encoder.layers, inputs, strict=True):
        yield probabilities(layer.attention.self_attention, x, bias).numpy()


def bias_of(
    model: modeling.TaskModel, features: dict[str, np.ndarray]
) -> tf.Tensor:
    """Return what the model adds to the scores, [1, 1, 1 or F, T]."""
    return modeling.attention_bias(
        tf.constant(features["input_ids"]),
        tf.constant(features["input_mask"]),
        None,
        model.config.attention_direction,
    )


def probabilities(
    attention: modeling.SelfAttention, x: tf.Tensor, bias: tf.Tensor
) -> tf.Tensor:
    """Return softmax(Q K^T / sqrt(D) + bias) of a layer, [N, F, T].

    Args:
        attention: of the layer.
        x: its input, [S, H].
        bias: of `bias_of`.
    """
    query, key = (
        split_heads(attention, dense, x)
        for dense in (attention.query, attention.key)
    )
    scores = tf.matmul(query, key, transpose_b=True)  # [1, N, F, T]
    scale = 1.0 / math.sqrt(query.shape[-1])
    probs = elementwise.attention_probs(scores, bias, scale=scale, rate=0.0)
    return tf.cast(probs[0], tf.float32)


def split_heads(
    attention: modeling.SelfAttention, dense: modeling.Dense, x: tf.Tensor
) -> tf.Tensor:
    """Return a projection of x [S, H] with its bias by heads, [1, N, S, D]."""
    return elementwise.split_heads(dense(x), x.shape[0], attention.num_heads)
