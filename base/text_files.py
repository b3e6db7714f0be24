"""Read UTF-8 text, JSON and TOML; errors name the line. Write JSON."""

import codecs
import io
import json
import sys
from collections.abc import Iterator
from typing import IO, Any

from base import file_system
from base.errors import InputError, UserError, naming

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


# How a file in UTF-16 begins, which is what Excel calls Unicode text.
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: str) -> str:
    """Return the text of a UTF-8 file, without a byte order mark.

    A file that begins with the mark of UTF-16 is read, too. A pipe is refused,
    since callers may read the file again.
    """
    file_system.check_no_stream(path)
    with file_system.reading(path) as file:
        data = file.read()
    if data.startswith(UTF_16):
        what = f"{path} begins as UTF-16 and is damaged; save it as UTF-8"
        with naming(what, UnicodeDecodeError):
            return data.decode("utf-16")
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise utf8_error(path, io.BytesIO(data), 0, error) from error


def read_toml(path: str) -> dict[str, Any]:
    """Return the values of a TOML file; a UserError names what is wrong."""
    with naming(f"{path}: not valid TOML", tomllib.TOMLDecodeError):
        return tomllib.loads(read_text(path))


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
        if line.strip():
            yield number, json_object(f"{path}, line {number}", line)


def read_json(path: str) -> Any:
    """Return the value of a JSON file; errors name line and column."""
    return _json_value(path, read_text(path))


def read_json_object(path: str) -> dict[str, Any]:
    """Return the JSON object in a UTF-8 file."""
    return json_object(path, read_text(path))


def json_object(place: str, text: str | bytes) -> dict[str, Any]:
    """Return the JSON object that a text is; errors name its place, if any."""
    value = _json_value(place, text)
    if not isinstance(value, dict):
        raise UserError(
            f"{place and f'{place}: '}found {type(value).__name__}, wanted a "
            "JSON object"
        )
    return value


def _json_value(place: str, text: str | bytes) -> Any:
    try:
        return parse_json(text)
    except ValueError as error:  # not `naming`, which costs time for each line
        raise UserError(f"{place and f'{place}: '}not JSON: {error}") from error


def read_numbers(path: str, mend: str = "") -> dict[str, float]:
    """Return {name: number} of the lines of a file, such as eval_results.txt.

    A line is `name = number`. `mend` is how to mend a damaged file, for the
    error.

    Raises:
        UserError: a line is another one.
    """
    lines = read_text(path).splitlines()
    try:
        pairs = [line.split(" = ") for line in lines]
        return {n: int(x) if x.isdecimal() else float(x) for n, x in pairs}
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}){mend}") from error


def read_own_json(path: str) -> dict[str, Any]:
    """Return the JSON object in a file that this project writes.

    {} if the file does not exist or is damaged: callers then write it again.
    """
    try:
        return read_json_object(path)
    except UserError:
        return {}


def write_json(path: str, value: Any, **options: Any) -> None:
    """Write a value as a JSON file; the options are those of json.dumps."""
    text = json.dumps(value, **{"indent": 2, **options}) + "\n"
    file_system.write_text(path, text)


def utf8_error(
    path: str, file: IO[bytes], start: int, error: UnicodeDecodeError
) -> InputError:
    """Return the error for a part of a file that is not UTF-8.

    The open file is read again from its beginning. `error` is what decoding the
    bytes from `start` on raised.
    """
    start += error.start
    file.seek(0)
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    line, begins = 1, 0
    for data in file:
        if begins + len(data) > start:
            break
        begins += len(data)
        line += 1
    byte = error.object[error.start]
    mend = (
        "save it as UTF-8 (in Excel: CSV UTF-8), or convert it, from Windows "
        "with iconv -f WINDOWS-1252 -t UTF-8"
    )
    if is_packed:
        mend = "the file is compressed (gzip): unpack it first"
    return InputError(
        f"{path}: line {line} is not UTF-8: byte 0x{byte:02x} at column "
        f"{start - begins + 1}; {mend}"
    )
