"""Search the vectors of an index: exactly, or by a graph.

A method names candidates, among which the nearest are (exact) or almost always
are (graph). Their scores are then computed again from the vectors, so both
methods give the same scores.

    exact   products with all vectors, in blocks
    graph   a walk through a graph of neighbors (HNSW, Malkov and Yashunin 2018,
            arXiv:1603.09320), by usearch

All arrays are mapped: the system keeps in memory what is read often. This
module imports no TensorFlow.
"""

import abc
import json
import os
from collections.abc import Iterator
from typing import Any

from base import packages
from base.errors import UserError

import numpy as np

from tasks import nearest

METHODS = ("exact", "graph")

TEXTS, OFFSETS, VECTORS = "texts.jsonl", "offsets.npy", "vectors.npy"
GRAPH = "graph.usearch"

REQUIREMENTS = "requirements-search.txt"

# How many candidates the graph names: at least, and per sentence asked for.
_LEAST, _MORE = 128, 4


class Sentences(abc.ABC):
    """Sentences that can be searched by their vectors.

    Attributes:
        vectors: float32 [n, D], as they are compared.
        similarity: how they are compared; None: by the cosine.
    """

    vectors: np.ndarray
    similarity: str | None

    @abc.abstractmethod
    def sentence(self, place: int) -> dict[str, Any]:
        """Return what is known of a sentence: id, text and more."""

    def nearest(
        self, queries: np.ndarray, count: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (places, scores) of the sentences nearest to each query."""
        return nearest.nearest(self.vectors, queries, count, self.similarity)

    def search(
        self, queries: np.ndarray, count: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the sentences nearest to each query, the nearest first.

        They are objects with rank, score (the similarity), and what `sentence`
        returns.

        Args:
            queries: float32 [Q, D], prepared.
            count: sentences for each query; all if there are fewer.

        Raises:
            UserError: vectors are not finite.
        """
        for places, scores in self.nearest(queries, count):
            pairs = zip(places.tolist(), scores.tolist(), strict=True)
            yield [
                {"rank": rank, "score": score, **self.sentence(place)}
                for rank, (place, score) in enumerate(pairs, 1)
            ]


class Index(Sentences):
    """A folder that `build.build` has made.

    Args:
        folder: a complete index.
        method: one of METHODS, whose files are there.
        similarity: how vectors are compared; None: by the cosine.

    Raises:
        UserError: a file is damaged, or usearch is not installed.
    """

    def __init__(
        self,
        folder: str,
        method: str = "exact",
        similarity: str | None = None,
    ):
        self.folder, self.similarity = folder, similarity
        self.vectors = self._array(VECTORS)
        self._offsets = self._array(OFFSETS)  # [n + 1], of the lines of TEXTS
        self._texts = open(self.path(TEXTS), "rb")  # noqa: SIM115
        self._graph = None
        if method == "graph":
            restore = load_usearch().Index.restore
            try:
                self._graph = restore(self.path(GRAPH), view=True)
            except ValueError as error:
                raise self.damaged(GRAPH) from error

    def nearest(
        self, queries: np.ndarray, count: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (places, scores) of the sentences nearest to each query."""
        among = None
        if self._graph is not None:
            wanted = min(len(self.vectors), max(_LEAST, _MORE * count))
            keys = self._graph.search(queries, wanted).keys
            # The keys are unsigned. If fewer are found, the rest is 0.
            keys = keys.astype(np.int64).reshape(len(queries), -1)
            among = map(np.unique, keys)
        try:
            yield from nearest.nearest(
                self.vectors, queries, count, self.similarity, among
            )
        except UserError as error:  # a number that is not finite
            raise self.damaged(VECTORS) from error

    def sentence(self, place: int) -> dict[str, Any]:
        """Return id, line and text of a sentence."""
        start, end = map(int, self._offsets[place : place + 2])
        try:
            self._texts.seek(start)
            return json.loads(self._texts.read(end - start))
        except (OSError, ValueError) as error:
            raise self.damaged(TEXTS) from error

    def _array(self, name: str) -> np.ndarray:
        try:
            return np.load(self.path(name), mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise self.damaged(name) from error

    def path(self, name: str) -> str:
        """Return the path of one of the index's files."""
        return os.path.join(self.folder, name)

    def damaged(self, name: str) -> UserError:
        """Return the error for a file that is not as it was written."""
        return UserError(
            f"{self.path(name)} is damaged: delete the folder, "
            "and build the index again with --input_file"
        )


def load_usearch() -> Any:
    """Return the module of usearch's index; a UserError if there is none."""
    return packages.load(
        "usearch.index", "--method=graph", "usearch", REQUIREMENTS
    )
