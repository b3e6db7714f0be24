"""The tables and pictures of classes."""

import os
from types import SimpleNamespace

import numpy as np
import pytest

from extras import classes, mistakes


def test_confusion():
    """Rows are right classes, columns are predicted ones."""
    names = ("no", "y\tes", "maybe")
    job = SimpleNamespace(files=SimpleNamespace(labels=names, names=names))
    logits, labels = np.eye(3)[[0, 0, 2, 2]], np.array([0, 1, 1, 2])
    tables, _ = classes.tables_and_pictures(job, logits, labels, 1.0)
    assert mistakes.lines(*tables["confusion_matrix.tsv"]) == [
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
