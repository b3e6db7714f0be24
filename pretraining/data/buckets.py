"""Turn the documents of a bucket into a file of records.

A bucket (see dealing.py) is the unit of work of a worker process: its documents
are tokenized once, made into instances `dupe_factor` times, masked, shuffled
and written. Random next sentences come from other documents of the bucket.

The records of a bucket depend on the settings, the number of the bucket and
the set of its documents alone. So the output does not depend on the number of
workers, on the order of the input, or on the runner (see on_beam.py). Worker
processes import this file: no flags here, and no TensorFlow.
"""

import collections
import itertools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from base import file_system

import numpy as np

import tokenization
from pretraining.data import dealing, masking, packing
from pretraining.data import documents as pretraining_documents
from pretraining.data import instances as pretraining_instances
from pretraining.data.dealing import DealtPart
from pretraining.data.instances import Documents, InstanceConfig, Instances
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
        files_per_bucket: number of output files that share the records of a
            bucket; above 1 only where the corpus is small.
    """

    scratch_dir: str
    vocab_file: str
    do_lower_case: bool
    instances: InstanceConfig
    random_seed: int
    compression: str
    files_per_bucket: int = 1


# --- Tokenizing --------------------------------------------------------------


def tokenize_documents(
    parts: Sequence[DealtPart], tokenizer: tokenization.FullTokenizer
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
        int(with_text.sum()),
    )
    return documents, int((~has_tokens).sum())


def _borrow(
    own: Documents,
    lenders: Sequence[DealtPart],
    tokenizer: tokenization.FullTokenizer,
) -> Documents:
    """Add documents of other buckets, for random next sentences only.

    Needed where all parts of a bucket are of one document: a random next
    sentence has to come from another, or its label would be wrong.

    Raises:
        UserError: there is no other document.
    """
    others = [part for part in lenders if part.document != own.numbers[0]]
    lent, _ = tokenize_documents(others, tokenizer)
    if not len(lent.numbers):
        raise pretraining_documents.one_document_error()
    return Documents(
        np.concatenate([own.ids, lent.ids]),
        np.concatenate([own.sentences, own.sentences[-1] + lent.sentences[1:]]),
        np.concatenate([own.bounds, own.bounds[-1] + lent.bounds[1:]]),
        np.concatenate([own.numbers, lent.numbers]),
        own.num_own,
    )


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

    It is what `write_bucket` returns.
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
    """Write all records of a dealt bucket.

    Writes the file `bucket_path` and, last, the JSON file beside it that
    `bucket_result` reads.

    Args:
        maker: tokenizer, vocabulary and settings.
        bucket: its number.
        report: called as the work goes on, with numbers that add up to the
            bytes of the bucket's text.
    """
    scratch_dir = maker.settings.scratch_dir
    num_bytes = dealing.count_bytes(scratch_dir, [bucket])
    path = bucket_path(scratch_dir, bucket)
    with file_system.atomic_file(path, sync=False) as file:
        result = write_bucket(
            maker,
            bucket,
            dealing.read_bucket(scratch_dir, bucket),
            lambda: dealing.read_lenders(scratch_dir),
            file,
            lambda share: report(num_bytes * share),
        )
    with file_system.atomic_file(f"{path}.json", sync=False) as file:
        file.write(json.dumps(result).encode())


def write_bucket(
    maker: BucketMaker,
    bucket: int,
    parts: Sequence[DealtPart],
    lenders: Callable[[], Sequence[DealtPart]],
    file: IO[bytes],
    report: Callable[[float], None],
) -> dict[str, Any]:
    """Write all records of a bucket, one pass over its documents by another.

    Args:
        maker: tokenizer, vocabulary and settings.
        bucket: its number.
        parts: its documents, sorted.
        lenders: returns `dealing.Lenders.parts`; called only if needed.
        file: open for writing.
        report: called as the work goes on, with shares that add up to 1.

    Returns:
        bounds: offsets in the file at which slices begin, and the end. A pass
            has `files_per_bucket` slices, one for each output file.
        counts: numbers of sentences, tokens, instances, ...
    """
    settings = maker.settings
    # A stream of random numbers for each bucket: its records do not depend on
    # the worker or on the buckets made before.
    rng = np.random.default_rng([settings.random_seed, 1, bucket])
    documents, num_empty = tokenize_documents(parts, maker.tokenizer)
    counts = _count_text(documents, num_empty, maker)
    # A random next sentence has to come from another document.
    if documents.num_own and (documents.numbers == documents.numbers[0]).all():
        documents = _borrow(documents, lenders(), maker.tokenizer)
    bounds, position = [0], file.tell()
    for drawn, sizes in _shuffled_passes(documents, settings.instances, rng):
        for some, some_sizes in packing.split(
            drawn, sizes, settings.files_per_bucket
        ):
            # A writer for each slice: where compressed, each is a gzip member
            # of its own, which can be copied into an output file.
            with tfrecord.RecordWriter(file, settings.compression) as writer:
                for features, more in _make_features(
                    documents, some, some_sizes, maker, rng
                ):
                    writer.write_examples(features)
                    counts.update(more)
                    done = more["instances"] / len(drawn.a_start)
                    report(done / settings.instances.dupe_factor)
            bounds.append(file.tell() - position)
        counts["truncated_tokens"] += int(drawn.num_truncated.sum())
    return {"bounds": bounds, "counts": dict(counts)}


def _shuffled_passes(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Iterator[tuple[Instances, np.ndarray]]:
    """Yield the instances of each pass over the documents, shuffled.

    The passes stay apart, so that all of the text is seen once before any of
    it is seen again.

    Yields:
        The instances, those of a row next to each other, and the number of
        instances of each row: 1 unless sequences are packed.
    """
    if not documents.num_own:
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
    config, vocabulary = maker.settings.instances, maker.vocabulary
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
