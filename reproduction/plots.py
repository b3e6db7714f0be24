"""The pictures: readable in grey, the paper's numbers as a second series.

Ours are black with filled markers, the paper's grey with open ones; series of
one picture differ in marker and line style too. matplotlib draws into memory:
no display is needed.
"""

from typing import Any

from base import file_system

from reproduction.experiments import FIGURE_5, PERPLEXITY
from reproduction.paper_numbers import BERT, LTR, PAPER
from reproduction.tables import Results

_MARKERS = "osD^vP*X"
_STYLES = ("-", "--", "-.", ":")
_OURS, _PAPERS = "black", "0.55"
_DPI = 110

# What the paper says of Figure 5's curves, in shares of its 1M steps: their
# ends are Table 5's, and the masked LM is "almost 1.0%" better than at 500k.
_FIGURE_5_PAPER = {BERT: {0.5: 83.4, 1.0: 84.4}, LTR: {1.0: 82.1}}


def draw(results: Results, path: str) -> bool:
    """Draw the picture of a table; return False where it has none.

    Args:
        results: the numbers.
        path: PNG file to write.

    Raises:
        ImportError: matplotlib is not installed.
    """
    functions = {
        "table6": _draw_sizes,
        "table8": _draw_maskings,
        "figure5": _draw_steps,
        "table5": _draw_objectives,
    }
    columns = [
        column
        for column in results.experiment.columns
        if column != PERPLEXITY
        and any(results.mean(row, column) is not None for row in results.labels)
    ]
    if not columns:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    FigureCanvasAgg(figure)
    functions[results.experiment.name](figure, results, columns)
    with file_system.atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=_DPI)
    return True


def _series(axes: Any, x, y, deviations, label: str, number: int, style="-"):
    """Draw one series of ours, with error bars of one standard deviation."""
    axes.errorbar(
        x,
        y,
        yerr=[d or 0.0 for d in deviations],
        color=_OURS,
        marker=_MARKERS[number % len(_MARKERS)],
        ls=style,
        capsize=3,
        lw=1,
        label=label,
    )


def _paper_series(axes: Any, x, y, label: str, number: int, style="-"):
    axes.plot(
        x,
        y,
        color=_PAPERS,
        marker=_MARKERS[number % len(_MARKERS)],
        markerfacecolor="white",
        ls=style,
        lw=1,
        label=label,
    )


def _panels(figure: Any, count: int, width: float = 4.0) -> list[Any]:
    """Return `count` axes side by side, at most four in a row."""
    across = min(count, 4)
    down = -(-count // across)
    figure.set_size_inches(max(5.0, width * across), 3.6 * down)
    grid = figure.subplots(down, across, squeeze=False)
    axes = list(grid.flat)
    for unused in axes[count:]:
        unused.set_axis_off()
    for used in axes[:count]:
        used.grid(alpha=0.3)
    return axes[:count]


# --- Table 6 -----------------------------------------------------------------


def _draw_sizes(figure: Any, results: Results, columns: list[str]) -> None:
    """Draw scores over the perplexity, a panel per task."""
    paper = PAPER["table6"]
    for axes, column in zip(
        _panels(figure, len(columns)), columns, strict=True
    ):
        points = []
        for row in results.labels:
            x = results.mean(row, PERPLEXITY)
            score = results.scores[row, column]
            if x is not None and score.mean is not None:
                points.append((x, score.mean, score.deviation, row))
        points.sort(reverse=True)
        x, y, deviations, labels = zip(*points, strict=True) if points else (
            (), (), (), ())  # fmt: skip
        _series(axes, x, y, deviations, "ours", 0)
        for value, score, label in zip(x, y, labels, strict=True):
            _name_point(axes, value, score, label)
        if rows := [
            (v[PERPLEXITY], v[column], k)
            for k, v in paper.items()
            if column in v
        ]:
            _paper_series(
                axes,
                *zip(*((a, b) for a, b, _ in rows), strict=True),
                "the paper",
                1,
                "--",
            )
            for value, score, label in (rows[0], rows[-1]):
                _name_point(axes, value, score, label)
        axes.set_xscale("log")
        axes.invert_xaxis()
        axes.set(
            title=column,
            xlabel="held-out masked LM perplexity (log scale)",
            ylabel=f"{column}, development set",
        )
        axes.margins(0.15)
        axes.legend(fontsize=8)


def _name_point(axes: Any, x: float, y: float, text: str) -> None:
    """Write the size of a model beside its point: 4/256/4."""
    short = "/".join(part[1:] for part in text.split("_"))
    axes.annotate(
        short, (x, y), xytext=(4, -10), textcoords="offset points", fontsize=7
    )


# --- Tables 5 and 8: differences to the first row ----------------------------


def _draw_maskings(figure: Any, results: Results, columns: list[str]) -> None:
    _draw_differences(
        figure,
        results,
        columns,
        "[MASK] / same / random, % of the predicted tokens",
    )


def _draw_objectives(figure: Any, results: Results, columns: list[str]) -> None:
    _draw_differences(figure, results, columns, "pre-training")


def _draw_differences(
    figure: Any, results: Results, columns: list[str], xlabel: str
) -> None:
    """Draw ours and the paper's difference to the first row, by task."""
    labels = results.labels
    for axes, column in zip(
        _panels(figure, len(columns)), columns, strict=True
    ):
        found = [
            (n, results.difference(row, column)) for n, row in enumerate(labels)
        ]
        found = [(n, d) for n, d in found if d is not None]
        deviations = [
            results.scores[labels[n], column].deviation for n, _ in found
        ]
        if found:
            x, y = zip(*found, strict=True)
            _series(axes, x, y, deviations, "ours", 0)
        papers = [
            (n, results.paper_difference(row, column))
            for n, row in enumerate(labels)
        ]
        papers = [(n, d) for n, d in papers if d is not None]
        if papers:
            _paper_series(
                axes, *zip(*papers, strict=True), "the paper", 1, "--"
            )
        axes.axhline(0, color="0.8", lw=1, zorder=0)
        axes.set_xticks(
            range(len(labels)), labels, rotation=30, ha="right", fontsize=8
        )
        axes.set(
            title=column, xlabel=xlabel, ylabel=f"difference to {labels[0]}"
        )
        axes.legend(fontsize=8)


# --- Figure 5 ----------------------------------------------------------------


def _draw_steps(figure: Any, results: Results, columns: list[str]) -> None:
    """Draw scores over the steps of pre-training, a panel per task."""
    rows = results.experiment.rows
    last = max(row.step for row in rows)
    for axes, column in zip(
        _panels(figure, len(columns), 5.0), columns, strict=True
    ):
        for number, curve in enumerate(FIGURE_5):
            points = [
                (row.step, score.mean, score.deviation)
                for row in rows
                if row.curve == curve
                and (score := results.scores.get((row.label, column)))
                and score.mean is not None
            ]
            style = _STYLES[number]
            if points:
                name = "masked LM" if curve == BERT else "left-to-right"
                _series(
                    axes,
                    *zip(*points, strict=True),
                    f"{name}, ours",
                    number,
                    style,
                )
        if column == "MNLI-m":
            for number, (curve, points) in enumerate(_FIGURE_5_PAPER.items()):
                name = "masked LM" if curve == BERT else "left-to-right"
                _paper_series(
                    axes,
                    [share * last for share in points],
                    list(points.values()),
                    f"{name}, the paper",
                    number,
                    _STYLES[number],
                )
        axes.set(
            title=column,
            xlabel="pre-training steps (the paper's: shares of 1M)",
            ylabel=f"{column}, development set",
        )
        axes.legend(fontsize=8)
