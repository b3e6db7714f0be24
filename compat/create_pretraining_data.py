"""The original's create_pretraining_data.py: instances in memory.

No TensorFlow here: worker processes import the script that has these names.
"""

import collections
import dataclasses
import functools
import importlib
import itertools
import random
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from base import file_system

import numpy as np
from absl import flags

import tokenization
from pretraining.data import documents, instances, masking
from pretraining.data.schema import InstanceConfig
from pretraining.data.schema import schema as records_schema
from pretraining.data.steps import tokenize_documents
from records import tfrecord


@dataclasses.dataclass
class TrainingInstance:
    """A masked sequence [CLS] A [SEP] B [SEP] as tokens."""

    tokens: list[str]
    segment_ids: list[int]
    masked_lm_positions: list[int]
    masked_lm_labels: list[str]
    is_random_next: bool


MaskedLmInstance = collections.namedtuple(
    "MaskedLmInstance", ["index", "label"]
)


def create_training_instances(
    input_files: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    dupe_factor: int,
    short_seq_prob: float,
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    rng: random.Random,
) -> list[TrainingInstance]:
    """Return the shuffled instances of all documents, as one bucket's.

    The documents are in memory; the script makes records of any corpus.
    """
    config = InstanceConfig(
        max_seq_length,
        max_predictions_per_seq,
        masked_lm_prob,
        short_seq_prob,
        dupe_factor=dupe_factor,
    )
    parts = sorted(
        part
        for path in input_files
        for part in documents.read_parts(
            documents.Range(path), sys.maxsize, sys.maxsize
        )
    )
    texts, _ = tokenize_documents(parts, tokenizer)
    found = _draw(texts, len(texts.ids), config, tokenizer.vocab, rng)
    rng.shuffle(found)  # the passes too, as the original
    return found


def create_instances_from_document(
    all_documents: Sequence[Sequence[Sequence[str]]],
    document_index: int,
    max_seq_length: int,
    short_seq_prob: float,
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    vocab_words: Sequence[str],
    rng: random.Random,
) -> list[TrainingInstance]:
    """Return the instances of one pass over a document.

    A document is a list of sentences, a sentence a list of tokens. Random next
    sentences come from 50 other documents, or from all if there are fewer, so
    that the time of a call does not grow with the corpus.
    """
    others = [n for n in range(len(all_documents)) if n != document_index]
    numbers = [document_index, *rng.sample(others, min(len(others), 50))]
    texts = [list(filter(None, all_documents[n])) for n in numbers]
    if not texts[0]:
        return []
    texts = list(filter(None, texts))
    tokens = itertools.chain.from_iterable(itertools.chain(*texts))
    lengths = [len(sentence) for text in texts for sentence in text]
    vocab, _ = _vocabulary(tuple(vocab_words))
    return _draw(
        instances.Documents(
            np.array(tokenization.convert_by_vocab(vocab, tokens), np.int32),
            np.cumsum([0, *lengths]),
            np.cumsum([0, *map(len, texts)]),
            np.arange(len(texts)),
        ),
        sum(map(len, texts[0])),
        InstanceConfig(
            max_seq_length,
            max_predictions_per_seq,
            masked_lm_prob,
            short_seq_prob,
            dupe_factor=1,
        ),
        vocab_words,
        rng,
    )


def _draw(
    texts: instances.Documents,
    stop: int,
    config: InstanceConfig,
    words: Iterable[str],
    rng: random.Random,
) -> list[TrainingInstance]:
    """Return masked instances whose first token is before the place `stop`."""
    drawn = instances.draw_instances(texts, config, _generator(rng))
    drawn = drawn.take(drawn.a_start < stop)
    if not len(drawn.a_start):
        return []
    _, vocabulary = _vocabulary(tuple(words))
    sequences = masking.assemble(
        texts.ids, drawn, config.max_seq_length, vocabulary
    )
    return _masked(sequences, config, words, rng)


def _masked(
    sequences: masking.Sequences,
    config: InstanceConfig,
    words: Iterable[str],
    rng: random.Random,
) -> list[TrainingInstance]:
    """Return N sequences, masked as --do_whole_word_mask says."""
    name = "do_whole_word_mask"  # of the script; the original reads it here too
    whole_words = name in flags.FLAGS and flags.FLAGS[name].value
    config = dataclasses.replace(config, do_whole_word_mask=whole_words)
    vocab, vocabulary = _vocabulary(tuple(words))
    draws = masking.StreamDraws(_generator(rng))
    features = masking.mask_sequences(sequences, config, vocabulary, draws)
    names = np.array(list(vocab), object)
    lengths = np.count_nonzero(features["input_mask"], axis=1)
    counts = np.count_nonzero(features["masked_lm_weights"], axis=1)
    return [
        TrainingInstance(
            names[features["input_ids"][row, :length]].tolist(),
            features["segment_ids"][row, :length].tolist(),
            features["masked_lm_positions"][row, :count].tolist(),
            names[features["masked_lm_ids"][row, :count]].tolist(),
            bool(sequences.is_random_next[row]),
        )
        for row, (length, count) in enumerate(zip(lengths, counts, strict=True))
    ]


