"""Find, read, lock and write local and remote files.

A file appears only complete. Remote paths (gs://, hdfs://, ...) go through
tf.io.gfile, or with --runner=beam through Apache Beam. TensorFlow is imported
only for them, so that worker processes do not need its 600 MB.
"""

import contextlib
import glob
import hashlib
import importlib
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator
from typing import IO

from base import errors, machine, startup
from base.errors import UserError

from absl import logging

_LOCK_POLL_SECONDS = 1.0

# `content_digest` reads this many blocks of a file; up to 9 MiB they are all.
_BLOCKS, _BLOCK_BYTES = 9, 1 << 20

# What `atomic_file` writes to until the file is complete.
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<process>\d+)-[0-9a-f]+\.tmp")


def is_remote(path: str) -> bool:
    """Whether a path needs tf.io.gfile (gs://, hdfs://, ...)."""
    return "://" in path


def gfile():
    """Return the functions of tf.io.gfile, to be used for remote paths.

    In a process that has imported Apache Beam (the driver or a worker of a
    pipeline) they are those of base/beam_files.py, so that all paths of a run
    go through the same file systems. Else TensorFlow is imported.
    """
    if "apache_beam" in sys.modules:
        from base import beam_files

        return beam_files
    if "tensorflow" not in sys.modules:
        with startup.importing():
            importlib.import_module("tensorflow")
    return sys.modules["tensorflow"].io.gfile


def is_utf_8(text: str) -> bool:
    """Whether an argument or the name of a file is UTF-8 as a whole.

    Python keeps other bytes as surrogates, which neither TensorFlow nor JSON
    takes.
    """
    return not re.search("[\ud800-\udfff]", text)


def file_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a failed file operation may raise.

    TensorFlow's are included once it is imported; before, none can be raised.
    """
    if "tensorflow" not in sys.modules:
        return (OSError,)
    return (OSError, sys.modules["tensorflow"].errors.OpError)


# --- Finding -----------------------------------------------------------------


def exists(path: str) -> bool:
    """Whether a local or remote file or directory exists."""
    return gfile().exists(path) if is_remote(path) else os.path.exists(path)


def is_directory(path: str) -> bool:
    """Whether a path is an existing local or remote directory."""
    return gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def is_stream(path: str) -> bool:
    """Whether a path is standard output ("-"), a pipe or a device.

    Such a path is written to directly, and can be read only once.
    """
    if path == "-":
        return True
    is_there = not is_remote(path) and os.path.exists(path)
    return is_there and not (os.path.isfile(path) or os.path.isdir(path))


def check_no_stream(path: str, flag: str = "") -> None:
    """Raise a UserError for a pipe or a device, which can be read only once."""
    if is_stream(path):
        raise UserError(
            f"{flag and f'--{flag}: '}{path} is a pipe or a device, which "
            "cannot be read twice: give a file"
        )


def absolute_path(path: str) -> str:
    """Return an absolute path; remote ones are absolute already."""
    if is_remote(path):
        return path
    return os.path.abspath(os.path.expanduser(path))


def real_path(path: str) -> str:
    """Return a path that is equal for all names of a file or directory.

    Links are followed; remote paths only lose a slash at their end.
    """
    return path.rstrip("/") if is_remote(path) else os.path.realpath(path)


def names_in_shared_folder(paths: Iterable[str]) -> list[str]:
    """Return paths relative to the folder that all of them share.

    The results stay the same when the folder is moved, and differ as the paths
    do: /data/a/x and /data/b/x give a/x and b/x. Remote paths are allowed.
    """
    full = [os.path.abspath(path) for path in paths]
    root = os.path.commonpath(map(os.path.dirname, full)) if full else ""
    return [os.path.relpath(path, root) for path in full]


def file_state(path: str) -> list[int] | None:
    """Return a file's size in bytes and time of change, None without one."""
    if is_remote(path):
        if not gfile().exists(path):
            return None
        state = gfile().stat(path)
        return [state.length, state.mtime_nsec]
    try:
        state = os.stat(path)
    except FileNotFoundError:
        return None
    return [state.st_size, state.st_mtime_ns]


