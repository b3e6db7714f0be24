"""The questions that a model of multiple choice gets wrong: errors.tsv."""

from collections.abc import Sequence

import numpy as np

from tasks import mistakes
from tasks.classifier.scores import log_softmax
from tasks.mistakes import Mistakes
from tasks.swag.data import Question

_HEADER = (
    "guid",
    "truth",
    "prediction",
    "confidence",
    "context",
    "right_choice",
    "predicted_choice",
)


def wrong_choices(
    scores: np.ndarray,
    labels: np.ndarray,
    questions: Sequence[Question],
    count: int,
) -> Mistakes:
    """Return the wrong answers, the surest first.

    Args:
        scores: of the choices [n, C].
        labels: numbers of the right choices [n].
        questions: [n].
        count: of mistakes to list.
    """
    wrong = mistakes.wrong_classes(log_softmax(scores), labels)
    rows = [
        (
            questions[row].guid,
            int(labels[row]),
            int(prediction),
            float(confidence),
            questions[row].context,
            questions[row].choices[labels[row]],
            questions[row].choices[prediction],
        )
        for row, prediction, confidence in zip(*wrong, strict=True)
    ]
    return Mistakes(
        _HEADER, rows[:count], len(rows), len(questions), "questions"
    )
