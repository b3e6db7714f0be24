"""The pictures of the tables, with the paper's numbers as a second series.

Our numbers have colours and filled markers, the paper's are grey and have open
ones. Curves of one picture also differ in marker and line style. Means of two
or more runs have error bars. Degenerate runs are left out of the means, and a
cross at the lower edge says where there are some.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from base import pictures
from base.pictures import BLUE, GREY, ORANGE, SMALL

from tools.reproduction.experiments import FINE_TUNING, OF_PRETRAINING
from tools.reproduction.paper import (
    BERT,
    FIGURE_5_ABOUT,
    FIGURE_5_ENDS,
    FIGURE_5_STEPS,
    LTR,
    PAPER,
    PERPLEXITY,
)
from tools.reproduction.tables import Results

_ACROSS = 4  # panels in a row

# Where the name of a point may stand: its offset in points, and the side of it
# that is at the point. The first place that is free is taken.
_NAME_PLACES = [
    *(((6, -10), "left"), ((-6, 4), "right"), ((7, -3), "left")),
    *(((-7, -3), "right"), ((-6, -10), "right"), ((6, 4), "left")),
    *(((12, -20), "left"), ((-12, 14), "right"), ((12, -30), "left")),
]


class Point(NamedTuple):
    """A point of a series, with its standard deviation and name, if any."""

    x: float
    y: float
    deviation: float | None = None
    name: str = ""


def draw(results: Results, path: str) -> bool:
    """Draw the picture of a table as a PNG file; return whether there is one.

    A table without numbers has none, nor has a table of one row.

    Raises:
        ImportError: matplotlib is not installed.
    """
    columns = [
        column
        for column in results.experiment.columns
        if column not in OF_PRETRAINING
        and any(
            score.values + score.degenerate
            for row in results.labels
            if (score := results.score(row, column))
        )
    ]
    if not columns or len(results.labels) < 2:
        return False
    kinds = {
        "table6": [
            functools.partial(_draw_models, over_perplexity=True),
            _draw_models,
        ],
        "figure5": [_draw_steps],
    }.get(results.experiment.name, [_draw_differences])
    # A panel for each column, a few side by side; each kind begins a row.
    across = min(len(columns), _ACROSS)
    down = -(-len(columns) // across)
    figure = pictures.new_figure(
        max(5.0, 4.0 * across), 3.8 * down * len(kinds)
    )
    every = figure.subplots(down * len(kinds), across, squeeze=False)
    for kind, draw_panel in enumerate(kinds):
        panels = list(every[kind * down : (kind + 1) * down].flat)
        for axes, column in zip(panels, columns, strict=False):
            draw_panel(axes, results, column)
            axes.set_title(column)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=SMALL)
        for axes in panels[len(columns) :]:
            axes.set_axis_off()
    figure.draw_without_rendering()  # places the panels
    for axes in every.flat:
        _separate_names(axes)
    pictures.save(figure, path)
    return True


def _plot(
    axes: Any,
    points: Sequence[Point],
    label: str,
    color: str,
    marker: str = "o",
    style: str = "-",
) -> None:
    """Draw one series; an empty one has no entry in the legend."""
    if not points:
        return
    # NaN has neither bar nor caps. Caps would look like a spread of 0.
    x, y, deviations, names = zip(*points, strict=True)
    spreads = [math.nan if own is None else own for own in deviations]
    axes.errorbar(
        x,
        y,
        yerr=None if all(map(math.isnan, spreads)) else spreads,
        color=color,
        marker=marker,
        markerfacecolor="white" if color == GREY else color,
        ls=style,
        lw=1,
        capsize=3,
        label=label,
    )
    for place, name in zip(zip(x, y, strict=True), names, strict=True):
        if name:
            axes.annotate(
                name,
                place,
                (0, 0),  # _separate_names moves it
                textcoords="offset points",
                fontsize=7,
                arrowprops={"arrowstyle": "-", "lw": 0.4, "color": GREY},
            )


def _separate_names(axes: Any) -> None:
    """Move each name beside its point, where no other name or point is."""
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    if not axes.texts:
        return
    points = axes.transData.transform([text.xy for text in axes.texts])
    taken = [Bbox.from_bounds(x - 5, y - 5, 10, 10) for x, y in points]
    taken.append(axes.get_legend().get_window_extent())
    for text in axes.texts:
        for offset, side in _NAME_PLACES:
            text.set(position=offset, ha=side)
            box = Text.get_window_extent(text)  # without its line
            if axes.bbox.fully_containsx(box.x1):
                if not box.count_overlaps(taken):
                    break
        taken.append(box)


def _mark_degenerate(axes: Any, places: Sequence[float]) -> None:
    """Draw a cross at the lower edge for rows with degenerate runs."""
    if places:
        axes.plot(
            places,
            [0.03] * len(places),
            "x",
            color="black",
            transform=axes.get_xaxis_transform(),
            label="degenerate runs, left out",
        )


def _points(results: Results, column: str, what: str = "") -> str:
    """Return the label of an axis of scores: "accuracy, points"."""
    keys = (results.score(row, column).key for row in results.labels)
    key = next(filter(None, keys)).removeprefix("eval_")
    name = key.replace("_", " ").replace("f1", "F1")
    return f"{name}{what}, points"


def parameters_of(size: str) -> float:
    """Return the millions of parameters of the layers of "L12_H768_A12".

    The embeddings are left out: their number follows from the vocabulary. A
    layer of width H has matrices of 12 H^2 (four of [H, H], and [H, 4 H] and
    [4 H, H]) and 13 H in biases and layer normalization.
    """
    layers, hidden, _ = (int(part[1:]) for part in size.split("_"))
    return layers * (12 * hidden**2 + 13 * hidden) / 1e6


def _draw_models(
    axes: Any, results: Results, column: str, over_perplexity: bool = False
) -> None:
    """Draw the scores of Table 6 over the size of the models, with their names.

    Or over their perplexity, better models to the right.
    """
    degenerate = []
    papers = PAPER["table6"].numbers
    for rows, source, *style in (
        (results.labels, results, "layers/width/heads, ours", BLUE),
        (papers, results.papers, "the paper", GREY, "s", "--"),
    ):
        points = []
        for row in rows:
            x, score = parameters_of(row), source.score(row, column)
            if over_perplexity:
                perplexity = source.score(row, PERPLEXITY)
                # That of degenerate runs is better than no place.
                every = perplexity.values or perplexity.degenerate
                x = statistics.fmean(every) if every else math.nan
            name = "/".join(part[1:] for part in row.split("_"))
            if score.values and not math.isnan(x):
                points.append(Point(x, score.mean, score.deviation, name))
            if score.degenerate:
                degenerate.append(x)
        points.sort(key=lambda p: p[:2], reverse=over_perplexity)
        _plot(axes, points, *style)
    _mark_degenerate(axes, degenerate)
    axes.set(xscale="log", ylabel=_points(results, column))
    axes.margins(x=0.4, y=0.15)  # with room for names
    if over_perplexity:
        axes.set(xlabel="held-out perplexity, log scale, reversed")
        axes.invert_xaxis()
    else:
        axes.set(xlabel="parameters of the layers, millions, log scale")


def _draw_differences(axes: Any, results: Results, column: str) -> None:
    """Draw our differences to the first row beside the paper's."""
    labels = results.labels
    ours, papers, degenerate = [], [], []
    for n, row in enumerate(labels):
        score = results.score(row, column)
        # Rows have no order: points without lines, side by side.
        if (difference := results.difference(row, column)) is not None:
            ours.append(Point(n - 0.1, difference, score.deviation))
        if score.degenerate:
            degenerate.append(n - 0.1)
        if (difference := results.papers.difference(row, column)) is not None:
            papers.append(Point(n + 0.1, difference))
    _plot(axes, ours, "ours", BLUE, style="none")
    _plot(axes, papers, "the paper", GREY, "s", "none")
    _mark_degenerate(axes, degenerate)
    axes.axhline(0, color="0.7", lw=1, zorder=0)
    axes.set_xticks(
        range(len(labels)), labels, rotation=30, ha="right", fontsize=SMALL
    )
    axes.set_xlim(-0.5, len(labels) - 0.5)
    name = results.experiment.name
    names = {"table8": "[MASK] / same / random, %"}
    names |= dict.fromkeys(FINE_TUNING, "")
    axes.set(
        xlabel=names.get(name, "pre-training"),
        ylabel=_points(results, column, f", difference to {labels[0]}"),
    )


