"""Predict with any task and any model: encode, batch by length, run, decode.

    predictions = predict(task, run, inputs, batch_size)

`run` is a function from the features of a batch to its outputs: of a Keras
model, a SavedModel (loading.py) or a LiteRT file (serving/litert).

Texts differ in length. In the order of the input, most of a batch would be
padding. So rows are sorted by length and cut into batches, each padded to a
multiple of 8. With batches of 2 rows,

    lengths in order        60 7 9 50     padded to 64 64 56 56, 240 tokens
    lengths sorted          60 50 9 7     padded to 64 64 16 16, 160 tokens

The batches are a function of the inputs alone, so that every runner and a
restarted run compute the same numbers.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks import rows
from tasks.rows import Unit
from tasks.task import Encoded, Input, Model, Outputs, Prediction, Task

_MULTIPLE = 8  # lengths are rounded up to it

# A batch of short rows has at most this many times batch_size rows.
MORE_ROWS = 8


def predict(
    task: Task, run: Model, inputs: Sequence[Input], batch_size: int
) -> list[Prediction | str]:
    """Return the prediction of each input, or why there is none; see `decode`.

    All inputs are sorted by length together.
    """
    encoded = task.encode(inputs)
    outputs = run_units(task, run, encoded.units, batch_size)
    return decode(task, inputs, encoded, outputs)


def run_units(
    task: Task,
    run: Model,
    units: Sequence[Unit],
    batch_size: int,
    update: Callable[[int], None] = lambda count: None,
) -> list[Outputs]:
    """Return the model's outputs for each unit of rows.

    `update` is called with the number of units of each batch.
    """
    found: list[Outputs] = [{}] * len(units)
    for batch in make_batches(task, units, batch_size):
        for unit, values in by_unit(batch, run(batch.features)):
            found[unit] = values
        update(len(batch.units))
    return found


def decode(
    task: Task,
    inputs: Sequence[Input],
    encoded: Encoded,
    outputs: Sequence[Outputs],
) -> list[Prediction | str]:
    """Return the prediction of each input, or why there is none.

    An input whose text was cut has `truncated` in its prediction. `encoded` is
    of `task.encode`, `outputs` of each unit of rows.
    """
    found = list(task.decode(inputs, encoded, outputs))
    for result, is_cut in zip(found, encoded.is_truncated, strict=True):
        if is_cut and not isinstance(result, str):
            result["truncated"] = True
    return found


# --- Batches -----------------------------------------------------------------


class Batch(NamedTuple):
    """A batch of the model's input.

    Attributes:
        units: int [B], their numbers.
        features: input_ids, input_mask and segment_ids, int32 [B, S]; [B, C,
            S] for units of C choices.
    """

    units: np.ndarray
    features: dict[str, np.ndarray]


def make_batches(
    task: Task, units: Sequence[Unit], batch_size: int
) -> Iterator[Batch]:
    """Yield the batches of rows, the longest first.

    If the task groups rows, units with as many rows share a batch, and features
    are [B, C, S]. A batch has batch_size rows of max_seq_length tokens; of
    shorter rows more, of at most as many tokens.
    """
    longest = task.settings.max_seq_length
    buckets = [*range(_MULTIPLE, longest, _MULTIPLE), longest]
    sizes = np.array([len(unit) for unit in units])
    lengths = [max(len(row.input_ids) for row in unit) for unit in units]
    # A batch has one number of choices.
    for choices in np.unique(sizes)[::-1].tolist():
        places = np.flatnonzero(sizes == choices)
        for cut, length in rows.cut_by_length(
            np.array(lengths)[places], batch_size, buckets, MORE_ROWS, choices
        ):
            taken = places[cut]
            features = rows.pad(
                [row for i in taken for row in units[i]], length
            )
            if task.is_grouped:
                features = {
                    name: value.reshape(len(taken), choices, length)
                    for name, value in features.items()
                }
            yield Batch(taken, features)


def by_unit(
    batch: Batch, outputs: Mapping[str, np.ndarray]
) -> Iterator[tuple[int, Outputs]]:
    """Yield (number of the unit, its outputs) for every unit of a batch."""
    for place, unit in enumerate(batch.units.tolist()):
        yield unit, {name: value[place] for name, value in outputs.items()}
