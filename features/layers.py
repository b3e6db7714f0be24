"""Which of an encoder's layers serve as features, and how they are combined.

Apart from modeling.py, since what reads BERT as fixed features wants it: the
feature-based approach of the paper (section 5.3, table 7), extract_features.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf

EMBEDDINGS = "embeddings"  # an index of its own: what enters the first layer

Index = int | str


class LayerChoice(NamedTuple):
    """Which layers, and how they become one; see `layer_features`."""

    indices: tuple[Index, ...]
    combine: str = "concat"


def table_7(num_layers: int) -> dict[str, LayerChoice]:
    """Return the paper's choices by name, as far as an encoder has layers."""
    four = (-4, -3, -2, -1)
    choices = {
        "embeddings": LayerChoice((EMBEDDINGS,)),
        "second_to_last": LayerChoice((-2,)),
        "last": LayerChoice((-1,)),
        "weighted_sum_last_four": LayerChoice(four, "sum"),
        "concat_last_four": LayerChoice(four),
        "weighted_sum_all": LayerChoice(tuple(range(-num_layers, 0)), "sum"),
    }
    return {
        name: choice
        for name, choice in choices.items()
        if choice.indices == (EMBEDDINGS,) or -choice.indices[0] <= num_layers
    }


def parse_layers(text: str, num_layers: int) -> list[int]:
    """Return the indices of a comma list: "-1,-2" are the last two layers.

    Args:
        text: of the flag --layers; 0 or -num_layers is the first layer.
        num_layers: the encoder has.

    Raises:
        UserError: not a number, or not a layer of this encoder.
    """
    indices = []
    for part in map(str.strip, text.split(",")):
        try:
            index = int(part)
        except ValueError:
            raise UserError(
                f"--layers={text}: {part!r} is no layer; give numbers "
                "separated by commas, -1 the last"
            ) from None
        if not -num_layers <= index < num_layers:
            raise UserError(
                f"--layers={text}: the model has {num_layers} layers, "
                f"{index} is none of them: from the end they are -1 to "
                f"{-num_layers}, from the beginning 0 to {num_layers - 1}"
            )
        indices.append(index)
    return indices


def layer_features(
    embedding_output: tf.Tensor,
    encoder_layers: Sequence[tf.Tensor],
    indices: Sequence[Index],
    combine: str = "stack",
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return the chosen layers of an encoder as one float32 tensor.

    Args:
        embedding_output: [B, S, H] of BertOutput.
        encoder_layers: L of [B, S, H] of BertOutput.
        indices: K of them, of layers, or EMBEDDINGS.
        combine: "stack" for [B, S, K, H], "concat" for [B, S, K * H], "sum"
            for [B, S, H], each layer times its weight.
        weights: [K], of "sum"; default ones.
    """
    chosen = [
        embedding_output if index == EMBEDDINGS else encoder_layers[index]
        for index in indices
    ]
    chosen = [tf.cast(layer, tf.float32) for layer in chosen]
    if combine == "concat":
        return tf.concat(chosen, axis=-1)  # [B, S, K * H]
    if combine == "stack":
        return tf.stack(chosen, axis=2)  # [B, S, K, H]
    if combine != "sum":
        raise ValueError(f"combine is {combine!r}: stack, concat or sum")
    if weights is None:
        weights = tf.ones([len(chosen)])
    parts = [weights[k] * layer for k, layer in enumerate(chosen)]
    return tf.add_n(parts)  # [B, S, H]
