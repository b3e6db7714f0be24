"""Which vectors are nearest to a query by the model's similarity, exactly.

A similarity is one of trained_for.Similarity; None: the cosine, which is the
product of vectors of length 1 (`prepared`). Scores in float32 name candidates,
whose scores are then computed again, with digits that do not depend on the
block a row was in. No TensorFlow.

Letters in shapes: Q queries, n vectors, D numbers of a vector.
"""

from collections.abc import Iterable, Iterator

from base.errors import UserError

import numpy as np

_DIGITS = 6  # of a score; vectors with equal scores keep their order

# How far scores in float32 may be from exact ones that are rounded: a share of
# the lengths, and a sum.
_ROUNDING, _LAST_DIGIT = 1e-4, 1e-6

_BLOCK = 1 << 22  # numbers in a block of vectors

_QUERIES = 128  # compared together

_FEW = 16  # queries: fewer are compared faster one by one than together

_GROUPS = 16  # of a block's scores, for each of the nearest that are wanted


def prepared(vectors: np.ndarray, similarity: str | None = None) -> np.ndarray:
    """Return vectors [n, D] as they are compared.

    For the cosine they are divided by their lengths; 0 stays 0, and its cosine
    with every vector is 0.
    """
    if similarity not in (None, "cosine"):
        return vectors
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(norms, 1e-12)


def scores(
    first: np.ndarray, second: np.ndarray, similarity: str | None = None
) -> np.ndarray:
    """Return the similarities [...] of prepared vectors [..., D]."""
    # No matrix product: its last bits depend on the place of a row.
    if similarity == "euclidean":
        return -np.sqrt(((first - second) ** 2).sum(axis=-1))
    if similarity == "manhattan":
        return -np.abs(first - second).sum(axis=-1)
    return (first * second).sum(axis=-1)


def nearest(
    vectors: np.ndarray,
    queries: np.ndarray,
    count: int,
    similarity: str | None = None,
    among: Iterable[np.ndarray] | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (places, scores) of the vectors nearest to each query.

    They are `count` at most, the nearest first; equal scores are in the order
    of the vectors.

    Args:
        vectors: float32 [n, D], prepared.
        queries: float32 [Q, D], prepared.
        count: how many are to be found.
        similarity: how they are compared.
        among: for each query, the places [m] of the vectors that are compared
            with it; None: of all.

    Raises:
        UserError: a number is not finite.
    """
    among = among or candidates(vectors, queries, count, similarity)
    for query, places in zip(queries, among, strict=True):
        found = scores(vectors[places], query.astype(np.float64), similarity)
        check_finite(found)
        found = found.round(_DIGITS)
        order = np.lexsort((places, -found))[:count]
        yield places[order], found[order]


def check_finite(numbers: np.ndarray) -> None:
    """Raise a UserError for vectors or scores that are not finite."""
    if not np.isfinite(numbers).all():
        raise UserError("a vector has numbers that are not finite")


def candidates(
    vectors: np.ndarray,
    queries: np.ndarray,
    count: int,
    similarity: str | None = None,
) -> Iterator[np.ndarray]:
    """Yield, for each query, places among which its nearest vectors are.

    A score in float32 is at most e from the true one. Let p be the `count`-th
    largest score: `count` rows have true scores of at least p - e. So a row
    whose score is below p - 2 e is not among the best. The arguments and the
    error are those of `nearest`.
    """
    for first in range(0, len(queries), _QUERIES):
        own = queries[first : first + _QUERIES]
        floor = np.full([len(own), 1], -np.inf, np.float32)
        margin, parts = np.zeros([len(own), 1], np.float32), []
        size = max(count, _BLOCK // vectors.shape[1])
        for start in range(0, len(vectors), size):
            block = vectors[start : start + size]
            values, rounding = _coarse_scores(own, block, similarity)
            check_finite(values)
            margin = np.maximum(margin, rounding)
            largest = _largest_of_groups(values, count)
            floor = np.maximum(floor, _last_of(largest, count)[:, None])
            found = np.flatnonzero(values >= floor - margin)
            query, row = np.divmod(found, len(block))
            parts.append((query, start + row, values.ravel()[found]))
        query, rows, values = map(np.concatenate, zip(*parts, strict=True))
        order = np.argsort(query, kind="stable")
        ends = np.cumsum(np.bincount(query))[:-1]
        for places, slack in zip(np.split(order, ends), margin, strict=True):
            best = values[places]
            yield rows[places][best >= _last_of(best, count) - slack]


def _coarse_scores(
    queries: np.ndarray, block: np.ndarray, similarity: str | None
) -> tuple[np.ndarray, np.ndarray | float]:
    """Return numbers [Q, n] in the order of the scores, and how far off.

    For the euclidean distance d they are |q|^2 - d^2.
    """
    if similarity in (None, "cosine"):
        return _products(queries, block), _ROUNDING
    if similarity == "manhattan":
        found = np.stack(
            [scores(query, block, similarity) for query in queries]
        )
        far = -found.min(axis=1, keepdims=True)
        return found, _ROUNDING * far + _LAST_DIGIT
    squares = np.einsum("nd,nd->n", block, block)
    longest = np.sqrt(squares.max())
    lengths = np.linalg.norm(queries, axis=1, keepdims=True)
    found = _products(queries, block)
    if similarity == "dot":
        return found, _ROUNDING * longest * lengths + _LAST_DIGIT
    far = longest + lengths
    with np.errstate(invalid="ignore"):  # which the caller refuses
        found = 2 * found - squares
    return found, _ROUNDING * far**2 + 2 * _LAST_DIGIT * far


def _products(queries: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Return the products [Q, n] of queries and vectors."""
    if len(queries) >= _FEW:
        return queries @ vectors.T
    # A stack of products of one row: numpy computes each as a dot product,
    # which reads vectors twice as fast as the product with a whole matrix.
    return (queries[:, None, None] @ vectors[:, :, None])[:, :, 0, 0]


def _largest_of_groups(values: np.ndarray, count: int) -> np.ndarray:
    """Return the largest number [Q, m] of each of m groups of a row [Q, n].

    The count-th largest of these is at most that of the row, and is found
    sooner. The last numbers of a row may be in no group.
    """
    size = max(1, values.shape[1] // (_GROUPS * count))
    end = values.shape[1] // size * size
    return values[:, :end].reshape(len(values), size, -1).max(axis=1)


def _last_of(values: np.ndarray, count: int) -> np.ndarray:
    """Return the count-th largest number of each row, or -infinity.

    Of values [..., n] they are [...].
    """
    if values.shape[-1] < count:
        return np.full(values.shape[:-1], -np.inf, np.float32)
    return np.partition(values, -count, axis=-1)[..., -count]