def _generator(rng: random.Random) -> np.random.Generator:
    """Return a generator of numpy that continues another one."""
    return np.random.default_rng(rng.getrandbits(64))


def truncate_seq_pair(
    tokens_a: list[str],
    tokens_b: list[str],
    max_num_tokens: int,
    rng: random.Random,
) -> None:
    """Cut two lists in place, from the longer one, to a number together.

    Each token comes off the front or the back with equal probability.
    """
    kept = tokenization.truncated_lengths(
        len(tokens_a), len(tokens_b), max_num_tokens
    )
    for tokens, size in zip((tokens_a, tokens_b), kept, strict=True):
        cut = len(tokens) - size
        front = rng.getrandbits(cut).bit_count() if cut else 0
        tokens[:] = tokens[front : front + size]


def create_int_feature(values: Sequence[int]) -> Any:
    """Return a tf.train.Feature of integers."""
    tf = importlib.import_module("tensorflow")
    return tf.train.Feature(int64_list=tf.train.Int64List(value=list(values)))


def create_float_feature(values: Sequence[float]) -> Any:
    """Return a tf.train.Feature of numbers."""
    tf = importlib.import_module("tensorflow")
    return tf.train.Feature(float_list=tf.train.FloatList(value=list(values)))


def create_masked_lm_predictions(
    tokens: Sequence[str],
    masked_lm_prob: float,
    max_predictions_per_seq: int,
    vocab_words: Sequence[str],
    rng: random.Random,
) -> tuple[list[str], list[int], list[str]]:
    """Mask a sequence [CLS] A [SEP] or [CLS] A [SEP] B [SEP].

    Returns:
        the masked tokens, the places of those to predict, and their labels.
    """
    vocab, _ = _vocabulary(tuple(vocab_words))
    sequences = masking.Sequences(
        np.array([tokenization.convert_by_vocab(vocab, tokens)], np.int32),
        np.array([tokens.index("[SEP]") - 1]),
        np.array([len(tokens)]),
        np.array([False]),
    )
    config = InstanceConfig(
        len(tokens), max_predictions_per_seq, masked_lm_prob
    )
    (found,) = _masked(sequences, config, vocab_words, rng)
    return found.tokens, found.masked_lm_positions, found.masked_lm_labels


@functools.lru_cache(maxsize=1)  # programs call often with the same words
def _vocabulary(
    words: tuple[str, ...],
) -> tuple[dict[str, int], masking.MaskingVocabulary]:
    """Return words with special tokens as {word: place}, and for masking."""
    names = dict.fromkeys([*words, *tokenization.SPECIAL_TOKENS])
    vocab = {name: place for place, name in enumerate(names)}
    return vocab, masking.MaskingVocabulary.from_vocab(vocab)


def write_instance_to_example_files(
    instances: Sequence[TrainingInstance],
    tokenizer: tokenization.FullTokenizer,
    max_seq_length: int,
    max_predictions_per_seq: int,
    output_files: Sequence[str],
) -> None:
    """Write instances as records, to each file in turn."""
    schema = records_schema(max_seq_length, max_predictions_per_seq)
    to_ids = tokenizer.convert_tokens_to_ids
    for number, path in enumerate(output_files):
        own = instances[number :: len(output_files)]
        values = {
            "input_ids": [to_ids(x.tokens) for x in own],
            "input_mask": [[1] * len(x.tokens) for x in own],
            "segment_ids": [x.segment_ids for x in own],
            "masked_lm_positions": [x.masked_lm_positions for x in own],
            "masked_lm_ids": [to_ids(x.masked_lm_labels) for x in own],
            "masked_lm_weights": [[1.0] * len(x.masked_lm_labels) for x in own],
            "next_sentence_labels": [[x.is_random_next] for x in own],
        }
        columns = {}
        for name, rows in values.items():
            feature = schema[name]
            matrix = np.zeros([len(rows), feature.length], feature.dtype)
            for place, row in enumerate(rows):
                matrix[place, : len(row)] = row
            columns[name] = matrix
        with file_system.atomic_file(path) as file:
            with tfrecord.RecordWriter(file) as writer:
                writer.write_examples(columns)
