"""Turn the documents of a bucket into a file of records.

A bucket is the unit of work of a worker process: its documents are tokenized
once, made into instances `dupe_factor` times, masked, shuffled and written.
Random next sentences come from other documents of the bucket.

The records of a bucket depend on the settings, the number of the bucket and
the set of its documents alone. So the output does not depend on the number of
workers, on the order of the input, or on the runner. Worker processes import
this file: no flags here, and no TensorFlow.
"""

import collections
import itertools
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np

import tokenization
from pretraining.data import documents as pretraining_documents
from pretraining.data import instances as pretraining_instances
from pretraining.data import masking, packing
from pretraining.data.documents import Part
from pretraining.data.instances import Documents, Instances
from pretraining.data.schema import InstanceConfig
from records import tfrecord

# Instances masked at once: their arrays are a few MB, which the caches of the
# processor hold.
_ROWS = 2048


# --- Tokenizing --------------------------------------------------------------


def tokenize_documents(
    parts: Sequence[Part], tokenizer: tokenization.FullTokenizer
) -> tuple[Documents, int]:
    """Tokenize parts of documents; drop lines and parts without tokens.

    Returns:
        The documents, and the number of lines dropped.
    """
    lines = [part.text.decode().split("\n") for part in parts]
    ids, offsets = tokenizer.lines_to_ids(itertools.chain.from_iterable(lines))
    has_tokens = np.diff(offsets) > 0  # one for each line
    # kept[i] of the first i lines have tokens; ends are the parts' offsets in
    # the lines, bounds those in the lines kept.
    ends = np.cumsum([0, *map(len, lines)])
    kept = np.concatenate([[0], np.cumsum(has_tokens)])
    bounds = kept[ends]
    numbers = np.array([part.document for part in parts], np.uint64)
    with_text = np.diff(bounds) > 0  # one for each part
    documents = Documents(
        ids,
        np.concatenate([offsets[:1], offsets[1:][has_tokens]]),
        np.concatenate([bounds[:1], bounds[1:][with_text]]),
        numbers[with_text],
    )
    return documents, int((~has_tokens).sum())


# --- Writing a bucket --------------------------------------------------------


class BucketMaker:
    """Makes records of the documents of a bucket.

    In a small corpus `num_slices` output files share the records of a bucket.
    `is_only_one` says that there is no other bucket.
    """

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        config: InstanceConfig,
        random_seed: int,
        compression: str = "",
        num_slices: int = 1,
        is_only_one: bool = False,
    ):
        self.tokenizer, self.config = tokenizer, config
        self.vocabulary = masking.MaskingVocabulary.from_vocab(tokenizer.vocab)
        self.random_seed, self.compression = random_seed, compression
        self.num_slices, self.is_only_one = num_slices, is_only_one

    def write(
        self, bucket: int, parts: Sequence[Part], file: IO[bytes]
    ) -> dict[str, Any]:
        """Write all records of sorted documents, one pass after another.

        Returns:
            bounds: offsets in the file at which slices begin, and the end. A
                pass has `num_slices` of them, one for each output file.
            counts: numbers of sentences, tokens, instances, ...

        Raises:
            InputError: there is no other bucket, and a single document.
        """
        # A stream of random numbers for each bucket: its records do not depend
        # on the worker or on the buckets made before.
        rng = np.random.default_rng([self.random_seed, 1, bucket])
        documents, num_empty = tokenize_documents(parts, self.tokenizer)
        if self.is_only_one and len(set(documents.numbers.tolist())) == 1:
            raise pretraining_documents.one_document_error()
        counts = _count_text(documents, num_empty, self)
        bounds = [0]
        for drawn, sizes in _shuffled_passes(documents, self.config, rng):
            for some, some_sizes in packing.split(
                drawn, sizes, self.num_slices
            ):
                # A writer for each slice: where compressed, each is a gzip
                # member of its own, which can be copied into an output file.
                with tfrecord.RecordWriter(file, self.compression) as writer:
                    for features, more in _make_features(
                        documents, some, some_sizes, self, rng
                    ):
                        writer.write_examples(features)
                        counts.update(more)
                bounds.append(file.tell())
            counts["truncated_tokens"] += int(drawn.num_truncated.sum())
        return {"bounds": bounds, "counts": dict(counts)}


