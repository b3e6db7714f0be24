r"""Read the documents of text files, whole files or ranges of their bytes.

A document is a run of lines between blank lines. It may be larger than the
memory, so it comes in parts of whole lines. Each part has hash values that
depend on its text alone: they decide its bucket and its place in the bucket,
whichever process reads it and in whatever order. So one machine and a cluster
make the same records.

Several machines share a large file by ranges of bytes: a range has the
documents whose first line begins in it, and the last of them is read to its
end, beyond the range.

    bytes     0         10        20
    text      a b\n\nc d\nc e\n\n\nf g\n
    range [0, 8)    documents "a b" and "c d\nc e", which begins at byte 5
    range [8, 18)   document "f g"

Worker processes import this file: no flags here, and no TensorFlow.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

from base import file_system, text_files
from base.errors import UserError
from base.hashing import hash64

import numpy as np

_BLOCK_BYTES = 2**22

# --- Parts -------------------------------------------------------------------


class Part(NamedTuple):
    """A run of lines of a document.

    Attributes:
        document: hash of the text of the document's first part. Documents
            with the same beginning count as one.
        index: which part of the document, from 0.
        content: hash of `document`, `index` and `text`.
        text: lines, UTF-8.
    """

    document: int
    index: int
    content: int
    text: bytes


class Range(NamedTuple):
    """A range of the bytes of a file, by default all of them."""

    path: str
    start: int = 0
    stop: int = sys.maxsize


def split_files(sizes: Sequence[tuple[str, int]], size: int) -> list[Range]:
    """Return the ranges of `size` bytes of files, given as (path, bytes)."""
    return [
        Range(path, start, min(start + size, num_bytes))
        for path, num_bytes in sizes
        for start in range(0, max(num_bytes, 1), size)
    ]


def read_parts(
    file_range: Range,
    part_bytes: int,
    max_line_bytes: int,
    report: Callable[[int], None] = lambda num_bytes: None,
    open_file: Callable[[str], IO[bytes]] = file_system.open_for_reading,
) -> Iterator[Part]:
    """Yield the parts of the documents that begin in a range of a file.

    A line of whitespace ends a document, and so does the end of the file. (In
    the original the last document of a file and the first of the next are one
    unless a blank line separates them.)

    Args:
        file_range: UTF-8 text.
        part_bytes: a part ends with the line that reaches this number of
            characters.
        max_line_bytes: a longer line is an error.
        report: called with the number of bytes of every block read.
        open_file: opens a path to read bytes from.
    """
    document, index = 0, 0
    for is_first, text in _read_texts(
        file_range, part_bytes, max_line_bytes, report, open_file
    ):
        if is_first:
            document, index = hash64(text), 0
        yield Part(document, index, hash64(document, index, text), text)
        index += 1


def _read_texts(
    file_range: Range,
    part_bytes: int,
    max_line_bytes: int,
    report: Callable[[int], None],
    open_file: Callable[[str], IO[bytes]],
) -> Iterator[tuple[bool, bytes]]:
    """Yield (whether the part is the first of its document, text)."""
    lines, size, is_first = [], 0, True
    # A range that begins within a document skips the rest of that document.
    skips = file_range.start > 0
    with open_file(file_range.path) as file:
        for block, is_beyond in read_blocks(
            file, file_range, max_line_bytes, report
        ):
            for line in block.split("\n"):
                is_blank = not line or line.isspace()
                if skips:
                    skips = not is_blank
                    continue
                if not is_blank:
                    if is_beyond and is_first and not lines:
                        return  # a document of the next range
                    lines.append(line)
                    size += len(line)
                if lines and (is_blank or size >= part_bytes):
                    yield is_first, "\n".join(lines).encode()
                    lines, size, is_first = [], 0, False
                if is_blank:
                    is_first = True
    if lines:
        yield is_first, "\n".join(lines).encode()


# --- Copies ------------------------------------------------------------------


class CopyCounter:
    """Counts how often each 64-bit hash was seen, in 8 bytes per hash.

    A corpus may hold the same text many times. Each copy has a number, so
    that the copies go to different buckets: no bucket grows with them.
    """

    # Hashes that come in are collected in a set of this size at least, which
    # is then merged into the sorted array.
    _RECENT = 2**16

    def __init__(self) -> None:
        self._sorted = np.empty(0, np.uint64)
        self._recent: set[int] = set()
        self._copies: dict[int, int] = {}  # of hashes seen more than once

    def count(self, content: int) -> int:
        """Return how often the hash was counted before, and count it."""
        if content in self._recent or self._is_sorted(content):
            copy = self._copies[content] = self._copies.get(content, 0) + 1
            return copy
        self._recent.add(content)
        if len(self._recent) >= max(self._RECENT, len(self._sorted) // 8):
            recent = np.fromiter(self._recent, np.uint64, len(self._recent))
            self._sorted = np.sort(np.concatenate([self._sorted, recent]))
            self._recent.clear()
        return 0

    def _is_sorted(self, content: int) -> bool:
        place = np.searchsorted(self._sorted, np.uint64(content))
        return place < len(self._sorted) and self._sorted[place] == content


def part_key(random_seed: int, content: int, copy: int) -> int:
    """Return the 64-bit key of a part, which decides its bucket.

    Args:
        random_seed: of the run.
        content: `Part.content`.
        copy: how many parts of the same content come before this one.
    """
    return hash64(random_seed, content, copy)


# --- Blocks of lines ---------------------------------------------------------


def read_blocks(
    file: IO[bytes],
    file_range: Range,
    max_line_bytes: int,
    report: Callable[[int], None],
) -> Iterator[tuple[str, bool]]:
    r"""Yield the text from a range on in blocks of whole lines.

    Only \n ends a line, as in the original: text may hold U+2028, at which
    str.splitlines() would break.

    Yields:
        (lines without the last \n, whether they begin after the range). The
        first line is the one that holds the byte before the range.
    """
    path, start, stop = file_range
    place = _line_start(file, start)
    line_number, rest = 1, b""
    if start > 0:
        file.seek(place)  # pipes, which are read from their start, have none
    while True:
        data = file.read(_BLOCK_BYTES)
        report(len(data))
        end = data.rfind(b"\n")
        if data and end < 0:
            rest += data
            if len(rest) > max_line_bytes:
                raise UserError(
                    f"{path}: {_line_name(start, line_number)} is longer than "
                    f"{max_line_bytes >> 20} MB (--bucket_mb); wanted one "
                    "sentence per line"
                )
            continue
        block = rest + data[: max(end, 0)]
        rest = data[end + 1 :]
        if block or data:
            for piece, is_beyond in _cut(block, stop - place):
                try:
                    yield piece.decode("utf-8"), is_beyond
                except UnicodeDecodeError as error:
                    raise _not_utf8(
                        path, start, line_number, piece, error
                    ) from None
                line_number += piece.count(b"\n") + 1
        if not data:
            return
        place += len(block) + 1


def _cut(block: bytes, end: int) -> Iterator[tuple[bytes, bool]]:
    r"""Yield the lines that begin before an offset, and those after it.

    For example b"ab\ncd\nef" and offset 3 give (b"ab", False) and
    (b"cd\nef", True), since line "cd" begins at 3.
    """
    if end <= 0:
        yield block, True
        return
    cut = block.find(b"\n", end - 1)
    if cut < 0:
        yield block, False
        return
    yield block[:cut], False
    yield block[cut + 1 :], True


def _line_start(file: IO[bytes], start: int) -> int:
    """Return where the line begins that holds the byte before `start`."""
    end = start - 1  # look for the last \n before this byte
    while end > 0:
        begin = max(0, end - 2**16)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _line_name(start: int, number: int) -> str:
    """Return how messages name a line of a range."""
    if start == 0:
        return f"line {number}"
    return f"line {number} of those from byte {start} on"


def _not_utf8(
    path: str,
    start: int,
    line_number: int,
    block: bytes,
    error: UnicodeDecodeError,
) -> UserError:
    """Return the error for a block that begins with line `line_number`."""
    line_number += block.count(b"\n", 0, error.start)
    line_begin = block.rfind(b"\n", 0, error.start) + 1
    return UserError(
        f"{path}: {_line_name(start, line_number)} is not UTF-8: byte "
        f"0x{block[error.start]:02x} at column {error.start - line_begin + 1}; "
        f"{text_files.how_to_mend_utf8(b'' if start else block)}"
    )


# --- Errors ------------------------------------------------------------------


def no_text_error(path: str) -> UserError:
    """Return the error for a corpus without a single token.

    Args:
        path: the first input file.
    """
    return UserError(
        f"no document with text in --input_file, whose first file is {path}"
    )


def one_document_error() -> UserError:
    """Return the error for a corpus of a single document."""
    return UserError(
        "only one document in all input files (copies count as one), and a "
        "random next sentence has to come from another: put a blank line "
        "between documents, one sentence per line"
    )
