"""The attention probabilities of every layer and head.

The model keeps only the sums of the values, weighted by the probabilities. With
the identity matrix in place of the values these sums are the probabilities
themselves, so modeling.attention computes them here once more.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow as tf

import modeling
from ops import elementwise
from training.task_model import TaskModel


def attention_heads(
    model: TaskModel, features: dict[str, np.ndarray]
) -> Iterator[np.ndarray]:
    """Yield the probabilities of each layer, float32 [N, F, T].

    N are the heads, F the S tokens as queries ("from"), T as keys ("to").

    Args:
        model: a model with an encoder.
        features: input_ids, input_mask and segment_ids, [1, S].
    """
    output = model.bert(**model.encoder_inputs(features))
    ids, mask = features["input_ids"], features["input_mask"]
    direction = model.config.attention_direction
    bias = modeling.attention_bias(ids, mask, None, direction)
    # The input of a layer is the output of the layer before.
    inputs = [output.embedding_output, *output.encoder_layers[:-1]]
    for layer, x in zip(model.bert.encoder.layers, inputs, strict=True):
        own = layer.attention.self_attention
        query, key = (
            elementwise.split_heads(dense(x[0]), x.shape[1], own.num_heads)
            for dense in (own.query, own.key)
        )  # [1, N, S, D]
        values = tf.eye(x.shape[1], batch_shape=[1, 1], dtype=query.dtype)
        probs = modeling.attention(query, key, values, bias, None, 0.0)
        yield tf.cast(probs[0], tf.float32).numpy()
