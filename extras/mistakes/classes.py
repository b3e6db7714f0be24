"""What a classifier gets wrong: errors.tsv, tables of classes, pictures."""

import functools
from collections.abc import Sequence

from base import pictures

import numpy as np

from extras.mistakes import table
from extras.mistakes.table import ERRORS, Cell, Mistakes, Report
from tasks.classifier.glue import Example
from tasks.classifier.job import ClassifierJob
from tasks.classifier.multi_label import MultiLabelJob
from tasks.classifier.scores import NUM_BINS, calibration_error, confidence
from tasks.job import DataSet

# With more classes than this the cells of the picture have no numbers, and
# with more than the second nobody could read the picture.
_MAX_NUMBERS, _MAX_DRAWN = 12, 50

_MATRIX, _PICTURE = "confusion_matrix.tsv", "confusion_matrix.png"
_RELIABILITY, _SCORES = "reliability.png", "label_scores.tsv"

FILES = (ERRORS, _MATRIX, _PICTURE, _RELIABILITY, _SCORES)


def write(
    job: ClassifierJob,
    data: DataSet,
    found: tuple[np.ndarray, np.ndarray],  # logits or numbers; labels
    report: Report,
) -> None:
    """Write errors.tsv, the scores of the classes and their pictures."""
    logits, label_ids = found
    examples, labels = job.examples(data), job.files.labels
    if isinstance(job, MultiLabelJob):
        report.errors(_wrong_labels(job, examples, *found))
        report.table(_SCORES, *_scores_of_labels(job, *found))
        return
    if labels is None:
        sizes = np.abs(logits - label_ids)
        report.errors(worst("difference", examples, label_ids, logits, sizes))
        return
    predictions = logits.argmax(-1)
    names = np.array(labels, object)
    report.errors(
        worst(
            "confidence",
            examples,
            names[label_ids],
            names[predictions],
            confidence(logits),
        )
    )
    from sklearn import metrics  # takes a second to import

    counts = metrics.confusion_matrix(
        label_ids, predictions, labels=range(len(labels))
    )
    report.table(_MATRIX, *confusion_table(counts, labels))
    if len(labels) <= _MAX_DRAWN:
        report.draw(
            _PICTURE, functools.partial(draw_confusion, counts, job.files.names)
        )
    report.draw(
        _RELIABILITY,
        functools.partial(draw_reliability, logits, label_ids, job.temperature),
    )


def worst(
    size: str,
    examples: Sequence[Example],
    truths: np.ndarray,
    predictions: np.ndarray,
    sizes: np.ndarray,
) -> Mistakes:
    """Return the examples with a wrong prediction; `size` names the sizes."""
    return table.worst(
        ("guid", size, "text_a", "text_b"),
        [example.guid for example in examples],
        truths.tolist(),
        predictions.tolist(),
        sizes.tolist(),
        [(example.text_a, example.text_b) for example in examples],
    )


# A header and the rows of a table.
_Table = tuple[Sequence[str], Sequence[Sequence[Cell]]]


def confusion_table(counts: np.ndarray, names: Sequence[str]) -> _Table:
    """Return confusion_matrix.tsv, for counts [K, K].

    Row: right class, column: predicted class.
    """
    rows = zip(names, counts.tolist(), strict=True)
    return ("truth / prediction", *names), [(name, *row) for name, row in rows]


# --- Any number of labels: probabilities and labels, [n, K] ------------------


def _wrong_labels(
    job: MultiLabelJob,
    examples: Sequence[Example],
    probs: np.ndarray,
    labels: np.ndarray,
) -> Mistakes:
    """Return the examples with the most wrong labels first."""
    predicted = job.predicted(probs)
    truths, given = (
        np.array([job.names(row) for row in rows], object)
        for rows in (labels, predicted)
    )
    counts = (predicted != labels).sum(axis=1)
    return worst("wrong_labels", examples, truths, given, counts)


def _scores_of_labels(
    job: MultiLabelJob, probs: np.ndarray, labels: np.ndarray
) -> _Table:
    """Return label_scores.tsv, the scores of every label."""
    from sklearn import metrics

    columns = metrics.precision_recall_fscore_support(
        labels, job.predicted(probs), average=None, zero_division=0.0
    )
    columns = [job.task.thresholds, *columns]
    cells = (column.tolist() for column in columns)
    header = ("label", "threshold", "precision", "recall", "f1", "examples")
    return header, list(zip(job.files.labels, *cells, strict=True))


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
            sure,
            right,
            style,
            color=color,
            label=f"{name}ECE {error:.3f}",
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
