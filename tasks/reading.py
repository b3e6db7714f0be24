"""Read inputs in windows: text, JSON lines, TFRecords, maybe gzip, or tables.

An input that cannot be used becomes a `Problem`, and reading continues.
"""

import dataclasses
import gzip
import itertools
import json
import os
import zlib
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from base import file_system, tables, text_files
from base.errors import UserError

from absl import logging

from records import tfrecord
from tasks.task import Input, Place

# A window ends at so many inputs or bytes.
WINDOW_INPUTS = 4096
WINDOW_BYTES = 4 << 20

LONGEST_LINE = 16 << 20  # bytes; a longer one is a problem, not read as whole

_BLOCK = 1 << 20  # bytes read at once

_SHOWN = 200  # characters of a bad line in errors.jsonl

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

# (place, bytes of a line or a record) -> an input; raises UserError. The last
# argument is the kind of the file.
Parse = Callable[[Place, bytes, str], Input]


class InputFile(NamedTuple):
    """A file of inputs."""

    path: str
    kind: str  # "text", "jsonl", "table" or "tfrecord"
    is_gzip: bool
    size: int  # bytes on the disk; 0 also for a .gz without content


def find_inputs(patterns: str, input_format: str) -> list[InputFile]:
    """Return the files of globs that are not empty, all of one kind."""
    found = [
        inspect(path, input_format) for path in file_system.find_files(patterns)
    ]
    files = [file for file in found if file.size]
    for file in found:
        if not file.size:
            logging.warning("%s is empty", file.path)
    if not files:
        raise UserError(
            f"--input_file={patterns}: all {len(found)} files are empty"
        )
    for file in files:
        if file.kind != files[0].kind:
            raise UserError(
                f"--input_file: {files[0].path} looks like {files[0].kind}, "
                f"{file.path} like {file.kind}: give files of one kind, or "
                "name it with --input_format"
            )
    return files


def inspect(
    path: str, input_format: str = "auto", flag: str = "input_file"
) -> InputFile:
    """Return a file with its kind, given or judged.

    A .csv or .tsv is a table; else the first bytes decide.
    """
    file_system.check_no_stream(path, flag)
    try:
        is_gzip = tfrecord.is_gzip(path)
        with file_system.open_for_reading(path) as raw:
            file = gzip.GzipFile(fileobj=raw) if is_gzip else raw
            head = file.read(4096)
    except (EOFError, zlib.error, *file_system.file_errors()) as error:
        raise file_system.read_error(path, error) from error
    # Spark and others write a .gz of 20 bytes for a part without a line.
    size = file_system.file_state(path)[0] if head else 0
    return InputFile(path, _judge(path, head, input_format), is_gzip, size)


def _judge(name: str, head: bytes, input_format: str) -> str:
    """Return the kind of inputs with this name and these first bytes."""
    if os.path.splitext(name.removesuffix(".gz"))[1].lower() in tables.TABLES:
        if input_format == "auto":
            return "table"
        if input_format == "text":
            raise UserError(
                f"{name} is a table by its name, whose header is no text to "
                "predict: leave --input_format=text out, or rename the file to "
                ".txt if each line of it is an input"
            )
    start = head.removeprefix(_BYTE_ORDER_MARK).lstrip()
    # A record begins with its length as 8 bytes, the lowest first: four of
    # them are 0 for records below 4 GB. Text has no such bytes.
    looks_like = "jsonl" if start[:1] == b"{" else "text"
    if len(head) >= 8 and head[4:8] == bytes(4):
        looks_like = "tfrecord"
    kind = looks_like if input_format == "auto" else input_format
    if head and (kind == "tfrecord") != (looks_like == "tfrecord"):
        raise UserError(
            f"{name}: --input_format={kind}, but it begins like {looks_like}"
        )
    if kind == "tfrecord":
        return kind
    if head.startswith(text_files.UTF_16):
        raise UserError(
            f"{name} is in UTF-16: save it as UTF-8, or rename it to .csv if "
            "it is a table with a header"
        )
    if b"\0" in head:
        raise UserError(
            f"{name} holds zero bytes: wanted UTF-8 text, JSON lines or "
            "TFRecords, plain or compressed with gzip, or a .csv or .tsv"
        )
    if start[:1] == b"[" and start[1:].lstrip()[:1] in (b"{", b""):
        raise UserError(
            f"{name} begins with [: wanted an object per line (JSON lines), "
            "not one array"
        )
    return kind


class Problem(NamedTuple):
    """An input that cannot be predicted."""

    place: Place
    reason: str
    text: str = ""

    def line(self) -> str:
        """Return the line of errors.jsonl."""
        text = self.text
        if len(text) > _SHOWN:
            text = text[:_SHOWN] + "..."
        found = {
            "file": self.place.path,
            self.place.kind: self.place.number,
            "reason": self.reason,
            "text": text,
        }
        return json.dumps(found, ensure_ascii=False)


@dataclasses.dataclass
class Window:
    """Inputs of one file, of a kind, that are sorted by length together."""

    kind: str
    inputs: list[Input] = dataclasses.field(default_factory=list)
    problems: list[Problem] = dataclasses.field(default_factory=list)
    num_blank: int = 0  # lines without text, which are skipped
    num_bytes: int = 0  # on the disk, about


