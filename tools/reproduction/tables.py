"""The numbers of a table: mean, spread and differences; CSV and Markdown.

A difference is that to the first row, in ours and in the paper's, so that the
directions can be compared whatever the level of the scores.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tools.reproduction import paper_numbers
from tools.reproduction.experiments import PERPLEXITY, Cell, Experiment

# step name -> its scores; None: it has none (yet).
ReadScores = Callable[[str], Mapping[str, float] | None]

CSV_COLUMNS = (
    "row",
    "column",
    "mean",
    "standard_deviation",
    "runs",
    "failed",
    "degenerate",
    "missing",
    "difference_to_first_row",
    "paper",
    "paper_difference_to_first_row",
)


class Score(NamedTuple):
    """What a cell of a table holds.

    Attributes:
        values: of the runs that have a score.
        failed: runs that failed, or whose pre-training did.
        degenerate: of `values`, those of runs that learned nothing.
        missing: runs that have not been made.
        key: what the score is called in eval_results.txt.
    """

    values: tuple[float, ...]
    failed: int
    degenerate: int
    missing: int
    key: str

    @property
    def mean(self) -> float | None:
        """Return the mean, None without runs."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Return the sample standard deviation (n - 1), None for one run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


class Results(NamedTuple):
    """A table with its numbers.

    Attributes:
        experiment: rows and columns.
        scores: (row, column) -> score; cells without data are left out.
    """

    experiment: Experiment
    scores: dict[tuple[str, str], Score]

    @property
    def labels(self) -> list[str]:
        """Return the labels of the rows."""
        return [row.label for row in self.experiment.rows]

    def mean(self, row: str, column: str) -> float | None:
        """Return the mean of a cell, None without one."""
        score = self.scores.get((row, column))
        return score.mean if score else None

    def difference(self, row: str, column: str) -> float | None:
        """Return mean - mean of the first row; None where not comparable."""
        first = self.scores.get((self.labels[0], column))
        score = self.scores.get((row, column))
        # A left-to-right perplexity and a masked one are of different tasks.
        if not first or not score or first.key != score.key:
            return None
        return _minus(score.mean, first.mean)

    def paper(self, row: str, column: str) -> float | None:
        """Return the paper's number, None where it has none."""
        paper = paper_numbers.PAPER[self.experiment.name]
        return paper.get(row, {}).get(column)

    def paper_difference(self, row: str, column: str) -> float | None:
        """Return the paper's number minus that of our first row's label.

        None where the paper lacks one of them.
        """
        first = self.paper(self.labels[0], column)
        return _minus(self.paper(row, column), first)


def _minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def collect(
    experiment: Experiment, read_scores: ReadScores, failed: Sequence[str]
) -> Results:
    """Return the numbers of a table.

    Args:
        experiment: its cells.
        read_scores: step -> scores.
        failed: steps that failed.
    """
    lost = set(failed)
    scores = {
        (row.label, column): _score(cell, read_scores, lost)
        for row in experiment.rows
        for column, cell in row.cells.items()
    }
    return Results(experiment, scores)


def _score(cell: Cell, read_scores: ReadScores, lost: set[str]) -> Score:
    """Return the numbers of a cell."""
    values, failed, degenerate, missing = [], 0, 0, 0
    for name in cell.steps:
        if name in lost:
            failed += 1
            continue
        found = read_scores(name) or {}
        value = found.get(cell.key, math.nan)
        if math.isfinite(value):
            values.append(value * cell.factor)
            degenerate += bool(found.get("degenerate"))
        elif found:
            failed += 1  # a score that is not a number
        else:
            missing += 1
    return Score(tuple(values), failed, degenerate, missing, cell.key)


# --- CSV ---------------------------------------------------------------------


def as_csv(results: Results) -> str:
    """Return a table as CSV, a line per cell; numbers are not rounded."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in results.labels:
        for column in results.experiment.columns:
            score = results.scores.get((row, column))
            counts = ["", "", 0, 0, 0, 0]
            if score:
                counts = [
                    _plain(score.mean),
                    _plain(score.deviation),
                    len(score.values),
                    score.failed,
                    score.degenerate,
                    score.missing,
                ]
            writer.writerow(
                [
                    row,
                    column,
                    *counts,
                    _plain(results.difference(row, column)),
                    _plain(results.paper(row, column)),
                    _plain(results.paper_difference(row, column)),
                ]
            )
    return file.getvalue()


def _plain(value: float | None) -> str:
    # Ten digits: 84.4 - 83.9 is 0.5, not 0.5000000000000142.
    return "" if value is None else f"{value:.10g}"


# --- Markdown ----------------------------------------------------------------


def digits_of(column: str) -> int:
    """Return the decimals that a column is shown with."""
    return 2 if column == PERPLEXITY else 1


def cell_text(score: Score | None, digits: int) -> str:
    """Return "84.4 ± 0.3 (3)", "84.4 (1)", "failed", "not run" or ""."""
    if score is None:
        return ""
    notes = [str(len(score.values))]
    if score.failed:
        notes.append(f"{score.failed} failed")
    if score.degenerate:
        notes.append(f"{score.degenerate} degenerate")
    if score.missing:
        notes.append(f"{score.missing} not run")
    if score.mean is None:
        return "failed" if score.failed else "not run"
    text = f"{score.mean:.{digits}f}"
    if score.deviation is not None:
        text += f" ± {score.deviation:.{digits}f}"
    return f"{text} ({', '.join(notes)})"


def signed(value: float | None, digits: int) -> str:
    """Return "+0.5" or "-0.5", "" for None."""
    return "" if value is None else f"{value:+.{digits}f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table, numbers to the right."""
    lines = [
        "| " + " | ".join(header) + " |",
        "|---|" + "---:|" * (len(header) - 1),
    ]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_markdown(results: Results) -> str:
    """Return ours, the paper's, and the differences to the first row."""
    experiment = results.experiment
    columns = experiment.columns
    header = ["", *columns]
    ours, paper, differences = [], [], []
    for row in results.labels:
        ours.append([row])
        paper.append([row])
        differences.append([row])
        for column in columns:
            digits = digits_of(column)
            score = results.scores.get((row, column))
            ours[-1].append(cell_text(score, digits))
            number = results.paper(row, column)
            paper[-1].append("" if number is None else f"{number:.{digits}f}")
            differences[-1].append(_both(results, row, column, digits))
    parts = [
        "Ours: mean ± sample standard deviation (number of runs).\n",
        markdown(header, ours),
    ]
    papers = paper_numbers.PAPER[experiment.name]
    if papers:
        labels = results.labels
        paper += [
            [row, *(_paper_cell(papers[row], c) for c in columns)]
            for row in papers
            if row not in labels
        ]
        paper = [row for row in paper if any(row[1:])]
        parts += ["The paper's.\n", markdown(header, paper)]
    first = results.labels[0]
    parts += [
        f"Differences to {first}: ours, and the paper's in parentheses.\n",
        markdown(header, differences[1:]),
    ]
    return "\n".join(parts)


def _paper_cell(row: Mapping[str, float], column: str) -> str:
    return f"{row[column]:.{digits_of(column)}f}" if column in row else ""


def _both(results: Results, row: str, column: str, digits: int) -> str:
    """Return our difference, and the paper's in parentheses."""
    ours = signed(results.difference(row, column), digits)
    theirs = signed(results.paper_difference(row, column), digits)
    return f"{ours} ({theirs})".strip() if theirs else ours
