"""New rows: means of pieces."""

import numpy as np

from tools.extend_checkpoint import weights

TABLE = np.array(
    [[3, 4], [0, 0], [6, 8], [0, 2], [9, 9], [7, 7]], np.float32
)  # [6, 2]; 5 tokens, and a row that no token has
BIAS = np.array([1, 2, 4, 8, 16, 0], np.float32)
# The first word takes row 1, the second row 5, the third is appended.
PIECES = [[0, 2], [0, 2, 3], [1]]
IDS = [1, 5, 6]
MEANS = np.array([[4.5, 6], [3, 14 / 3], [0, 0]])


def test_rows_are_means_of_pieces():
    values = {weights.TABLE: TABLE, weights.BIAS: BIAS, "bert/x": TABLE}
    found = weights.extend_words(values, PIECES, IDS, 7)
    table = found[weights.TABLE]
    np.testing.assert_allclose(table[IDS], MEANS, rtol=1e-6)
    old = [0, 2, 3, 4]
    np.testing.assert_array_equal(table[old], TABLE[old])
    assert table.shape == (7, 2) and table.dtype == np.float32
    np.testing.assert_allclose(
        found[weights.BIAS], [1, 2.5, 4, 8, 16, 13 / 3, 2], rtol=1e-6
    )
    assert found["bert/x"] is TABLE
