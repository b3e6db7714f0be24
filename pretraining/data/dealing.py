"""Deal the documents of a corpus out to buckets, and read a bucket.

A corpus may be larger than the memory. So it is read once and dealt out to
buckets of bounded size. The bucket of each part of a document follows from the
hash of its text and the random seed (documents.part_key), which makes every
bucket a random sample of the corpus.

The scratch folder then holds four files:

    documents    parts of documents: for each stretch of text that fitted in
                 memory those of bucket 0, of bucket 1, ...
    extents.npy  int64 [stretches, buckets + 1], offsets in `documents`: bucket
                 b of stretch s begins at [s, b] and ends at [s, b + 1]
    lenders      a few parts of the corpus; see `Lenders`
    corpus.json  counts; written last, so it shows that dealing was finished

So `documents` is written from front to end, and a bucket is read in few
pieces. A part is 32 bytes (document, index and key, see `DealtPart`, and the
length of the text; uint64, little endian) and the text.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import bisect
import collections
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, NamedTuple

from base import file_system

import numpy as np

from pretraining.data import documents
from pretraining.data.documents import Part

# A document larger than this fraction of a bucket is dealt out in parts. The
# more parts a bucket has, the closer its size is to the mean: of 32 parts of
# equal size, it varies by 18% (one standard deviation).
_PARTS_PER_BUCKET = 32

# Text kept in memory before it is written to `documents`.
_DEALT_BYTES = 2**26

_PART_HEADER = struct.Struct("<QQQQ")  # document, index, key, bytes of text

_DOCUMENTS = "documents"

_EXTENTS = "extents.npy"

_LENDERS = "lenders"

_CORPUS = "corpus.json"

# --- Parts and their buckets -------------------------------------------------


class DealtPart(NamedTuple):
    """A part of a document in its bucket. The parts of a bucket are sorted.

    Attributes:
        document: `Part.document`: the parts of a document are neighbors.
        index: `Part.index`.
        key: `documents.part_key`; tells copies of the same text apart.
        text: lines, UTF-8.
    """

    document: int
    index: int
    key: int
    text: bytes


def part_size(bucket_bytes: int) -> int:
    """Return the size at which a document is cut into parts, in characters."""
    return max(bucket_bytes // _PARTS_PER_BUCKET, 1)


def deal_part(part: Part, random_seed: int, copy: int) -> DealtPart:
    """Return a part with its key.

    Args:
        part: of a document.
        random_seed: of the run.
        copy: how many parts of the same content come before this one.
    """
    key = documents.part_key(random_seed, part.content, copy)
    return DealtPart(part.document, part.index, key, part.text)


def bucket_of(key: int, num_buckets: int) -> int:
    """Return the bucket of a part, from 0 to `num_buckets` - 1."""
    return (key * num_buckets) >> 64


def to_bytes(part: DealtPart) -> bytes:
    """Return the bytes of a part in a file."""
    document, index, key, text = part
    return _PART_HEADER.pack(document, index, key, len(text)) + text


def from_bytes(data: bytes) -> DealtPart:
    """Return the part that `to_bytes` gave these bytes."""
    document, index, key, _ = _PART_HEADER.unpack_from(data)
    return DealtPart(document, index, key, data[_PART_HEADER.size :])


class Lenders:
    """The beginnings of a few documents of the corpus, the same in any order.

    They are the first parts with the smallest keys. A bucket in which all
    parts are of one document takes its random next sentences from them.
    """

    MOST = 16

    def __init__(self, parts: Iterable[DealtPart] = ()):
        self.parts: list[DealtPart] = []
        for part in parts:
            self.add(part)

    def add(self, part: DealtPart) -> None:
        """Keep the part if it is among the smallest of different documents."""
        if part.index or (
            len(self.parts) == self.MOST and part.key > self.parts[-1].key
        ):
            return
        for place, other in enumerate(self.parts):
            if other.document == part.document:
                if part.key < other.key:
                    del self.parts[place]
                    break
                return
        bisect.insort(self.parts, part, key=lambda kept: kept.key)
        del self.parts[self.MOST :]


# --- Dealing -----------------------------------------------------------------


def deal_documents(
    files: Sequence[str],
    num_buckets: int,
    bucket_bytes: int,
    random_seed: int,
    scratch_dir: str,
    report: Callable[[int], None],
) -> dict[str, int]:
    """Read all files once and write their documents, sorted by bucket.

    Args:
        files: UTF-8 text, one sentence per line, blank lines between
            documents.
        num_buckets: how many buckets to deal out to.
        bucket_bytes: size of a bucket, which bounds the size of a part of a
            document and of a line.
        random_seed: decides the bucket of each document.
        scratch_dir: an existing folder for the four files.
        report: called with the number of bytes of every block read.

    Returns:
        Counts: documents, parts, files_without_text.

    Raises:
        UserError: a file cannot be read, is not UTF-8 or has a line larger
            than a bucket.
    """
    counts = collections.Counter(documents=0, parts=0, files_without_text=0)
    copies, lenders = documents.CopyCounter(), Lenders()
    with _Dealer(num_buckets, scratch_dir) as dealer:
        for path in files:
            before = counts["documents"]
            for part in documents.read_parts(
                documents.Range(path),
                part_size(bucket_bytes),
                bucket_bytes,
                report,
            ):
                counts["documents"] += part.index == 0
                counts["parts"] += 1
                copy = copies.count(part.content)
                dealt = deal_part(part, random_seed, copy)
                dealer.deal(dealt)
                lenders.add(dealt)
            counts["files_without_text"] += counts["documents"] == before
    with _scratch_file(scratch_dir, _LENDERS) as file:
        file.writelines(map(to_bytes, lenders.parts))
    with _scratch_file(scratch_dir, _CORPUS) as file:
        file.write(json.dumps(counts).encode())
    return dict(counts)


def _scratch_file(scratch_dir: str, name: str):
    return file_system.atomic_file(os.path.join(scratch_dir, name), sync=False)


def dealt_counts(scratch_dir: str) -> dict[str, int] | None:
    """Return the counts of a finished `deal_documents`, None without one."""
    try:
        with open(os.path.join(scratch_dir, _CORPUS), "rb") as file:
            counts = json.loads(file.read())
        # The counts are written last, but no file is synced to the disk. So
        # after a power failure any of the others may be incomplete.
        end = _load_extents(scratch_dir)[-1, -1]
        size = os.path.getsize(os.path.join(scratch_dir, _DOCUMENTS))
        return counts if size == end else None
    except (FileNotFoundError, ValueError):
        return None


class _Dealer:
    """Collects parts of documents by bucket and writes them together."""

    def __init__(self, num_buckets: int, scratch_dir: str):
        self._num_buckets = num_buckets
        self._scratch_dir = scratch_dir
        self._buckets = collections.defaultdict(list)
        self._num_bytes = 0
        self._extents = []

    def __enter__(self) -> "_Dealer":
        self._file = open(os.path.join(self._scratch_dir, _DOCUMENTS), "wb")
        return self

    def __exit__(self, error_type, *unused) -> None:
        if error_type is None:
            self._write()
            extents = np.array(self._extents, np.int64)
            np.save(os.path.join(self._scratch_dir, _EXTENTS), extents)
        self._file.close()

    def deal(self, part: DealtPart) -> None:
        """Give a part to its bucket."""
        bucket = bucket_of(part.key, self._num_buckets)
        self._buckets[bucket].append(to_bytes(part))
        self._num_bytes += len(part.text)
        if self._num_bytes >= _DEALT_BYTES:
            self._write()

    def _write(self) -> None:
        """Write the parts collected, as one stretch."""
        bounds = [self._file.tell()]
        for bucket in range(self._num_buckets):
            for text in self._buckets.get(bucket, ()):
                self._file.write(text)
            bounds.append(self._file.tell())
        self._extents.append(bounds)
        self._buckets.clear()
        self._num_bytes = 0


# --- Reading a bucket --------------------------------------------------------


def read_bucket(scratch_dir: str, bucket: int) -> list[DealtPart]:
    """Return the parts of a bucket, sorted."""
    extents = _load_extents(scratch_dir)
    parts = []
    with open(os.path.join(scratch_dir, _DOCUMENTS), "rb") as file:
        for start, end in extents[:, bucket : bucket + 2].tolist():
            file.seek(start)
            parts += _read_parts(file, end)
    return sorted(parts)


def read_lenders(scratch_dir: str) -> list[DealtPart]:
    """Return the parts that lend random next sentences; see `Lenders`."""
    path = os.path.join(scratch_dir, _LENDERS)
    with open(path, "rb") as file:
        return list(_read_parts(file, os.path.getsize(path)))


def _read_parts(file: IO[bytes], end: int) -> Iterator[DealtPart]:
    """Yield the parts in a file from where it is up to an offset."""
    while file.tell() < end:
        header = file.read(_PART_HEADER.size)
        document, index, key, size = _PART_HEADER.unpack(header)
        yield DealtPart(document, index, key, file.read(size))


def count_bytes(scratch_dir: str, buckets: Sequence[int]) -> int:
    """Return the size of the documents of some buckets, in bytes."""
    extents = _load_extents(scratch_dir)
    return int(np.diff(extents, axis=1).sum(axis=0)[list(buckets)].sum())


def _load_extents(scratch_dir: str) -> np.ndarray:
    """Return extents.npy, mapped from the file."""
    return np.load(os.path.join(scratch_dir, _EXTENTS), mmap_mode="r")
