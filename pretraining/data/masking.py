"""Lay out [CLS] A [SEP] B [SEP], choose tokens to predict and replace them.

The masked language model (paper sections 3.1 and A.1) is trained to predict
15% of the tokens from those around them. If "down" is chosen, the encoder gets

    the cat sat [MASK]   80% of the time
    the cat sat green    10%: a random token
    the cat sat down     10%: unchanged

and the label is "down". Fine-tuning never shows a [MASK]. With [MASK] alone,
the encoder would need to represent the context only at a [MASK]; with the
other two, any token may be the one to predict.

Worker processes import this file, which does without TensorFlow.

Dimensions: N instances, S max_seq_length, P max_predictions_per_seq, W words
of the sequence with the most words.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np

import tokenization
from pretraining.data.instances import Instances
from pretraining.data.schema import InstanceConfig

# Tokens in brackets ([MASK], [unused7]) are special: the tokenizer splits
# brackets off words, so they never come from text. A random replacement is
# never one of them (the original draws from the whole vocabulary).
_BRACKETED = re.compile(r"\[.+\]")


class MaskingVocabulary(NamedTuple):
    """The facts about a vocabulary that masking depends on.

    Attributes:
        cls_id: id of [CLS].
        sep_id: id of [SEP].
        mask_id: id of [MASK].
        unk_id: id of [UNK].
        continues: bool [highest id + 1], whether a token starts with "##"
            and so continues a word.
        replacements: int32, the ids that random replacements are drawn from.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    unk_id: int
    continues: np.ndarray
    replacements: np.ndarray

    @classmethod
    def from_vocab(cls, vocab: Mapping[str, int]) -> "MaskingVocabulary":
        """Return the facts about a vocabulary, {token: id}."""
        inner = [i for token, i in vocab.items() if token.startswith("##")]
        continues = np.zeros(max(vocab.values()) + 1, bool)
        continues[inner] = True
        replacements = [
            i for token, i in vocab.items() if not _BRACKETED.fullmatch(token)
        ]
        return cls(
            vocab["[CLS]"],
            vocab["[SEP]"],
            vocab["[MASK]"],
            vocab["[UNK]"],
            continues,
            np.array(sorted(replacements), np.int32),
        )


def check_vocabulary(
    vocab: Mapping[str, int], vocab_file: str, config: InstanceConfig
) -> None:
    """Check that a vocabulary has what masking needs.

    Raises:
        UserError: a special token is missing, or there are no others.
    """
    tokenization.validate_special_tokens(vocab, vocab_file=vocab_file)
    replacements = MaskingVocabulary.from_vocab(vocab).replacements
    if config.random_token_prob and not len(replacements):
        raise UserError(
            f"{vocab_file}: found special tokens only, so there is nothing to "
            "draw random replacements from; give a vocabulary with words"
        )


class StreamDraws:
    """Random numbers for masking, drawn from one generator in order."""

    def __init__(self, rng: np.random.Generator):
        self._rng = rng

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return float32 [N, X] from [0, 1), a row for each sequence."""
        return self._rng.random(shape, np.float32)

    def of_tokens(
        self, row: np.ndarray, slot: np.ndarray, choices: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return floats from [0, 1) and integers below `choices`, [M] both.

        Number m is for token `slot[m]` of the chosen ones in sequence `row[m]`.
        """
        del slot
        draws = self._rng.random(len(row))
        return draws, self._rng.integers(choices, size=len(row))


