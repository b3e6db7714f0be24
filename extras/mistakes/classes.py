"""What a classifier gets wrong: errors.tsv, the confusion matrix, pictures."""

import functools
from collections.abc import Callable, Sequence

from base import pictures

import numpy as np

from extras.mistakes import table
from extras.mistakes.table import ERRORS, Mistakes
from tasks.classifier.data import Example
from tasks.classifier.job import ClassifierJob
from tasks.classifier.scores import (
    calibration_error,
    confidence_bins,
    log_softmax,
)
from tasks.job import DataSet

# With more classes than this the cells of the picture have no numbers, and
# with more than the second nobody could read the picture.
_MAX_NUMBERS, _MAX_DRAWN = 12, 50

_MATRIX, _PICTURE = "confusion_matrix.tsv", "confusion_matrix.png"
_RELIABILITY = "reliability.png"

FILES = (ERRORS, _MATRIX, _PICTURE, _RELIABILITY)


def write(
    job: ClassifierJob,
    data: DataSet,
    found: tuple[np.ndarray, np.ndarray],  # logits or numbers; labels
    named: Callable[[str], str],
) -> None:
    """Write errors.tsv, the confusion matrix and the reliability."""
    from sklearn import metrics  # takes a second to import

    logits, label_ids = found
    examples, labels = job.examples(data), job.files.labels
    if labels is None:
        wrong = worst(
            "difference",
            examples,
            label_ids.tolist(),
            logits.tolist(),
            np.abs(logits - label_ids).tolist(),
        )
    else:
        predictions = logits.argmax(-1)
        wrong = worst(
            "confidence",
            examples,
            [labels[number] for number in label_ids],
            [labels[number] for number in predictions],
            np.exp(log_softmax(logits).max(-1)).tolist(),
        )
        counts = metrics.confusion_matrix(
            label_ids, predictions, labels=range(len(labels))
        )
        job.write_lines(named(_MATRIX), confusion_table(counts, labels))
        if len(labels) <= _MAX_DRAWN:
            table.draw(
                job.settings,
                named(_PICTURE),
                functools.partial(draw_confusion, counts, job.files.names),
            )
        table.draw(
            job.settings,
            named(_RELIABILITY),
            functools.partial(
                draw_reliability, logits, label_ids, job.temperature
            ),
        )
    table.write(job.settings, named(ERRORS), wrong)


def worst(
    size: str,
    examples: Sequence[Example],
    truths: Sequence[str | float],
    predictions: Sequence[str | float],
    sizes: Sequence[float],
) -> Mistakes:
    """Return the examples with a wrong prediction; `size` names the sizes."""
    return table.worst(
        ("guid", "truth", "prediction", size, "text_a", "text_b"),
        [example.guid for example in examples],
        truths,
        predictions,
        sizes,
        [(example.text_a, example.text_b) for example in examples],
    )


def confusion_table(counts: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return the lines of confusion_matrix.tsv, for counts [K, K].

    Row: right class, column: predicted class.
    """
    rows = [
        (name, *row) for name, row in zip(names, counts.tolist(), strict=True)
    ]
    return table.lines(("truth / prediction", *names), rows)


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
        counts, right, confidence = confidence_bins(logits * factor, label_ids)
        has_any = counts > 0
        error = calibration_error(logits * factor, label_ids)
        axes.plot(
            confidence[has_any] / counts[has_any],
            right[has_any] / counts[has_any],
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
