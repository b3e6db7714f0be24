"""What a classifier gets wrong: errors.tsv, the confusion matrix, pictures."""

from collections.abc import Sequence
from typing import Any

from base import pictures

import numpy as np

from tasks import mistakes
from tasks.classifier.data import Example
from tasks.classifier.scores import log_softmax
from tasks.mistakes import Mistakes

# With more classes than this the cells of the picture have no numbers, and
# with more than the second there is no picture: nobody could read it.
_MAX_NUMBERS, _MAX_CLASSES = 12, 50

_TEXTS = ("text_a", "text_b")

# --- The worst mistakes ------------------------------------------------------


def wrong_labels(
    logits: np.ndarray,
    label_ids: np.ndarray,
    names: Sequence[str],
    examples: Sequence[Example],
    count: int,
) -> Mistakes:
    """Return the examples with a wrong class, that of the surest answer first.

    Args:
        logits: [n, K].
        label_ids: [n].
        names: of the K classes.
        examples: [n].
        count: of mistakes to list.
    """
    wrong = mistakes.wrong_classes(log_softmax(logits), label_ids)
    rows = [
        (
            examples[row].guid,
            names[label_ids[row]],
            names[prediction],
            float(confidence),
            examples[row].text_a,
            examples[row].text_b,
        )
        for row, prediction, confidence in zip(*wrong, strict=True)
    ]
    header = ("guid", "truth", "prediction", "confidence", *_TEXTS)
    return Mistakes(header, rows[:count], len(rows), len(examples))


def wrong_numbers(
    predictions: np.ndarray,
    labels: np.ndarray,
    examples: Sequence[Example],
    count: int,
) -> Mistakes:
    """Return the examples whose predicted number is furthest from the label.

    Args:
        predictions: [n].
        labels: [n].
        examples: [n].
        count: of examples to list.
    """
    distances = np.abs(predictions - labels)
    order = np.argsort(-distances, kind="stable")
    order = order[distances[order] > 0]
    rows = [
        (
            examples[row].guid,
            float(labels[row]),
            float(predictions[row]),
            float(distances[row]),
            examples[row].text_a,
            examples[row].text_b,
        )
        for row in order[:count]
    ]
    header = ("guid", "truth", "prediction", "difference", *_TEXTS)
    return Mistakes(header, rows, len(order), len(examples))


# --- The confusion matrix ----------------------------------------------------


def confusion(
    predictions: np.ndarray, label_ids: np.ndarray, num_labels: int
) -> np.ndarray:
    """Return how often each class was predicted for each right class.

    Args:
        predictions: class ids [n].
        label_ids: class ids [n].
        num_labels: K.

    Returns:
        [K, K]; row: right class, column: predicted class.
    """
    counts = np.zeros([num_labels, num_labels], np.int64)
    np.add.at(counts, (label_ids, predictions), 1)
    return counts


def confusion_table(counts: np.ndarray, names: Sequence[str]) -> list[str]:
    """Return the lines of confusion_matrix.tsv.

    Args:
        counts: [K, K].
        names: of the K classes.
    """
    rows = [
        (name, *row) for name, row in zip(names, counts.tolist(), strict=True)
    ]
    return mistakes.table(("truth / prediction", *names), rows)


def can_draw(num_labels: int) -> bool:
    """Return whether a matrix of so many classes can be read as a picture."""
    return num_labels <= _MAX_CLASSES


def draw_confusion(counts: np.ndarray, names: Sequence[str], path: str) -> None:
    """Draw a confusion matrix; see `confusion_figure`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    pictures.save(confusion_figure(counts, names), path)


def confusion_figure(counts: np.ndarray, names: Sequence[str]) -> Any:
    """Return the picture of a confusion matrix.

    A cell's grey is its share of the row: of the examples of a right class.

    Args:
        counts: [K, K].
        names: of the K classes.

    Raises:
        ImportError: matplotlib is not installed.
    """
    size = len(names)
    side = max(3.2, min(0.75 * size, 9.0))
    figure = pictures.new_figure(side + 1.8, side + 1.0)
    axes = figure.subplots()
    totals = counts.sum(axis=1, keepdims=True)
    shares = counts / np.maximum(totals, 1)
    image = axes.imshow(shares, cmap="Greys", vmin=0.0, vmax=1.0)
    figure.colorbar(image, ax=axes, label="share of the row")
    shown = [pictures.name_of(name) for name in names]
    small = pictures.SMALL if size <= _MAX_NUMBERS else 5
    is_long = max(map(len, shown)) * size > 30
    turned = {"rotation": 60, "ha": "right"} if is_long else {}
    axes.set_xticks(range(size), shown, fontsize=small, **turned)
    axes.set_yticks(range(size), shown, fontsize=small)
    axes.set(xlabel="prediction", ylabel="truth")
    if size <= _MAX_NUMBERS:
        for (row, column), count in np.ndenumerate(counts):
            share = shares[row, column]
            axes.text(
                column,
                row,
                f"{count:,}\n{share:.0%}",
                ha="center",
                va="center",
                fontsize=pictures.SMALL,
                color="white" if share > 0.5 else "black",
            )
    right, total = counts.trace(), counts.sum()
    axes.set_title(
        f"{right:,} of {total:,} right ({right / max(total, 1):.1%})",
        fontsize=10,
    )
    return figure


# --- Numbers -----------------------------------------------------------------


def draw_scatter(
    predictions: np.ndarray, labels: np.ndarray, path: str
) -> None:
    """Draw the predicted numbers over the right ones.

    Raises:
        ImportError: matplotlib is not installed.
    """
    pictures.save(scatter_figure(predictions, labels), path)


def scatter_figure(predictions: np.ndarray, labels: np.ndarray) -> Any:
    """Return the picture of predicted numbers over the right ones.

    Args:
        predictions: [n].
        labels: [n].

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = pictures.new_figure(5.0, 5.0)
    axes = figure.subplots()
    # Many points lie on each other: the darker, the more.
    axes.plot(
        labels,
        predictions,
        ls="none",
        marker="o",
        ms=4,
        color=pictures.BLACK,
        alpha=0.25,
        markeredgewidth=0,
        rasterized=True,
    )
    low = float(min(labels.min(), predictions.min()))
    high = float(max(labels.max(), predictions.max()))
    axes.plot(
        [low, high],
        [low, high],
        color=pictures.GREY,
        ls="--",
        lw=1,
        label="prediction = truth",
    )
    axes.set(xlabel="truth", ylabel="prediction")
    axes.set_title(f"{len(labels):,} examples", fontsize=10)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=pictures.SMALL)
    return figure
