"""New rows: means of pieces, their norms, repeated positions."""

import numpy as np
import pytest

from tools.extending import weights

TABLE = np.array(
    [[3, 4], [0, 0], [6, 8], [0, 2], [9, 9], [7, 7]], np.float32
)  # [6, 2]; 5 tokens, and a row that no token has
BIAS = np.array([1, 2, 4, 8, 16, 0], np.float32)
# The first word takes row 1, the second row 5, the third is appended.
PIECES = [[0, 2], [0, 2, 3], [3]]
IDS = [1, 5, 6]


def extend(corrects_norm: bool, **more):
    values = {weights.TABLE: TABLE, "bert/x": TABLE, **more}
    return weights.extend_words(
        values, PIECES, IDS, 7, [0, 2, 3], corrects_norm
    )


def test_rows_are_means_of_pieces():
    found, norms = extend(False, **{weights.BIAS: BIAS})
    table = found[weights.TABLE]
    means = [[4.5, 6], [3, 14 / 3], [0, 2]]
    np.testing.assert_allclose(table[IDS], means, rtol=1e-6)
    old = [0, 2, 3, 4]
    np.testing.assert_array_equal(table[old], TABLE[old])
    assert table.shape == (7, 2) and table.dtype == np.float32
    np.testing.assert_allclose(
        found[weights.BIAS], [1, 2.5, 4, 8, 16, 13 / 3, 8], rtol=1e-6
    )
    assert found["bert/x"] is TABLE
    assert norms.median_before == 5  # of 5, 10 and 2
    wanted = [7.5, np.hypot(3, 14 / 3), 2]
    np.testing.assert_allclose(norms.means, wanted, rtol=1e-6)
    np.testing.assert_array_equal(norms.written, norms.means)
    assert weights.BIAS not in extend(False)[0]


def test_norms_are_corrected():
    found, norms = extend(True)
    table = found[weights.TABLE]
    np.testing.assert_allclose(np.linalg.norm(table[IDS], axis=1), 5, rtol=1e-6)
    np.testing.assert_allclose(table[1], [3, 4], rtol=1e-6)
    np.testing.assert_allclose(norms.written, 5, rtol=1e-6)
    assert norms.means[0] == 7.5
    np.testing.assert_array_equal(table[[0, 2]], TABLE[[0, 2]])


def test_a_row_of_zeros_has_no_direction():
    zeros = np.zeros([3, 2], np.float32)
    found, _ = weights.extend_words(
        {weights.TABLE: zeros}, [[0]], [2], 3, [0, 1], corrects_norm=True
    )
    assert not found[weights.TABLE].any()


@pytest.mark.parametrize("size", [4, 5, 8, 9])
def test_positions_are_repeated(size):
    rows = np.arange(8, dtype=np.float32).reshape(4, 2)
    found = weights.repeat_positions(rows, size)
    assert found.shape == (size, 2)
    for number in range(size):
        np.testing.assert_array_equal(found[number], rows[number % 4])
