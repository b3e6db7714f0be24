"""The tables and pictures of classes."""

import os

import numpy as np
import pytest

from extras import classes, mistakes


def test_confusion():
    counts = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]])
    found = classes.confusion_table(counts, ("no", "y\tes", "maybe"))
    assert mistakes.lines(*found) == [
        "truth / prediction\tno\ty\\tes\tmaybe",
        "no\t1\t0\t0",
        "y\\tes\t1\t0\t1",
        "maybe\t0\t0\t1",
    ]


@pytest.mark.parametrize("size", [2, 40])
def test_the_picture_of_a_matrix(size, tmp_path):
    """With an example of no class; too large for numbers in the cells."""
    pytest.importorskip("matplotlib")
    counts = np.zeros([size, size], np.int64)
    counts[0, :2] = 3, 1
    names = ["$x$", *(f"class {number}" for number in range(1, size))]
    path = str(tmp_path / "a.png")
    classes.draw_confusion(counts, names, path)
    assert 0 < os.path.getsize(path) < 100_000