class KeyedDraws:
    """Random numbers for masking that are functions of a key per sequence.

    So the masks of a sequence do not depend on the sequences beside it. Each
    key, [N], seeds a SplitMix64 (Steele et al. 2014) for each use.
    """

    _STEP = np.uint64(0x9E3779B97F4A7C15)

    def __init__(self, seed: int, numbers: np.ndarray):
        seeds = self._mix(np.array([seed], np.uint64))
        self._keys = self._mix(seeds + numbers.astype(np.uint64) * self._STEP)

    @staticmethod
    def _mix(x: np.ndarray) -> np.ndarray:
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))

    def _next_seeds(self) -> np.ndarray:
        self._keys = self._mix(self._keys + self._STEP)
        return self._keys

    def uniform(self, shape: tuple[int, ...]) -> np.ndarray:
        """Return float32 [N, X] from [0, 1), a row for each sequence."""
        places = np.arange(1, shape[1] + 1, dtype=np.uint64) * self._STEP
        bits = self._mix(self._next_seeds()[:, None] + places)
        # The 24 digits that a float32 has.
        return (bits >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)

    def of_tokens(
        self, row: np.ndarray, slot: np.ndarray, choices: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return floats and integers, as `StreamDraws.of_tokens` does."""
        seeds = self._next_seeds()[row] + slot.astype(np.uint64) * self._STEP
        draws = (self._mix(seeds) >> np.uint64(11)) * 2.0**-53
        others = (self._mix(self._mix(seeds)) >> np.uint64(11)) * 2.0**-53
        return draws, (others * choices).astype(np.int64)


Draws = StreamDraws | KeyedDraws


class Sequences(NamedTuple):
    """N sequences [CLS] A [SEP] B [SEP] before masking.

    Attributes:
        input_ids: int32 [N, S], padded with 0.
        a_length: [N], tokens of A; they stand at 1 to a_length.
        length: [N], tokens of the sequence; B ends at length - 2.
        is_random_next: bool [N], the label of the next sentence.
    """

    input_ids: np.ndarray
    a_length: np.ndarray
    length: np.ndarray
    is_random_next: np.ndarray


# --- Sequences ---------------------------------------------------------------


def sequence_lengths(instances: Instances) -> np.ndarray:
    """Return the tokens of each instance with [CLS] and two [SEP], [N]."""
    return instances.a_length + instances.b_length + 3


def assemble(
    ids: np.ndarray,
    instances: Instances,
    max_seq_length: int,
    vocabulary: MaskingVocabulary,
) -> Sequences:
    """Return the sequences [CLS] A [SEP] B [SEP] of N instances.

    They point into `ids`; A and B together have at most max_seq_length - 3
    tokens.
    """
    a_length = instances.a_length
    length = sequence_lengths(instances)
    place = np.arange(max_seq_length)  # [S]
    in_a = place <= a_length[:, None]  # [N, S]
    # Where in `ids` the token of each place comes from. A begins at place 1,
    # B at place a_length + 2. The places of [CLS], [SEP] and padding get some
    # token or other here ("clip" allows indices outside), then their own.
    a_shift = instances.a_start - 1
    b_shift = instances.b_start - a_length - 2
    source = np.where(in_a, a_shift[:, None], b_shift[:, None])  # [N, S]
    source += place
    input_ids = ids.take(source, mode="clip")
    rows = np.arange(len(a_length))
    input_ids[:, 0] = vocabulary.cls_id
    input_ids[rows, a_length + 1] = vocabulary.sep_id
    input_ids[rows, length - 1] = vocabulary.sep_id
    # The original pads with 0, whatever the id of [PAD]. This also removes what
    # "clip" has read for the padding.
    input_ids *= place < length[:, None]
    return Sequences(input_ids, a_length, length, instances.is_random_next)


def mask_sequences(
    sequences: Sequences,
    config: InstanceConfig,
    vocabulary: MaskingVocabulary,
    draws: Draws,
    budget: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Choose the tokens to predict, replace them, and return all features.

    pretraining/data/schema.py describes the features. The input_ids of the
    sequences are changed in place. At most `budget` [N] tokens are predicted,
    by default `prediction_budget`.
    """
    input_ids, a_length, length, _ = sequences
    features = unmasked_features(sequences)
    place = np.arange(config.max_seq_length)
    # Every token but [CLS] and the two [SEP] may be chosen.
    candidates = place < (length - 1)[:, None]  # [N, S]
    candidates[:, 0] = False
    candidates[np.arange(len(length)), a_length + 1] = False
    if budget is None:
        budget = prediction_budget(length, config)
    if config.do_whole_word_mask:
        continues = vocabulary.continues[input_ids]  # [N, S]
        most = np.full_like(budget, config.max_predictions_per_seq)
        if config.pack_sequences:
            # The places of a packed row are shared out by budgets.
            most = budget
        chosen = _choose_words(candidates, continues, budget, most, draws)
    else:
        chosen = _choose_tokens(candidates, budget, draws)
    # Last, since it changes the input_ids, an array that `features` has, too.
    return features | _replace(input_ids, chosen, config, vocabulary, draws)


def unmasked_features(sequences: Sequences) -> dict[str, np.ndarray]:
    """Return the features of sequences whose masks training draws."""
    input_ids, a_length, length, is_random_next = sequences
    place = np.arange(input_ids.shape[1])
    input_mask = place < length[:, None]  # [N, S]
    segment_ids = input_mask & (place > (a_length + 1)[:, None])  # [N, S]
    return {
        "input_ids": input_ids,
        "input_mask": input_mask.astype(np.uint8),
        "segment_ids": segment_ids.astype(np.uint8),
        "next_sentence_labels": is_random_next.astype(np.uint8),
    }


def prediction_budget(length: np.ndarray, config: InstanceConfig) -> np.ndarray:
    """Return how many tokens of each sequence to predict at most, [N].

    It is the share `masked_lm_prob` of the length, [CLS] and [SEP] included,
    but at least 1 and at most `max_predictions_per_seq`, the places that a
    record has. With the defaults 0.15 and 20: 19 for length 128 (0.15 * 128 =
    19.2), 2 for length 15 (2.25), 1 for length 5. Length 512 needs
    max_predictions_per_seq=77; with 20 only 4% of its tokens are predicted.
    """
    # np.rint rounds halves to even, as the original's round() does.
    budget = np.rint(length * config.masked_lm_prob).astype(np.int64)
    return np.clip(budget, 1, config.max_predictions_per_seq)


# --- Tokens to predict -------------------------------------------------------


def _choose_tokens(
    candidates: np.ndarray, budget: np.ndarray, draws: Draws
) -> np.ndarray:
    """Choose `budget` [N] of the candidates [N, S] of each row at random.

    Every candidate gets a random key, and the smallest keys are chosen, so that
    all subsets are equally likely. A row has at least two candidates, one of A
    and one of B.
    """
    budget = np.minimum(budget, np.count_nonzero(candidates, axis=1))
    keys = draws.uniform(candidates.shape)
    keys[~candidates] = 2  # after every candidate: their keys are below 1
    # Sort no more than the largest budget: argpartition brings the `most`
    # smallest keys to the front, and only these are sorted.
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
    most: np.ndarray,
    draws: Draws,
) -> np.ndarray:
    """Choose whole words at random, up to `budget` [N] tokens of each row.

    A word with more tokens than are left of the budget is passed over. If every
    word of a row is larger than the budget, the shortest one is chosen and cut
    to `most` tokens: P, or the budget if rows are packed. (The original then
    chooses nothing.) `continues` [N, S] tells which tokens start with "##".
    """
    rows, max_seq_length = candidates.shape
    word = _number_words(candidates, continues)  # [N, S]
    num_words = int(word[:, -1].max()) + 1  # W
    # Number the words of all rows consecutively, W numbers for each row, to
    # count the tokens of every word in one pass.
    cell = word + np.arange(rows)[:, None] * num_words  # [N, S]
    size = np.bincount(cell[candidates], minlength=rows * num_words)
    size = size.reshape(rows, num_words)  # [N, W]; 0 behind the row's last word
    keys = draws.uniform(size.shape)
    keys[size == 0] = 2  # after every word: their keys are below 1
    order = np.argsort(keys, axis=1)
    size = np.take_along_axis(size, order, axis=1)
    taken = _fill_budgets(size, budget)  # [N, W], in random order
    # In rows where no word fits into the budget, take the shortest one.
    empty = np.flatnonzero(~taken.any(axis=1))
    shortest = np.where(size[empty] > 0, size[empty], max_seq_length)
    taken[empty, shortest.argmin(axis=1)] = True
    chosen_words = np.zeros(size.shape, bool)
    np.put_along_axis(chosen_words, order, taken, axis=1)
    chosen = candidates & chosen_words.take(cell)
    if empty.size:
        within = np.cumsum(chosen[empty], axis=1) <= most[empty, None]
        chosen[empty] &= within
    return chosen


