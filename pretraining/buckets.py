"""Turn the documents of a bucket into a file of records.

A bucket (see dealing.py) is the unit of work of a worker process: its documents
are tokenized once, made into instances `dupe_factor` times, masked, shuffled
and written. Random next sentences come from other documents of the bucket.

The records of a bucket depend on the settings and the number of the bucket
alone, so the output does not depend on the number of workers. Worker processes
import this file: no flags here, and no TensorFlow.
"""

import collections
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system

import numpy as np

import tokenization
from pretraining import dealing, masking, packing
from pretraining import instances as pretraining_instances
from pretraining.instances import Documents, InstanceConfig, Instances
from records import tfrecord

# Instances masked at once: their arrays are a few MB, which the caches of the
# processor hold.
_ROWS = 2048


class BucketSettings(NamedTuple):
    """All settings of a worker process.

    Attributes:
        scratch_dir: folder of the dealt documents; records are written there.
        vocab_file: WordPiece vocabulary.
        do_lower_case: whether to lower-case the text.
        instances: lengths and probabilities.
        random_seed: seed of all buckets.
        compression: "GZIP", or "" for plain TFRecord files.
    """

    scratch_dir: str
    vocab_file: str
    do_lower_case: bool
    instances: InstanceConfig
    random_seed: int
    compression: str


# --- Tokenizing --------------------------------------------------------------


def tokenize_documents(
    parts: Sequence[tuple[int, str]], tokenizer: tokenization.FullTokenizer
) -> tuple[Documents, int]:
    """Tokenize parts of documents; drop lines and parts without tokens.

    Args:
        parts: (document number, lines of text).
        tokenizer: of the vocabulary.

    Returns:
        The documents, and the number of lines dropped.
    """
    lines = [text.split("\n") for _, text in parts]
    ids, offsets = tokenizer.lines_to_ids(itertools.chain.from_iterable(lines))
    has_tokens = np.diff(offsets) > 0  # one for each line
    # kept[i] of the first i lines have tokens; ends are the parts' offsets in
    # the lines, bounds those in the lines kept.
    ends = np.cumsum([0, *map(len, lines)])
    kept = np.concatenate([[0], np.cumsum(has_tokens)])
    bounds = kept[ends]
    numbers = np.array([number for number, _ in parts], np.int64)
    with_text = np.diff(bounds) > 0  # one for each part
    documents = Documents(
        ids,
        np.concatenate([offsets[:1], offsets[1:][has_tokens]]),
        np.concatenate([bounds[:1], bounds[1:][with_text]]),
        numbers[with_text],
        int(with_text.sum()),
    )
    return documents, int((~has_tokens).sum())


def _borrow(
    own: Documents,
    scratch_dir: str,
    bucket: int,
    tokenizer: tokenization.FullTokenizer,
) -> Documents:
    """Add documents of another bucket, for random next sentences only.

    Needed where all parts of a bucket are of one document: a random next
    sentence has to come from another, or its label would be wrong.

    Raises:
        UserError: no bucket has another document.
    """
    num_buckets = dealing.count_buckets(scratch_dir)
    for step in range(1, num_buckets):
        parts = [
            (number, text)
            for number, text in dealing.read_bucket(
                scratch_dir, (bucket + step) % num_buckets
            )
            if number != own.numbers[0]
        ]
        lent, _ = tokenize_documents(parts, tokenizer)
        if len(lent.numbers):
            return Documents(
                np.concatenate([own.ids, lent.ids]),
                np.concatenate(
                    [own.sentences, own.sentences[-1] + lent.sentences[1:]]
                ),
                np.concatenate([own.bounds, own.bounds[-1] + lent.bounds[1:]]),
                np.concatenate([own.numbers, lent.numbers]),
                own.num_own,
            )
    raise dealing.one_document_error()


# --- Writing a bucket: the work of a worker process --------------------------


class BucketMaker:
    """The tokenizer and vocabulary of a worker process, loaded once."""

    def __init__(self, settings: BucketSettings):
        self.settings = settings
        self.tokenizer = tokenization.FullTokenizer(
            settings.vocab_file, settings.do_lower_case
        )
        self.vocabulary = masking.MaskingVocabulary.from_vocab(
            self.tokenizer.vocab
        )


def bucket_path(scratch_dir: str, bucket: int) -> str:
    """Return the file of a bucket's records, until its output file is made."""
    return os.path.join(scratch_dir, f"bucket-{bucket:05}")


def bucket_result(scratch_dir: str, bucket: int) -> dict[str, Any] | None:
    """Return the result of a finished `make_bucket`, None without one.

    Returns:
        bounds: offsets in the file at which the passes begin, and the end.
        counts: numbers of sentences, tokens, instances, ...
    """
    path = bucket_path(scratch_dir, bucket)
    try:
        with open(f"{path}.json", "rb") as file:
            result = json.loads(file.read())
        if os.path.getsize(path) == result["bounds"][-1]:
            return result
    except (FileNotFoundError, ValueError):
        pass
    return None


