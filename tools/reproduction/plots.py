"""The pictures of the tables, with the paper's numbers in grey.

Means of two or more runs have error bars. Degenerate runs are left out of the
means, and a cross at the lower edge says where there are some.
"""

import math
import statistics
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from base import pictures
from base.pictures import BLUE, GREY, ORANGE, SMALL

from tools.reproduction.experiments import OF_PRETRAINING
from tools.reproduction.paper import BERT, LTR, PAPER, PERPLEXITY
from tools.reproduction.tables import Results

# Draws the scores of a column: axes, results, column.
Panel = Callable[[Any, Results, str], None]


def draw(results: Results, path: str) -> bool:
    """Draw the picture of a table as a PNG file; return whether there is one.

    A table without numbers has none, nor has a table of one row.

    Raises:
        ImportError: matplotlib is not installed.
    """
    labels, name = results.labels, results.experiment.name
    columns = [
        column
        for column in results.experiment.columns
        if column not in OF_PRETRAINING
        and any(results.score(row, column).every for row in labels)
    ]
    if not columns or len(labels) < 2:
        return False
    panels: dict[str, list[Panel]] = {
        "table6": [partial(_over_size, over_perplexity=True), _over_size],
        "figure5": [_over_steps],
    }
    rows = panels.get(name, [_differences])
    figure = pictures.new_figure(max(5.0, 4.0 * len(columns)), 3.8 * len(rows))
    every = figure.subplots(len(rows), len(columns), squeeze=False)
    for draw_panel, row in zip(rows, every, strict=True):
        for column, axes in zip(columns, row, strict=True):
            draw_panel(axes, results, column)
            axes.set_title(column)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=SMALL)
    pictures.save(figure, path)
    return True


def _plot(
    axes: Any,
    source: Results,
    column: str,
    places: Iterable[tuple[str, float | None]],
    label: str,
    style: str,
    color: str,
    difference: bool = False,
) -> None:
    """Draw one series: the scores of rows, or their differences to the first.

    Args:
        axes: where to draw.
        source: our numbers, or the paper's.
        column: the column.
        places: the rows, each with its place on the horizontal axis, None for
            no place.
        label: the name of the series.
        style: its marker and line, as in matplotlib's "o-".
        color: its colour.
        difference: whether to draw differences.
    """
    points, crosses = [], []
    for row, x in places:
        score = source.score(row, column)
        y = source.difference(row, column) if difference else score.mean
        if x is not None and y is not None:
            bar = math.nan if score.deviation is None else score.deviation
            points.append((x, y, bar))  # NaN has neither bar nor caps
        if x is not None and score.degenerate:
            crosses.append(x)
    if points:
        x, y, bars = zip(*sorted(points), strict=True)
        axes.errorbar(
            x, y, bars, fmt=style, color=color, label=label, capsize=3
        )
    if crosses:
        axes.plot(
            crosses,
            [0.03] * len(crosses),
            "kx",
            transform=axes.get_xaxis_transform(),
            label="degenerate runs, left out",
        )


def parameters_of(size: str) -> float:
    """Return the millions of parameters of the layers of "L12_H768_A12".

    The embeddings are left out: their number follows from the vocabulary. A
    layer of width H has matrices of 12 H^2 (four of [H, H], and [H, 4 H] and
    [4 H, H]) and 13 H in biases and layer normalization.
    """
    layers, hidden, _ = (int(part[1:]) for part in size.split("_"))
    return layers * (12 * hidden**2 + 13 * hidden) / 1e6


def _over_size(
    axes: Any, results: Results, column: str, over_perplexity: bool = False
) -> None:
    """Draw the scores of Table 6 over the size of the models.

    Or over their perplexity, better models to the right.
    """

    def place(source: Results, row: str) -> float | None:
        if not over_perplexity:
            return parameters_of(row)
        # That of degenerate runs is better than no place.
        score = source.score(row, PERPLEXITY)
        every = score.values or score.degenerate
        return statistics.fmean(every) if every else None

    for source, rows, label, style, color in (
        (results, results.labels, "layers/width/heads, ours", "o-", BLUE),
        (results.papers, PAPER["table6"].numbers, "the paper", "s--", GREY),
    ):
        places = [(row, place(source, row)) for row in rows]
        _plot(axes, source, column, places, label, style, color)
    for row in results.labels:
        x, y = place(results, row), results.score(row, column).mean
        if x is not None and y is not None:
            name = "/".join(part[1:] for part in row.split("_"))
            axes.annotate(name, (x, y), fontsize=SMALL)
    xlabel = "parameters of the layers, millions, log scale"
    if over_perplexity:
        xlabel = "held-out perplexity, log scale, reversed"
        axes.invert_xaxis()
    axes.set(xscale="log", xlabel=xlabel, ylabel="points")
    axes.tick_params(which="both", labelsize=SMALL)


def _differences(axes: Any, results: Results, column: str) -> None:
    """Draw our differences to the first row beside the paper's."""
    labels = results.labels
    for source, shift, label, style, color in (
        (results, -0.1, "ours", "o", BLUE),
        (results.papers, 0.1, "the paper", "s", GREY),
    ):
        places = [(row, n + shift) for n, row in enumerate(labels)]
        _plot(axes, source, column, places, label, style, color, True)
    axes.axhline(0, color="0.7", lw=1, zorder=0)
    axes.set_xticks(
        range(len(labels)), labels, rotation=30, ha="right", fontsize=SMALL
    )
    axes.set_ylabel(f"points, difference to {labels[0]}")


def _over_steps(axes: Any, results: Results, column: str) -> None:
    """Draw the scores of Figure 5 over the steps of pre-training."""
    rows = results.experiment.rows
    for curve, label, style, color in (
        (BERT, "masked LM", "o-", BLUE),
        (LTR, "left-to-right", "s--", ORANGE),
    ):
        places = [(row.label, row.step) for row in rows if row.curve == curve]
        _plot(axes, results, column, places, label, style, color)
    axes.set(xlabel="pre-training steps", ylabel="points")
