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
from pretraining.data.instances import InstanceConfig
from pretraining.data.masking import MaskingVocabulary, Sequences

Features = dict[str, np.ndarray]


class Schedule(NamedTuple):
    """A masked_lm_prob that changes from step to step of the training.

    It changes linearly from `first`, at step 0, to `last` at the end.
    """

    first: float
    last: float

    def at(self, done: np.ndarray) -> np.ndarray:
        """Return the masked_lm_prob [R] after the share `done` of the steps."""
        return self.first + (self.last - self.first) * np.minimum(done, 1.0)


class Masks(NamedTuple):
    """How masks are drawn.

    Attributes:
        vocabulary: what masking needs of the records' vocabulary.
        config: lengths and probabilities, as in create_pretraining_data.py.
        schedule: the masked_lm_prob in training; None: as in `config`.
    """

    vocabulary: MaskingVocabulary
    config: InstanceConfig
    schedule: Schedule | None = None

    def describe(self) -> dict[str, Any]:
        """Return what the masks depend on, but for the seed."""
        names = (
            "mask_token_prob",
            "random_token_prob",
            "do_whole_word_mask",
            "max_predictions_per_seq",
        )
        found = {name: getattr(self.config, name) for name in names}
        if self.schedule:
            probs = (self.schedule.first, self.schedule.last)
            return found | {"masked_lm_prob_schedule": probs}
        return found | {"masked_lm_prob": self.config.masked_lm_prob}

    def of_length(self, length: int, predictions: int) -> "Masks":
        """Return the masks of records with this length and predictions."""
        config = dataclasses.replace(
            self.config,
            max_seq_length=length,
            max_predictions_per_seq=predictions,
        )
        return self._replace(config=config)

    def for_rows(self, max_sequences: int) -> "Masks":
        """Return the masks of packed rows with up to so many sequences."""
        config = dataclasses.replace(
            self.config,
            pack_sequences=True,
            max_sequences_per_pack=max_sequences,
        )
        return self._replace(config=config)

    def largest(self) -> InstanceConfig:
        """Return the configuration with the run's largest masked_lm_prob."""
        if not self.schedule:
            return self.config
        # Evaluation has no schedule.
        most = max(*self.schedule, self.config.masked_lm_prob)
        return dataclasses.replace(self.config, masked_lm_prob=most)

    def draw(
        self,
        features: Features,
        numbers: np.ndarray,
        seed: int | None,
        done: np.ndarray | None = None,
    ) -> Features:
        """Return the features of masked records, packed as they are.

        Args:
            features: those of unmasked records, [R, ...].
            numbers: [R], the examples' numbers in the stream.
            seed: the stream's; None in evaluation, which has the same masks in
                every run.
            done: share of the training's steps that are done before each
                example, [R]; None in evaluation, which has no schedule.
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
        probs = np.full(len(ids), self.config.masked_lm_prob)
        if self.schedule and done is not None:
            probs = np.repeat(self.schedule.at(done), sizes)
        config = self.largest()
        budget = masking.prediction_budget(length, config, probs)
        if packs is not None:
            # Sequences that round up may need more places than the row has.
            before = packing.count_within(sizes, budget)
            left = packing.predictions_per_row(config) - before
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