def _draw_steps(axes: Any, results: Results, column: str) -> None:
    """Draw the scores of Figure 5 over the steps of pre-training."""
    rows = results.experiment.rows
    xlabel = "pre-training steps"
    for curve, name, color, marker, style in (
        (BERT, "masked LM", BLUE, "o", "-"),
        (LTR, "left-to-right", ORANGE, "s", "--"),
    ):
        points = [
            Point(row.step, score.mean, score.deviation)
            for row in rows
            if row.curve == curve
            and (score := results.score(row.label, column)).values
        ]
        _plot(axes, points, f"{name}, ours", color, marker, style)
        if column != "MNLI-m":
            continue
        xlabel = "pre-training steps (the paper's: shares of 1M)"
        # The paper's numbers are single points, the last where our last one is.
        scale = max(row.step for row in rows) / FIGURE_5_STEPS
        for numbers, label, own in (
            (FIGURE_5_ENDS, "the paper", marker),
            (FIGURE_5_ABOUT, "about, from a sentence of section C.1", "x"),
        ):
            papers = numbers.get(curve, {}).items()
            points = [Point(step * scale, y) for step, y in papers]
            _plot(axes, points, f"{name}, {label}", GREY, own, "none")
    _mark_degenerate(
        axes,
        [
            row.step
            for row in rows
            if results.score(row.label, column).degenerate
        ],
    )
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set(xlabel=xlabel, ylabel=_points(results, column))
