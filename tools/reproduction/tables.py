"""A table: its rows, the runs of its cells, their numbers; CSV and Markdown.

Differences are to the first row, in our numbers and in the paper's. Their
directions can be compared whatever the level of the scores is.

Degenerate runs are counted and left out of means. Their eval_results.txt has
`degenerate = 1`: the fine-tuned model is no better than one answer to all
(tasks/signs.py), or the pre-trained one knows only the frequencies of tokens.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tools.reproduction.paper import AVERAGE, PAPER, PERPLEXITY
from tools.reproduction.steps import Row

# What a run may be whose score does not count.
DEGENERATE, FAILED, NOT_RUN = "degenerate", "failed", "not run"


class Run(NamedTuple):
    """The score of a run."""

    value: float = math.nan
    state: str = ""  # DEGENERATE, FAILED (or its pre-training), NOT_RUN


class Cell(NamedTuple):
    """A cell: its steps, one for each seed and restart, and their scores."""

    key: str = ""  # of eval_results.txt
    factor: float = 1.0  # score in the table / score in the file
    task: str = ""  # of the fine-tuning; "" for a score of pre-training
    steps: Sequence[str] = ()  # names
    runs: Sequence[Run] = ()

    @property
    def values(self) -> list[float]:
        """Return the scores of the runs that count."""
        return [run.value for run in self.runs if not run.state]

    def count(self, state: str) -> int:
        """Return the number of runs with a state."""
        return sum(run.state == state for run in self.runs)

    @property
    def mean(self) -> float | None:
        """Return the mean of the runs that count, if any."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Return their sample standard deviation (n - 1), if two or more."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


class Table(NamedTuple):
    """A table or figure, with columns and rows in the paper's order."""

    name: str
    columns: Sequence[str]  # the paper's, then those of further tasks
    rows: Sequence[Row]
    # By label of the row and column, where there are data.
    cells: Mapping[tuple[str, str], Cell]
    left_out: Mapping[str, str]  # task -> why it has no score

    @property
    def labels(self) -> list[str]:
        """Return the labels of the rows."""
        return [row.label for row in self.rows]

    def cell(self, row: str, column: str) -> Cell:
        """Return a cell, one without runs if there is none."""
        return self.cells.get((row, column), Cell())

    def difference(self, row: str, column: str) -> float | None:
        """Return the mean minus that of the first row, if comparable."""
        one, two = self.cell(row, column), self.cell(self.labels[0], column)
        # A left-to-right perplexity is not comparable with a masked one.
        is_comparable = one.values and two.values and one.key == two.key
        return one.mean - two.mean if is_comparable else None

    @property
    def papers(self) -> "Table":
        """Return the paper's numbers, as the scores of one run each."""
        _, columns, rows = PAPER[self.name]
        cells = {
            (row, column): Cell(runs=[Run(number)])
            for row, numbers in rows.items()
            for column, number in zip(columns, numbers, strict=True)
        }
        return self._replace(cells=cells)


def with_scores(
    table: Table,
    found: Mapping[str, Mapping[str, float]],
    failed: Collection[str],
) -> Table:
    """Return a table with its numbers.

    Args:
        table: the table.
        found: the scores of each step, {} if it has none.
        failed: the steps that have failed.
    """

    def run(step: str, cell: Cell) -> Run:
        value = found[step].get(cell.key, math.nan) * cell.factor
        if step not in failed and not found[step]:
            return Run(state=NOT_RUN)
        if step in failed or not math.isfinite(value):
            return Run(state=FAILED)
        return Run(value, DEGENERATE if found[step].get("degenerate") else "")

    cells = {
        place: cell._replace(runs=[run(step, cell) for step in cell.steps])
        for place, cell in table.cells.items()
    }
    table = table._replace(cells=cells)
    columns = PAPER[table.name].columns
    for row in table.labels if AVERAGE in columns else ():
        means = [table.cell(row, c).mean for c in columns if c != AVERAGE]
        if None not in means:
            average = Run(statistics.fmean(means))
            cells[row, AVERAGE] = Cell(steps=[""], runs=[average])
    return table


def as_csv(table: Table) -> str:
    """Return the scores of all runs as CSV, not rounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["row", "column", "run", "score", "state"])
    for (row, column), cell in table.cells.items():
        for step, run in zip(cell.steps, cell.runs, strict=True):
            # Ten digits: 0.844 * 100 is 84.4, not 84.39999999999999.
            score = f"{run.value:.10g}" if math.isfinite(run.value) else ""
            writer.writerow([row, column, step, score, run.state])
    return file.getvalue()


def shown(value: float | None, column: str, sign: str = "") -> str:
    """Return a number as it is shown in a column, "" for None."""
    digits = 2 if column == PERPLEXITY else 1
    return "" if value is None else f"{value:{sign}.{digits}f}"


def cell_text(cell: Cell, column: str) -> str:
    """Return "84.4 ± 0.3 (3)", "84.4 (1)", "failed", "not run" or ""."""
    states = [s for s in (DEGENERATE, FAILED, NOT_RUN) if cell.count(s)]
    if not cell.values:
        return states[0] if states else ""
    text = shown(cell.mean, column)
    if cell.deviation is not None:
        text += f" ± {shown(cell.deviation, column)}"
    notes = [f"{cell.count(state)} {state}" for state in states]
    return f"{text} ({', '.join([str(len(cell.values)), *notes])})"


def as_markdown(table: Table) -> str:
    """Return ours, the paper's, and the differences to the first row."""
    columns, labels, papers = table.columns, table.labels, table.papers

    def lines(rows: Collection[str], text: Callable[[str, str], str]) -> str:
        found = [["", *columns], ["---", *["---:"] * len(columns)]]
        found += [[row, *(text(row, c) for c in columns)] for row in rows]
        return "".join(f"| {' | '.join(line)} |\n" for line in found)

    def differences(row: str, column: str) -> str:
        own = shown(table.difference(row, column), column, "+")
        other = shown(papers.difference(row, column), column, "+")
        return f"{own} ({other})".strip() if other else own

    parts = [
        "Ours: mean ± sample standard deviation (number of runs), without "
        "degenerate runs.\n",
        lines(labels, lambda r, c: cell_text(table.cell(r, c), c)),
    ]
    if numbers := PAPER[table.name].numbers:
        theirs = lines(numbers, lambda r, c: shown(papers.cell(r, c).mean, c))
        parts += ["The paper's.\n", theirs]
    if len(labels) > 1:
        parts += [
            f"Differences to {labels[0]}: ours, and the paper's in "
            "parentheses.\n",
            lines(labels[1:], differences),
        ]
    return "\n".join(parts)
