"""Ctrl-C and SIGTERM: end in one line, and remove what is temporary."""

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import TracebackType

from base import startup


def prepare() -> None:
    """Make Ctrl-C end a script in one line while it imports its modules.

    That takes seconds where TensorFlow is among them. script.run does the same
    from `main` on. Programs that use this project as a library are left alone.
    """
    if startup.is_script():
        sys.excepthook = _show


def _show(
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
) -> None:
    """Show an error that ends the process; Ctrl-C as one line."""
    if issubclass(kind, KeyboardInterrupt):
        print("ERROR: interrupted", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


@contextlib.contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """End the block at SIGTERM as at Ctrl-C, so that it deletes its files."""

    def end(*_) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
