"""The rows of texts, for tests."""

from collections.abc import Sequence

import numpy as np

import tokenization
from tasks import rows


def features(
    texts: Sequence[tuple[str, str | None]],
    length: int,
    tokenizer: tokenization.FullTokenizer,
    how: str = "cut",
) -> tuple[dict[str, np.ndarray], list[int]]:
    """Return the features [n, S] of texts, and the pieces left out of each."""
    found = [rows.row_of_texts(*pair, length, tokenizer, how) for pair in texts]
    features = rows.pad(found, length)
    return features, [row.left_out for row in found]
