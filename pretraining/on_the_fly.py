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
from pretraining.data.schema import InstanceConfig
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
        names = (
            "masked_lm_prob",
            "mask_token_prob",
            "random_token_prob",
            "do_whole_word_mask",
            "max_predictions_per_seq",
        )
        return {name: getattr(self.config, name) for name in names}

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
        packs = features.get("next_sentence_weights")
        if packs is None:
            ids, segments = features["input_ids"], features["segment_ids"]
            labels = features["next_sentence_labels"].reshape(-1)
            length = features["input_mask"].sum(axis=1)
            sizes, keys = np.ones(len(ids), np.int64), numbers
        else:
            ids, segments, length, sizes = _unpack(features)
            labels = features["next_sentence_labels"][packs > 0]
            row, place = np.nonzero(packs)
            keys = numbers[row] * packs.shape[1] + place
        config = self.config
        budget = masking.prediction_budget(length, config)
        if packs is not None:
            # Sequences that round up may need more places than the row has.
            before = packing.count_within(sizes, budget)
            left = self.predictions_per_row - before
            budget = np.clip(budget, 0, np.maximum(left, 0))
        # [CLS] A [SEP] are the tokens of segment 0.
        a_length = length - segments.sum(axis=1) - 2
        masked = masking.mask_sequences(
            Sequences(ids.copy(), a_length, length),
            labels,
            config,
            self.vocabulary,
            # No --random_seed is as large.
            masking.KeyedDraws(2**32 if seed is None else seed, keys),
            budget,
        )
        if packs is None:
            return masked
        return packing.pack_features(masked, sizes, config)


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
    found = masking.masking_vocabulary(
        vocabulary.tokens, vocabulary.path, config
    )
    if max_sequences:
        config = dataclasses.replace(
            config, pack_sequences=True, max_sequences_per_pack=max_sequences
        )
    return Masks(found, config)


def _unpack(
    features: Features,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the sequences of packed rows, those of a row one after the other.

    The values are input_ids and segment_ids [N, S], the number of tokens of
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
    return ids, segments, np.bincount(sequence, minlength=shape[0]), sizes
