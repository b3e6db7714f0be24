"""Targets by hand, and answers that are given twice."""

import math
from pathlib import Path

from base.errors import UserError

import numpy as np
import prediction_runs
import pytest

from extras.distillation import students
from extras.distillation.answers import Answers, key_of, numbers


def read(*places: Path) -> dict[str, np.ndarray]:
    """Return the vectors in files, by text."""
    return Answers([str(p) for p in places], "out").read(
        lambda line, at: [
            (key_of(text=line["text"]), numbers(line["vector"], (2,), at))
        ]
    )


def test_a_text_may_be_answered_twice_alike(tmp_path):
    """As batches of other lengths round."""
    line = {"text": "a", "vector": [1, 2]}
    folder = tmp_path / "predictions"
    folder.mkdir()
    rounded = line | {"vector": [1.001, 2]}
    prediction_runs.write_lines(
        folder / "predictions-00000-of-00001.jsonl", [line, rounded]
    )
    (folder / "errors.jsonl").write_text("not read\n")
    more = prediction_runs.write_lines(
        tmp_path / "more", [line, {"text": "b", "vector": [3, 4]}]
    )
    found = {key: vector.tolist() for key, vector in read(folder, more).items()}
    assert found == {'{"text": "a"}': [1.0, 2.0], '{"text": "b"}': [3.0, 4.0]}
    prediction_runs.write_lines(more, [line | {"vector": [1, 2.1]}])
    with pytest.raises(UserError, match="more, line 1: another answer to"):
        read(folder, more)
    assert read(tmp_path / "none") == {}


# --- Targets -----------------------------------------------------------------


def test_probabilities_at_a_temperature():
    logits = np.log([[1.0, 3.0], [4.0, 1.0]])
    found = students.probabilities(logits, 1.0)
    np.testing.assert_allclose(found, [[0.25, 0.75], [0.8, 0.2]], rtol=1e-6)
    assert found.dtype == np.float32
    # At temperature 2 odds of 3 become their square root.
    share = 1.0 / (1.0 + math.sqrt(3.0))
    found = students.probabilities(logits, 2.0)
    np.testing.assert_allclose(found[0, 0], share, rtol=1e-6)
    # Of tags, [words, K], and of logits whose exponentials overflow.
    large = np.array([[[1000.0, 999.0], [-1000.0, 1000.0]]])
    found = students.probabilities(large, 1.0)
    np.testing.assert_allclose(
        found, [[[0.7310586, 0.2689414], [0.0, 1.0]]], rtol=1e-5
    )


def test_a_perfect_student_has_the_entropy_of_the_targets():
    targets = np.array([[1.0, 0.0], [0.5, 0.5]], np.float32)
    np.testing.assert_allclose(
        students.entropy(targets), [0.0, math.log(2.0)], rtol=1e-6
    )
