"""Errors a user can cause: one line on stderr, exit status 1, no stack trace.

Every script ends in `errors.run(main)`. Whatever a user can get wrong (a
flag, a file, a damaged record) raises `UserError` with a single line that
says what is wrong, where, what was found, what was wanted and how to mend it.
Anything else is our own bug and keeps its stack trace.
"""

import sys
from collections.abc import Callable

from absl import app


class UserError(ValueError):
    """A mistake in flags, files or data, told in one line."""


def run(main: Callable[[list[str]], int | None]) -> None:
    """Run `main` under absl; a UserError becomes one line and exit status 1.

    Args:
        main: takes the arguments left over after flag parsing.
    """
    app.run(lambda argv: _guarded(main, argv))


def _guarded(
    main: Callable[[list[str]], int | None], argv: list[str]
) -> int | None:
    if len(argv) > 1:
        sys.exit(
            _line(f"unexpected argument {argv[1]!r}: flags are --name=value")
        )
    try:
        return main(argv)
    except UserError as error:
        sys.exit(_line(str(error)))
    except KeyboardInterrupt:
        sys.exit(_line("interrupted"))


def reason(error: Exception) -> str:
    """Return what a failed file operation says, without code and path.

    Args:
        error: an OSError or one of TensorFlow's.
    """
    words = getattr(error, "strerror", None) or getattr(error, "message", None)
    return words or str(error)


def _line(message: str) -> str:
    """Prefix the message so that it stands out among log lines."""
    return f"ERROR: {' '.join(message.split())}"
