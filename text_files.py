"""Text files and JSON lines, whatever they hold: what is wrong has a line.

Apart from the data modules of the tasks, which all read them.
"""

import json
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

import file_system
from errors import UserError


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
        with tf.io.gfile.GFile(path, "rb") as file:
            data = file.read()
    except tf.errors.OpError as error:
        raise UserError(f"{path} cannot be read: {error.message}") from error
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
