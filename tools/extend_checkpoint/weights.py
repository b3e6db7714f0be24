"""New rows for new words and new positions.

A new word begins as the mean of the rows of its old pieces, as which the model
has read it so far; so does its bias of the masked LM.

New positions repeat the learned ones (Beltagy et al. 2020, arXiv:2004.05150,
section 5), so that the model sees familiar positions within each part of a
long text. Without further training this is worth little.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from absl import logging

TABLE = "bert/embeddings/word_embeddings"
BIAS = "cls/predictions/output_bias"
POSITIONS = "bert/embeddings/position_embeddings"


def extend_words(
    weights: Mapping[str, np.ndarray],
    pieces: Sequence[Sequence[int]],
    ids: Sequence[int],
    size: int,
) -> dict[str, np.ndarray]:
    """Return the weights with rows for N new words.

    Args:
        weights: name -> value, with the word embeddings [V, H].
        pieces: old ids of each of the N words.
        ids: new ids of the N words.
        size: rows of the new table. Every row from V on has to be one of the
            new ones.
    """
    table = weights[TABLE]  # [V, H]
    rows = _mean_rows(table, pieces)  # [N, H]
    extended = {**weights, TABLE: _with_rows(table, ids, rows, size)}
    if BIAS in weights:
        bias = _mean_rows(weights[BIAS], pieces)  # [N]
        extended[BIAS] = _with_rows(weights[BIAS], ids, bias, size)
    else:
        logging.info("The checkpoint has no masked LM: no bias to extend")
    return extended


def _mean_rows(
    values: np.ndarray, pieces: Sequence[Sequence[int]]
) -> np.ndarray:
    """Return the mean row of each word's pieces: [N, H], of a bias [N]."""
    rows = [values[list(ids)].mean(axis=0, dtype=np.float64) for ids in pieces]
    return np.array(rows, np.float32)


def _with_rows(
    values: np.ndarray, ids: Sequence[int], rows: np.ndarray, size: int
) -> np.ndarray:
    """Return a table [size, H] or a bias [size] with new rows at some ids."""
    wide = np.zeros([size, *values.shape[1:]], np.float32)
    wide[: len(values)] = values
    wide[list(ids)] = rows
    return wide


def repeat_positions(values: np.ndarray, size: int) -> np.ndarray:
    """Return a position table [size, H] that repeats a shorter one.

    >>> repeat_positions(np.array([[1.0], [2.0]]), 5).T
    array([[1., 2., 1., 2., 1.]])
    """
    return values[np.arange(size) % len(values)]
