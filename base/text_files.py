"""Read UTF-8 text, JSON lines, TOML and CSV tables; errors name the line."""

import contextlib
import csv
import decimal
import io
import json
import re
import sys
from collections.abc import Iterator
from typing import IO, Any

from base import file_system
from base.errors import InputError, UserError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_text(path: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    A pipe is refused, since callers may read the file again.
    """
    if file_system.is_stream(path):
        raise UserError(
            f"{path} is a pipe or a device, which cannot be read twice: give "
            "a file"
        )
    try:
        with file_system.open_for_reading(path) as file:
            data = file.read()
    except file_system.file_errors() as error:  # a directory, a damaged disk
        raise file_system.unreadable(path, error) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8") from error


def read_toml(path: str) -> dict[str, Any]:
    """Return the values of a TOML file; a UserError names what is wrong."""
    try:
        return tomllib.loads(read_text(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not valid TOML: {error}") from error


def check_cell(value: str, what: str) -> None:
    """Raise a UserError for a value that a cell of a .tsv file cannot hold.

    That is a tab, a line end, or half of a character, which JSON may escape
    ("\\ud800"). `what` is its place: "dev.csv, line 3: label".
    """
    if re.search(r"[\t\n\r]", value):
        raise UserError(
            f"{what} {value!r} has a tab or a line end, which a .tsv file "
            "cannot hold"
        )
    if re.search("[\ud800-\udfff]", value):
        raise UserError(
            f"{what} {value!r} has a lone surrogate, half of a character, "
            "which UTF-8 cannot hold"
        )


def check_spelling(
    label: str, at: str, seen: dict[str | decimal.Decimal, tuple[str, str]]
) -> None:
    """Raise a UserError for a label that was seen in another spelling.

    That is a number of the same value (1 and 1.0), true and True, or a label
    that differs in the white space around it. They would be two classes.

    Args:
        label: as the file has it; a number of JSON in Python's spelling.
        at: its place: "dev.csv, line 3".
        seen: {what the label stands for: (label, its first place)}, to which
            the label is added.
    """
    stands_for = label.strip()
    if stands_for.lower() in ("true", "false"):
        stands_for = stands_for.lower()
    with contextlib.suppress(decimal.InvalidOperation):
        number = decimal.Decimal(stands_for)
        if number.is_finite() and "_" not in stands_for:
            stands_for = number
    first, place = seen.setdefault(stands_for, (label, at))
    if first != label:
        raise UserError(
            f"{at}: the label {label!r} is {first!r} of {place} in another "
            "spelling: write both alike, or give two classes names that do "
            "not look the same"
        )


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: the text is not JSON, or JSON that Python refuses: numbers
            of more than 4,300 digits, lists nested too deeply. The message is
            the reason, with the place.
    """
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}"
        if "\n" in error.doc:
            place = f"line {error.lineno} {place}"
        raise ValueError(f"{error.msg}: {place}") from error
    except RecursionError as error:
        raise ValueError("lists or objects nested too deeply") from error


def json_objects(path: str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of JSON lines; skip blank lines."""
    # JSON strings may hold U+2028, a line end for splitlines().
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = parse_json(line)
        except ValueError as error:
            raise UserError(
                f"{path}, line {number}: not JSON: {error}"
            ) from error
        if not isinstance(value, dict):
            raise UserError(f"{path}, line {number}: wanted a JSON object")
        yield number, value


def read_json_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a UTF-8 file."""
    return json_object(path, read_text(path))


def json_object(place: str, text: str | bytes) -> dict[str, Any]:
    """Return the JSON object that a text is; errors name its place."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise UserError(f"{place}: not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(
            f"{place}: found {type(value).__name__}, wanted a JSON object"
        )
    return value


def read_own_json(path: str) -> Any:
    """Return the content of a JSON file that this project writes.

    None if the file does not exist or is damaged: callers then write it again.
    """
    if not file_system.exists(path):
        return None
    try:
        with file_system.open_for_reading(path) as file:
            return parse_json(file.read())
    except ValueError:
        return None


def utf8_error(
    path: str, file: IO[bytes], start: int, error: UnicodeDecodeError
) -> InputError:
    """Return the error for a part of a file that is not UTF-8.

    The open file is read again from its beginning. `error` is what decoding the
    bytes from `start` on raised.
    """
    start += error.start
    file.seek(0)
    head = file.read(2)
    file.seek(0)
    line = column = 1
    for place in range(0, start, 2**20):
        block = file.read(min(2**20, start - place))
        line += block.count(b"\n")
        column += len(block)
        if b"\n" in block:
            column = len(block) - block.rfind(b"\n")
    byte = error.object[error.start]
    mend = "convert the file (iconv -t UTF-8)"
    if head == b"\x1f\x8b":
        mend = "the file is compressed (gzip): unpack it first"
    return InputError(
        f"{path}: line {line} is not UTF-8: byte 0x{byte:02x} at column "
        f"{column}; {mend}"
    )


def csv_table(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number of its first line, cells) of each row of a CSV text.

    A row covers several lines if a quoted cell has line ends. Blank lines are
    skipped; lines count from 1.
    """
    # A cell may be a whole document; the default limit is 128 kB.
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1
    try:
        for row in reader:
            if row:
                yield begins, row
            begins = reader.line_num + 1
    except csv.Error as error:
        words = (
            "a quote is not closed" if "end of data" in str(error) else error
        )
        raise UserError(
            f"{path}, the row that begins in line {begins}: {words}"
        ) from error
