"""Search the vectors of an index: exactly, by 8-bit codes, or by a graph.

A method names candidates, among which the nearest are (exact, int8) or almost
always are (graph). Their cosines are then computed again from the vectors, so
all methods give the same scores.

    exact   products with all vectors, in blocks
    int8    products with their codes, a byte per number. The error of these
            products has a bound; every sentence that is near enough for it is
            a candidate, so the answers are those of exact
    graph   a walk through a graph of neighbors (HNSW, Malkov and Yashunin 2018,
            arXiv:1603.09320), by usearch

All arrays are mapped: the system keeps in memory what is read often. This
module imports no TensorFlow.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

from base import packages
from base.errors import UserError

import numpy as np

METHODS = ("exact", "int8", "graph")

TEXTS, OFFSETS, VECTORS = "texts.jsonl", "offsets.npy", "vectors.npy"
CODES, STEPS, GRAPH = "codes.npy", "steps.npy", "graph.usearch"

REQUIREMENTS = "requirements-search.txt"

_DIGITS = 6  # of a cosine; sentences with the same are in the order of lines

# How far products in float32 may be from the rounded cosines.
_ROUNDING = 1e-4

# Numbers in a block of vectors: for one query 1 MB of float32, which stays in a
# processor's cache; for many more, since products of large matrices are faster.
_BLOCK, _BLOCKS = 1 << 18, 16

_QUERIES = 128  # searched together

# Candidates that the graph names, at least and for each sentence asked for.
_LEAST, _MORE = 128, 4


class Index:
    """A folder that `build.build` has made.

    Args:
        folder: it is complete.
        method: one of METHODS, whose files are there.

    Raises:
        UserError: a file is damaged, or usearch is not installed.
    """

    def __init__(self, folder: str, method: str = "exact"):
        self.folder = folder
        self.vectors = self._array(VECTORS)  # [n, D], of length 1
        self._offsets = self._array(OFFSETS)  # [n + 1], of the lines of TEXTS
        self._texts = open(os.path.join(folder, TEXTS), "rb")  # noqa: SIM115
        self._graph = None
        # What queries are multiplied with, and how far the products are off.
        self._scanned, self._steps, self._error = self.vectors, 1.0, 0.0
        if method == "int8":
            self._scanned = self._array(CODES)  # uint8 [n, D]
            steps = self._array(STEPS)
            self._steps, self._error = steps[:-1], float(steps[-1])
        if method == "graph":
            restore = load_usearch().Index.restore
            try:
                self._graph = restore(os.path.join(folder, GRAPH), view=True)
            except ValueError as error:
                raise self._damaged(GRAPH) from error

    def search(
        self, queries: np.ndarray, count: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield the sentences nearest to each query, the nearest first.

        They are objects with rank, score (the cosine), id, line and text.

        Args:
            queries: float32 [Q, D], of length 1.
            count: of sentences for each; all if there are fewer.
        """
        for places, scores in self.nearest(queries, count):
            pairs = zip(places.tolist(), scores.tolist(), strict=True)
            yield [
                {"rank": rank, "score": score, **self._sentence(place)}
                for rank, (place, score) in enumerate(pairs, 1)
            ]

    def nearest(
        self, queries: np.ndarray, count: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (places, cosines) of the sentences nearest to each query."""
        for start in range(0, len(queries), _QUERIES):
            block = queries[start : start + _QUERIES]
            if self._graph is not None:
                wanted = min(len(self.vectors), max(_LEAST, _MORE * count))
                keys = self._graph.search(block, wanted).keys
                # Unsigned; where fewer are found the rest is 0.
                keys = keys.astype(np.int64).reshape(len(block), -1)
                candidates = map(np.unique, keys)
            else:
                # The low ends of codes change all products of a query alike.
                scaled = block * self._steps
                candidates = scan(self._scanned, scaled, count, self._error)
            for query, places in zip(block, candidates, strict=True):
                # No matrix product: its last bits depend on the place of a row.
                products = self.vectors[places] * query.astype(np.float64)
                scores = products.sum(axis=1).round(_DIGITS)
                order = np.lexsort((places, -scores))[:count]
                yield places[order], scores[order]

    def _sentence(self, place: int) -> dict[str, Any]:
        start, end = map(int, self._offsets[place : place + 2])
        try:
            self._texts.seek(start)
            return json.loads(self._texts.read(end - start))
        except (OSError, ValueError) as error:
            raise self._damaged(TEXTS) from error

    def _array(self, name: str) -> np.ndarray:
        try:
            return np.load(os.path.join(self.folder, name), mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise self._damaged(name) from error

    def _damaged(self, name: str) -> UserError:
        return UserError(
            f"{os.path.join(self.folder, name)} is damaged: delete the folder, "
            "and build the index again with --input_file"
        )


def scan(
    data: np.ndarray, queries: np.ndarray, count: int, error: float = 0.0
) -> Iterator[np.ndarray]:
    """Yield the rows among which the nearest ones of each query are.

    A product is at most `error` from the true one. So the true products of the
    `count` best rows are at least the last of their products less `error`, and
    no row whose product is less than that by another `error` is among the best.

    Args:
        data: [n, D], float32 or codes.
        queries: float32 [Q, D].
        count: how many are to be found.
        error: of a product.
    """
    margin = 2 * error + _ROUNDING
    floor = np.full([len(queries)], -np.inf, np.float32)
    parts = []
    block_size = _BLOCK * min(len(queries), _BLOCKS)
    size = max(count, block_size // data.shape[1])
    for start in range(0, len(data), size):
        block = data[start : start + size].astype(np.float32, copy=False)
        products = queries @ block.T  # [Q, size]
        floor = np.maximum(floor, _last_of(products, count))
        query, row = np.nonzero(products >= floor[:, None] - margin)
        parts.append((query, start + row, products[query, row]))
    query, rows, values = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(query, kind="stable")
    for own in np.split(order, np.cumsum(np.bincount(query))[:-1]):
        found = values[own]
        yield rows[own][found >= _last_of(found, count) - margin]


def _last_of(values: np.ndarray, count: int) -> np.ndarray:
    """Return the count-th largest number of each row [..., n] -> [...]."""
    if values.shape[-1] < count:
        return np.full(values.shape[:-1], -np.inf, np.float32)
    return np.partition(values, -count, axis=-1)[..., -count]


def load_usearch() -> Any:
    """Return the module of usearch's index; a UserError if there is none."""
    return packages.load(
        "usearch.index", "--method=graph", "usearch", REQUIREMENTS
    )
