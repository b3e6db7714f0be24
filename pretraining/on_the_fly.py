"""Draw the masks of unmasked records while they are read.

create_pretraining_data.py --unmasked writes the tokens of the text once. Each
time a record is read, other tokens of it are masked, by the algorithm of
pretraining/data/masking.py. The masks are a function of the seed and of the
example's number in the endless stream of records, and so of epoch and record: a
resumed run and any number of devices see the same ones. In evaluation they are
the same in every run.

No TensorFlow: records.py calls this in its input pipeline.

Dimensions: R rows, which are records, of N sequences; S max_seq_length.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from pretraining.data import masking, packing
from pretraining.data.masking import MaskingVocabulary, Sequences
from pretraining.data.schema import MASKING_FLAGS, InstanceConfig
from tokenization import Vocabulary

Features = dict[str, np.ndarray]


class Masks(NamedTuple):
    """How masks are drawn; see `create`.

    Attributes:
        vocabulary: what masking needs of the records' vocabulary.
        config: lengths and probabilities, as in create_pretraining_data.py.
    """

    vocabulary: MaskingVocabulary
    config: InstanceConfig

    def describe(self) -> dict[str, Any]:
        """Return what the masks depend on, but for the seed."""
        return {name: getattr(self.config, name) for name in MASKING_FLAGS}

    @property
    def predictions_per_row(self) -> int:
        """The places of predictions in a packed row."""
        return packing.predictions_per_row(self.config)

    def draw(
        self, features: Features, numbers: np.ndarray, seed: int | None
    ) -> Features:
        """Return the features of masked records, packed as they are.

        Args:
            features: those of unmasked records, [R, ...].
            numbers: [R], the examples' numbers in the stream.
            seed: the stream's; None in evaluation, which has the same masks in
                every run.
        """
        weights = features.get("next_sentence_weights")  # [R, K] of packed rows
        if weights is None:
            sequences, length = features, features["input_mask"].sum(axis=1)
            labels, keys = features["next_sentence_labels"].reshape(-1), numbers
            budget = masking.prediction_budget(length, self.config)
        else:
            sequences, length, sizes = _unpack(features)
            labels = features["next_sentence_labels"][weights > 0]
            row, place = np.nonzero(weights)  # 0: unused place
            keys = numbers[row] * weights.shape[1] + place
            budget = masking.prediction_budget(length, self.config)
            # Sequences that round up may need more places than the row has.
            within = masking.count_within(sizes, budget)
            left = np.maximum(self.predictions_per_row - within, 0)
            budget = np.clip(budget, 0, left)
        # [CLS] A [SEP] are the tokens of segment 0.
        a_length = length - sequences["segment_ids"].sum(axis=1) - 2
        masked = masking.mask_sequences(
            Sequences(sequences["input_ids"].copy(), a_length, length, labels),
            self.config,
            self.vocabulary,
            # No --random_seed is as large.
            masking.KeyedDraws(2**32 if seed is None else seed, keys),
            budget,
        )
        if weights is None:
            return masked
        return packing.pack_features(masked, sizes, self.config)


def create(
    vocabulary: Vocabulary, config: InstanceConfig, max_sequences: int
) -> Masks:
    """Return the masks of records made with a vocabulary.

    Packed rows have up to `max_sequences` sequences; 0: they are not packed.

    Raises:
        UserError: probabilities that do not fit together, or a vocabulary
            without special tokens or without others.
    """
    config.check()
    masking.check_vocabulary(vocabulary.tokens, vocabulary.path, config)
    if max_sequences:
        config = dataclasses.replace(
            config, pack_sequences=True, max_sequences_per_pack=max_sequences
        )
    known = masking.MaskingVocabulary.from_vocab(vocabulary.tokens)
    return Masks(known, config)


def _unpack(features: Features) -> tuple[Features, np.ndarray, np.ndarray]:
    """Return the sequences of packed rows, those of a row one after the other.

    The values are {input_ids, segment_ids: [N, S]}, the number of tokens of
    each sequence [N], and the number of sequences of each row [R].
    """
    sizes = features["next_sentence_weights"].astype(np.int64).sum(axis=1)
    first = np.cumsum(sizes) - sizes  # [R], of the row's sequences
    row, place = np.nonzero(features["sequence_ids"])  # [T] tokens
    sequence = first[row] + features["sequence_ids"][row, place] - 1
    at = sequence, features["position_ids"][row, place]
    shape = [int(sizes.sum()), features["input_ids"].shape[1]]
    ids, segments = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    ids[at] = features["input_ids"][row, place]
    segments[at] = features["segment_ids"][row, place]
    length = np.bincount(sequence, minlength=shape[0])
    return {"input_ids": ids, "segment_ids": segments}, length, sizes
