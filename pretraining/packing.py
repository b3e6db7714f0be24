"""Pack several sequences into each row of max_seq_length tokens.

A tenth of the sequences is short on purpose, and those at the end of a
document are short by chance. Unpacked, a row holds one sequence and the rest
of it is padding, which costs as much time as text. Packed (Krell et al.,
arXiv:2107.02027), a row holds sequences whose lengths add up to about
max_seq_length. For example, sequences of 3, 4 and 7 tokens in rows of 8:

    input_ids              c a s c d e s 0    c f g s h i s 0
    sequence_ids           1 1 1 2 2 2 2 0    1 1 1 1 1 1 1 0
    position_ids           0 1 2 0 1 2 3 0    0 1 2 3 4 5 6 0
    next_sentence_positions  0 3                0 0
    next_sentence_weights    1 1                1 0

Attention stays inside a sequence and positions start from 0 in each, so the
model computes what it computes for the sequences alone (`sequence_ids` and
`position_ids` of modeling.BertModel).

Which sequences share a row is decided by best-fit decreasing: the longest
sequence first, each into the open row with the least room that is enough for
it, or into a new row. A pass over a bucket has thousands of sequences to
choose from, so the lengths of most rows add up to max_seq_length exactly. No
sequence is dropped and none is cut.

Worker processes import this file: no flags here, and no TensorFlow.

Dimensions: N sequences, R rows, S max_seq_length, P predictions a sequence may
have, M places of predictions in a row, K max_sequences_per_pack.
"""

import math
from collections.abc import Iterator

import numpy as np

from pretraining import masking
from pretraining.instances import InstanceConfig, Instances


def predictions_per_row(config: InstanceConfig) -> int:
    """Return M, the places of predictions in a packed row.

    masked_lm_prob of S, rounded up: 20 for 128 tokens, 77 for 512. Every
    sequence rounds its own share, so n sequences in a row may need up to n / 2
    places more. Places for the worst case would be empty in nearly all rows,
    and the vocabulary's logits are computed for empty places too. Instead
    `assign_rows` puts a sequence only where enough places are left, so that no
    prediction is lost.

    A sequence has at least one prediction, however small the share, hence at
    least K places; and at most P, hence no more than K * P.
    """
    share = math.ceil(config.max_seq_length * config.masked_lm_prob)
    most = config.max_sequences_per_pack * config.max_predictions_per_seq
    return min(max(share, config.max_sequences_per_pack), most)


# --- Which sequences share a row ---------------------------------------------


def assign_rows(
    lengths: np.ndarray,
    predictions: np.ndarray,
    max_seq_length: int,
    predictions_per_row: int,
    max_sequences: int,
) -> np.ndarray:
    """Assign sequences to rows by best-fit decreasing.

    Example with rows of 10 tokens and enough places: lengths 6, 3, 9, 4, 3
    are taken as 9, 6, 4, 3, 3. The 9 gets row 0 and the 6 row 1. The 4 fits
    the room of row 1 exactly. Neither 3 fits a row, so they share row 2.

    Args:
        lengths: [N], tokens of each sequence, at most `max_seq_length`.
        predictions: [N], places each needs, at most `predictions_per_row`.
        max_seq_length: tokens in a row.
        predictions_per_row: places in a row.
        max_sequences: sequences in a row at most.

    Returns:
        The row of each sequence [N]. Rows are numbered from 0, in the order
        in which they were begun.
    """
    order = np.argsort(-lengths, kind="stable")
    # Open rows by the number of tokens they have room for, and that number's
    # bit in `open_rooms` if there are any: the least room of at least `length`
    # is the lowest bit of open_rooms >> length. So the time does not depend on
    # the number of open rows.
    rows_of_room: list[list[int]] = [[] for _ in range(max_seq_length + 1)]
    open_rooms = 0
    places_left: list[int] = []
    sizes: list[int] = []
    assigned = []
    shortest = int(lengths.min(initial=max_seq_length))
    for length, needed in zip(
        lengths[order].tolist(), predictions[order].tolist(), strict=True
    ):
        rooms = open_rooms >> length
        while rooms:
            lowest = rooms & -rooms
            room = length + lowest.bit_length() - 1
            row = rows_of_room[room][-1]
            if places_left[row] >= needed:
                rows_of_room[room].pop()
                if not rows_of_room[room]:
                    open_rooms ^= 1 << room
                break
            rooms ^= lowest
        else:
            row, room = len(sizes), max_seq_length
            sizes.append(0)
            places_left.append(predictions_per_row)
        assigned.append(row)
        sizes[row] += 1
        places_left[row] -= needed
        room -= length
        if room >= shortest and sizes[row] < max_sequences:
            rows_of_room[room].append(row)
            open_rooms |= 1 << room
    rows = np.empty(len(order), np.int64)
    rows[order] = assigned
    return rows


