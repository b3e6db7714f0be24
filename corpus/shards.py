"""Make the output files: documents in the order of their keys.

The key of a document, a hash of its text, decides its shard and its place in
it. So equal documents meet, and the bytes of a file do not depend on the order
in which documents are read, or on who reads them.

A shard may be larger than the memory. So it is made in buckets, which are
ranges of keys, and the documents of a bucket are read at once.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system

import numpy as np

from corpus import repeated_lines, units
from corpus.units import Unit

# What the documents of a bucket add up to, about.
BUCKET_BYTES = 2**24


class ShardJob(NamedTuple):
    """An output file to make.

    Attributes:
        path: of the file.
        split: documents.TRAIN or HELDOUT.
        index: number of the shard.
        num_shards: of this split.
        buckets: number of buckets of a shard.
        repeated_file: file of `repeated_lines`, "" to keep all lines.
        min_document_chars: shorter documents are dropped.
        units: whose documents to read.
    """

    path: str
    split: str
    index: int
    num_shards: int
    buckets: int
    repeated_file: str
    min_document_chars: int
    units: Sequence[Unit]


def shard_of(key: int, num_shards: int) -> int:
    """Return the number of the shard of a document.

    Shards are ranges of keys of equal width.
    """
    return key * num_shards >> 64


def num_buckets(num_bytes: int, num_shards: int) -> int:
    """Return how many buckets a shard is made in.

    Args:
        num_bytes: of all documents of the split.
        num_shards: of the split.
    """
    return max(1, -(-num_bytes // (num_shards * BUCKET_BYTES)))


def key_range(index: int, number: int) -> tuple[int, int]:
    """Return (first key, end) of a range: those with `shard_of` = `index`."""
    return -(-(index << 64) // number), -(-((index + 1) << 64) // number)


def format_documents(
    texts: Iterable[tuple[int, bytes]],
    repeated: np.ndarray | None = None,
    min_document_chars: int = 0,
) -> tuple[bytes, collections.Counter]:
    r"""Return (the bytes of documents in an output file, counts).

    Each document is followed by a blank line, also the last one, so that files
    can be joined by `cat`.

    Args:
        texts: (key, text) in any order; of equal keys, the smallest text is
            used and the others are counted as duplicates.
        repeated: sorted hashes of the lines to drop.
        min_document_chars: a document that gets shorter than this without its
            repeated lines is dropped.

    Returns:
        Text, and counts: documents, sentences, words, characters, duplicates,
        repeated_lines, too_short_without_repeated_lines.
    """
    found, counts = {}, collections.Counter()
    for key, text in texts:
        counts["duplicates"] += units.add_text(found, key, text)
    kept = []
    for key in sorted(found):
        text = found[key]
        if repeated is not None:
            text, dropped = repeated_lines.without_lines(text, repeated)
            counts["repeated_lines"] += dropped
            if dropped and (_num_characters(text) < max(min_document_chars, 1)):
                counts["too_short_without_repeated_lines"] += 1
                continue
        kept.append(text)
        counts["documents"] += 1
        counts["sentences"] += text.count(b"\n")
        counts["words"] += len(text.split())
        counts["characters"] += _num_characters(text)
    return b"".join(text + b"\n" for text in kept), counts


def _num_characters(text: bytes) -> int:
    """Return the number of characters of UTF-8 text without its line ends."""
    return len(text.decode()) - text.count(b"\n")


# --- The work of a worker process --------------------------------------------


def read_bucket(
    scratch_dir: str,
    of_units: Sequence[Unit],
    split: str,
    low: int,
    high: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield (key, text) of all documents with keys from `low` to `high` - 1."""
    for unit in of_units:
        yield from units.read_texts(scratch_dir, unit, split, low, high)


class _Counted:
    """Documents, and the bytes of those that have been iterated over."""

    def __init__(self, texts: Iterable[tuple[int, bytes]]):
        self._texts = texts
        self.num_bytes = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        for key, text in self._texts:
            self.num_bytes += len(text)
            yield key, text


def make_shard(
    scratch_dir: str, job: ShardJob, report: Callable[[int], None]
) -> dict[str, Any]:
    """Write an output file.

    Args:
        scratch_dir: folder of the units.
        job: the file.
        report: called with the bytes of the documents read for each bucket,
            duplicates and lines to drop among them.

    Returns:
        bytes: size of the file.
        counts: see `format_documents`.
    """
    counts, size = collections.Counter(), 0
    repeated = repeated_lines.load(job.repeated_file)
    with file_system.atomic_file(job.path) as file:
        for bucket in range(job.buckets):
            low, high = key_range(
                job.index * job.buckets + bucket, job.num_shards * job.buckets
            )
            read = _Counted(
                read_bucket(scratch_dir, job.units, job.split, low, high)
            )
            text, more = format_documents(
                read, repeated, job.min_document_chars
            )
            file.write(text)
            counts.update(more)
            size += len(text)
            report(read.num_bytes)
    return {"bytes": size, "counts": dict(counts)}
