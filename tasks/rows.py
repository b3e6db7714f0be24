"""Rows: texts as the model reads them, [CLS] a [SEP] or [CLS] a [SEP] b [SEP].

This module imports no TensorFlow.
"""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

import tokenization
from checkpoints.trained_for import CUT, HEAD_TAIL, TAIL
from records import tfrecord
from records.lengths import bucket_lengths

INPUT_NAMES = ("input_ids", "input_mask", "segment_ids")  # of a model's ids

_SHOWN = 8  # names whose counts a message has


class Row(NamedTuple):
    """One sequence of the model's input, without padding."""

    input_ids: np.ndarray  # int32 [tokens], with [CLS] and [SEP]
    segment_ids: np.ndarray  # int32 [tokens]
    left_out: int = 0  # pieces of its texts that have no place in it


# The rows that one output is about: one row, or one for each choice.
Unit = list[Row]

# The row of a record, and the values of its other features.
Record = tuple[Row, dict[str, Any]]


def make_row(
    input_ids: Sequence[int], second_start: int, left_out: int = 0
) -> Row:
    """Return a row whose segment 1 begins at `second_start`."""
    ids = np.asarray(input_ids, np.int32)
    segments = (np.arange(len(ids)) >= second_start).astype(np.int32)
    return Row(ids, segments, left_out)


def kept_lengths(
    a: int, b: int, max_seq_length: int, is_of_hub: bool = False
) -> tuple[int, int]:
    """Return how many pieces of two texts a row has places for.

    A pair loses one piece at a time from the end of the text that is longer at
    that moment, the second on a tie: a short text has more meaning per piece.
    Where 6 pieces fit, beside [CLS] and two [SEP]:

    >>> kept_lengths(6, 2, 9), kept_lengths(6, 5, 9)
    ((4, 2), (3, 3))

    With b = 0 there is no second text. For `is_of_hub` see TokenizerSettings.
    """
    if not b:
        return min(a, max_seq_length - 2), 0
    return tokenization.truncated_lengths(
        a, b, max_seq_length - 3, is_of_hub=is_of_hub
    )


def head_length(kept: Any, how: str) -> Any:
    """Return how many of `kept` pieces are from the beginning of a text.

    `kept` is a number or a tensor, `how` is head_tail or tail. The paper keeps
    128 and 382 of 510.
    """
    return kept * 128 // 510 if how == HEAD_TAIL else 0 * kept


def kept_places(count: int, kept: int, how: str) -> Sequence[int]:
    """Return which of a text's pieces are kept; `how` is LongTexts.how.

    >>> kept_places(6, 4, "cut"), kept_places(6, 4, "head_tail")
    (range(0, 4), [0, 3, 4, 5])
    >>> kept_places(6, 4, "tail")
    [2, 3, 4, 5]
    """
    if how not in (HEAD_TAIL, TAIL) or kept >= count:
        return range(kept)
    head = head_length(kept, how)
    return [*range(head), *range(count - kept + head, count)]


def row_of_ids(
    a: Sequence[int],
    b: Sequence[int],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
    how: str = CUT,
) -> Row:
    """Return the row of the ids of one or two texts.

    Segment 1 is b with its [SEP]; without b there is no second [SEP]:

        tokens:      [CLS] the dog [SEP] a cat sat [SEP]
        segment_ids:   0    0   0    0   1  1   1    1
    """
    vocab, is_of_hub = tokenizer.vocab, tokenizer.settings.is_of_hub
    kept = kept_lengths(len(a), len(b), max_seq_length, is_of_hub)
    left_out = len(a) + len(b) - sum(kept)
    if left_out:
        a, b = (
            [ids[place] for place in kept_places(len(ids), number, how)]
            for ids, number in zip((a, b), kept, strict=True)
        )
    ids = [vocab["[CLS]"], *a, vocab["[SEP]"]]
    second_start = len(ids)
    # If nothing is left of the second text it gets no [SEP] either.
    if len(b):
        ids += [*b, vocab["[SEP]"]]
    return make_row(ids, second_start, left_out)


