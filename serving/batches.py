"""Batches of rows of similar length, from a window of inputs.

Texts differ in length. In the order of the input, most of a batch would be
padding. So the rows of a window are sorted by length and cut into batches,
each padded to a multiple of 8. With batches of 2 rows,

    lengths in order        60 7 9 50     padded to 64 64 56 56, 240 tokens
    lengths sorted          60 50 9 7     padded to 64 64 16 16, 160 tokens

The batches are a function of the window alone, so that both runners and a
restarted run compute the same numbers.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

_MULTIPLE = 8  # lengths are rounded up to it

# A batch of short rows has at most this many times batch_size rows.
_MORE_ROWS = 8


class Row(NamedTuple):
    """One sequence of the model's input, without padding."""

    input_ids: np.ndarray  # int32 [tokens], with [CLS] and [SEP]
    segment_ids: np.ndarray  # int32 [tokens]


# The rows that one output is about: one row, or one for each choice.
Unit = list[Row]


class Batch(NamedTuple):
    """A batch of the model's input.

    Attributes:
        units: int [B], numbers of the units in the window.
        features: input_ids, input_mask and segment_ids, int32 [B, S]; [B, C,
            S] for units of C choices.
    """

    units: np.ndarray
    features: dict[str, np.ndarray]


def make_row(input_ids: Sequence[int], second_start: int) -> Row:
    """Return a row whose segment 1 begins at `second_start`."""
    ids = np.asarray(input_ids, np.int32)
    return Row(ids, (np.arange(len(ids)) >= second_start).astype(np.int32))


def make_batches(
    units: Sequence[Unit],
    batch_size: int,
    max_seq_length: int,
    is_grouped: bool = False,
) -> Iterator[Batch]:
    """Yield the batches of a window, the longest rows first.

    Args:
        units: all of the window.
        batch_size: rows of max_seq_length tokens in a batch; of shorter rows
            more, of at most as many tokens.
        max_seq_length: no row is longer.
        is_grouped: features are [B, C, S]; units with the same C share a
            batch.
    """
    lengths = [max(len(row.input_ids) for row in unit) for unit in units]
    # Sorted by the number of choices first: a batch has one. The sort is
    # stable, so that rows of one length keep their order.
    order = sorted(
        range(len(units)), key=lambda i: (-len(units[i]), -lengths[i])
    )
    at = 0
    while at < len(order):
        choices, length = len(units[order[at]]), lengths[order[at]]
        length = min(-(-length // _MULTIPLE) * _MULTIPLE, max_seq_length)
        more = min(_MORE_ROWS, max(1, max_seq_length // length))
        count = max(1, batch_size * more // choices)
        taken = order[at : at + count]
        taken = [i for i in taken if len(units[i]) == choices]
        at += len(taken)
        features = _pad([row for i in taken for row in units[i]], length)
        if is_grouped:
            features = {
                name: value.reshape(len(taken), choices, length)
                for name, value in features.items()
            }
        yield Batch(np.array(taken), features)


def _pad(rows: Sequence[Row], length: int) -> dict[str, np.ndarray]:
    """Return the features of rows, [R, length]."""
    ids = np.zeros([len(rows), length], np.int32)
    mask, segments = np.zeros_like(ids), np.zeros_like(ids)
    for place, row in enumerate(rows):
        used = len(row.input_ids)
        ids[place, :used] = row.input_ids
        segments[place, :used] = row.segment_ids
        mask[place, :used] = 1
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def by_unit(
    batch: Batch, outputs: Mapping[str, np.ndarray]
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
    """Yield (number of the unit, its outputs) for every unit of a batch."""
    for place, unit in enumerate(batch.units.tolist()):
        yield unit, {name: value[place] for name, value in outputs.items()}
