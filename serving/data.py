"""Read inputs: lines of text, JSON lines or TFRecords, by shards.

A shard is a part of the inputs that can be read alone: a range of bytes of
text files, and whole files where these cannot be cut (TFRecords, gzip). A line
belongs to the shard in which it begins. With the lines "ab", "cd", "ef" and
two shards of 5 and 4 bytes,

    bytes   a b \n c d | \n e f \n      shard 0 has ab and cd, shard 1 has ef

An input that cannot be used becomes a `Problem`, and reading goes on.
"""

import gzip
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

from base import errors, file_system
from base.errors import UserError

from records import tfrecord
from tasks.task import BadInput, Input, Place

# Windows end at so many inputs or bytes.
WINDOW_INPUTS = 4096
WINDOW_BYTES = 4 << 20

LONGEST_LINE = 16 << 20  # bytes; a longer one is a problem, not read as whole

_BLOCK = 1 << 20  # bytes read at once

_SHOWN = 200  # characters of a bad line in errors.jsonl

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# --- Files -------------------------------------------------------------------


class InputFile(NamedTuple):
    """A file of inputs."""

    path: str
    kind: str  # "text", "jsonl" or "tfrecord"
    is_gzip: bool
    size: int  # bytes on the disk

    @property
    def is_splittable(self) -> bool:
        """Whether reading can begin in the middle of the file."""
        return self.kind != "tfrecord" and not self.is_gzip


def inspect(path: str, size: int, input_format: str = "auto") -> InputFile:
    """Return a file with its kind, judged by its first bytes.

    Args:
        path: of the file.
        size: its bytes.
        input_format: "text", "jsonl" or "tfrecord" to read it as that; "auto".

    Raises:
        UserError: it is none of these kinds.
    """
    with file_system.open_for_reading(path) as file:
        try:
            head = file.read(4096)
        except file_system.file_errors() as error:
            raise _unreadable(path, error) from error
    is_gzip = tfrecord.is_gzip(path)
    if is_gzip:
        try:
            with file_system.open_for_reading(path) as raw:
                head = gzip.GzipFile(fileobj=raw).read(4096)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(
                f"{path}: damaged from its beginning on: {error}"
            ) from error
    # A record begins with its length as 8 bytes, the lowest first: four of
    # them are 0 for records below 4 GB. Text has no such bytes.
    looks_like = "text"
    if len(head) >= 8 and head[4:8] == bytes(4):
        looks_like = "tfrecord"
    elif head.removeprefix(_BYTE_ORDER_MARK).lstrip()[:1] == b"{":
        looks_like = "jsonl"
    kind = looks_like if input_format == "auto" else input_format
    if (kind == "tfrecord") != (looks_like == "tfrecord") and head:
        raise UserError(
            f"{path}: --input_format={kind}, but it begins like {looks_like}"
        )
    if kind != "tfrecord":
        _check_text(path, head)
    # Spark and others write a .gz of 20 bytes for a part without a line.
    return InputFile(path, kind, is_gzip, size if head else 0)


def _check_text(path: str, head: bytes) -> None:
    """Raise a UserError for a file that is not UTF-8 text."""
    if b"\0" in head:
        raise UserError(
            f"{path} holds zero bytes: wanted UTF-8 text, JSON lines or "
            "TFRecords, plain or compressed with gzip"
        )
    start = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    if start[:1] == b"[" and start[1:].lstrip()[:1] in (b"{", b""):
        raise UserError(
            f"{path} begins with [: wanted an object per line (JSON lines), "
            "not one array"
        )


def _unreadable(path: str, error: Exception) -> UserError:
    return UserError(f"{path}: cannot be read: {errors.reason(error)}")


# --- Shards ------------------------------------------------------------------


class Span(NamedTuple):
    """Bytes [start, end) of a file, or all of a file that cannot be cut."""

    file: InputFile
    start: int
    end: int


Shard = list[Span]