# A line or a record, or the damage behind which nothing can be read; and the
# bytes of the file that were read for it. None: nothing more has arrived.
_Raw = tuple[Place, bytes | Problem, int] | None


def read_windows(
    file: InputFile, parse: Parse, whole: bool = True
) -> Iterator[Window]:
    """Yield the windows of a file; `whole` is for tables, see tables.rows."""
    try:
        if file.kind == "tfrecord":
            yield from _windows(_records(file.path), file.kind, parse)
            return
        if file.kind == "table":
            rows = _table_rows(file.path, whole)
            yield from _windows(rows, file.kind, parse)
            return
        with file_system.open_for_reading(file.path) as raw:
            lines = _lines(raw, file.path, file.is_gzip)
            yield from _windows(lines, file.kind, parse)
    except file_system.file_errors() as error:
        raise file_system.read_error(file.path, error) from error


def read_stream(
    stream: IO[bytes],
    name: str,
    input_format: str,
    parse: Parse,
    is_asking: bool = False,
) -> Iterator[Window]:
    """Yield the windows of text that can be read once, such as from a pipe.

    `name` is the stream's in ids and messages. `input_format` "auto" is judged
    by the first line that is not blank. If the stream `is_asking`, a window has
    the lines that have arrived together: who writes them may wait for the
    answer before the next line.
    """
    lines = _lines(stream, name, is_asking=is_asking)
    head: list[_Raw] = []
    first = b""
    for line in lines:
        head.append(line)
        first = line[1] if line else first
        if first.strip():
            break
    kind = _judge(name, first, input_format)
    yield from _windows(itertools.chain(head, lines), kind, parse)


def _windows(raw: Iterator[_Raw], kind: str, parse: Parse) -> Iterator[Window]:
    """Yield the windows of lines or records."""
    window, size = Window(kind), 0
    for one in raw:
        if not one:
            yield window
            window, size = Window(kind), 0
            continue
        place, data, num_bytes = one
        window.num_bytes += num_bytes
        if isinstance(data, Problem):
            window.problems.append(data)
        elif kind == "tfrecord" or data.strip():
            size += len(data)
            try:
                if kind != "tfrecord" and len(data) > LONGEST_LINE:
                    raise UserError(
                        f"a line of more than {LONGEST_LINE >> 20} MB"
                    )
                window.inputs.append(parse(place, data, kind))
            except UserError as error:
                text = data if kind != "tfrecord" else b""
                shown = text.decode("utf-8", "backslashreplace")
                window.problems.append(Problem(place, str(error), shown))
        else:
            window.num_blank += 1
        count = len(window.inputs) + len(window.problems)
        if count >= WINDOW_INPUTS or size >= WINDOW_BYTES:
            yield window
            window, size = Window(kind), 0
    if window.inputs or window.problems or window.num_blank:
        yield window


def _records(path: str) -> Iterator[_Raw]:
    number = 0
    try:
        for number, record in enumerate(tfrecord.read_records(path), 1):
            yield Place(path, number, "record"), record, len(record) + 16
    except UserError as error:
        # Where the next record begins is unknown.
        place = Place(path, number + 1, "record")
        reason = f"{error}; the records after it are lost"
        yield place, Problem(place, reason), 0


def _table_rows(path: str, whole: bool) -> Iterator[_Raw]:
    """Yield the rows of a table as objects of JSON; see tables.rows."""
    damaged: list[str] = []
    columns = None if whole else ()
    for at, row in tables.rows(path, columns, damaged=damaged, whole=whole):
        place = Place(path, int(at.rpartition(" ")[2]))
        data: bytes | Problem = json.dumps(row, ensure_ascii=False).encode()
        if damaged:
            data = Problem(place, damaged.pop().removeprefix(f"{at}: "))
        # The cells with what separates them, without quotes.
        yield place, data, sum(len(cell) + 1 for cell in row.values())


def _lines(
    raw: IO[bytes], name: str, is_gzip: bool = False, is_asking: bool = False
) -> Iterator[_Raw]:
    """Yield lines without their ends, of very long ones the beginning."""
    # read1 returns what is before damage in gzip, where read only fails, and
    # what has arrived of a stream, where read waits for more.
    read = gzip.GzipFile(fileobj=raw).read1 if is_gzip else raw.read
    if is_asking:
        read = raw.read1
    number, line, at, counted = 1, b"", 0, 0
    try:
        while block := read(_BLOCK):
            start, done = at, 0
            at = raw.tell() if is_gzip else start + len(block)
            if number == 1 and not line:
                block = block.removeprefix(_BYTE_ORDER_MARK)
            size = len(block)
            *whole, rest = block.split(b"\n")
            for part in whole:
                line = (line + part).removesuffix(b"\r")
                # Compressed bytes are shared out by the length of the lines.
                done += len(part) + 1
                end = start + (at - start) * done // size
                yield Place(name, number), line, end - counted
                number, line, counted = number + 1, b"", end
            if len(line) <= LONGEST_LINE:
                line += rest
            if is_asking:
                yield None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        place = Place(name, number)
        reason = f"gzip is damaged here ({error}); the rest is lost"
        yield place, Problem(place, reason), at - counted
        return
    if line:
        yield Place(name, number), line.removesuffix(b"\r"), at - counted
