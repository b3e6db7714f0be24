"""Read texts without labels, on which a student learns from its teachers.

A line is a text, or a pair whose texts a tab separates, as batch_predict.py
reads them: no header, blank lines are skipped, a file may be gzip. A file whose
first line begins with { holds a JSON object per line with the keys `text`, or
`text_a` and `text_b`.

Files are read line by line, once for each teacher and once for the records, and
may be larger than memory.
"""

import functools
import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

from base import errors, file_system
from base.errors import UserError

from records import tfrecord
from tasks.classifier.data import Example

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class TransferTexts:
    """The texts, or pairs of texts, of --transfer_file.

    Raises:
        UserError: a pattern matches no file, or a file is a pipe.
    """

    def __init__(self, patterns: str, is_pair: bool):
        self.files = file_system.find_files(patterns, "transfer_file")
        self.names = ("text_a", "text_b") if is_pair else ("text",)
        for path in self.files:
            if file_system.is_stream(path):
                raise UserError(
                    f"--transfer_file: {path} is a pipe or a device, which "
                    "cannot be read twice: give a file"
                )

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the texts depend on."""
        return {"data": self._checksums, "texts": self.names}

    @functools.cached_property
    def _checksums(self) -> list[str]:
        """The checksums of the files, which may be large: read once."""
        return [file_system.sha256(path) for path in self.files]

    def check(self) -> int:
        """Read all files to find mistakes; return the number of texts.

        Raises:
            UserError: there is no text, or a line is damaged; names it.
        """
        count = sum(1 for _ in self)
        if not count:
            raise UserError(
                f"--transfer_file: {', '.join(self.files[:3])} holds no text"
            )
        return count

    def __iter__(self) -> Iterator[Example]:
        """Yield the texts in the order of the files."""
        number = 0
        for path in self.files:
            is_json: bool | None = None
            for at, line in _lines(path):
                if is_json is None:
                    is_json = line.lstrip().startswith("{")
                cells = self._of_object(at, line) if is_json else None
                yield self._example(number, at, cells or line.split("\t"))
                number += 1

    def _of_object(self, at: str, line: str) -> list[str]:
        """Return the texts of a line of JSON."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            words = getattr(error, "msg", str(error))
            raise UserError(f"{at}: not JSON: {words}") from error
        if not isinstance(value, dict):
            raise UserError(f"{at}: wanted a JSON object")
        for name in self.names:
            if not isinstance(value.get(name), str):
                found = ", ".join(map(repr, list(value)[:8])) or "nothing"
                raise UserError(
                    f"{at}: no text with the key {name!r}; it has {found}"
                )
        return [value[name] for name in self.names]

    def _example(self, number: int, at: str, cells: list[str]) -> Example:
        """Return the example of a line's texts."""
        if len(cells) != len(self.names):
            hint = " (a text with tabs has to be JSON)"
            raise UserError(
                f"{at}: {len(cells)} columns, wanted {len(self.names)} "
                f"({', '.join(self.names)}), separated by tabs"
                + (hint if len(self.names) == 1 else "")
            )
        if not cells[0].strip():
            raise UserError(f"{at}: {self.names[0]} is empty")
        return Example(f"transfer-{number}", *cells)


def _lines(path: str) -> Iterator[tuple[str, str]]:
    """Yield ("file, line n", text) of the lines of a file; skip blank ones."""
    with file_system.open_for_reading(path) as raw:
        file = gzip.GzipFile(fileobj=raw) if tfrecord.is_gzip(path) else raw
        try:
            for number, data in enumerate(file, 1):
                if number == 1:
                    data = data.removeprefix(_BYTE_ORDER_MARK)
                if data.strip():
                    at = f"{path}, line {number}"
                    yield at, _decoded(data, at).rstrip("\r\n")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise UserError(f"{path}: gzip is damaged ({error})") from error
        except file_system.file_errors() as error:
            raise UserError(
                f"{path}: cannot be read: {errors.reason(error)}"
            ) from error


def _decoded(data: bytes, at: str) -> str:
    """Return a line as text."""
    if b"\0" in data:
        raise UserError(f"{at}: holds a zero byte, wanted UTF-8 text")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"{at}: not UTF-8") from error
