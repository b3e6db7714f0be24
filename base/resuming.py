"""Continue a run that was killed: states of files, locks, changed commands."""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from base import file_system
from base.errors import UserError

from absl import logging


def absolute_path(path: str) -> str:
    """Return an absolute path; remote ones are absolute already."""
    if file_system.is_remote(path):
        return path
    return os.path.abspath(os.path.expanduser(path))


def file_state(path: str) -> list[int] | None:
    """Return a file's size in bytes and time of change, None without one."""
    if file_system.is_remote(path):
        if not file_system.gfile().exists(path):
            return None
        state = file_system.gfile().stat(path)
        return [state.length, state.mtime_nsec]
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return None
    return [state.st_size, state.st_mtime_ns]


def input_states(patterns: str) -> list[list]:
    """Return [path, size, time of change] of every file of a list of globs.

    In the fingerprint of a command they stand for the text, which may be too
    large to be read twice.

    Raises:
        UserError: a pattern matches no file, or a pipe.
    """
    paths = list(map(absolute_path, file_system.find_files(patterns)))
    for path in filter(file_system.is_stream, paths):
        raise UserError(
            f"{path} is a pipe or a device, which cannot be read twice: give "
            "a file"
        )
    return [[path, *file_state(path)] for path in paths]


LOCK_POLL_SECONDS = 1.0


@contextlib.contextmanager
def locked_folder(
    folder: str, what: str, wait_seconds: float = 0.0
) -> Iterator[int]:
    """Make a local folder, and lock it against other runs inside the block.

    The lock ends with the process, however that ends. The folder is removed at
    the end of the block if it is empty. Yields the descriptor of the lock:
    child processes that inherit it hold the lock too.

    Raises:
        UserError: another run has it, also after `wait_seconds`.
    """
    end = time.monotonic() + wait_seconds
    while True:
        # Within the loop: the other run removes the folder if it is empty.
        os.makedirs(folder, exist_ok=True)
        try:
            lock = _lock(folder, what)
            break
        except UserError:
            if time.monotonic() >= end:
                raise
        logging.log_every_n_seconds(
            logging.INFO,
            "Waiting for a run that is writing %s to end",
            15,
            what,
        )
        time.sleep(LOCK_POLL_SECONDS)
    try:
        yield lock
    finally:
        os.close(lock)
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # fails unless it is empty


def _lock(folder: str, what: str) -> int:
    """Return the descriptor of a locked folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise UserError(
            f"another run is writing {what}; wait until it ends"
        ) from None
    except OSError:  # Some network file systems have no locks.
        pass
    return descriptor


def empty_folder(folder: str) -> None:
    """Remove all files of a local folder."""
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            os.remove(entry.path)


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return a phrase for each difference between two commands.

    They map names of flags, or words, to values. A list of files names them by
    path or by [path, ...].
    """
    new = json.loads(json.dumps(new))  # The old one has been through JSON.
    found = []
    for name in [*new, *(name for name in old if name not in new)]:
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        shown = name if " " in name else f"--{name}"
        if isinstance(before, list) and isinstance(now, list):
            changed = [item for item in before if item not in now]
            changed += [item for item in now if item not in before]
            item = (changed or now)[0]
            how = _how_it_differs(item, before, now)
            found.append(f"{shown}, first difference at {how}")
        else:
            found.append(f"{shown} was {before}, is {now}")
    return found


def _how_it_differs(item: Any, before: list, now: list) -> str:
    """Return a file's path, and how it differs if both lists have it."""
    if not isinstance(item, list):
        return str(item)
    name = item[0]
    states = [x for x in (*before, *now) if x[0] == name and len(x) == 3]
    if len(states) != 2:
        return name
    if states[0][1] == states[1][1]:
        return f"{name} (the same size, another time of change)"
    return f"{name} ({states[0][1]} bytes, now {states[1][1]})"


@contextlib.contextmanager
def explained_failures(output: str) -> Iterator[None]:
    """Say how to continue the run of an output that the block cannot finish.

    Raises:
        UserError: in place of an OSError, such as that of a full disk.
    """
    try:
        yield
    except KeyboardInterrupt:
        logging.info("Give the same command again to continue this run.")
        raise
    except OSError as error:
        raise UserError(
            f"{error.filename or output}: {error.strerror or error}; mend "
            "that and give the same command again"
        ) from error
