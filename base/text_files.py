"""Read UTF-8 text, JSON lines and CSV tables; errors name the line."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from base import errors, file_system
from base.errors import UserError


def read_text(path: str) -> str:
    """Return the text of a UTF-8 file.

    Raises:
        UserError: unreadable, or not UTF-8; names the line.
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
        raise UserError(
            f"{path}: cannot be read: {errors.reason(error)}"
        ) from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8") from error


def json_objects(path: str, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) of JSON lines; blank ones are none.

    Args:
        path: where the text is from, for messages.
        text: an object per line.

    Raises:
        UserError: a line is damaged, or no object; names it.
    """
    # Texts hold U+2028 and the like, at which splitlines() would break.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            # A number of thousands of digits is no JSONDecodeError.
            words = getattr(error, "msg", str(error))
            raise UserError(
                f"{path}, line {number}: not JSON: {words}"
            ) from error
        if not isinstance(value, dict):
            raise UserError(f"{path}, line {number}: wanted a JSON object")
        yield number, value


def read_json_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a UTF-8 file.

    Raises:
        UserError: unreadable, not JSON, or JSON of another type.
    """
    text = read_text(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: wanted a JSON object")
    return value


def read_own_json(path: str) -> Any:
    """Return the content of a JSON file that this project wrote.

    None where there is no file, or where it is damaged: it is then written
    again.
    """
    if not file_system.exists(path):
        return None
    try:
        with file_system.open_for_reading(path) as file:
            return json.loads(file.read())
    except ValueError:
        return None


def csv_table(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line it begins in, from 1, cells) of each row of a CSV text.

    Raises:
        UserError: bad quoting; names the line.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begins = 1  # the row, which goes over several lines perhaps
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
