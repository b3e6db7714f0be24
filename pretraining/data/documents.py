r"""Read the documents of text files, whole files or ranges of their bytes.

A document is a run of lines between blank lines. It may be larger than the
memory, so it comes in parts of whole lines. Hash values of its text decide the
bucket of a part and its place there, whichever process reads it and in whatever
order. So one machine and a cluster make the same records.

Several processes share a large file by ranges of bytes: a range has the
documents whose first line begins in it, and the last of them is read to its
end, beyond the range.

    bytes     0         10        20
    text      a b\n\nc d\nc e\n\n\nf g\n
    range [0, 8)    documents "a b" and "c d\nc e", which begins at byte 5
    range [8, 18)   document "f g"

Worker processes import this file: no flags here, and no TensorFlow.
"""

import itertools
import sys
from collections.abc import Iterable, Iterator
from typing import IO, NamedTuple

from base import file_system, text_files
from base.errors import InputError
from base.hashing import hash64
from base.jobs.steps import Steps

_BLOCK_BYTES = 2**22

# Text that a worker process deals out or counts at once.
CHUNK_BYTES = 2**24

# --- Parts -------------------------------------------------------------------


class Part(NamedTuple):
    """A run of lines of a document. The parts of a bucket are sorted.

    Attributes:
        document: hash of the text of the document's first part. Documents
            with the same beginning count as one. Its parts are neighbors.
        index: which part of the document, from 0.
        text: lines, UTF-8.
    """

    document: int
    index: int
    text: bytes

    def bucket(self, random_seed: int, num_buckets: int) -> int:
        """Return the number of its bucket, a random sample of all parts.

        Parts of the same content have the same bucket.
        """
        # The 0 was once the number of a copy, when copies had buckets of their
        # own. It stays, so that texts give the same records as before.
        key = hash64(random_seed, hash64(*self), 0)
        return (key * num_buckets) >> 64


def part_size(bucket_bytes: int) -> int:
    """Return the size at which a document is cut into parts, in characters.

    The more parts a bucket has, the closer its size is to the mean: of 32
    parts of equal size, it varies by 18% (one standard deviation).
    """
    return max(bucket_bytes // 32, 1)


class Range(NamedTuple):
    """A range of the bytes of a file, by default all of them."""

    path: str
    start: int = 0
    stop: int = sys.maxsize


def split_files(states: Iterable[list], size: int) -> list[list[Range]]:
    """Return chunks of about `size` bytes of files, [path, bytes, ...] each.

    Large files are cut into ranges, small ones share a chunk.
    """
    chunks, room = [], 0
    for path, num_bytes, *_ in states:
        for start in range(0, num_bytes, size):
            if room <= 0:
                chunks.append([])
                room = size
            stop = min(start + size, num_bytes)
            chunks[-1].append(Range(path, start, stop))
            room -= stop - start
    return chunks


class RangeSteps(Steps):
    """Steps whose chunks are lists of ranges of text files."""

    def size_of(self, chunk: Iterable[Range]) -> int:
        """Return the bytes of the ranges of a chunk."""
        return sum(stop - start for _, start, stop in chunk)


def read_parts(
    file_range: Range, part_bytes: int, max_line_bytes: int
) -> Iterator[Part]:
    """Yield the parts of the documents that begin in a range of a file.

    A line of whitespace ends a document, and so does the end of the file. (In
    the original the last document of a file and the first of the next are one
    unless a blank line separates them.) A part ends with the line that reaches
    part_bytes characters; a line longer than max_line_bytes is an error.
    """
    document, index, lines, size = 0, 0, [], 0
    # A range that begins within a document skips the rest of that document.
    skips = file_range.start > 0
    blocks = read_blocks(file_range, max_line_bytes)
    # A blank line ends the last document of the file.
    for block, is_beyond in itertools.chain(blocks, [("", True)]):
        for line in block.split("\n"):
            is_blank = not line or line.isspace()
            if skips:
                if is_beyond:
                    return  # no document begins in the range
                skips = not is_blank
                continue
            if not is_blank:
                if is_beyond and not index and not lines:
                    return  # a document of the next range
                lines.append(line)
                size += len(line)
            if lines and (is_blank or size >= part_bytes):
                text = "\n".join(lines).encode()
                document = document if index else hash64(text)
                yield Part(document, index, text)
                lines, size, index = [], 0, index + 1
            if is_blank:
                index = 0


# --- Blocks of lines ---------------------------------------------------------


def read_blocks(
    file_range: Range, max_line_bytes: int
) -> Iterator[tuple[str, bool]]:
    r"""Yield the text from a range on in blocks of whole lines.

    Only \n ends a line, as in the original: text may hold U+2028, at which
    str.splitlines() would break.

    Yields:
        (lines without the last \n, whether they begin after the range). The
        first line is the one that holds the byte before the range.
    """
    path, start, stop = file_range
    with file_system.open_for_reading(path) as file:
        place, stop = _line_start(file, start), next_begin(file, stop, b"\n")
        file.seek(place)
        rest = b""
        while True:
            # A block does not go on behind the range, where most documents
            # that begin in it end soon.
            is_beyond = place >= stop
            left = stop - place - len(rest)
            if is_beyond:
                left = max(len(rest), 2**14)
            data = file.read(min(_BLOCK_BYTES, left))
            end = data.rfind(b"\n")
            if data and end < 0:
                rest += data
                if len(rest) > max_line_bytes:
                    file.seek(0)
                    line = file.read(place).count(b"\n") + 1
                    raise InputError(
                        f"{path}: line {line} is longer than "
                        f"{max_line_bytes >> 20} MB (--bucket_mb); wanted one "
                        "sentence per line"
                    )
                continue
            block, rest = rest + data[: max(end, 0)], data[end + 1 :]
            if block or data:
                try:
                    yield block.decode("utf-8"), is_beyond
                except UnicodeDecodeError as error:
                    raise text_files.utf8_error(
                        path, file, place, error
                    ) from None
            if not data:
                return
            place += len(block) + 1


def next_begin(file: IO[bytes], place: int, *separators: bytes) -> int:
    """Return the first place from `place` on that follows a separator.

    Separators are bytes of ASCII, which are never a part of another character
    in UTF-8. Without one it is the end of the file; 0 gives 0, and sys.maxsize
    itself.
    """
    if place in (0, sys.maxsize):
        return place
    begin = place - 1
    file.seek(begin)
    while data := file.read(2**16):
        found = [at for at in map(data.find, separators) if at >= 0]
        if found:
            return begin + min(found) + 1
        begin += len(data)
    return begin


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