def pack(
    instances: Instances, config: InstanceConfig, rng: np.random.Generator
) -> tuple[Instances, np.ndarray]:
    """Reorder instances so that those of a row are next to each other.

    Args:
        instances: of one pass, in random order.
        config: lengths, and how many sequences a row may have.
        rng: draws the order of the rows; the packing itself is not random.

    Returns:
        The instances, and the number of instances of each row [R].
    """
    lengths = masking.sequence_lengths(instances)
    rows = assign_rows(
        lengths,
        masking.prediction_budget(lengths, config),
        config.max_seq_length,
        predictions_per_row(config),
        config.max_sequences_per_pack,
    )
    # Rows begin with full ones and end with those of many short sequences:
    # shuffle them.
    num_rows = int(rows.max(initial=-1)) + 1
    rows = rng.permutation(num_rows)[rows]
    order = np.argsort(rows, kind="stable")
    return instances.take(order), np.bincount(rows, minlength=num_rows)


def split(
    instances: Instances, sizes: np.ndarray, count: int
) -> Iterator[tuple[Instances, np.ndarray]]:
    """Yield `count` slices of about the same number of rows.

    Args:
        instances: those of a row next to each other.
        sizes: instances of each row [R].
        count: number of slices; some are empty if it is larger than R.

    Yields:
        The instances of a slice, and the number of each of its rows.
    """
    start = 0
    for some in np.array_split(sizes, count):
        stop = start + int(some.sum())
        yield instances.take(slice(start, stop)), some
        start = stop


def parts(sizes: np.ndarray, most: int) -> Iterator[tuple[slice, slice]]:
    """Split rows into parts of at most about `most` sequences.

    Args:
        sizes: sequences of each row [R].
        most: a part has fewer than this and one row more.

    Yields:
        The rows of a part and its sequences.
    """
    ends = np.cumsum(sizes)
    begin = first = 0
    while begin < len(sizes):
        end = int(np.searchsorted(ends, first + most)) + 1
        end = min(end, len(sizes))
        last = int(ends[end - 1])
        yield slice(begin, end), slice(first, last)
        begin, first = end, last


# --- Features of rows --------------------------------------------------------


def pack_features(
    features: dict[str, np.ndarray], sizes: np.ndarray, config: InstanceConfig
) -> dict[str, np.ndarray]:
    """Return the features of R rows from those of their N sequences.

    Args:
        features: of `masking.mask_sequences`, the sequences of a row next to
            each other.
        sizes: sequences of each row [R]; their sum is N.
        config: lengths.

    Returns:
        Name -> array of each feature of `schema.packed_schema`.
    """
    real = features["input_mask"] > 0  # [N, S]
    lengths = np.count_nonzero(real, axis=1)  # [N]
    row = np.repeat(np.arange(len(sizes)), sizes)  # [N]
    number = _count_within(sizes, np.ones_like(row))  # [N]: 0, 1, ... in a row
    start = _count_within(sizes, lengths)  # [N], place of [CLS] in the row

    def rows_of(places: int, dtype: type) -> np.ndarray:
        return np.zeros((len(sizes), places), dtype)

    # The T tokens of all sequences: their sequence, place in it, place in the
    # row.
    sequence, place = np.nonzero(real)  # [T] both
    at = row[sequence], start[sequence] + place
    packed = {}
    for name, values in (
        ("input_ids", features["input_ids"][real]),
        ("input_mask", np.uint8(1)),
        ("segment_ids", features["segment_ids"][real]),
        ("sequence_ids", (number + 1)[sequence]),
        ("position_ids", place),
    ):
        packed[name] = rows_of(config.max_seq_length, np.int32)
        packed[name][at] = values
    # The predictions of all sequences: likewise.
    predicted = features["masked_lm_weights"] > 0  # [N, P]
    count = np.count_nonzero(predicted, axis=1)  # [N]
    sequence, place = np.nonzero(predicted)
    at = row[sequence], _count_within(sizes, count)[sequence] + place
    positions = features["masked_lm_positions"][predicted] + start[sequence]
    for name, values, dtype in (
        ("masked_lm_positions", positions, np.int32),
        ("masked_lm_ids", features["masked_lm_ids"][predicted], np.int32),
        ("masked_lm_weights", 1, np.float32),
    ):
        packed[name] = rows_of(predictions_per_row(config), dtype)
        packed[name][at] = values
    at = row, number
    for name, values, dtype in (
        ("next_sentence_positions", start, np.int32),
        ("next_sentence_labels", features["next_sentence_labels"], np.int32),
        ("next_sentence_weights", 1, np.float32),
    ):
        packed[name] = rows_of(config.max_sequences_per_pack, dtype)
        packed[name][at] = values
    return packed


def _count_within(sizes: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Return the sum of the amounts before each sequence in its row, [N].

    For sizes [2, 1] and amounts [3, 4, 7] it is [0, 3, 0].
    """
    before = np.cumsum(amounts) - amounts
    first = np.cumsum(sizes) - sizes  # the first sequence of each row
    return before - np.repeat(before[first], sizes)


def count_rows(features: dict[str, np.ndarray]) -> dict[str, int]:
    """Return counts of packed rows, for the summary."""
    return {
        "rows": len(features["input_ids"]),
        "places_for_predictions": features["masked_lm_weights"].size,
    }
