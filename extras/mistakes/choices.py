"""The questions whose right choice is not found: errors.tsv."""

from collections.abc import Sequence

import numpy as np

from extras.mistakes import table
from extras.mistakes.table import ERRORS, Mistakes, Report
from tasks.classifier.scores import confidence
from tasks.job import DataSet
from tasks.swag.job import SwagJob
from tasks.swag.task import Question

FILES = (ERRORS,)


def write(
    job: SwagJob,
    data: DataSet,
    found: tuple[np.ndarray, np.ndarray],  # scores and labels
    report: Report,
) -> None:
    """Write errors.tsv of the development questions."""
    report.errors(wrong_choices(*found, job.examples(data)))


def wrong_choices(
    scores: np.ndarray, labels: np.ndarray, questions: Sequence[Question]
) -> Mistakes:
    """Return the wrong answers, the surest first, of scores [n, C]."""
    truths, predictions = labels.tolist(), scores.argmax(-1).tolist()
    texts = [
        (question.context, question.choices[truth], question.choices[given])
        for question, truth, given in zip(
            questions, truths, predictions, strict=True
        )
    ]
    return table.worst(
        ("guid", "confidence", "context", "right_choice", "predicted_choice"),
        [question.guid for question in questions],
        truths,
        predictions,
        confidence(scores).tolist(),
        texts,
        "questions",
    )