def make_shards(files: Sequence[InputFile], num_shards: int) -> list[Shard]:
    """Return the shards, each with about the same number of bytes.

    They are in the order of the files. Shards without any byte are left out.

    Args:
        files: the inputs.
        num_shards: how many at most.
    """
    total = sum(file.size for file in files)
    cuts = [number * total // num_shards for number in range(num_shards + 1)]
    shards: list[Shard] = [[] for _ in range(num_shards)]
    before = 0  # bytes of the files before
    for file in files:
        for number in range(num_shards):
            low, high = (cut - before for cut in cuts[number : number + 2])
            if file.is_splittable:
                span = Span(file, max(0, low), min(high, file.size))
                if span.start < span.end:
                    shards[number].append(span)
            elif file.size and low <= 0 < high:  # the file begins here
                shards[number].append(Span(file, 0, file.size))
        before += file.size
    return [shard for shard in shards if shard]


def count_line_ends(span: Span) -> int:
    """Return the number of line ends in the bytes of a span."""
    if not span.file.is_splittable:
        return 0
    found = 0
    with file_system.open_for_reading(span.file.path) as file:
        file.seek(span.start)
        left = span.end - span.start
        while left > 0 and (block := file.read(min(left, 16 * _BLOCK))):
            found += block.count(b"\n")
            left -= len(block)
    return found


def lines_before(
    shards: Sequence[Shard], line_ends: Callable[[int], int]
) -> Iterator[int]:
    """Yield for each shard the line ends of its first file before the shard.

    Args:
        shards: all shards.
        line_ends: number of a shard -> `count_line_ends` of its last span.
    """
    path, before = "", 0
    for number, shard in enumerate(shards):
        yield before if shard[0].file.path == path else 0
        # Counted only where the next shard goes on with the same file.
        following = shards[number + 1 : number + 2]
        last = shard[-1].file.path
        if not following or following[0][0].file.path != last:
            continue
        if len(shard) > 1 or path != last:
            path, before = last, 0
        before += line_ends(number)


# --- Problems ---------------------------------------------------------------


class Problem(NamedTuple):
    """An input that cannot be predicted."""

    place: Place
    reason: str
    text: str = ""

    def line(self) -> str:
        """Return the line of errors.jsonl."""
        found = {
            "file": self.place.path,
            self.place.kind: self.place.number,
            "reason": self.reason,
            "text": shortened(self.text),
        }
        return json.dumps(found, ensure_ascii=False)


def shortened(text: str) -> str:
    """Return the beginning of a text, for messages."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


class Window(NamedTuple):
    """Inputs that are sorted by length together.

    Attributes:
        inputs: those that can be predicted, in order.
        problems: the others.
        num_blank: lines without text, which are skipped.
        num_bytes: size on the disk, about, of what was read.
        num_raw: lines or records that were read.
    """

    inputs: list[Input]
    problems: list[Problem]
    num_blank: int
    num_bytes: int
    num_raw: int


# (raw bytes of a line or a record, or a Problem; bytes of the file)
_Raw = tuple[bytes | Problem, Place, int]


def read_windows(
    shard: Shard,
    lines_before: int,
    parse: Callable[[Place, bytes, str], Input],
    window_inputs: int = WINDOW_INPUTS,
) -> Iterator[Window]:
    """Yield the windows of a shard.

    Args:
        shard: to read.
        lines_before: line ends of its first file before the shard.
        parse: (place, bytes, kind of the file) -> input; raises BadInput.
        window_inputs: number of inputs of a window at most.

    Raises:
        UserError: a file cannot be read.
    """
    for number, span in enumerate(shard):
        raw = _raw(span, 0 if number else lines_before)
        # The inputs of a window are of one file.
        while (
            window := _read_window(raw, span.file.kind, parse, window_inputs)
        ).num_raw:
            yield window


def read_stream(
    stream: IO[bytes],
    name: str,
    input_format: str,
    parse: Callable[[Place, bytes, str], Input],
) -> Iterator[Window]:
    """Yield the windows of lines that can be read once, such as from a pipe.

    Args:
        stream: text or JSON lines.
        name: of the stream in ids and messages.
        input_format: "text" or "jsonl"; "auto": judged by the first line that
            is not blank.
        parse: as for `read_windows`.

    Raises:
        UserError: it begins like neither.
    """
    lines = (
        _line(data, Place(name, number), used)
        for number, (data, used) in enumerate(_split(stream, 0, None), 1)
    )
    kind, head = input_format, []
    for line in lines:
        head.append(line)
        data = line[0]
        if isinstance(data, Problem):
            data = data.text.encode()
        if data.strip():
            _check_text(name, data)
            if kind == "auto":
                kind = "jsonl" if data.lstrip()[:1] == b"{" else "text"
            break
    raw = itertools.chain(head, lines)
    while (window := _read_window(raw, kind, parse, WINDOW_INPUTS)).num_raw:
        yield window


def _read_window(
    raw: Iterator[_Raw],
    kind: str,
    parse: Callable[[Place, bytes, str], Input],
    window_inputs: int,
) -> Window:
    """Return the next window of lines or records; at the end an empty one."""
    window, size = Window([], [], 0, 0, 0), 0
    for data, place, used in raw:
        num_raw, num_bytes = window.num_raw + 1, window.num_bytes + used
        window = window._replace(num_raw=num_raw, num_bytes=num_bytes)
        if isinstance(data, Problem):
            window.problems.append(data)
        elif kind != "tfrecord" and not data.strip():
            window = window._replace(num_blank=window.num_blank + 1)
        else:
            size += len(data)
            try:
                window.inputs.append(parse(place, data, kind))
            except BadInput as error:
                text = data if kind != "tfrecord" else b""
                shown = text.decode("utf-8", "backslashreplace")
                window.problems.append(Problem(place, str(error), shown))
        count = len(window.inputs) + len(window.problems)
        if count >= window_inputs or size >= WINDOW_BYTES:
            break
    return window


def _raw(span: Span, lines_before: int) -> Iterator[_Raw]:
    """Yield the lines or records of a span."""
    path = span.file.path
    try:
        if span.file.kind == "tfrecord":
            yield from _records(span)
        else:
            yield from _lines(span, lines_before)
    except file_system.file_errors() as error:
        raise _unreadable(path, error) from error


def _records(span: Span) -> Iterator[_Raw]:
    """Yield the records of a file; damage ends it with a problem."""
    path, number = span.file.path, 0
    try:
        for number, record in enumerate(tfrecord.read_records(path), 1):
            yield record, Place(path, number, "record"), len(record) + 16
    except UserError as error:
        # Where the next record begins is unknown: the rest is lost.
        place = Place(path, number + 1, "record")
        reason = f"{error}; the records after it are lost"
        yield Problem(place, reason), place, 0


def _lines(span: Span, lines_before: int) -> Iterator[_Raw]:
    """Yield the lines that begin in a span, without their ends."""
    path = span.file.path
    with file_system.open_for_reading(path) as raw:
        file = gzip.GzipFile(fileobj=raw) if span.file.is_gzip else raw
        end = None if span.file.is_gzip else span.end
        number, at = lines_before, 0
        lines = _split(file, span.start, end)
        try:
            for data, used in lines:
                number += 1
                place = Place(path, number)
                if used is None:  # the rest of a line of the span before
                    continue
                if span.file.is_gzip:  # count bytes of the compressed file
                    at, used = raw.tell(), raw.tell() - at
                yield _line(data, place, used)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            place = Place(path, number + 1)
            reason = f"gzip is damaged here ({error}); the rest is lost"
            yield Problem(place, reason), place, 0


def _line(data: bytes, place: Place, used: int) -> _Raw:
    """Return a line without a byte order mark and a carriage return."""
    if place.number == 1:
        data = data.removeprefix(_BYTE_ORDER_MARK)
    if len(data) > LONGEST_LINE:
        problem = Problem(
            place,
            f"a line of more than {LONGEST_LINE >> 20} MB",
            data[:_SHOWN].decode("utf-8", "backslashreplace"),
        )
        return problem, place, used
    return data.removesuffix(b"\r"), place, used


def _split(
    file: IO[bytes], start: int, end: int | None
) -> Iterator[tuple[bytes, int | None]]:
    """Yield (line, bytes with its end) of the lines that begin in a range.

    If the range begins in the middle of a line, (rest, None) comes first. Of
    a line longer than LONGEST_LINE its beginning is yielded, a little longer
    than that.

    Args:
        file: to read, at position 0.
        start: first byte of the range.
        end: where it ends; None: with the file.
    """
    is_rest = False
    if start:
        file.seek(start - 1)
        is_rest = file.read(1) != b"\n"
    line, used, at = b"", 0, start  # `at` is where `line` begins
    # read1 returns what is before damage in gzip, where read only fails.
    read = file.read1 if isinstance(file, gzip.GzipFile) else file.read
    for block in iter(lambda: read(_BLOCK), b""):
        *whole, rest = block.split(b"\n")
        for part in whole:
            line = line if len(line) > LONGEST_LINE else line + part
            used += len(part) + 1
            if not is_rest and end is not None and at >= end:
                return
            yield line, None if is_rest else used
            at, line, used, is_rest = at + used, b"", 0, False
        line = line if len(line) > LONGEST_LINE else line + rest
        used += len(rest)
    is_inside = end is None or at < end
    if used and (is_rest or is_inside):
        yield line, None if is_rest else used
