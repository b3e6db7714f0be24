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

from pretraining.data import masking
from pretraining.data.instances import Instances
from pretraining.data.masking import count_within, place_features
from pretraining.data.schema import InstanceConfig


def predictions_per_row(config: InstanceConfig) -> int:
    """Return M, the places of predictions in a packed row.

    M is masked_lm_prob * S, rounded up: 20 for 128 tokens, 77 for 512. Every
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
    """Return the row of each sequence, [N], by best-fit decreasing.

    Example with rows of 10 tokens and enough places: lengths 6, 3, 9, 4, 3
    are taken as 9, 6, 4, 3, 3. The 9 gets row 0 and the 6 row 1. The 4 fits
    the room of row 1 exactly. Neither 3 fits a row, so they share row 2.

    Rows are numbered in the order in which they were begun. A row has
    predictions_per_row places, of which each sequence needs `predictions`. Of
    rows with the same room only the last one that got it is tried; if it has
    too few places left, rows with more room are.
    """
    order = np.argsort(-lengths, kind="stable")
    # The rows that take more sequences, by the number of tokens that still fit.
    # Bit n of `rooms` is set if some row has room for n tokens. So the least
    # room for a sequence is the lowest bit of rooms >> length, and the time to
    # find it does not depend on the number of rows.
    open_rows: list[list[int]] = [[] for _ in range(max_seq_length + 1)]
    rooms = 0
    sizes: list[int] = []  # of all rows
    places_left: list[int] = []  # of all rows
    assigned = []
    for length, needed in zip(
        lengths[order].tolist(), predictions[order].tolist(), strict=True
    ):
        enough = rooms >> length
        while enough:
            lowest = enough & -enough
            room = length + lowest.bit_length() - 1
            if places_left[open_rows[room][-1]] >= needed:
                row = open_rows[room].pop()
                if not open_rows[room]:
                    rooms ^= 1 << room
                break
            enough ^= lowest
        else:
            row, room = len(sizes), max_seq_length
            sizes.append(0)
            places_left.append(predictions_per_row)
        assigned.append(row)
        sizes[row] += 1
        places_left[row] -= needed
        if sizes[row] < max_sequences:
            open_rows[room - length].append(row)
            rooms |= 1 << (room - length)
    rows = np.empty(len(order), np.int64)
    rows[order] = assigned
    return rows


def pack(
    instances: Instances, config: InstanceConfig, rng: np.random.Generator
) -> tuple[Instances, np.ndarray]:
    """Reorder instances so that those of a row are next to each other.

    Returns them, and the number of instances of each row [R]. The rows are in
    random order. The packing itself draws nothing at random; the instances
    come in random order.
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

    The instances of a row are next to each other, `sizes` [R] of each. A slice
    has its instances, and the number of each of its rows; it may be empty.
    """
    start = 0
    for some in np.array_split(sizes, count):
        stop = start + int(some.sum())
        yield instances.take(slice(start, stop)), some
        start = stop


def parts(sizes: np.ndarray, most: int) -> Iterator[tuple[slice, slice]]:
    """Yield slices of the rows, and of their sequences, about `most` of these.

    A part has fewer than `most` sequences and those of one more row; `sizes`
    [R] are the numbers of sequences of the rows.
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
    """Return the features of R packed rows from those of their N sequences.

    The sequences of a row are next to each other, `sizes` [R] of each.
    """
    real = features["input_mask"] > 0  # [N, S]
    lengths = real.sum(axis=1)  # [N]
    row = np.repeat(np.arange(len(sizes)), sizes)  # [N]
    number = count_within(sizes, np.ones_like(row))  # [N]: 0, 1, ... in a row
    start = count_within(sizes, lengths)  # [N], place of [CLS] in the row
    # The T tokens of all sequences: which sequence, and which place in it.
    sequence, place = np.nonzero(real)  # [T] both
    packed = place_features(
        [len(sizes), config.max_seq_length],
        (row[sequence], start[sequence] + place),
        input_ids=features["input_ids"][real],
        input_mask=1,
        segment_ids=features["segment_ids"][real],
        sequence_ids=(number + 1)[sequence],
        position_ids=place,
    )
    if not config.unmasked:
        # The predictions of all sequences: likewise.
        predicted = features["masked_lm_weights"] > 0  # [N, P]
        sequence, place = np.nonzero(predicted)
        # [N], place in the row's predictions
        first = count_within(sizes, predicted.sum(axis=1))
        packed |= place_features(
            [len(sizes), predictions_per_row(config)],
            (row[sequence], first[sequence] + place),
            masked_lm_positions=(
                features["masked_lm_positions"][predicted] + start[sequence]
            ),
            masked_lm_ids=features["masked_lm_ids"][predicted],
            masked_lm_weights=1,
        )
    return packed | place_features(
        [len(sizes), config.max_sequences_per_pack],
        (row, number),
        next_sentence_positions=start,
        next_sentence_labels=features["next_sentence_labels"],
        next_sentence_weights=1,
    )
