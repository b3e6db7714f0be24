"""The same sequences twice: one in each record, and packed into rows."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from pretraining.data import masking, packing
from pretraining.data.instances import Instances
from pretraining.data.schema import InstanceConfig
from records import tfrecord

LENGTH, PREDICTIONS, PACKS, VOCAB = 32, 6, 4, 50

Features = dict[str, np.ndarray]


def config_of(**changes) -> InstanceConfig:
    """Return the settings of the records here."""
    values = dict(
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        pack_sequences=True,
        max_sequences_per_pack=PACKS,
    )
    return InstanceConfig(**(values | changes))


def vocabulary_of(continues: tuple[int, ...] = ()) -> masking.MaskingVocabulary:
    """Return [PAD] [UNK] [CLS] [SEP] [MASK] and VOCAB - 5 pieces."""
    inner = np.zeros(VOCAB, bool)
    inner[list(continues)] = True
    return masking.MaskingVocabulary(
        2, 3, 4, 1, inner, np.arange(5, VOCAB, dtype=np.int32)
    )


def instances_of(lengths: np.ndarray, rng: np.random.Generator) -> Instances:
    """Return instances of these lengths, [CLS] and two [SEP] counted.

    They point into `ids_of`.
    """
    a_length = rng.integers(1, lengths - 3)
    zeros = np.zeros_like(lengths)
    return Instances(
        zeros,
        rng.integers(0, 500, len(lengths)),
        a_length,
        rng.integers(0, 500, len(lengths)),
        lengths - 3 - a_length,
        rng.random(len(lengths)) < 0.5,
        zeros,
    )


def ids_of(rng: np.random.Generator) -> np.ndarray:
    """Return the tokens that instances point into."""
    return rng.integers(5, VOCAB, 600).astype(np.int32)


def both(count: int, seed: int = 0) -> tuple[Features, Features]:
    """Return the features of `count` sequences, and those of their rows."""
    rng, config, vocabulary = (
        np.random.default_rng(seed),
        config_of(),
        vocabulary_of(),
    )
    lengths = rng.integers(5, LENGTH + 1, count)
    drawn, sizes = packing.pack(instances_of(lengths, rng), config, rng)
    single = masking.mask_sequences(
        masking.assemble(ids_of(rng), drawn, LENGTH, vocabulary),
        config,
        vocabulary,
        masking.StreamDraws(rng),
    )
    return single, packing.pack_features(single, sizes, config)


def batch_of(features: Features) -> dict[str, tf.Tensor]:
    """Return features as a batch, in the types that records are read in."""
    return {
        name: tf.constant(
            value, tf.float32 if name.endswith("weights") else tf.int32
        )
        for name, value in features.items()
    }


def write(path: Path, features: Features, compression: str = "") -> None:
    """Write features as a record file."""
    with open(path, "wb") as file:
        with tfrecord.RecordWriter(file, compression) as writer:
            writer.write_examples(features)
