"""Find the lines that occur often in a corpus, in bounded memory.

    bucket of documents -> lines-train-00003.npy: hashes of its lines, sorted,
                           and how often each occurs
    all these files     -> repeated.npy: sorted hashes of the repeated lines

The files of the buckets are added up range by range of the hashes, so that a
part of bounded size of each is in memory. A line that occurs a million times
in a bucket takes one entry of its file.

Worker processes import this file: no flags here, and no TensorFlow.
"""

import os
from collections.abc import Iterable, Iterator, Sequence

from base import file_system
from base.hashing import hash64

import numpy as np

# Entries (16 bytes each) that are added up at once, about.
_ENTRIES = 2**22


def line_hashes(text: bytes) -> list[int]:
    r"""Return the hash of each line of a text, without its \n."""
    return [hash64(line) for line in text.split(b"\n")[:-1]]


def without_lines(text: bytes, repeated: np.ndarray) -> tuple[bytes, int]:
    """Return a text without the repeated lines, and how many these were.

    Args:
        text: lines, each with its end.
        repeated: sorted hashes.
    """
    if not len(repeated):
        return text, 0
    lines = text.split(b"\n")[:-1]
    hashes = np.array(line_hashes(text), np.uint64)
    places = np.searchsorted(repeated, hashes)
    places[places == len(repeated)] = 0
    kept = np.flatnonzero(repeated[places] != hashes).tolist()
    if len(kept) == len(lines):
        return text, 0
    text = b"".join(lines[index] + b"\n" for index in kept)
    return text, len(lines) - len(kept)


def load(path: str) -> np.ndarray | None:
    """Return the hashes in a file, None without a path.

    The file is mapped: it takes memory only as far as there is some.
    """
    return np.load(path, mmap_mode="r") if path else None


# --- Counting ----------------------------------------------------------------


def write_counts(path: str, texts: Iterable[bytes]) -> None:
    """Write how often each line occurs in some documents.

    Args:
        path: file to write: uint64 [2, distinct lines], hashes and counts.
        texts: distinct documents.
    """
    hashes = [np.array(line_hashes(text), np.uint64) for text in texts]
    together = np.concatenate([np.empty(0, np.uint64), *hashes])
    found, counts = np.unique(together, return_counts=True)
    with file_system.atomic_file(path) as file:
        np.save(file, np.stack([found, counts.astype(np.uint64)]))


def write_repeated(path: str, files: Sequence[str], most: int) -> int:
    """Write the hashes of the lines that occur more than `most` times.

    Args:
        path: file to write.
        files: those of `write_counts`.
        most: a line that occurs so often is not repeated.

    Returns:
        The number of such lines.
    """
    total = sum(np.load(name, mmap_mode="r").shape[1] for name in files)
    number = max(1, -(-total // _ENTRIES))
    # The repeated lines may be many, so they go to the file as they are found.
    # Their number, which the head of an .npy file has, is known at the end.
    plain = f"{path}.plain"
    size = 0
    with open(plain, "wb") as file:
        for repeated in _repeated_by_range(files, number, most):
            file.write(repeated.tobytes())
            size += len(repeated)
    if size:
        values = np.memmap(plain, np.uint64, "r", shape=(size,))
    else:
        values = np.empty(0, np.uint64)
    with file_system.atomic_file(path) as file:
        np.save(file, values)
    os.remove(plain)
    return size


def _repeated_by_range(
    files: Sequence[str], number: int, most: int
) -> Iterator[np.ndarray]:
    """Yield the sorted hashes of repeated lines, by range of the hashes."""
    for index in range(number):
        low = np.uint64((index << 64) // number)
        parts = []
        for name in files:
            hashes, counts = np.load(name, mmap_mode="r")
            begin, end = np.searchsorted(hashes, low), len(hashes)
            if index + 1 < number:
                high = np.uint64(((index + 1) << 64) // number)
                end = np.searchsorted(hashes, high)
            parts.append(np.stack([hashes[begin:end], counts[begin:end]]))
        hashes, counts = np.concatenate(parts, axis=1)
        distinct, places = np.unique(hashes, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, places, counts.astype(np.int64))
        yield distinct[sums > most]