def _number_words(candidates: np.ndarray, continues: np.ndarray) -> np.ndarray:
    """Return the number of the word at each place, from 0 in each row, [N, S].

    A word is a token and the "##" tokens after it. For example:

        place       0      1   2      3       4    5      6    7
        token       [CLS]  un  ##aff  ##able  man  [SEP]  ##s  [SEP]
        candidates  0      1   1      1       1    0      1    0
        starts      0      1   0      0       1    0      1    0
        word        -1     0   0      0       1    1      2    2

    Place 6 starts a word although it is a "##" token: truncation has cut the
    start of its word off, and no word crosses segments. The numbers of places
    that are not candidates mean nothing.
    """
    starts = candidates.copy()
    starts[:, 1:] &= ~(continues[:, 1:] & candidates[:, :-1])
    return np.cumsum(starts, axis=1) - 1


def _fill_budgets(size: np.ndarray, budget: np.ndarray) -> np.ndarray:
    """Take words from the left of each row while they fit into its budget.

    For sizes [3, 1, 2, 1] and budget 2 the result is [0, 1, 0, 1]. A size of
    0, at the end of a row, is no word.
    """
    taken = np.zeros(size.shape, bool)
    left = budget.copy()
    rows = np.arange(len(left))
    # Whether a word fits depends on the words taken before it. So columns come
    # one after the other, each for all rows at once.
    for column in range(size.shape[1]):
        column_size = size[rows, column]
        fits = (column_size <= left) & (column_size > 0)
        taken[rows, column] = fits
        left -= np.where(fits, column_size, 0)
        # Drop the rows whose budget is used up or whose words have ended.
        more = (left > 0) & (column_size > 0)
        if not more.all():
            rows, left = rows[more], left[more]
            if not rows.size:
                break
    return taken