def _shuffled_passes(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Iterator[tuple[Instances, np.ndarray]]:
    """Yield the instances of each pass over the documents, shuffled.

    The passes stay apart, so that all of the text is seen once before any of
    it is seen again. The instances of a row are next to each other; their
    number in each row, 1 unless sequences are packed, is yielded too.
    """
    if not len(documents.numbers):
        return
    drawn = pretraining_instances.draw_instances(documents, config, rng)
    # Sort by pass, and within a pass by random keys.
    keys = rng.random(len(drawn.duplicate))
    order = np.lexsort((keys, drawn.duplicate))
    sizes = np.bincount(drawn.duplicate, minlength=config.dupe_factor)
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        if config.pack_sequences:
            yield packing.pack(drawn.take(rows), config, rng)
        else:
            yield drawn.take(rows), np.ones(len(rows), np.int64)


def _make_features(
    documents: Documents,
    drawn: Instances,
    sizes: np.ndarray,
    maker: BucketMaker,
    rng: np.random.Generator,
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
    """Yield features and counts of rows, about `_ROWS` sequences at a time.

    The arguments `drawn` and `sizes` are what `_shuffled_passes` yields.
    """
    config, vocabulary = maker.config, maker.vocabulary
    for rows, sequences in packing.parts(sizes, _ROWS):
        some = drawn.take(sequences)
        sequences = masking.assemble(
            documents.ids, some, config.max_seq_length, vocabulary
        )
        if config.unmasked:
            features = masking.unmasked_features(sequences, some.is_random_next)
        else:
            features = masking.mask_sequences(
                sequences,
                some.is_random_next,
                config,
                vocabulary,
                masking.StreamDraws(rng),
            )
        counts = _count_features(features, maker)
        if config.pack_sequences:
            features = packing.pack_features(features, sizes[rows], config)
            counts |= packing.count_rows(features)
        yield features, counts


def _count_text(
    documents: Documents, num_empty: int, maker: BucketMaker
) -> collections.Counter:
    """Return counts of a bucket's text, before instances are drawn."""
    lengths = np.diff(documents.sentences)
    max_tokens = maker.config.max_tokens
    counts = collections.Counter(
        sentences=len(lengths),
        tokens=len(documents.ids),
        unknown_tokens=np.count_nonzero(
            documents.ids == maker.vocabulary.unk_id
        ),
        continued_tokens=np.count_nonzero(
            maker.vocabulary.continues[documents.ids]
        ),
        lines_without_tokens=num_empty,
        sentences_too_long=np.count_nonzero(lengths > max_tokens),
        parts_with_text=len(documents.numbers),
        one_sentence_parts=np.count_nonzero(np.diff(documents.bounds) == 1),
    )
    return collections.Counter({name: int(n) for name, n in counts.items()})


def _count_features(
    features: dict[str, np.ndarray], maker: BucketMaker
) -> dict[str, int]:
    """Return counts of some instances, masked or not."""
    ids = features["input_ids"]
    counts = {
        "instances": len(ids),
        "filled": int(np.count_nonzero(features["input_mask"])),
        "random_next": int(np.count_nonzero(features["next_sentence_labels"])),
    }
    if maker.config.unmasked:
        return counts
    positions = features["masked_lm_positions"]
    shown = np.take_along_axis(ids, positions, axis=1)
    predicted = features["masked_lm_weights"] > 0
    kept = predicted & (shown == features["masked_lm_ids"])
    is_mask = predicted & (shown == maker.vocabulary.mask_id)
    return counts | {
        "predictions": int(np.count_nonzero(predicted)),
        "shown_as_mask": int(np.count_nonzero(is_mask)),
        "shown_unchanged": int(np.count_nonzero(kept)),
    }
