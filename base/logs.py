"""What a script tells a person, and its whole log.

There are three kinds of messages:

    logging.info     the log: what was done and how, for who looks for a reason
    logs.say         what a person needs: the plan, what comes out
    logging.warning  and error: what a person should know or mend

On standard error appears what a person needs:

    Plan: 45 steps of 32 examples
    WARNING: train.txt matches twice; it is read once

On a terminal the level has a colour, unless NO_COLOR is set. --verbosity=0
shows the log too; --verbosity=1 with more of it, and with absl's long prefix:
level, date, time with microseconds, thread and line of the source file.

Everything goes to run.log in the output folder, from the first message on; a
script calls `write_to` as soon as the folder is its own:

    --- python run_ner.py --do_train ...
    2026-11-27 12:03:44 Saved out/model.ckpt-1000
"""

import collections
import functools
import logging as standard_logging
import os
import shlex
import sys
from logging import handlers

from base import cluster, file_system

from absl import flags, logging
from absl.logging import converter

LOG_NAME = "run.log"

SAY = 25  # between INFO and WARNING

# Libraries that log at INFO about files and requests of their own, such as font
# caches. (httpx serves Gradio and the Hugging Face hub.)
_QUIET = ("matplotlib", "httpx", "httpx2", "tensorflow")

# A command begins with this in run.log.
_COMMAND = "--- python "

# Messages that are kept until the folder is known: a server never has one.
_MOST_KEPT = 10_000

_kept: handlers.MemoryHandler | None = None


def is_terminal() -> bool:
    """Whether standard error is a terminal that can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def error_line(message: str) -> str:
    """Return an error as one line that stands out among messages."""
    return f"{_before('ERROR')}{' '.join(message.split())}"


def _before(level: str, colors: bool = True) -> str:
    """Return "WARNING: ", yellow on a terminal, or "ERROR: ", which is red."""
    if not colors or not is_terminal() or os.environ.get("NO_COLOR"):
        return f"{level}: "
    return f"\x1b[{33 if level == 'WARNING' else 31}m{level}:\x1b[m "


class Formatter(standard_logging.Formatter):
    """Formats messages as the docstring of this module shows."""

    def __init__(self, form: str = "%(message)s", colors: bool = True) -> None:
        super().__init__(form, "%Y-%m-%d %H:%M:%S")
        self.colors = colors

    def formatMessage(self, record: standard_logging.LogRecord) -> str:
        if record.levelno >= standard_logging.WARNING:
            level = _before(record.levelname, self.colors)
            record.message = f"{level}{record.message}"
        return super().formatMessage(record)


def set_up() -> None:
    """Show and keep messages as the docstring of this module says.

    Call it after the flags are parsed; in a worker process, which parses none,
    before the first message.
    """
    global _kept
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()
    logging.use_absl_handler()
    shown, verbosity = logging.get_absl_handler(), flags.FLAGS["verbosity"]
    is_long = verbosity.value > logging.INFO  # absl: 1 is DEBUG
    shown.setFormatter(logging.PythonFormatter() if is_long else Formatter())
    level = converter.absl_to_standard(verbosity.value)
    shown.setLevel(level if verbosity.present else SAY)
    for name in _QUIET:
        standard_logging.getLogger(name).setLevel(standard_logging.WARNING)
    # run.log has the rest of what is not shown.
    logging.set_verbosity(max(verbosity.value, logging.INFO))
    if not _kept:
        _kept = handlers.MemoryHandler(_MOST_KEPT, flushLevel=sys.maxsize)
        _kept.buffer = collections.deque(maxlen=_MOST_KEPT)
        standard_logging.getLogger().addHandler(_kept)


def write_to(folder: str) -> None:
    """Write all messages of this process to run.log in a folder.

    They are appended, since a run may be resumed. There is no log in a folder
    that is not local, of a process that is not the chief, or where a file of
    that name is not such a log.
    """
    path = os.path.join(folder, LOG_NAME)
    is_here = cluster.is_chief() and not file_system.is_remote(folder)
    if not _kept or _kept.target or not is_here:
        return
    try:
        with open(path, "a+", encoding="utf-8", errors="replace") as found:
            found.seek(0)
            if found.read(len(_COMMAND)) not in ("", _COMMAND):
                raise FileExistsError(0, "it is of another program")
        file = standard_logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        logging.warning("No log is written to %s: %s", path, error.strerror)
        return
    file.setFormatter(Formatter("%(asctime)s %(message)s", colors=False))
    file.handleError = lambda record: None  # a full disk stops a run elsewhere
    program, *arguments = sys.argv
    command = [os.path.basename(program), *arguments]
    file.stream.write(f"{_COMMAND}{shlex.join(command)}\n")
    say("Files: %s, where %s has all that happens", folder, LOG_NAME)
    _kept.capacity = 1  # no message waits from now on
    _kept.setTarget(file)
    _kept.flush()


def error_to_file(message: str) -> None:
    """Write an error that is shown in another way to run.log alone."""
    if _kept:
        logger, level = logging.get_absl_logger(), standard_logging.ERROR
        record = logger.makeRecord(logger.name, level, "", 0, message, (), None)
        _kept.handle(record)


@logging.skip_log_prefix
def say(message: str, *args: object) -> None:
    """Show a message to the person at the terminal, and log it."""
    logging.get_absl_logger().log(SAY, message, *args)


@logging.skip_log_prefix
def report(message: str, *args: object) -> None:
    """Say how far a job is where no bar shows it; log it in any case."""
    level = standard_logging.INFO if is_terminal() else SAY
    logging.get_absl_logger().log(level, message, *args)


@functools.cache
def warn_once(message: str) -> None:
    """Log a warning; the same message is logged once in a process."""
    logging.warning("%s", message)