def content_digest(path: str) -> str:
    """Return a digest of a file's size and content, as hexadecimal digits.

    Of a file above 9 MiB it covers 9 blocks of 1 MiB, among them the first and
    the last, so that no file takes longer: a change between the blocks that
    keeps the size is not seen.
    """
    size, _ = file_state(path) or [0, 0]
    last = max(0, size - _BLOCK_BYTES)
    places = sorted({last * n // (_BLOCKS - 1) for n in range(_BLOCKS)})
    digest = hashlib.sha256(str(size).encode())
    with reading(path) as file:
        for place in places:
            file.seek(place)
            digest.update(file.read(_BLOCK_BYTES))
    return digest.hexdigest()


def file_identity(path: str) -> list:
    """Return [path, size in bytes, digest] of a file that a run depends on.

    The digest is `content_digest` and, where that has not read the whole file,
    the time of change: then a file that was only touched counts as another.
    """
    size, changed = file_state(path) or [0, 0]
    digest = content_digest(path)
    if size > _BLOCKS * _BLOCK_BYTES:
        digest += f"-{changed}"
    return [path, size, digest]


def files_below(path: str) -> Iterator[tuple[str, int | None]]:
    """Yield (path relative to the directory, bytes) of all files below it.

    The size of a remote file or a broken link is None. A directory that does
    not exist has no files.
    """
    walk = gfile().walk if is_remote(path) else os.walk
    for folder, _, names in walk(path):
        for name in names:
            full = os.path.join(folder, name)
            size = None
            if not is_remote(path):
                with contextlib.suppress(OSError):  # removed, or a broken link
                    size = os.path.getsize(full)
            yield os.path.relpath(full, path), size


def find_files(patterns: str, flag: str = "input_file") -> list[str]:
    """Return the files that a comma-separated list of globs matches.

    The patterns keep their order, the files of each are sorted, and a file that
    two patterns match is returned once. Each has to match a file.
    """
    found: dict[str, str] = {}
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        if is_remote(pattern):
            paths = gfile().glob(pattern)
        else:
            pattern = os.path.expanduser(pattern)
            # A browser makes "a[1].txt" of a second "a.txt"; as a pattern it
            # would stand for "a1.txt".
            is_name = os.path.isfile(pattern)
            paths = [pattern] if is_name else glob.glob(pattern, recursive=True)
        files = sorted(path for path in paths if not os.path.isdir(path))
        if paths and not files:
            raise UserError(
                f"--{flag}: {paths[0]} is a directory; use {paths[0]}/* for "
                "the files in it"
            )
        if not files:
            raise UserError(f"--{flag}: no file matches {pattern!r}")
        for path in files:
            if not is_utf_8(path):
                raise UserError(
                    f"--{flag}: the name {path!a} is not UTF-8: rename the file"
                )
            place = path if is_remote(path) else os.path.realpath(path)
            if not is_remote(path) and not os.path.exists(path):
                raise UserError(
                    f"--{flag}: {path} is a link to {place}, which does not "
                    "exist"
                )
            if place in found:
                logging.warning("%s matches twice; it is read once", path)
            found.setdefault(place, path)
    if not found:
        raise UserError(f"--{flag} is empty")
    return list(found.values())


def input_states(patterns: str, flag: str = "input_file") -> list[list]:
    """Return the `file_identity` of every file that globs match.

    In the fingerprint of a command these states stand for the text, which may
    be too large to be read twice. A pipe is refused.
    """
    paths = list(map(absolute_path, find_files(patterns, flag)))
    for path in paths:
        check_no_stream(path)
    return [file_identity(path) for path in paths]


def check_no_pattern(path: str, flag: str) -> None:
    """Check that the path of a directory has no comma and no wildcard.

    Flags that take lists or globs would split it or match other files.
    """
    if character := re.search(r"[,*?[]", path):
        raise UserError(
            f"--{flag}={path}: {character[0]!r} has a meaning in the lists and "
            "patterns of files that the scripts read: name another directory"
        )


# --- Writing -----------------------------------------------------------------


@contextlib.contextmanager
def atomic_file(path: str, sync: bool = True) -> Iterator[IO[bytes]]:
    """Open a file for writing; it appears under its name only when complete.

    The bytes go to a hidden temporary file in the same directory, which gets
    the final name when the block ends and is removed when the block fails. If
    `path` is a link, the file it points to is replaced. Standard output ("-"),
    a pipe or a device is written to directly. `sync` waits until the bytes are
    on the disk, so that they survive a power cut.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if is_stream(path):
        try:
            with open(path, "wb") as file:
                yield file
        except BaseException as error:
            vars(error).setdefault("file_written", path)
            raise
        return
    if not is_remote(path):
        path = os.path.realpath(path)
    folder, name = os.path.split(path)
    # Several processes may write the same file, also on several machines: each
    # has a temporary file of its own.
    own = f"{os.getpid()}-{secrets.token_hex(4)}"
    temporary = os.path.join(folder, f".{name}.{own}.tmp")
    try:
        if is_remote(path):
            with gfile().GFile(temporary, "wb") as file:
                yield file
            gfile().rename(temporary, path, overwrite=True)
            return
        with open(temporary, "wb") as file:
            yield file
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        with contextlib.suppress(Exception):
            remove(temporary)
        # The error of a write has no path. script.py shows this one.
        vars(error).setdefault("file_written", path)
        raise


def write_bytes(path: str, data: bytes) -> None:
    """Write a file, complete or not at all."""
    with atomic_file(path) as file:
        file.write(data)


def write_text(path: str, text: str) -> None:
    """Write a UTF-8 file, complete or not at all."""
    write_bytes(path, text.encode())


def remove(path: str) -> None:
    """Remove a local or remote file."""
    gfile().remove(path) if is_remote(path) else os.remove(path)


def remove_leftovers(path: str) -> None:
    """Remove temporary files of `atomic_file(path)` of killed runs.

    Of a folder, those of all its files. Files of running processes stay, since
    these may be writing. Nothing is done for a remote path.
    """
    if is_remote(path):
        return
    folder, name = os.path.realpath(path), None
    if not os.path.isdir(folder):
        folder, name = os.path.split(folder)
    for leftover in glob.glob(f"{glob.escape(folder)}/.*.tmp"):
        parts = _TEMPORARY.fullmatch(os.path.basename(leftover))
        # ".x.y.123-4af0.tmp" is of "x.y".
        if not parts or name not in (None, parts["name"]):
            continue
        if not is_running(int(parts["process"])):
            with contextlib.suppress(FileNotFoundError):
                os.remove(leftover)


def is_running(process: int) -> bool:
    """Whether another process with this id is running.

    A process that has ended is not running, although the system may list it.
    """
    if process == os.getpid():
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass
    return not machine.has_ended(process)


# --- Directories -------------------------------------------------------------


def make_directories(path: str) -> None:
    """Create a local or remote directory and its parents, if need be."""
    if is_remote(path):
        gfile().makedirs(path)
        return
    while True:
        try:
            return os.makedirs(path, exist_ok=True)
        except FileExistsError:
            # If nothing is there now, another run has just removed the
            # directory, see `locked_folder`.
            if os.path.lexists(path) and not os.path.isdir(path):
                raise


def make_directory(path: str, flag: str = "output_dir") -> None:
    """Create the directory of a flag; check that it can be written to."""
    try:
        make_directories(path)
    except file_errors() as error:
        words = f"cannot be written: {errors.reason(error)}"
        if os.path.isfile(path):
            words = "is a file, wanted a directory"
        raise UserError(f"--{flag}={path} {words}") from error
    check_writable(path, flag)


def check_writable(path: str, flag: str) -> None:
    """Check that a file or a directory can be made where a flag names one.

    Nothing is left there. Remote paths, pipes and devices are not checked.

    Raises:
        UserError: the directory that has to hold it cannot be written to, or
            its disk is full.
    """
    if is_remote(path) or is_stream(path):
        return
    folder = absolute_path(path)
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        folder = os.path.dirname(folder)
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1 << 16))
    except OSError as error:
        raise UserError(
            f"--{flag}={path} cannot be written in {folder}: "
            f"{errors.reason(error)}"
        ) from error


def prepare_output_file(path: str, inputs: Iterable[tuple[str, str]]) -> None:
    """Check that --output_file is a file, and none that is read; make a folder.

    `inputs` are pairs of a flag and a file that it names.
    """
    if is_directory(path) or path.endswith("/"):
        raise UserError(f"--output_file={path} is a directory: name a file")
    for name, other in inputs:
        if not is_stream(path) and real_path(path) == real_path(other):
            raise UserError(
                f"--output_file={path} is a file of --{name} too: name another"
            )
    make_directories(os.path.dirname(path) or ".")


def check_new_directory(path: str, flag: str, own: Collection[str]) -> None:
    """Check that a local directory, which no run has begun, has no files.

    A run might replace some of them. Files named in `own` do not count.
    """
    if names := sorted(set(os.listdir(path)).difference(own)):
        raise UserError(
            f"--{flag}={path} holds {names[0]}, which this script did not "
            "write and might replace: name an empty or a new directory"
        )


def remove_directory(path: str) -> None:
    """Remove a local or remote directory, if it is there, and all in it."""
    if is_directory(path):
        gfile().rmtree(path) if is_remote(path) else shutil.rmtree(path)


def private_folder() -> str:
    """Return this user's folder in the system's folder of temporary files.

    Its name is always the same, so that a run finds there what a killed one
    left. Everybody may write beside it: a folder or a link of that name that
    somebody else has made is refused.

    Raises:
        UserError: it is not a directory of this user alone.
    """
    try:
        path = os.path.join(tempfile.gettempdir(), f"bert-{os.getuid()}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        found = os.lstat(path)
    except OSError as error:
        raise UserError(
            f"temporary files: {error}; set TMPDIR to a directory of your own"
        ) from error
    is_own = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_own or found.st_mode & 0o077:
        raise UserError(
            f"{path}: found {stat.filemode(found.st_mode)} of user "
            f"{found.st_uid}, wanted a directory that only user {os.getuid()} "
            "can use: remove it, or set TMPDIR to a directory of your own"
        )
    return path


@contextlib.contextmanager
def locked_folder(
    folder: str, what: str, wait_seconds: float = 0.0
) -> Iterator[int]:
    """Make a local folder, and lock it against other runs inside the block.

    The lock ends with the process, however that ends. The folder is removed at
    the end of the block if it is empty. Yields the descriptor of the lock:
    child processes that inherit it hold the lock too.

    Raises:
        UserError: another run, which writes `what`, has it, and does not end
            within `wait_seconds`.
    """
    end = time.monotonic() + wait_seconds
    while True:
        # Within the loop: the other run removes the folder if it is empty.
        make_directories(folder)
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            machine.lock(lock)
            # The folder that is locked may have been removed before, and
            # another run may have the one that has its name now.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samefile(lock, folder):
                    break
            os.close(lock)
            continue
        except BlockingIOError:
            os.close(lock)
            if time.monotonic() >= end:
                raise UserError(
                    f"another run is writing {what}; wait until it ends"
                ) from None
        except OSError:  # Some network file systems have no locks.
            break
        waiting = "Waiting for a run that is writing %s to end"
        logging.log_every_n_seconds(logging.INFO, waiting, 15, what)
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield lock
    finally:
        # While it is locked: afterwards it may be another run's.
        with contextlib.suppress(OSError):
            os.rmdir(folder)  # fails unless it is empty
        os.close(lock)


# --- Reading -----------------------------------------------------------------


def open_for_reading(path: str) -> IO[bytes]:
    """Open a local or remote file; raise a UserError if there is none."""
    try:
        if is_remote(path):
            if not gfile().exists(path):
                raise FileNotFoundError(2, "No such file or directory")
            return gfile().GFile(path, "rb")
        return open(path, "rb")
    except file_errors() as error:
        raise read_error(path, error) from error


@contextlib.contextmanager
def reading(path: str) -> Iterator[IO[bytes]]:
    """Open a file; raise a UserError if it cannot be read inside the block."""
    try:
        with open_for_reading(path) as file:
            yield file
    except file_errors() as error:  # a directory, a damaged disk
        raise read_error(path, error) from error


def read_error(path: str, error: Exception) -> UserError:
    """Return the error for a file that cannot be read."""
    return UserError(f"{path}: cannot be read: {errors.reason(error)}")


def sha256(path: str) -> str:
    """Return the SHA-256 checksum of a file as hexadecimal digits."""
    digest = hashlib.sha256()
    with reading(path) as file:
        while part := file.read(1 << 24):
            digest.update(part)
    return digest.hexdigest()
