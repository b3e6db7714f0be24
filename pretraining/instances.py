"""Masked pre-training instances from tokenized documents, in whole arrays.

The algorithm is the original's (create_pretraining_data.py), instance by
instance; here every step handles all instances of a bucket at once. Nothing in
this file reads files or flags, and TensorFlow is never imported: the worker
processes of create_pretraining_data.py stay small.

Dimensions: N instances, S max_seq_length, P max_predictions_per_seq.

    documents  -> draw_instances: which sentences are A, which are B
               -> assemble: [CLS] A [SEP] B [SEP], [N, S]
               -> mask_instances: positions, labels, replacements
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from records import tfrecord

# A token in brackets stands for itself ([MASK], [unused7]): the tokenizer
# splits brackets off, so no text contains one, and no position may become one.
_BRACKETED = re.compile(r"\[.+\]")


@dataclasses.dataclass(frozen=True)
class InstanceConfig:
    """The flags that decide what instances look like."""

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    mask_token_prob: float = 0.8
    random_token_prob: float = 0.1
    do_whole_word_mask: bool = False
    dupe_factor: int = 10


class Pieces(NamedTuple):
    """What the arrays need to know about a vocabulary.

    continues: bool [highest id + 1], whether a token starts with "##".
    replacements: the ids a random replacement is drawn from.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    continues: np.ndarray
    replacements: np.ndarray


class Documents(NamedTuple):
    """Tokenized documents, one after the other.

    ids: int32, the tokens of all sentences.
    sentences: offsets of the sentences in `ids`, with the end.
    bounds: offsets of the documents in `sentences`, with the end.
    numbers: a document's number in the corpus. A long document comes in
        several parts, next to each other and with the same number.
    num_own: so many make instances; the others only lend their sentences
        as random next ones.
    """

    ids: np.ndarray
    sentences: np.ndarray
    bounds: np.ndarray
    numbers: np.ndarray
    num_own: int


class Instances(NamedTuple):
    """Where the tokens of N instances lie in `Documents.ids`.

    duplicate: which of the `dupe_factor` passes each belongs to.
    num_truncated: tokens cut off to make the pair fit.
    """

    duplicate: np.ndarray
    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random_next: np.ndarray
    num_truncated: np.ndarray

    def take(self, rows: np.ndarray) -> "Instances":
        """Return the instances at `rows`, in that order."""
        return Instances(*(column[rows] for column in self))


class Assembled(NamedTuple):
    """Unmasked sequences: `input_ids` int32 [N, S], zero padded.

    Of N instances, A has tokens at 1 to a_length, B ends at length - 2.
    """

    input_ids: np.ndarray
    a_length: np.ndarray
    length: np.ndarray


def describe_vocabulary(vocab: Mapping[str, int]) -> Pieces:
    """Return the tables the masking reads."""
    continues = np.zeros(max(vocab.values()) + 1, bool)
    continues[[i for token, i in vocab.items() if token.startswith("##")]] = 1
    replacements = [
        i for token, i in vocab.items() if not _BRACKETED.fullmatch(token)
    ]
    return Pieces(
        vocab["[CLS]"],
        vocab["[SEP]"],
        vocab["[MASK]"],
        vocab["[UNK]"],
        continues,
        np.array(sorted(replacements), np.int32),
    )


# ---------------------------------------------------------------------------
# Which sentences
# ---------------------------------------------------------------------------


