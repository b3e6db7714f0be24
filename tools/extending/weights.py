"""New rows for new words and new positions.

A new word begins as the mean of the rows of its old pieces, from which the
model read it so far; the bias of the masked LM likewise. A mean of several
vectors is shorter than they are, by up to 1 / sqrt(pieces) where they have
nothing in common, so that its norm may be corrected.

New positions repeat the learned ones (Beltagy et al. 2020, arXiv:2004.05150,
section 5), so that the model sees familiar positions within each part of a
long text. Without further training this is worth little.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

TABLE = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
POSITIONS = "bert/embeddings/position_embeddings"


class Norms(NamedTuple):
    """Euclidean norms of embedding rows.

    Attributes:
        median_before: of the rows of old tokens, without [unused] ones.
        means: of each new row as the mean of its pieces, [N].
        written: of each new row as it is written, [N].
    """

    median_before: float
    means: np.ndarray
    written: np.ndarray


def mean_rows(
    values: np.ndarray, pieces: Sequence[Sequence[int]]
) -> np.ndarray:
    """Return the mean row of each word's pieces.

    Args:
        values: [V, H] of a table, or [V] of a bias.
        pieces: ids of the old pieces of each of N words.

    Returns:
        [N, H] or [N], float32.
    """
    rows = [values[list(ids)].mean(axis=0, dtype=np.float64) for ids in pieces]
    return np.array(rows, np.float32).reshape([-1, *values.shape[1:]])


def with_rows(
    values: np.ndarray, ids: Sequence[int], rows: np.ndarray, size: int
) -> np.ndarray:
    """Return a table with new rows at some ids.

    Args:
        values: [V, H] or [V].
        ids: of the new rows, below `size`.
        rows: [N, H] or [N].
        size: rows of the result, V at least. Every row from V on has to be
            one of the new ones.
    """
    wide = np.zeros([size, *values.shape[1:]], np.float32)
    wide[: len(values)] = values
    wide[list(ids)] = rows
    return wide


def extend_words(
    weights: Mapping[str, np.ndarray],
    pieces: Sequence[Sequence[int]],
    ids: Sequence[int],
    size: int,
    old_ids: Sequence[int],
    corrects_norm: bool,
) -> tuple[dict[str, np.ndarray], Norms]:
    """Return the weights with rows for new words, and the rows' norms.

    Args:
        weights: name -> value, with the word embeddings.
        pieces: old ids of each of N words.
        ids: new ids of the N words.
        size: tokens of the new vocabulary, or more.
        old_ids: of the tokens whose norms are the measure.
        corrects_norm: scale each new row to the median norm of old rows.
    """
    table = weights[TABLE]  # [V, H]
    rows = mean_rows(table, pieces)  # [N, H]
    median = float(np.median(np.linalg.norm(table[list(old_ids)], axis=1)))
    means = np.linalg.norm(rows, axis=1)  # [N]
    if corrects_norm:
        # A row of zeros has no direction to be scaled in.
        rows *= (median / np.where(means > 0, means, 1.0))[:, None]
    extended = dict(weights)
    extended[TABLE] = with_rows(table, ids, rows, size)
    if BIAS in weights:
        bias = mean_rows(weights[BIAS], pieces)  # [N]
        extended[BIAS] = with_rows(weights[BIAS], ids, bias, size)
    written = np.linalg.norm(rows, axis=1)
    return extended, Norms(median, means, written)


def repeat_positions(values: np.ndarray, size: int) -> np.ndarray:
    """Return a position table whose rows repeat those of a shorter one.

    >>> repeat_positions(np.array([[1.0], [2.0]]), 5).T
    array([[1., 2., 1., 2., 1.]])

    Args:
        values: [P, H].
        size: rows of the result.
    """
    return values[np.arange(size) % len(values)]
