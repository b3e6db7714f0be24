"""What is wrong where an example has any number of labels: errors.tsv.

label_scores.tsv has the scores of every label.
"""

from collections.abc import Callable

import numpy as np

from extras.mistakes import classes, table
from extras.mistakes.table import ERRORS
from tasks.classifier.multi_label import MultiLabelJob
from tasks.job import DataSet

_SCORES = "label_scores.tsv"

FILES = (ERRORS, _SCORES)


def write(
    job: MultiLabelJob,
    data: DataSet,
    found: tuple[np.ndarray, np.ndarray],  # probabilities and labels, [n, K]
    named: Callable[[str], str],
) -> None:
    """Write the examples with the most wrong labels first, and the scores."""
    from sklearn import metrics  # takes a second to import

    probs, labels = found
    predicted = job.predicted(probs)
    wrong = classes.worst(
        "wrong_labels",
        job.examples(data),
        list(map(job.names, labels)),
        list(map(job.names, predicted)),
        (predicted != labels).sum(axis=1).tolist(),
    )
    table.write(job.settings, named(ERRORS), wrong)
    columns = metrics.precision_recall_fscore_support(
        labels, predicted, average=None, zero_division=0.0
    )
    columns = [job.task.thresholds, *columns]
    header = ("label", "threshold", "precision", "recall", "f1", "examples")
    cells = (column.tolist() for column in columns)
    rows = list(zip(job.files.labels, *cells, strict=True))
    job.write_lines(named(_SCORES), table.lines(header, rows))
