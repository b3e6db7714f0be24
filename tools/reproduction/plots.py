"""The pictures: readable in grey, the paper's numbers as a second series.

Ours are black with filled markers, the paper's grey with open ones; curves of
one picture differ in marker and line style too. matplotlib draws into memory:
no display is needed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import pictures
from base.pictures import SMALL

from tools.reproduction.experiments import FIGURE_5, PERPLEXITY
from tools.reproduction.paper_numbers import (
    BERT,
    FIGURE_5_ABOUT,
    FIGURE_5_ENDS,
    FIGURE_5_STEPS,
    LTR,
    PAPER,
)
from tools.reproduction.tables import Results

_OURS, _PAPERS = "black", "0.5"
_ACROSS = 4  # panels in a row

# Where the names of neighboring points stand, in turns, so that they do not
# overlap: (offset in points, the side of the name that is at the point).
_NAME_PLACES = (((5, -10), "left"), ((-5, 4), "right"))

# Curve -> its name, marker and line style.
_CURVES = {
    BERT: ("masked LM", "o", "-"),
    LTR: ("left-to-right", "s", "--"),
}


class Series(NamedTuple):
    """Points of one series.

    Attributes:
        x, y: coordinates.
        deviations: standard deviation of each; None: no bar.
        names: written beside the points; () for none.
    """

    x: Sequence[float]
    y: Sequence[float]
    deviations: Sequence[float | None] = ()
    names: Sequence[str] = ()


def draw(results: Results, path: str) -> bool:
    """Draw the picture of a table; return False where it has no numbers.

    Args:
        results: the numbers.
        path: PNG file to write.

    Raises:
        ImportError: matplotlib is not installed.
    """
    columns = [
        column
        for column in results.experiment.columns
        if column != PERPLEXITY
        and any(results.mean(row, column) is not None for row in results.labels)
    ]
    if not columns:
        return False
    # `_panels` sets the size.
    figure = pictures.new_figure(1, 1)
    kinds = {
        "table5": (_draw_differences,),
        "table6": (_draw_perplexities, _draw_parameters),
        "table8": (_draw_differences,),
        "figure5": (_draw_steps,),
    }[results.experiment.name]
    for draw_panel, row in zip(
        kinds, _panels(figure, len(columns), len(kinds)), strict=True
    ):
        for axes, column in zip(row, columns, strict=True):
            draw_panel(axes, results, column)
            axes.set_title(column)
            axes.legend(fontsize=SMALL)
    pictures.save(figure, path)
    return True


def _panels(figure: Any, count: int, kinds: int) -> list[list[Any]]:
    """Return `count` axes with grids for each kind of panel.

    At most _ACROSS are side by side; each kind begins a row.
    """
    across = min(count, _ACROSS)
    down = -(-count // across)
    figure.set_size_inches(max(5.0, 4.0 * across), 3.8 * down * kinds)
    every = list(figure.subplots(down * kinds, across, squeeze=False).flat)
    found = []
    for kind in range(kinds):
        axes = every[kind * down * across : (kind + 1) * down * across]
        for unused in axes[count:]:
            unused.set_axis_off()
        for used in axes[:count]:
            used.grid(alpha=0.3)
        found.append(axes[:count])
    return found


def _plot(
    axes: Any,
    series: Series,
    label: str,
    is_ours: bool,
    marker: str = "o",
    style: str = "-",
) -> None:
    """Draw one series; an empty one has no entry in the legend."""
    if not series.x:
        return
    bars = [deviation or 0.0 for deviation in series.deviations] or None
    axes.errorbar(
        series.x,
        series.y,
        yerr=bars,
        color=_OURS if is_ours else _PAPERS,
        marker=marker,
        markerfacecolor=_OURS if is_ours else "white",
        ls=style,
        lw=1,
        capsize=3,
        label=label,
    )
    for n, (x, y, name) in enumerate(
        zip(series.x, series.y, series.names, strict=False)
    ):
        offset, side = _NAME_PLACES[n % 2]
        axes.annotate(
            name,
            (x, y),
            offset,
            textcoords="offset points",
            ha=side,
            fontsize=7,
        )


# --- Table 6: score over perplexity, and over size ---------------------------


def _draw_perplexities(axes: Any, results: Results, column: str) -> None:
    """Draw scores over the perplexity of the models."""
    ours = {row: results.mean(row, PERPLEXITY) for row in results.labels}
    papers = {row: n[PERPLEXITY] for row, n in PAPER["table6"].items()}
    _draw_sizes(axes, results, column, ours, papers, is_reversed=True)
    axes.invert_xaxis()  # better models to the right
    axes.set(xlabel="held-out masked LM perplexity, log scale")


def _draw_parameters(axes: Any, results: Results, column: str) -> None:
    """Draw scores over the parameters of the encoders."""
    ours = {row: parameters_of(row) for row in results.labels}
    papers = {row: parameters_of(row) for row in PAPER["table6"]}
    _draw_sizes(axes, results, column, ours, papers)
    axes.set(xlabel="parameters of the layers, millions, log scale")


def parameters_of(size: str) -> float:
    """Return the millions of parameters of the transformer layers.

    The embeddings are left out: their number follows from the vocabulary. A
    layer of width H has matrices of 12 H^2 (four of [H, H], and [H, 4 H] and
    [4 H, H]) and 13 H in biases and layer normalization.

    Args:
        size: such as "L12_H768_A12".
    """
    layers, hidden, _ = (int(part[1:]) for part in size.split("_"))
    return layers * (12 * hidden**2 + 13 * hidden) / 1e6


def _draw_sizes(
    axes: Any,
    results: Results,
    column: str,
    ours: Mapping[str, float | None],
    papers: Mapping[str, float],
    is_reversed: bool = False,
) -> None:
    """Draw scores over a number of each model, with the models' names.

    Args:
        axes: to draw on.
        results: the scores.
        column: of the scores.
        ours: row -> its number; None: it has none yet.
        papers: the same of the paper's rows.
        is_reversed: whether the highest number is at the left.
    """
    points = [
        (x, score.mean, score.deviation, _short(row))
        for row, x in ours.items()
        if x is not None
        and (score := results.scores.get((row, column)))
        and score.mean is not None
    ]
    if points:
        points.sort(key=_place, reverse=is_reversed)
        series = Series(*zip(*points, strict=True))
        _plot(axes, series, "ours", True)
    paper = [
        (papers[row], numbers[column], None, _short(row))
        for row, numbers in PAPER["table6"].items()
        if column in numbers
    ]
    if paper:
        paper.sort(key=_place, reverse=is_reversed)
        series = Series(*zip(*paper, strict=True))
        _plot(axes, series, "the paper", False, "s", "--")
    axes.set_xscale("log")
    axes.margins(x=0.25, y=0.1)  # with room for names
    axes.set(ylabel="development set, %")


def _place(point: Sequence[Any]) -> tuple[float, float]:
    """Return x and y of a point; its deviation may be None."""
    return point[0], point[1]


def _short(size: str) -> str:
    """Return 4/256/4 for L4_H256_A4: layers, width, heads."""
    return "/".join(part[1:] for part in size.split("_"))


# --- Tables 5 and 8: differences to the first row ----------------------------


def _draw_differences(axes: Any, results: Results, column: str) -> None:
    """Draw our differences to the first row beside the paper's."""
    labels = results.labels
    ours = [(n, results.difference(row, column)) for n, row in _rows(results)]
    papers = [
        (n, results.paper_difference(row, column)) for n, row in _rows(results)
    ]
    ours = [(n, d) for n, d in ours if d is not None]
    papers = [(n, d) for n, d in papers if d is not None]
    deviations = [results.scores[labels[n], column].deviation for n, _ in ours]
    # Rows have no order: points without lines, side by side.
    _plot(
        axes,
        Series([n - 0.1 for n, _ in ours], [d for _, d in ours], deviations),
        "ours",
        True,
        style="none",
    )
    _plot(
        axes,
        Series([n + 0.1 for n, _ in papers], [d for _, d in papers]),
        "the paper",
        False,
        "s",
        "none",
    )
    axes.axhline(0, color="0.7", lw=1, zorder=0)
    axes.set_xticks(
        range(len(labels)), labels, rotation=30, ha="right", fontsize=SMALL
    )
    axes.set_xlim(-0.5, len(labels) - 0.5)
    axes.set(ylabel=f"difference to {labels[0]}, %")
    if results.experiment.name == "table8":
        axes.set_xlabel("[MASK] / same / random, %")
    else:
        axes.set_xlabel("pre-training")


