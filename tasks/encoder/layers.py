"""Choose layers of an encoder as features, and combine them.

The feature-based approach of the paper (section 5.3): the weights of BERT stay
fixed, and its hidden layers are the input of another model. Table 7 compares
choices of layers on CoNLL-2003 NER; run_ner.py --feature_based repeats it.
"""

from collections.abc import Sequence
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf

import modeling

EMBEDDINGS = "embeddings"  # the index of the input of the first layer

Index = int | str  # 0 or -L: the first layer; -1: the last one


class LayerChoice(NamedTuple):
    """Layers and how to combine them; see `layer_features`."""

    indices: tuple[Index, ...]
    combine: str = "concat"


def table_7(num_layers: int) -> dict[str, LayerChoice]:
    """Return the choices of table 7 by name.

    Args:
        num_layers: of the encoder; choices of more layers are left out.
    """
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


def layer_choice(name: str, config: modeling.BertConfig) -> LayerChoice:
    """Return the layers that --feature_layers names (paper, table 7).

    Raises:
        UserError: the encoder has too few layers for it.
    """
    choices = table_7(config.num_hidden_layers)
    if name not in choices:
        raise UserError(
            f"--feature_layers={name}: the model has "
            f"{config.num_hidden_layers} layers, which allow "
            f"{', '.join(choices)}"
        )
    return choices[name]


def parse_layers(text: str, num_layers: int) -> list[int]:
    """Return the layer indices in a comma list, such as "-1,-2".

    Args:
        text: value of --layers. 0 or -num_layers is the first layer, -1 the
            last one.
        num_layers: of the encoder.

    Raises:
        UserError: a part is not a number, or not a layer of this encoder.
    """
    indices = []
    for part in map(str.strip, text.split(",")):
        try:
            index = int(part)
        except ValueError:
            raise UserError(
                f"--layers={text}: {part!r} is not a layer; give numbers "
                "separated by commas, -1 for the last layer"
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
        indices: K indices of layers, or EMBEDDINGS.
        combine: "stack" for [B, S, K, H], "concat" for [B, S, K * H], "sum"
            for [B, S, H], the sum of each layer times its weight.
        weights: [K] of "sum"; None: ones.
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


def encode_layers(
    model: modeling.TaskModel,
    features: dict[str, tf.Tensor],
    layers: Sequence[int],
    pooling: str,
) -> dict[str, tf.Tensor]:
    """Run an encoder on a batch and return the chosen layers.

    Args:
        model: has the encoder.
        features: input_ids, input_mask and segment_ids, [B, S].
        layers: indices of K layers.
        pooling: "none", "cls" for the token that represents the line (see
            modeling.class_vectors), or "mean" over all tokens that are not
            padding.

    Returns:
        {"features": float32 [B, S, K, H]}; pooled [B, K, H].
    """
    output = model.encode(features)
    values = layer_features(
        output.embedding_output, output.encoder_layers, layers
    )  # [B, S, K, H]
    if pooling == "cls":
        values = modeling.class_vectors(
            values, features["input_mask"], model.config.attention_direction
        )  # [B, K, H]
    elif pooling == "mean":
        mask = tf.cast(features["input_mask"], tf.float32)
        # Rows that fill up a batch have no token: their mean is 0, not NaN.
        share = tf.math.divide_no_nan(
            mask, tf.reduce_sum(mask, axis=1, keepdims=True)
        )  # [B, S]
        values = tf.einsum("bskh,bs->bkh", values, share)
    return {"features": values}
