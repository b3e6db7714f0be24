"""The format and the level of log lines on standard error.

A line is the time and the message; a level is named from WARNING on:

    12:03:44 Saved out/model.ckpt-1000
    12:03:44 WARNING: train.txt matches twice; it is read once

On a terminal the level has a colour, unless NO_COLOR is set.

With --verbosity=1 lines have absl's long prefix instead: level, date, time
with microseconds, thread and line of the source file.
"""

import contextlib
import functools
import logging as standard_logging
import os
import sys
from collections.abc import Iterable, Iterator

from absl import flags, logging

# Libraries that log at INFO about files and requests of their own, such as font
# caches. (httpx serves Gradio and the Hugging Face hub.)
_QUIET = ("matplotlib", "httpx", "httpx2", "tensorflow")


def is_terminal() -> bool:
    """Whether standard error is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def before(level: str) -> str:
    """Return "WARNING: ", yellow on a terminal, or "ERROR: ", which is red."""
    if not is_terminal() or os.environ.get("NO_COLOR"):
        return f"{level}: "
    return f"\x1b[{33 if level == 'WARNING' else 31}m{level}:\x1b[m "


class Formatter(standard_logging.Formatter):
    """Formats log records as the docstring of this module shows."""

    def __init__(self) -> None:
        super().__init__(datefmt="%H:%M:%S")
        self._long = logging.PythonFormatter()

    def format(self, record: standard_logging.LogRecord) -> str:
        if logging.get_verbosity() > logging.INFO:  # absl: 1 is DEBUG
            return self._long.format(record)
        return super().format(record)

    def formatMessage(self, record: standard_logging.LogRecord) -> str:
        level = ""
        if record.levelno >= standard_logging.WARNING:
            level = before(record.levelname)
        time = self.formatTime(record, self.datefmt)
        return f"{time} {level}{record.message}"


def set_up() -> None:
    """Give absl's log lines this format, and the level INFO.

    Call it after the flags are parsed; in a worker process, which parses none,
    before the first log line.
    """
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    logging.get_absl_handler().setFormatter(Formatter())
    for name in _QUIET:
        standard_logging.getLogger(name).setLevel(standard_logging.WARNING)
    set_level(logging.INFO)


def section(title: str, lines: Iterable[str]) -> None:
    """Log some lines below a title."""
    logging.info("***** %s *****", title)
    for line in lines:
        logging.info("  %s", line)


@contextlib.contextmanager
def warnings_alone() -> Iterator[None]:
    """Write no line below WARNING inside the block.

    This is for calls of libraries that log their steps, which mean nothing to
    the user of a script. With --verbosity such lines are written.
    """
    before = logging.get_verbosity()
    set_level(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def set_level(level: int) -> None:
    """Set the lowest level that is written; --verbosity takes precedence."""
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(level)


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning; the same message is logged once in a process."""
    logging.warning("%s", message)
