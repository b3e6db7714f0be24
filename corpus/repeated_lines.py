"""Find the lines that occur often in a corpus, in bounded memory.

    documents of a bucket --> hashes of its lines and how often each occurs,
                              in buckets that are ranges of hashes
    a range of hashes     --> sorted hashes of the repeated lines

A line that occurs a million times in a bucket takes one entry.

Worker processes import this file: no flags here, and no TensorFlow.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from base.hashing import hash64

import numpy as np

from corpus import documents


class LineSurvey(NamedTuple):
    """Counts the lines of distinct documents, also of those held out.

    Held-out documents count so that training files do not depend on
    --heldout_fraction. A line that occurs `most` times is not repeated.
    """

    num_buckets: int
    most: int

    def map(self, values: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield (range, hashes and occurrences: uint64 [2, lines])."""
        texts, _ = documents.distinct_texts(values)
        hashes = [_line_hashes(text) for text in texts]
        found, counts = np.unique(
            np.concatenate([np.empty(0, np.uint64), *hashes]),
            return_counts=True,
        )
        table = np.stack([found, counts.astype(np.uint64)])
        bounds = [
            (number << 64) // self.num_buckets
            for number in range(1, self.num_buckets)
        ]
        places = np.searchsorted(found, np.array(bounds, np.uint64))
        for bucket, part in enumerate(np.split(table, places, axis=1)):
            if part.size:
                yield bucket, part.tobytes()

    def reduce(self, values: Iterable[bytes]) -> bytes:
        """Return the sorted hashes of repeated lines: uint64 [lines]."""
        parts = [np.frombuffer(v, np.uint64).reshape(2, -1) for v in values]
        hashes, counts = np.concatenate(
            [np.empty([2, 0], np.uint64), *parts], axis=1
        )
        distinct, places = np.unique(hashes, return_inverse=True)
        sums = np.zeros(len(distinct), np.int64)
        np.add.at(sums, places, counts.astype(np.int64))
        return distinct[sums > self.most].tobytes()


def _line_hashes(text: bytes) -> np.ndarray:
    lines = text.split(b"\n")[:-1]
    return np.array(list(map(hash64, lines)), np.uint64)


def without_lines(text: bytes, repeated: np.ndarray) -> tuple[bytes, int]:
    """Return a text without the repeated lines, and how many these were."""
    if not len(repeated):
        return text, 0
    lines = text.split(b"\n")[:-1]
    hashes = _line_hashes(text)
    places = np.searchsorted(repeated, hashes)
    places[places == len(repeated)] = 0
    kept = np.flatnonzero(repeated[places] != hashes).tolist()
    if len(kept) == len(lines):
        return text, 0
    text = b"".join(lines[index] + b"\n" for index in kept)
    return text, len(lines) - len(kept)
