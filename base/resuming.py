"""Continue a run that was killed: states of files, locks, changed commands."""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
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
    """Return [path, size, time of change] of every input file.

    In the fingerprint of a command they stand for the text, which may be too
    large to be read twice.

    Args:
        patterns: globs, separated by commas.

    Raises:
        UserError: a pattern matches no file.
    """
    paths = map(absolute_path, file_system.find_files(patterns))
    return [[path, *file_state(path)] for path in paths]


LOCK_POLL_SECONDS = 1.0


@contextlib.contextmanager
def locked_folder(
    folder: str, what: str, wait_seconds: float = 0.0
) -> Iterator[int | None]:
    """Make a local folder, and lock it against other runs inside the block.

    The lock ends with the process, however that ends. The folder is removed at
    the end of the block if it is empty. Yields the descriptor of the lock,
    None without locks: child processes that inherit it hold the lock too.

    Args:
        folder: local path.
        what: what the run writes, for the message.
        wait_seconds: how long to wait for the end of another run.

    Raises:
        UserError: another run has it.
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
        if lock is not None:
            os.close(lock)
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # fails unless it is empty


def _lock(folder: str, what: str) -> int | None:
    """Return the descriptor of a locked folder, None without locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
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

    Args:
        old: name of a flag (or words) to value, as read from JSON.
        new: the same of the present command. A list of files names them by
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
    """Return a file's path, and how it differs if both lists have it.

    Args:
        item: path or [path, ...] of the file.
        before: list of the earlier command.
        now: list of the present command.
    """
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
    """Say how to continue a run that the block cannot finish.

    Args:
        output: what the run writes, for failures that name no file.

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


# --- Manifests ---------------------------------------------------------------


def read_manifest(
    path: str,
    outputs: Sequence[str],
    fingerprint: dict[str, Any],
    scratch_dir: str,
    flag: str,
    name: str,
) -> dict[str, Any]:
    """Return the manifest of earlier runs of a command, {} without one.

    Args:
        path: of the manifest: a JSON file with `fingerprint`, and under
            `files` an entry for each file that is complete.
        outputs: files that the command writes.
        fingerprint: everything the output depends on.
        scratch_dir: local folder of unfinished work.
        flag: the flag that names the output, for messages.
        name: the output, for messages.

    Raises:
        UserError: the output files belong to a different command.
    """
    if file_state(path) is None:
        for output in outputs:
            if file_state(output) is not None:
                raise UserError(
                    f"{output} exists, but was not written by this command "
                    f"(there is no {path}); delete it or name another --{flag}"
                )
        return {}
    with file_system.open_for_reading(path) as file:
        manifest = json.loads(file.read())
    if not any(map(file_state, manifest["files"])) and not os.listdir(
        scratch_dir
    ):
        return {}  # Every file that it lists has been deleted.
    if found := differences(manifest["fingerprint"], fingerprint):
        raise UserError(
            f"{name} was begun by a different command: "
            f"{'; '.join(found)}. Name another --{flag}, or delete the files "
            f"and {path}"
        )
    return manifest


def is_complete(path: str, entry: dict[str, Any] | None) -> bool:
    """Whether a file is as its entry in the manifest has it.

    Args:
        path: of the file.
        entry: its size as `bytes`; None if the file was not completed.
    """
    state = file_state(path)
    if not entry or not state:
        return False
    if entry["bytes"] != state[0]:
        logging.warning(
            "%s has %d bytes instead of %d: it is made again",
            path,
            state[0],
            entry["bytes"],
        )
    return entry["bytes"] == state[0]
