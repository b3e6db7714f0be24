"""The pictures of the tables, with the paper's numbers beside ours.

Means of two or more runs have error bars. Degenerate runs are left out.
"""

import math

from base import pictures

from tools.reproduction.paper import OF_PRETRAINING
from tools.reproduction.tables import Table

# Title -> place, number and deviation of each point.
Lines = dict[str, list[tuple[float, float, float]]]


def draw(table: Table, path: str) -> bool:
    """Draw the picture of a table as a PNG file; return whether there is one.

    Tables show differences to their first row, Figure 5 scores over steps. A
    table without numbers has no picture, nor has a table of one row.
    """
    labels = table.labels
    columns = [
        column
        for column in table.columns
        if column not in OF_PRETRAINING
        and any(table.cell(row, column).values for row in labels)
    ]

    def draw_to(path: str) -> None:
        figure = pictures.new_figure(max(5.0, 4.0 * len(columns)), 3.8)
        (every,) = figure.subplots(1, len(columns), squeeze=False)
        for axes, column in zip(every, columns, strict=True):
            for title, points in _lines(table, column).items():
                x, y, bars = zip(*points, strict=True)
                axes.errorbar(x, y, bars, fmt="o-", label=title, capsize=3)
            axes.set(title=column, ylabel="points", xlabel="pre-training steps")
            if table.name != "figure5":
                axes.set(ylabel=f"difference to {labels[0]}", xlabel="")
                axes.set_xticks(range(len(labels)), labels, rotation=30)
            axes.grid(alpha=0.3)
            axes.legend(fontsize=pictures.SMALL)
        pictures.save(figure, path)

    has_picture = bool(columns) and len(labels) > 1
    return has_picture and pictures.draw(path, draw_to)


def _lines(table: Table, column: str) -> Lines:
    """Return ours and the paper's, or the curves of Figure 5."""
    lines: Lines = {}
    for title, own in ("ours", table), ("the paper", table.papers):
        for x, row in enumerate(table.rows):
            cell = own.cell(row.label, column)
            y = own.difference(row.label, column)
            if table.name == "figure5":  # two curves of ours
                title, x, y = row.label.split(",")[0], row.step, cell.mean
            if y is not None:
                bar = cell.deviation or math.nan
                lines.setdefault(title, []).append((x, y, bar))
    return lines
