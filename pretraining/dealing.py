"""Deal the documents of a corpus out to buckets, and read a bucket.

A corpus may be larger than the memory. So it is read once and dealt out to
buckets of bounded size. The bucket of each document is drawn from the random
seed, which makes every bucket a random sample of the corpus.

The scratch folder then holds three files:

    documents    parts of documents: for each stretch of text that fitted in
                 memory those of bucket 0, of bucket 1, ...
    extents.npy  int64 [stretches, buckets + 1], offsets in `documents`: bucket
                 b of stretch s begins at [s, b] and ends at [s, b + 1]
    corpus.json  counts; written last, so it shows that dealing was finished

So `documents` is written from front to end, and a bucket is read in few
pieces. A part is 16 bytes (document number, length of the text; uint64, little
endian) and the text.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import collections
import json
import os
import struct
from collections.abc import Callable, Iterator, Sequence

from base import file_system
from base.errors import UserError

import numpy as np

# A document larger than this fraction of a bucket is dealt out in parts.
_PARTS_PER_BUCKET = 8

_BLOCK_BYTES = 2**22

# Text kept in memory before it is written to `documents`.
_DEALT_BYTES = 2**26

_PART_HEADER = struct.Struct("<QQ")  # document number, bytes of text

_DOCUMENTS = "documents"

_EXTENTS = "extents.npy"

_CORPUS = "corpus.json"

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
        scratch_dir: an existing folder for the three files.
        report: called with the number of bytes of every block read.

    Returns:
        Counts: documents, parts, files_without_text.

    Raises:
        UserError: a file cannot be read, is not UTF-8 or has a line larger
            than a bucket.
    """
    part_bytes = max(bucket_bytes // _PARTS_PER_BUCKET, 1)
    counts = collections.Counter(documents=0, parts=0, files_without_text=0)
    with _Dealer(num_buckets, random_seed, scratch_dir) as dealer:
        for path in files:
            before = counts["documents"]
            for is_first, text in read_parts(
                path, part_bytes, bucket_bytes, report
            ):
                counts["documents"] += is_first
                counts["parts"] += 1
                dealer.deal(counts["documents"] - 1, text)
            counts["files_without_text"] += counts["documents"] == before
    path = os.path.join(scratch_dir, _CORPUS)
    with file_system.atomic_file(path, sync=False) as file:
        file.write(json.dumps(counts).encode())
    return dict(counts)


def dealt_counts(scratch_dir: str) -> dict[str, int] | None:
    """Return the counts of a finished `deal_documents`, None without one."""
    try:
        with open(os.path.join(scratch_dir, _CORPUS), "rb") as file:
            counts = json.loads(file.read())
        # The counts are written last, but no file is synced to the disk. So
        # after a power failure any of the three may be incomplete.
        end = _load_extents(scratch_dir)[-1, -1]
        size = os.path.getsize(os.path.join(scratch_dir, _DOCUMENTS))
        return counts if size == end else None
    except (FileNotFoundError, ValueError):
        return None


class _Dealer:
    """Collects parts of documents by bucket and writes them together."""

    def __init__(self, num_buckets: int, random_seed: int, scratch_dir: str):
        self._num_buckets = num_buckets
        self._rng = np.random.default_rng([random_seed, 0])
        self._round: list[int] = []
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

    def deal(self, number: int, text: bytes) -> None:
        """Give a part of document `number` to the next bucket.

        In each round every bucket gets one part, in a random order. With
        independent draws, some buckets of a small corpus would stay empty.
        """
        if not self._round:
            self._round = self._rng.permutation(self._num_buckets).tolist()
        bucket = self._buckets[self._round.pop()]
        bucket.append(_PART_HEADER.pack(number, len(text)))
        bucket.append(text)
        self._num_bytes += len(text)
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


# --- Reading text ------------------------------------------------------------


def read_parts(
    path: str,
    part_bytes: int,
    max_line_bytes: int,
    report: Callable[[int], None],
) -> Iterator[tuple[bool, bytes]]:
    """Yield the documents of a text file in parts of whole lines.

    A line of whitespace ends a document, and so does the end of the file. (In
    the original the last document of a file and the first of the next are one
    unless a blank line separates them.)

    Args:
        path: UTF-8 text.
        part_bytes: a part ends with the line that reaches this size.
        max_line_bytes: a longer line is an error.
        report: called with the number of bytes of every block read.

    Yields:
        (whether the part is the first of its document, text).
    """
    lines, size, is_first = [], 0, True
    for block in read_blocks(path, max_line_bytes, report):
        for line in block.split("\n"):
            is_blank = not line or line.isspace()
            if not is_blank:
                lines.append(line)
                size += len(line)
            if lines and (is_blank or size >= part_bytes):
                yield is_first, "\n".join(lines).encode()
                lines, size, is_first = [], 0, False
            if is_blank:
                is_first = True
    if lines:
        yield is_first, "\n".join(lines).encode()


def read_blocks(
    path: str, max_line_bytes: int, report: Callable[[int], None]
) -> Iterator[str]:
    r"""Yield the text of a file in blocks of whole lines, without the last \n.

    Only \n ends a line, as in the original: text may hold U+2028, at which
    str.splitlines() would break.
    """
    line_number, rest = 1, b""
    with file_system.open_for_reading(path) as file:
        while True:
            data = file.read(_BLOCK_BYTES)
            report(len(data))
            end = data.rfind(b"\n")
            if data and end < 0:
                rest += data
                if len(rest) > max_line_bytes:
                    raise UserError(
                        f"{path}: line {line_number} is longer than "
                        f"{max_line_bytes >> 20} MB (--bucket_mb); wanted one "
                        "sentence per line"
                    )
                continue
            block = rest + data[: max(end, 0)]
            rest = data[end + 1 :]
            try:
                text = block.decode("utf-8")
            except UnicodeDecodeError as error:
                raise _not_utf8(path, line_number, block, error) from None
            if text or data:
                yield text
            if not data:
                return
            line_number += text.count("\n") + 1


def _not_utf8(
    path: str, line_number: int, block: bytes, error: UnicodeDecodeError
) -> UserError:
    """Return the error for a block that begins with line `line_number`."""
    line_number += block.count(b"\n", 0, error.start)
    start = block.rfind(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: line {line_number} is not UTF-8: byte "
        f"0x{block[error.start]:02x} at column {error.start - start + 1}; "
        "convert the file (iconv -t UTF-8)"
    )


# --- Reading a bucket --------------------------------------------------------


def read_bucket(scratch_dir: str, bucket: int) -> Iterator[tuple[int, str]]:
    """Yield (document number, text) of a bucket's parts, in corpus order."""
    extents = _load_extents(scratch_dir)
    with open(os.path.join(scratch_dir, _DOCUMENTS), "rb") as file:
        for start, end in extents[:, bucket : bucket + 2].tolist():
            file.seek(start)
            while file.tell() < end:
                header = file.read(_PART_HEADER.size)
                number, size = _PART_HEADER.unpack(header)
                yield number, file.read(size).decode()


def count_buckets(scratch_dir: str) -> int:
    """Return the number of buckets the documents were dealt out to."""
    return _load_extents(scratch_dir).shape[1] - 1


def count_bytes(scratch_dir: str, buckets: Sequence[int]) -> int:
    """Return the size of the documents of some buckets, in bytes."""
    extents = _load_extents(scratch_dir)
    return int(np.diff(extents, axis=1).sum(axis=0)[list(buckets)].sum())


def _load_extents(scratch_dir: str) -> np.ndarray:
    """Return extents.npy, mapped from the file."""
    return np.load(os.path.join(scratch_dir, _EXTENTS), mmap_mode="r")


# --- Errors ------------------------------------------------------------------


def no_text_error(files: Sequence[str]) -> UserError:
    """Return the error for a corpus without a single token."""
    return UserError(
        f"no document with text in the {len(files)} input files, the first: "
        f"{files[0]}"
    )


def one_document_error() -> UserError:
    """Return the error for a corpus of a single document."""
    return UserError(
        "only one document in all input files, and a random next sentence has "
        "to come from another: put a blank line between documents, one "
        "sentence per line"
    )