# --- Replacements ------------------------------------------------------------


def _replace(
    input_ids: np.ndarray,
    chosen: np.ndarray,
    config: InstanceConfig,
    vocabulary: MaskingVocabulary,
    draws: Draws,
) -> dict[str, np.ndarray]:
    """Make labels of the chosen tokens and replace the tokens.

    With the default probabilities a draw u from [0, 1) means:

        u < 0.8         [MASK]
        0.8 <= u < 0.9  a random token (mask_token_prob + random_token_prob)
        0.9 <= u        the token stays

    Returns:
        `input_ids`, changed in place, and the masked_lm features, [N, P].
    """
    # The M chosen tokens of all sequences, in order, and which of the P
    # places of its record each one gets: 0, 1, 2, ... within each row.
    row, position = np.nonzero(chosen)  # [M], [M]
    count = np.count_nonzero(chosen, axis=1)  # [N]
    slot = count_within(count, np.ones_like(row))  # [M]
    labels = input_ids[row, position]  # [M]
    # Drawn for each token. So in whole word masking a word may be masked in
    # part, as in the original.
    drawn, random = draws.of_tokens(row, slot, len(vocabulary.replacements))
    random_ids = vocabulary.replacements[random]
    random_limit = config.mask_token_prob + config.random_token_prob
    shown = np.where(drawn < random_limit, random_ids, labels)
    shown[drawn < config.mask_token_prob] = vocabulary.mask_id
    input_ids[row, position] = shown
    return {"input_ids": input_ids} | place_features(
        [len(chosen), config.max_predictions_per_seq],
        (row, slot),
        masked_lm_positions=position,
        masked_lm_ids=labels,
        masked_lm_weights=1,
    )


# --- Places of features ------------------------------------------------------


def place_features(
    shape: list[int], at: tuple[np.ndarray, np.ndarray], **values: Any
) -> dict[str, np.ndarray]:
    """Return arrays of a shape: values at rows and places, 0 elsewhere."""
    features = {}
    for name, value in values.items():
        dtype = np.float32 if name.endswith("weights") else np.int32
        features[name] = np.zeros(shape, dtype)
        features[name][at] = value
    return features


def count_within(sizes: np.ndarray, amounts: np.ndarray) -> np.ndarray:
    """Return the sum of the amounts before each element in its row, [N].

    For sizes [2, 0, 1] and amounts [3, 4, 7] it is [0, 3, 0].
    """
    before = np.concatenate([[0], np.cumsum(amounts)])
    first = np.cumsum(sizes) - sizes  # the first element of each row
    return before[:-1] - np.repeat(before[first], sizes)
