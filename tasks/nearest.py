"""Which vectors are nearest to a query by the cosine, exactly.

Products of matrices in float32 name candidates, whose cosines are then computed
again, with digits that do not depend on the block a row was in. No TensorFlow.

Letters in shapes: Q queries, n vectors, D numbers of a vector.
"""

from collections.abc import Iterator

import numpy as np

_DIGITS = 6  # of a cosine; vectors with equal cosines keep their order

# How far products in float32 may be from the rounded cosines.
_ROUNDING = 1e-4

# Numbers in a block of vectors: for one query 1 MB of float32, which stays in a
# processor's cache; for many more, since products of large matrices are faster.
_BLOCK, _BLOCKS = 1 << 18, 16

_QUERIES = 128  # compared together


def unit_length(vectors: np.ndarray) -> np.ndarray:
    """Return vectors [n, D] divided by their lengths; 0 stays 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)


def nearest(
    vectors: np.ndarray, queries: np.ndarray, count: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (places, cosines) of the vectors nearest to each query.

    They are `count` at most, the nearest first; equal cosines are in the order
    of the vectors.

    Args:
        vectors: float32 [n, D], of length 1.
        queries: float32 [Q, D], of length 1.
        count: how many are to be found.
    """
    found = candidates(vectors, queries, count)
    for query, places in zip(queries, found, strict=True):
        yield ranked(vectors, query, places, count)


def ranked(
    vectors: np.ndarray, query: np.ndarray, places: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return those of the places [m] that are nearest to a query; cosines."""
    # No matrix product: its last bits depend on the place of a row.
    products = vectors[places] * query.astype(np.float64)
    scores = products.sum(axis=1).round(_DIGITS)
    order = np.lexsort((places, -scores))[:count]
    return places[order], scores[order]


def candidates(
    data: np.ndarray, queries: np.ndarray, count: int, error: float = 0.0
) -> Iterator[np.ndarray]:
    """Yield, for each query, places among which its nearest vectors are.

    A product is at most `error` from the true one. Let p be the `count`-th
    largest product: `count` rows have true products of at least p - error. So a
    row whose product is below p - 2 error is not among the best.

    Args:
        data: [n, D], float32 or codes.
        queries: float32 [Q, D].
        count: how many are to be found.
        error: bound of a product's error.
    """
    for start in range(0, len(queries), _QUERIES):
        block = queries[start : start + _QUERIES]
        yield from _of_block(data, block, count, 2 * error + _ROUNDING)


def _of_block(
    data: np.ndarray, queries: np.ndarray, count: int, margin: float
) -> Iterator[np.ndarray]:
    """Yield what `candidates` does, for queries that are compared together."""
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
    """Return the count-th largest number of each row, or -infinity.

    Of values [..., n] they are [...].
    """
    if values.shape[-1] < count:
        return np.full(values.shape[:-1], -np.inf, np.float32)
    return np.partition(values, -count, axis=-1)[..., -count]
