"""End at SIGTERM as at Ctrl-C, so that what is temporary is removed."""

import contextlib
import signal
from collections.abc import Iterator


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
