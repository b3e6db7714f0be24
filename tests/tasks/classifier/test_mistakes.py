"""The worst mistakes of a classifier and its confusion matrix, by hand."""

import os

import numpy as np
import pytest

from tasks.classifier import mistakes
from tasks.classifier.data import Example

EXAMPLES = [
    Example("0", "a film", "good"),
    Example("1", "b\tfilm", None),
    Example("2", "c film", "bad"),
    Example("3", "d film", None),
]
LABELS = np.array([0, 1, 1, 2])
NAMES = ("no", "yes", "maybe")
LOGITS = np.log(
    [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.1, 0.1, 0.8]]
).astype(np.float32)


def test_wrong_labels():
    found = mistakes.wrong_labels(LOGITS, LABELS, NAMES, EXAMPLES, 10)
    assert found.header == (
        *("guid", "truth", "prediction", "confidence"),
        *("text_a", "text_b"),
    )
    first, second = found.rows
    assert first == (
        *("2", "yes", "maybe"),
        pytest.approx(0.7),
        *("c film", "bad"),
    )
    assert second == (
        *("1", "yes", "no"),
        pytest.approx(0.6),
        *("b\tfilm", None),
    )
    assert (found.num_wrong, found.num_scored) == (2, 4)
    less = mistakes.wrong_labels(LOGITS, LABELS, NAMES, EXAMPLES, 1)
    assert less.rows == found.rows[:1] and less.num_wrong == 2


def test_wrong_numbers():
    predictions = np.float32([1.0, 2.5, 0.0, 4.0])
    labels = np.float32([1.0, 2.0, 3.0, 3.0])
    found = mistakes.wrong_numbers(predictions, labels, EXAMPLES, 2)
    assert [row[:4] for row in found.rows] == [
        ("2", 3.0, 0.0, 3.0),
        ("3", 3.0, 4.0, 1.0),
    ]
    assert (found.num_wrong, found.num_scored) == (3, 4)


def test_confusion():
    counts = np.array([[1, 0, 0], [1, 0, 1], [0, 0, 1]])
    assert mistakes.confusion_table(counts, ("no", "y\tes", "maybe")) == [
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
    mistakes.draw_confusion(counts, names, path)
    assert 0 < os.path.getsize(path) < 100_000
