"""Errors that a user can cause, and words for them.

Whatever a user can get wrong (a flag, a file, a damaged record) raises
`UserError` with a single line that names the place, what was found, what was
wanted and how to mend it. Any other exception is a bug of this project.
"""

import contextlib
import re
from collections.abc import Iterator

# What TensorFlow writes around the message of an operation that failed:
# {{function_node ...}} message [Op:SaveV2] name:
OPERATION = re.compile(r"\{\{[^}]*\}\} *|\s*\[Op:.*", re.DOTALL)


class UserError(ValueError):
    """A mistake in flags, files or data, described in one line."""

    # Keras adds lines to errors of a layer's call that lack this attribute.
    _keras_call_info_injected = True


class InputError(UserError):
    """Input from which nothing can be made, however often one tries."""


@contextlib.contextmanager
def naming(place: str) -> Iterator[None]:
    """Put a place, such as the path of a file, before UserErrors of a block."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from error


def reason(error: Exception) -> str:
    """Return why a file operation failed, without error code and path."""
    words = getattr(error, "strerror", None) or getattr(error, "message", None)
    return OPERATION.sub("", str(words or error))


def counted(number: int, noun: str) -> str:
    """Return "1 file", "2 files"."""
    return f"{number} {noun}{'s' * (number != 1)}"
