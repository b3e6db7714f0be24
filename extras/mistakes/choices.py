"""The questions whose right choice is not found: errors.tsv."""

from collections.abc import Callable, Sequence

import numpy as np

from extras.mistakes import table
from extras.mistakes.table import ERRORS, Mistakes
from tasks.classifier.scores import log_softmax
from tasks.job import DataSet
from tasks.swag.job import SwagJob
from tasks.swag.task import Question

FILES = (ERRORS,)

_HEADER = (
    "guid",
    "truth",
    "prediction",
    "confidence",
    "context",
    "right_choice",
    "predicted_choice",
)


def write(
    job: SwagJob,
    data: DataSet,
    found: tuple[np.ndarray, np.ndarray],  # scores and labels
    named: Callable[[str], str],
) -> None:
    """Write errors.tsv of the development questions."""
    wrong = wrong_choices(*found, job.examples(data))
    table.write(job.settings, named(ERRORS), wrong)


def wrong_choices(
    scores: np.ndarray, labels: np.ndarray, questions: Sequence[Question]
) -> Mistakes:
    """Return the wrong answers, the surest first, of scores [n, C]."""
    truths, predictions = labels.tolist(), scores.argmax(-1).tolist()
    log_probs = log_softmax(scores)
    texts = [
        (question.context, question.choices[truth], question.choices[given])
        for question, truth, given in zip(
            questions, truths, predictions, strict=True
        )
    ]
    return table.worst(
        _HEADER,
        [question.guid for question in questions],
        truths,
        predictions,
        np.exp(log_probs.max(-1)).tolist(),
        texts,
        "questions",
    )
