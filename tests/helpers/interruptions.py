"""Ends a run inside the test process, at a line of its log."""

import contextlib
import logging
import re
from collections.abc import Iterator

import pytest


class _Killer(logging.Handler):
    """Raises where a message matches, as if the process were killed there."""

    def __init__(self, pattern: str):
        super().__init__(logging.INFO)
        self.pattern = re.compile(pattern)

    def emit(self, record: logging.LogRecord) -> None:
        if self.pattern.search(record.getMessage()):
            raise KeyboardInterrupt


@contextlib.contextmanager
def interrupted_at(pattern: str) -> Iterator[None]:
    """Expect that the code in it logs a message, and end it there."""
    logger, handler = logging.getLogger("absl"), _Killer(pattern)
    logger.addHandler(handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        logger.removeHandler(handler)