def row_of_texts(
    text_a: str,
    text_b: str | None,
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
    how: str = CUT,
) -> Row:
    """Return the row of one or two texts."""
    a, b = tokenizer.text_to_ids(text_a), tokenizer.text_to_ids(text_b or "")
    return row_of_ids(a, b, max_seq_length, tokenizer, how)


def pad(rows: Sequence[Row], length: int) -> dict[str, np.ndarray]:
    """Return input_ids, input_mask and segment_ids of rows, int32 [R, length].

    All are 0 in the padding.
    """
    ids = np.zeros([len(rows), length], np.int32)
    mask, segments = np.zeros_like(ids), np.zeros_like(ids)
    for place, row in enumerate(rows):
        used = len(row.input_ids)
        ids[place, :used] = row.input_ids
        segments[place, :used] = row.segment_ids
        mask[place, :used] = 1
    return {"input_ids": ids, "input_mask": mask, "segment_ids": segments}


def schema(max_seq_length: int, **others: str) -> dict[str, tfrecord.Feature]:
    """Return {feature: type and length} of records that hold a row.

    `others` are the types of features with one number.
    """
    # The original writes every feature as int64, ids and masks too.
    sequence = tfrecord.Feature("int64", max_seq_length)
    return {
        **dict.fromkeys(INPUT_NAMES, sequence),
        **{name: tfrecord.Feature(kind, 1) for name, kind in others.items()},
    }


def labeled_schema(
    max_seq_length: int, label: str = "int64"
) -> dict[str, tfrecord.Feature]:
    """Return the schema of the records of `labeled`; `label` is its type."""
    return schema(max_seq_length, label_ids=label, is_real_example="int64")


def labeled(row: Row, label: Any) -> Record:
    """Return the record of a row with a label, as the original's are."""
    # is_real_example is always 1. In the original's records it is 0 for
    # examples that fill up the last batch on a TPU.
    return row, {"label_ids": label, "is_real_example": 1}


def features(
    records: Sequence[Record], schema: Mapping[str, tfrecord.Feature]
) -> dict[str, np.ndarray]:
    """Return the features of n records, {name: [n, ...]}; see `pad`.

    The schema has the length of the rows and the types of their other features.
    """
    rows, others = zip(*records, strict=True)
    columns = {
        name: np.array([values[name] for values in others], schema[name].dtype)
        for name in others[0]
    }
    return pad(rows, schema["input_ids"].length) | columns


class Units:
    """Units of rows as predict.batches takes them.

    Args:
        units: all of as many rows.
        max_seq_length: no row is longer.
        is_grouped: whether features are [B, C, S], for units of C rows.
        pad_to_max_length: whether every batch is padded to max_seq_length.
    """

    def __init__(
        self,
        units: Sequence[Unit],
        max_seq_length: int,
        is_grouped: bool = False,
        pad_to_max_length: bool = False,
    ):
        self.units, self.is_grouped = units, is_grouped
        self._padding = max_seq_length, pad_to_max_length
        self.lengths = np.array(
            [max(len(row.input_ids) for row in unit) for unit in units]
        )

    def buckets(self, is_fine: bool) -> list[int]:
        """Return the lengths of batches."""
        return bucket_lengths(*self._padding, is_fine)

    def gather(self, places: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the features of some units, see `pad`."""
        features = pad([row for at in places for row in self.units[at]], length)
        if not self.is_grouped:
            return features
        shape = (len(places), -1, length)
        return {name: value.reshape(shape) for name, value in features.items()}


def counts_of(names: Iterable[str]) -> str:
    """Return how often the most frequent names are there, for a message.

    >>> counts_of(["good", "bad", "good"]), counts_of([])
    (' (good: 2, bad: 1)', '')
    """
    counts = collections.Counter(names)
    shown = [f"{name}: {n:,}" for name, n in counts.most_common(_SHOWN)]
    if more := len(counts) - len(shown):
        shown.append(f"{more} more")
    return f" ({', '.join(shown)})" if shown else ""


def log_example(number: int, *lines: tuple[str, Any]) -> None:
    """Log (name, value) lines of an example under the original's headline.

    The first examples of a data set show mistakes in reading it. Those after
    number 0 are for --verbosity=1.
    """
    log = logging.debug if number else logging.info
    log("*** Example ***")
    for name, value in lines:
        log("%s: %s", name, value)
