"""The attention probabilities of every layer and head, and a picture of one.

The model keeps only the sums of the values, weighted by the probabilities. With
the identity matrix in place of the values these sums are the probabilities
themselves, so modeling.attention computes them here once more.

The picture is a figure of Plotly in JSON. Gradio brings the program that draws
it, so Plotly's Python package is not needed.
"""

import html
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import modeling
from ops import elementwise
from training.task_model import TaskModel

_COLOR = (37, 99, 235)  # a blue that is seen on white and on black


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


def heat_map(tokens: Sequence[str], probs: np.ndarray) -> dict[str, Any]:
    """Return the probabilities of a head as a figure that fills its box.

    A weight has the opacity of its square root: most weights are small, and
    0.01 would be invisible beside 1.

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    # Plotly tells tokens apart by their names, in which it obeys some tags.
    names = [f"{html.escape(t)} {place}" for place, t in enumerate(tokens)]
    levels = [step / 20 for step in range(21)]
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": probs.astype(np.float64).round(4).tolist(),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[x**2, f"rgba{(*_COLOR, x)}"] for x in levels],
        "colorbar": {"thickness": 12, "tickformat": ".0%"},
        "hovertemplate": "%{y} → %{x} %{z:.1%}<extra></extra>",
    }
    axis = {
        "type": "category",
        "showgrid": False,
        "automargin": True,
        # Every token has its name where there is space for it.
        "dtick": 1 if len(tokens) <= 40 else None,
    }
    layout = {
        "xaxis": axis | {"side": "top", "tickangle": -90},
        "yaxis": axis | {"autorange": "reversed"},
        "height": 460,
        "margin": {"l": 10, "t": 40, "r": 10, "b": 10},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
    }
    # The bar of buttons would cover names, and link to another machine.
    config = {"displayModeBar": False}
    return {"data": [trace], "layout": layout, "config": config}
