"""The functions of tf.io.gfile, over the file systems of Apache Beam.

TensorFlow's packages reach fewer and fewer file systems by themselves. The
workers of a pipeline use Beam's (gs://, s3://, hdfs://, az:// with its extras),
so the driver uses them too. Paths file:///... are local here, as they are in
tf.io.gfile.
"""

import os
import posixpath
import shutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import IO

from apache_beam.io.filesystem import CompressionTypes, FileMetadata
from apache_beam.io.filesystems import FileSystems

_LOCAL = "file://"  # a prefix that Beam does not have


def exists(path: str) -> bool:
    """Whether a file or a directory exists."""
    return FileSystems.exists(path.removeprefix(_LOCAL)) or isdir(path)


def isdir(path: str) -> bool:
    """Whether a path has files below it; many systems have no directories."""
    if not FileSystems.get_scheme(path.removeprefix(_LOCAL)):
        return os.path.isdir(path.removeprefix(_LOCAL))
    return bool(_match(posixpath.join(path, "*"), 1))


def glob(pattern: str) -> list[str]:
    """Return the files that a pattern matches."""
    prefix = _LOCAL if pattern.startswith(_LOCAL) else ""
    return [prefix + file.path for file in _match(pattern)]


def walk(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, [], names) for each file below a directory."""
    prefix = _LOCAL if path.startswith(_LOCAL) else ""
    for file in _match(posixpath.join(path, "**")):
        folder, name = posixpath.split(prefix + file.path)
        yield folder, [], [name]


def makedirs(path: str) -> None:
    """Create a directory and its parents, where the system has some."""
    if not exists(path):
        FileSystems.mkdirs(path.removeprefix(_LOCAL))


def remove(path: str) -> None:
    """Remove a file."""
    FileSystems.delete([path.removeprefix(_LOCAL)])


def rmtree(path: str) -> None:
    """Remove a directory with all that is in it."""
    path = path.removeprefix(_LOCAL)
    if not FileSystems.get_scheme(path):
        shutil.rmtree(path)
    elif files := _match(posixpath.join(path, "**")):
        FileSystems.delete([file.path for file in files])


def rename(source: str, target: str, overwrite: bool = False) -> None:
    """Rename a file."""
    source, target = (p.removeprefix(_LOCAL) for p in (source, target))
    if overwrite and FileSystems.exists(target):
        FileSystems.delete([target])
    FileSystems.rename([source], [target])


def stat(path: str) -> SimpleNamespace:
    """Return `length` in bytes and `mtime_nsec` of a file."""
    (file,) = _match(path)
    nanoseconds = int((file.last_updated_in_seconds or 0) * 1e9)
    return SimpleNamespace(length=file.size_in_bytes, mtime_nsec=nanoseconds)


def GFile(path: str, mode: str = "rb") -> IO:
    """Open a file; mode is rb or wb."""
    open_file = FileSystems.open if mode == "rb" else FileSystems.create
    plain = CompressionTypes.UNCOMPRESSED
    return open_file(path.removeprefix(_LOCAL), compression_type=plain)


def _match(pattern: str, limit: int | None = None) -> list[FileMetadata]:
    """Return the files that a pattern matches, at most `limit`."""
    (found,) = FileSystems.match([pattern.removeprefix(_LOCAL)], [limit])
    return found.metadata_list
