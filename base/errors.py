"""Errors that a user can cause, and words for them.

Whatever a user can get wrong (a flag, a file, a damaged record) raises
`UserError` with a single line that names the place, what was found, what was
wanted and how to mend it. Any other exception is a bug of this project.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator

# What TensorFlow writes around the message of an operation that failed:
# {{function_node ...}} message [Op:SaveV2] name:
OPERATION = re.compile(r"\{\{[^}]*\}\} *|\s*\[Op:.*", re.DOTALL)


class UserError(ValueError):
    """A mistake in flags, files or data, described in one line."""

    # Keras adds lines to errors of a layer's call that lack this attribute.
    _keras_call_info_injected = True


class InputError(UserError):
    """Input from which nothing can be made, however often one tries."""


Kinds = type[Exception] | tuple[type[Exception], ...]


@contextlib.contextmanager
def naming(place: str, kinds: Kinds = UserError) -> Iterator[None]:
    """Raise errors of the block as UserErrors that begin with a place.

    It is the path of a file, for example, or what is wrong with it. `kinds` are
    the errors; by default they are UserErrors, which do not know the place.
    """
    try:
        yield
    except kinds as error:
        raise UserError(f"{place}: {error}") from error


def check_choice(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise a UserError, "<what> <value>; choose from ...", for no choice."""
    names = [*choices]
    if value not in names:
        raise UserError(f"{what} {value!r}; choose from {', '.join(names)}")


def reason(error: Exception) -> str:
    """Return why a file operation failed, without error code and path."""
    words = getattr(error, "strerror", None) or getattr(error, "message", None)
    return OPERATION.sub("", str(words or error))


def counted(number: int, noun: str) -> str:
    """Return "1 file", "2 files"."""
    return f"{number} {noun}{'s' * (number != 1)}"
