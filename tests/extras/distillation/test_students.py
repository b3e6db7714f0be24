"""Targets by hand, and answers that are given twice."""

import math
from pathlib import Path

from base.errors import UserError

import numpy as np
import prediction_runs
import pytest

from extras.distillation import students
from extras.distillation.answers import Answers, key_of, numbers


def read(*places: Path) -> dict[str, dict[str, np.ndarray]]:
    """Return the vectors in files, by teacher and text."""
    return Answers([str(p) for p in places], "out").by_teacher(
        lambda line, at: [
            (key_of(text=line["text"]), numbers(line["vector"], (2,), at))
        ]
    )


def test_a_text_may_be_answered_twice_alike(tmp_path):
    """As batches of other lengths round; and by another teacher."""
    line = {"text": "a", "vector": [1, 2], "teacher": "b"}
    folder = tmp_path / "predictions"
    folder.mkdir()
    rounded = line | {"vector": [1.001, 2]}
    prediction_runs.write_lines(
        folder / "predictions-00000-of-00001.jsonl", [line, rounded]
    )
    (folder / "errors.jsonl").write_text("not read\n")
    other = line | {"vector": [3, 4], "teacher": "a"}
    more = prediction_runs.write_lines(tmp_path / "more", [line, other])
    found = read(folder, more)
    assert [*found] == ["a", "b"]
    assert [x['{"text": "a"}'].tolist() for x in found.values()] == [
        [3.0, 4.0],
        [1.0, 2.0],
    ]
    prediction_runs.write_lines(more, [line | {"vector": [1, 2.1]}])
    with pytest.raises(UserError, match="more, line 1: another answer to"):
        read(folder, more)
    assert read(tmp_path / "none") == {"": {}}


# --- Targets -----------------------------------------------------------------


def test_the_mean_of_teachers_is_one_of_probabilities():
    logits = [np.log([[1.0, 3.0], [4.0, 1.0]]), np.log([[1.0, 1.0], [1, 4]])]
    found = students.mean_probabilities(logits, 1.0)
    np.testing.assert_allclose(found, [[0.375, 0.625], [0.5, 0.5]], rtol=1e-6)
    assert found.dtype == np.float32
    # At temperature 2 odds of 3 and 4 become their square roots.
    share = 1.0 / (1.0 + math.sqrt(3.0))
    found = students.mean_probabilities(logits, 2.0)
    np.testing.assert_allclose(found[0, 0], (share + 0.5) / 2, rtol=1e-6)
    # Of tags, [words, K], and of logits whose exponentials overflow.
    large = np.array([[[1000.0, 999.0], [-1000.0, 1000.0]]])
    found = students.mean_probabilities([large], 1.0)
    np.testing.assert_allclose(
        found, [[[0.7310586, 0.2689414], [0.0, 1.0]]], rtol=1e-5
    )


def test_a_perfect_student_has_the_entropy_of_the_targets():
    targets = np.array([[1.0, 0.0], [0.5, 0.5]], np.float32)
    np.testing.assert_allclose(
        students.entropy(targets), [0.0, math.log(2.0)], rtol=1e-6
    )