def _rows(results: Results) -> Iterator[tuple[int, str]]:
    return enumerate(results.labels)


# --- Figure 5: score over steps ----------------------------------------------


def _draw_steps(axes: Any, results: Results, column: str) -> None:
    """Draw scores over the steps of pre-training."""
    last = max(row.step for row in results.experiment.rows)
    for curve in FIGURE_5:
        name, marker, style = _CURVES[curve]
        points = [
            (row.step, score.mean, score.deviation)
            for row in results.experiment.rows
            if row.curve == curve
            and (score := results.scores.get((row.label, column)))
            and score.mean is not None
        ]
        if points:
            series = Series(*zip(*points, strict=True))
            _plot(axes, series, f"{name}, ours", True, marker, style)
        if column == "MNLI-m":
            _draw_paper_curve(axes, curve, last)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set(
        xlabel="pre-training steps (the paper's: shares of 1M)"
        if column == "MNLI-m"
        else "pre-training steps",
        ylabel="development set, %",
    )


def _draw_paper_curve(axes: Any, curve: str, last: int) -> None:
    """Draw the paper's numbers of a curve: single points, no line.

    Args:
        axes: to draw on.
        curve: its name.
        last: our number of steps, where the paper's last one is drawn.
    """
    name, marker, _ = _CURVES[curve]
    for numbers, label, own in (
        (FIGURE_5_ENDS, "the paper", marker),
        (FIGURE_5_ABOUT, "about, from a sentence of section C.1", "x"),
    ):
        points = numbers.get(curve, {})
        x = [step * last / FIGURE_5_STEPS for step in points]
        series = Series(x, list(points.values()))
        _plot(axes, series, f"{name}, {label}", False, own, "none")