def make_bucket(
    maker: BucketMaker, bucket: int, report: Callable[[float], None]
) -> None:
    """Write all records of a bucket, one pass over its documents by another.

    Writes the file `bucket_path` and, last, the JSON file beside it that
    `bucket_result` reads.

    Args:
        maker: tokenizer, vocabulary and settings.
        bucket: its number.
        report: called as the work goes on, with numbers that add up to the
            bytes of the bucket's text.
    """
    settings = maker.settings
    # A stream of random numbers for each bucket: its records do not depend on
    # the worker or on the buckets made before.
    rng = np.random.default_rng([settings.random_seed, 1, bucket])
    parts = list(dealing.read_bucket(settings.scratch_dir, bucket))
    num_bytes = dealing.count_bytes(settings.scratch_dir, [bucket])
    documents, num_empty = tokenize_documents(parts, maker.tokenizer)
    del parts  # as large as the documents
    counts = _count_text(documents, num_empty, maker)
    # A random next sentence has to come from another document.
    if documents.num_own and len(set(documents.numbers.tolist())) == 1:
        documents = _borrow(
            documents, settings.scratch_dir, bucket, maker.tokenizer
        )
    bounds = [0]
    path = bucket_path(settings.scratch_dir, bucket)
    with file_system.atomic_file(path, sync=False) as file:
        for drawn in _shuffled_passes(documents, settings.instances, rng):
            # A writer for each pass: where compressed, each is a gzip member
            # of its own, which can be copied into an output file.
            with tfrecord.RecordWriter(file, settings.compression) as writer:
                for features, more in _make_features(
                    documents, drawn, maker, rng
                ):
                    writer.write_examples(features)
                    counts.update(more)
                    done = more["instances"] / len(drawn.a_start)
                    report(num_bytes * done / settings.instances.dupe_factor)
            counts["truncated_tokens"] += int(drawn.num_truncated.sum())
            bounds.append(file.tell())
    result = {"bounds": bounds, "counts": counts}
    with file_system.atomic_file(f"{path}.json", sync=False) as file:
        file.write(json.dumps(result).encode())


def _shuffled_passes(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Iterator[Instances]:
    """Yield the instances of each pass over the documents, shuffled.

    The passes stay apart, so that all of the text is seen once before any of
    it is seen again.
    """
    if not documents.num_own:
        return
    drawn = pretraining_instances.draw_instances(documents, config, rng)
    # Sort by pass, and within a pass by random keys.
    keys = rng.random(len(drawn.duplicate))
    order = np.lexsort((keys, drawn.duplicate))
    sizes = np.bincount(drawn.duplicate, minlength=config.dupe_factor)
    for rows in np.split(order, np.cumsum(sizes)[:-1]):
        yield drawn.take(rows)


def _make_features(
    documents: Documents,
    drawn: Instances,
    maker: BucketMaker,
    rng: np.random.Generator,
) -> Iterator[tuple[dict[str, np.ndarray], dict[str, int]]]:
    """Yield masked features of a pass and their counts, `_ROWS` at a time."""
    config, vocabulary = maker.settings.instances, maker.vocabulary
    sizes = np.ones(len(drawn.a_start), np.int64)  # sequences in each row
    if config.pack_sequences:
        drawn, sizes = packing.pack(drawn, config, rng)
    for rows, sequences in packing.parts(sizes, _ROWS):
        some = drawn.take(sequences)
        features = masking.mask_sequences(
            masking.assemble(
                documents.ids, some, config.max_seq_length, vocabulary
            ),
            some.is_random_next,
            config,
            vocabulary,
            rng,
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
    max_tokens = maker.settings.instances.max_tokens
    counts = collections.Counter(
        sentences=len(lengths),
        tokens=len(documents.ids),
        unknown_tokens=np.count_nonzero(
            documents.ids == maker.vocabulary.unk_id
        ),
        lines_without_tokens=num_empty,
        sentences_too_long=np.count_nonzero(lengths > max_tokens),
        parts_with_text=documents.num_own,
        one_sentence_parts=np.count_nonzero(np.diff(documents.bounds) == 1),
    )
    return collections.Counter({name: int(n) for name, n in counts.items()})


def _count_features(
    features: dict[str, np.ndarray], maker: BucketMaker
) -> dict[str, int]:
    """Return counts of some masked instances."""
    ids, positions = features["input_ids"], features["masked_lm_positions"]
    shown = np.take_along_axis(ids, positions, axis=1)
    predicted = features["masked_lm_weights"] > 0
    kept = predicted & (shown == features["masked_lm_ids"])
    is_mask = predicted & (shown == maker.vocabulary.mask_id)
    return {
        "instances": len(ids),
        "filled": int(np.count_nonzero(features["input_mask"])),
        "predictions": int(np.count_nonzero(predicted)),
        "shown_as_mask": int(np.count_nonzero(is_mask)),
        "shown_unchanged": int(np.count_nonzero(kept)),
        "random_next": int(np.count_nonzero(features["next_sentence_labels"])),
    }
