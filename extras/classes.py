"""Tables and pictures of a classifier's classes on its development data."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from base import pictures

import numpy as np

from tasks.classifier.scores import NUM_BINS, calibration_error, confidence

# With more classes than this the cells of the picture have no numbers, and
# with more than the second nobody could read the picture.
_MAX_NUMBERS, _MAX_DRAWN = 12, 50

_MATRIX, _PICTURE = "confusion_matrix.tsv", "confusion_matrix.png"
_RELIABILITY, _SCORES = "reliability.png", "label_scores.tsv"

# A job's task_name -> the files.
FILES = {
    "classifier": (_MATRIX, _PICTURE, _RELIABILITY),
    "multi_label_classification": (_SCORES,),
}

Cell = str | int | float | None

# A header and the rows of a table.
Table = tuple[Sequence[str], Sequence[Sequence[Cell]]]


def tables_and_pictures(
    job: Any, found: np.ndarray, labels: np.ndarray, temperature: float
) -> tuple[dict[str, Table], dict[str, Callable[[str], None]]]:
    """Return {file name: table} and {file name: what draws it to a path}.

    A regression has none, and any number of labels have no picture.

    Args:
        job: of a classifier.
        found: logits [n, K]; of any number of labels, probabilities.
        labels: class ids [n]; of any number of labels, 0 or 1, [n, K].
        temperature: what the logits were divided by to calibrate them.
    """
    from sklearn import metrics  # takes a second to import

    files = job.files
    if files.labels is None:
        return {}, {}
    if labels.ndim == 2:
        columns = metrics.precision_recall_fscore_support(
            labels, job.predicted(found), average=None, zero_division=0.0
        )
        cells = (x.tolist() for x in (job.task.thresholds, *columns))
        header = ("label", "threshold", "precision", "recall", "f1", "examples")
        rows = list(zip(files.labels, *cells, strict=True))
        return {_SCORES: (header, rows)}, {}
    counts = metrics.confusion_matrix(
        labels, found.argmax(-1), labels=range(found.shape[1])
    )  # [K, K]: right class, predicted class
    drawn = {
        _PICTURE: functools.partial(draw_confusion, counts, files.names),
        _RELIABILITY: functools.partial(
            draw_reliability, found, labels, temperature
        ),
    }
    if len(files.names) > _MAX_DRAWN:
        del drawn[_PICTURE]
    rows = zip(files.labels, counts.tolist(), strict=True)
    table = [(label, *row) for label, row in rows]
    return {_MATRIX: (("truth / prediction", *files.labels), table)}, drawn


# --- Pictures ----------------------------------------------------------------


def draw_confusion(counts: np.ndarray, names: Sequence[str], path: str) -> None:
    """Draw a confusion matrix [K, K] to a PNG file.

    A cell has its share of the row: of the examples of a right class. The
    counts are in the table.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from sklearn import metrics

    size = len(names)
    side = max(3.2, min(0.75 * size, 9.0))
    figure = pictures.new_figure(side + 1.8, side + 1.0)
    axes = figure.subplots()
    shown = [pictures.name_of(name) for name in names]
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    display = metrics.ConfusionMatrixDisplay(shares, display_labels=shown)
    display.plot(
        ax=axes,
        cmap="Blues",
        include_values=size <= _MAX_NUMBERS,
        xticks_rotation=60 if max(map(len, shown)) * size > 30 else 0,
        values_format=".0%",
        im_kw={"vmin": 0.0, "vmax": 1.0},
    )
    display.im_.colorbar.set_label("share of the examples of the true class")
    axes.set(xlabel="predicted class", ylabel="true class")
    right, total = counts.trace(), counts.sum()
    axes.set_title(
        f"{right:,} of {total:,} right ({right / max(total, 1):.1%})"
    )
    pictures.save(figure, path)


def draw_reliability(
    logits: np.ndarray, label_ids: np.ndarray, temperature: float, path: str
) -> None:
    """Draw accuracy over confidence, in bins, to a PNG file.

    If the logits [n, K] have been divided by a temperature other than 1, the
    accuracy before calibration is drawn too.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from sklearn import calibration as sklearn_calibration

    figure = pictures.new_figure(4.2, 4.2)
    axes = figure.subplots()
    axes.plot(
        [0, 1], [0, 1], color=pictures.LIGHT, lw=1, label="perfectly calibrated"
    )
    drawn = [("", 1.0, pictures.BLUE, "o-")]
    if temperature != 1:
        drawn = [
            ("uncalibrated, ", temperature, pictures.ORANGE, "s:"),
            ("calibrated, ", 1.0, pictures.BLUE, "o-"),
        ]
    for name, factor, color, style in drawn:
        own = logits * factor
        right, sure = sklearn_calibration.calibration_curve(
            own.argmax(-1) == label_ids, confidence(own), n_bins=NUM_BINS
        )
        error = calibration_error(own, label_ids)
        axes.plot(
            sure, right, style, color=color, label=f"{name}ECE {error:.3f}"
        )
    axes.set(
        xlabel="confidence, mean of a bin",
        ylabel="accuracy, share of the bin",
        xlim=(0, 1),
        ylim=(0, 1.02),
    )
    axes.set_title(
        f"{len(label_ids):,} examples; ECE: expected calibration error",
        fontsize=10,
    )
    axes.legend(fontsize=pictures.SMALL)
    pictures.save(figure, path)