def draw_instances(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Instances:
    """Draw the instances of all passes, in no useful order.

    A chunk of sentences is gathered until it reaches the target length (with
    `short_seq_prob` a random shorter one, drawn anew for each instance). It is
    cut at a random sentence into A and B. With probability one half, and
    always when there is one sentence only, B comes from a random place of
    another document instead, and the sentences it displaced come again.
    """
    duplicate, document, begin, middle, end, target, is_random_next = (
        _draw_chunks(documents, config, rng)
    )
    offsets = documents.sentences
    b_begin, b_end = middle, end
    if is_random_next.any():
        rows = np.flatnonzero(is_random_next)
        missing = target[rows] - (offsets[middle] - offsets[begin])[rows]
        b_begin, b_end = middle.copy(), end.copy()
        b_begin[rows], b_end[rows] = _draw_random_next(
            documents, document[rows], missing, rng
        )
    a_start, a_length = offsets[begin], offsets[middle] - offsets[begin]
    b_start, b_length = offsets[b_begin], offsets[b_end] - offsets[b_begin]
    a_cut, b_cut = _truncation(a_length, b_length, config.max_seq_length - 3)
    # Each token cut comes off the front or the back with equal chance.
    return Instances(
        duplicate,
        a_start + rng.binomial(a_cut, 0.5),
        a_length - a_cut,
        b_start + rng.binomial(b_cut, 0.5),
        b_length - b_cut,
        is_random_next,
        a_cut + b_cut,
    )


def _draw_chunks(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Walk through all documents at once, `dupe_factor` times.

    Where a chunk starts depends on the one before, so the steps are one after
    the other; but every document of every pass is a lane of its own, and one
    step advances all of them.

    Returns:
        Columns: pass, document, first sentence of A, of B, end of the chunk,
        target length, is_random_next.
    """
    offsets, max_tokens = documents.sentences, config.max_seq_length - 3
    lane_document = np.tile(np.arange(documents.num_own), config.dupe_factor)
    lane_pass = np.repeat(np.arange(config.dupe_factor), documents.num_own)
    stop = documents.bounds[lane_document + 1]
    begin = documents.bounds[lane_document]
    steps = []
    while lane_document.size:
        draws = rng.random((4, lane_document.size))
        shorter = 2 + (draws[1] * (max_tokens - 1)).astype(np.int64)
        target = np.where(draws[0] < config.short_seq_prob, shorter, max_tokens)
        # The first sentence end at which the target is reached.
        end = np.searchsorted(offsets, offsets[begin] + target)
        end = np.minimum(end, stop)
        size = end - begin
        middle = begin + 1 + (draws[2] * np.maximum(size - 1, 0)).astype(int)
        is_random_next = (size == 1) | (draws[3] < 0.5)
        steps.append(
            (lane_pass, lane_document, begin, middle, end, target)
            + (is_random_next,)
        )
        begin = np.where(is_random_next, middle, end)
        more = begin < stop
        if not more.all():
            lane_document, lane_pass = lane_document[more], lane_pass[more]
            stop, begin = stop[more], begin[more]
    return tuple(map(np.concatenate, zip(*steps, strict=True)))


def _draw_random_next(
    documents: Documents,
    document: np.ndarray,
    missing: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the sentences that stand in for the next one of `document`.

    Args:
        document: whose sentences they must not be.
        missing: tokens wanted; at least one sentence is taken.

    Returns:
        The first sentence and the end, of a document with another number.
    """
    numbers, bounds = documents.numbers, documents.bounds
    # Parts of the same document lie together: draw from the others by
    # stepping over them.
    changes = np.flatnonzero(np.diff(numbers)) + 1
    starts = np.concatenate([[0], changes])
    sizes = np.diff(starts, append=len(numbers))
    same_start = np.repeat(starts, sizes)[document]
    same_size = np.repeat(sizes, sizes)[document]
    draws = rng.random((2, document.size))
    other = (draws[0] * (len(numbers) - same_size)).astype(np.int64)
    other += np.where(other >= same_start, same_size, 0)
    size = bounds[other + 1] - bounds[other]
    begin = bounds[other] + (draws[1] * size).astype(np.int64)
    wanted = documents.sentences[begin] + np.maximum(missing, 1)
    end = np.searchsorted(documents.sentences, wanted)
    return begin, np.minimum(end, bounds[other + 1])


def _truncation(
    a_length: np.ndarray, b_length: np.ndarray, max_tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return how much to cut from A and B.

    What popping one token at a time off the longer side comes to (off B when
    they are equal): the shorter side stays whole unless both are longer than
    half the room.
    """
    a_most = np.maximum(max_tokens - max_tokens // 2, max_tokens - b_length)
    b_most = np.maximum(max_tokens // 2, max_tokens - a_length)
    return np.maximum(a_length - a_most, 0), np.maximum(b_length - b_most, 0)


# ---------------------------------------------------------------------------
# Sequences
# ---------------------------------------------------------------------------


def assemble(
    ids: np.ndarray, instances: Instances, max_seq_length: int, pieces: Pieces
) -> Assembled:
    """Lay out [CLS] A [SEP] B [SEP] for N instances."""
    a_length = instances.a_length
    length = a_length + instances.b_length + 3
    place = np.arange(max_seq_length)
    in_a = place <= a_length[:, None]  # [N, S]
    shift = instances.b_start - a_length - 2
    source = np.where(
        in_a, (instances.a_start - 1)[:, None], shift[:, None]
    )  # [N, S]
    source += place
    input_ids = ids.take(source, mode="clip")
    rows = np.arange(len(a_length))
    input_ids[:, 0] = pieces.cls_id
    input_ids[rows, a_length + 1] = pieces.sep_id
    input_ids[rows, length - 1] = pieces.sep_id
    input_ids *= place < length[:, None]  # The padding is 0, as the original's.
    return Assembled(input_ids, a_length, length)


def mask_instances(
    assembled: Assembled,
    is_random_next: np.ndarray,
    config: InstanceConfig,
    pieces: Pieces,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Choose what is predicted, replace it, and return all features."""
    input_ids, a_length, length = assembled
    place = np.arange(config.max_seq_length)
    input_mask = place < length[:, None]  # [N, S]
    segment_ids = input_mask & (place > (a_length + 1)[:, None])  # [N, S]
    candidates = place < (length - 1)[:, None]
    candidates[:, 0] = False
    candidates[np.arange(len(length)), a_length + 1] = False
    # np.rint rounds halves to even, as the original's round().
    budget = np.rint(length * config.masked_lm_prob).astype(np.int64)
    budget = np.clip(budget, 1, config.max_predictions_per_seq)
    if config.do_whole_word_mask:
        continues = pieces.continues[input_ids]
        chosen = _choose_words(
            candidates, continues, budget, config.max_predictions_per_seq, rng
        )
    else:
        chosen = _choose_pieces(candidates, budget, rng)
    features = _replace(input_ids, chosen, config, pieces, rng)
    features["input_mask"] = input_mask.astype(np.uint8)
    features["segment_ids"] = segment_ids.astype(np.uint8)
    features["next_sentence_labels"] = is_random_next.astype(np.uint8)
    return features


def _choose_pieces(
    candidates: np.ndarray, budget: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Choose `budget` of each row's candidates, all subsets alike."""
    rows, max_seq_length = candidates.shape
    # There are at least two candidates in a row, one of A and one of B.
    budget = np.minimum(budget, np.count_nonzero(candidates, axis=1))
    keys = rng.random(candidates.shape, np.float32)
    keys[~candidates] = 2
    most = int(budget.max())
    first = np.argpartition(keys, most - 1, axis=1)[:, :most]
    order = np.argsort(np.take_along_axis(keys, first, axis=1), axis=1)
    first = np.take_along_axis(first, order, axis=1)  # [N, most]
    chosen = np.zeros(candidates.shape, bool)
    within = np.arange(most) < budget[:, None]
    np.put_along_axis(chosen, first, within, axis=1)
    return chosen


def _choose_words(
    candidates: np.ndarray,
    continues: np.ndarray,
    budget: np.ndarray,
    most: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose whole words in random order, passing over those too long.

    A row where every word is longer than its budget gets its shortest word,
    cut to the `most` pieces a record has room for: the original leaves such a
    sequence with nothing to predict.
    """
    rows, max_seq_length = candidates.shape
    starts = candidates.copy()
    # A piece goes with the word before it unless a segment starts there.
    starts[:, 1:] &= ~(continues[:, 1:] & candidates[:, :-1])
    word = np.cumsum(starts, axis=1) - 1  # [N, S]
    num_words = int(word[:, -1].max()) + 1
    cell = word + np.arange(rows)[:, None] * num_words
    size = np.bincount(cell[candidates], minlength=rows * num_words)
    size = size.reshape(rows, num_words)
    keys = rng.random(size.shape, np.float32)
    keys[size == 0] = 2
    order = np.argsort(keys, axis=1)
    size = np.take_along_axis(size, order, axis=1)
    taken = _fill_budgets(size, budget)
    empty = np.flatnonzero(~taken.any(axis=1))
    shortest = np.where(size[empty] > 0, size[empty], max_seq_length)
    taken[empty, shortest.argmin(axis=1)] = True
    chosen_words = np.zeros(size.shape, bool)
    np.put_along_axis(chosen_words, order, taken, axis=1)
    chosen = candidates & chosen_words.take(cell)
    if empty.size:
        chosen[empty] &= np.cumsum(chosen[empty], axis=1) <= most
    return chosen


def _fill_budgets(size: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Go along each row and take what still fits; size 0 is no word."""
    taken = np.zeros(size.shape, bool)
    left = budget.copy()
    rows = np.arange(len(left))
    for column in range(size.shape[1]):
        column_size = size[rows, column]
        fits = (column_size <= left) & (column_size > 0)
        taken[rows, column] = fits
        left -= np.where(fits, column_size, 0)
        more = (left > 0) & (column_size > 0)
        if not more.all():
            rows, left = rows[more], left[more]
            if not rows.size:
                break
    return taken


def _replace(
    input_ids: np.ndarray,
    chosen: np.ndarray,
    config: InstanceConfig,
    pieces: Pieces,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Turn the chosen positions into labels and hide most of them."""
    shape = (len(chosen), config.max_predictions_per_seq)
    count = np.count_nonzero(chosen, axis=1)
    row, position = np.nonzero(chosen)
    slot = np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)
    labels = input_ids[row, position]
    masked_lm_positions = np.zeros(shape, np.int32)
    masked_lm_positions[row, slot] = position
    masked_lm_ids = np.zeros(shape, np.int32)
    masked_lm_ids[row, slot] = labels
    # Drawn for each piece, in whole-word mode too, as the original does.
    draws = rng.random(len(row))
    random_ids = pieces.replacements[
        rng.integers(len(pieces.replacements), size=len(row))
    ]
    random_limit = config.mask_token_prob + config.random_token_prob
    shown = np.where(draws < random_limit, random_ids, labels)
    shown[draws < config.mask_token_prob] = pieces.mask_id
    input_ids[row, position] = shown
    return {
        "input_ids": input_ids,
        "masked_lm_positions": masked_lm_positions,
        "masked_lm_ids": masked_lm_ids,
        "masked_lm_weights": (np.arange(shape[1]) < count[:, None]).astype(
            np.float32
        ),
    }


def schema(
    max_seq_length: int, max_predictions_per_seq: int
) -> dict[str, tfrecord.Feature]:
    """Return name -> Feature of the pre-training records.

    Names, types and lengths are the original's, so its files and ours are
    interchangeable. `next_sentence_labels` is 1 for a random next segment.
    """
    sequence = tfrecord.Feature("int64", max_seq_length)
    predictions = tfrecord.Feature("int64", max_predictions_per_seq)
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": tfrecord.Feature(
            "float32", max_predictions_per_seq
        ),
        "next_sentence_labels": tfrecord.Feature("int64", 1),
    }
