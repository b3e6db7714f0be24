"""Choices of an encoder's layers, as flags name them."""

from typing import NamedTuple

from base.errors import UserError

EMBEDDINGS = "embeddings"  # the index of the input of the first layer

Index = int | str  # 0 or -L: the first layer; -1: the last one


class LayerChoice(NamedTuple):
    """Layers, and whether they are concatenated or summed with weights."""

    indices: tuple[Index, ...]
    is_sum: bool = False


def table_7(num_layers: int) -> dict[str, LayerChoice]:
    """Return the choices of table 7 that an encoder has enough layers for."""
    four = (-4, -3, -2, -1)
    choices = {
        "embeddings": LayerChoice((EMBEDDINGS,)),
        "second_to_last": LayerChoice((-2,)),
        "last": LayerChoice((-1,)),
        "weighted_sum_last_four": LayerChoice(four, is_sum=True),
        "concat_last_four": LayerChoice(four),
        "weighted_sum_all": LayerChoice(
            tuple(range(-num_layers, 0)), is_sum=True
        ),
    }
    return {
        name: choice
        for name, choice in choices.items()
        if choice.indices == (EMBEDDINGS,) or -choice.indices[0] <= num_layers
    }


def layer_choice(name: str, num_layers: int) -> LayerChoice:
    """Return the layers that --feature_layers names (paper, table 7).

    Raises:
        UserError: the encoder has too few layers for it.
    """
    choices = table_7(num_layers)
    if name not in choices:
        raise UserError(
            f"--feature_layers={name}: the model has "
            f"{num_layers} layers, which allow "
            f"{', '.join(choices)}"
        )
    return choices[name]


def parse_layers(text: str, num_layers: int) -> list[int]:
    """Return the indices in --layers, a comma list such as "-1,-2".

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
