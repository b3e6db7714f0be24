"""The pictures of the tables, with the paper's numbers beside ours.

Means of two or more runs have error bars. Degenerate runs are left out.
"""

import math
from collections.abc import Iterator, Mapping

from base import pictures

from tools.reproduction.experiments import OF_PRETRAINING
from tools.reproduction.paper import PAPER
from tools.reproduction.tables import Results

# A line: its name, whose numbers it has, and the place of each row.
Series = tuple[str, Results, Mapping[str, float]]


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
        and any(results.score(row, column).values for row in labels)
    ]
    if not columns or len(labels) < 2:
        return False
    is_difference = name not in ("table6", "figure5")
    figure = pictures.new_figure(max(5.0, 4.0 * len(columns)), 3.8)
    (every,) = figure.subplots(1, len(columns), squeeze=False)
    for axes, column in zip(every, columns, strict=True):
        for title, source, places in series_of(results):
            points = []
            for row, x in places.items():
                score = source.score(row, column)
                difference = source.difference(row, column)
                y = difference if is_difference else score.mean
                if y is not None:
                    points.append((x, y, score.deviation or math.nan))
            if points:
                x, y, bars = zip(*sorted(points), strict=True)
                axes.errorbar(x, y, bars, fmt="o-", label=title, capsize=3)
        axes.set(title=column, ylabel="points")
        if is_difference:
            axes.set_ylabel(f"points, difference to {labels[0]}")
            axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
        elif name == "table6":
            axes.set(xscale="log", xlabel="parameters of the layers, millions")
        else:
            axes.set_xlabel("pre-training steps")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=pictures.SMALL)
    pictures.save(figure, path)
    return True


def series_of(results: Results) -> Iterator[Series]:
    """Yield the lines of a picture."""
    name, rows = results.experiment.name, results.experiment.rows
    if name == "figure5":
        for curve in dict.fromkeys(row.curve for row in rows):
            steps = {row.label: row.step for row in rows if row.curve == curve}
            yield curve, results, steps
        return
    theirs = PAPER[name].numbers
    if name == "table6":
        yield "ours", results, {n: parameters_of(n) for n in results.labels}
        yield "the paper", results.papers, {n: parameters_of(n) for n in theirs}
        return
    places = {label: float(n) for n, label in enumerate(results.labels)}
    yield "ours", results, places
    yield "the paper", results.papers, places


def parameters_of(size: str) -> float:
    """Return the millions of parameters of the layers of "L12_H768_A12".

    The embeddings are left out: their number follows from the vocabulary. A
    layer of width H has matrices of 12 H^2 (four of [H, H], and [H, 4 H] and
    [4 H, H]) and 13 H in biases and layer normalization.
    """
    layers, hidden, _ = (int(part[1:]) for part in size.split("_"))
    return layers * (12 * hidden**2 + 13 * hidden) / 1e6
