"""The wrong choices, the surest first."""

import numpy as np
import pytest

from extras.mistakes import choices
from tasks.swag.task import Question


def test_wrong_choices():
    questions = [
        Question("q0", "He runs.", ("He stops.", "He flies."), 0),
        Question("q1", "She reads.", ("She eats.", "She writes."), 1),
        Question("q2", "It rains.", ("It snows.", "It stops."), 1),
    ]
    scores = np.log([[0.4, 0.6], [0.1, 0.9], [0.8, 0.2]])
    labels = np.array([0, 1, 1])
    found = choices.wrong_choices(scores, labels, questions)
    assert found.rows[0] == (
        *("q2", 1, 0),
        pytest.approx(0.8),
        *("It rains.", "It stops.", "It snows."),
    )
    assert [row[0] for row in found.rows] == ["q2", "q0"]
    assert found.summary(5) == "all 2 mistakes in 3 questions"
