"""The numbers of a table: mean, spread and differences; CSV and Markdown.

A difference is that to the first row, in ours and in the paper's, so that the
directions can be compared whatever the level of the scores.

Degenerate runs are counted and left out of means: fine-tuning that gives one
answer to everything (tasks/signs.py), pre-training that knows the frequencies
of tokens and no more. Their own lines in eval_results.txt say so.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from tools.reproduction import paper_numbers
from tools.reproduction.experiments import AVERAGE, PERPLEXITY, Experiment


class Score(NamedTuple):
    """What a cell of a table holds; nothing, if its column has no data."""

    values: tuple[float, ...] = ()  # of the runs that have learned something
    failed: int = 0  # runs that failed, or whose pre-training did
    degenerate: tuple[float, ...] = ()  # scores of the other runs
    missing: int = 0  # runs that have not been made
    key: str = ""  # what the score is called in eval_results.txt

    @property
    def mean(self) -> float | None:
        """Return the mean without degenerate runs, None without others."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Return the sample standard deviation (n - 1), None for one run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


class Results(NamedTuple):
    """A table with its numbers: rows and columns, (row, column) -> score."""

    experiment: Experiment
    scores: dict[tuple[str, str], Score]

    @property
    def labels(self) -> list[str]:
        """Return the labels of the rows."""
        return [row.label for row in self.experiment.rows]

    def score(self, row: str, column: str) -> Score:
        """Return a cell."""
        return self.scores.get((row, column), Score())

    def difference(self, row: str, column: str) -> float | None:
        """Return mean - mean of the first row; None where not comparable."""
        first = self.score(self.labels[0], column)
        score = self.score(row, column)
        # A left-to-right perplexity and a masked one are of different tasks.
        if first.key != score.key:
            return None
        return _minus(score.mean, first.mean)

    def paper(self, row: str, column: str) -> float | None:
        """Return the paper's number, None where it has none."""
        paper = paper_numbers.PAPER[self.experiment.name]
        return paper.get(row, {}).get(column)

    def paper_difference(self, row: str, column: str) -> float | None:
        """Return the paper's number minus that of our first row's label."""
        first = self.paper(self.labels[0], column)
        return _minus(self.paper(row, column), first)


def _minus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left - right


def collect(
    experiment: Experiment,
    read_scores: Callable[[str], Mapping[str, float]],
    failed: Collection[str],
) -> Results:
    """Return the numbers of a table; steps without scores have {}."""
    scores = {}
    for row in experiment.rows:
        runs = {}  # column -> score of each run, None where left out
        for column, cell in row.cells.items():
            own, degenerate, num_failed, missing = [], [], 0, 0
            for name in cell.steps:
                found = {} if name in failed else read_scores(name)
                value = found.get(cell.key, math.nan) * cell.factor
                own.append(None)
                if math.isfinite(value):
                    if found.get("degenerate"):
                        degenerate.append(value)
                    else:
                        own[-1] = value
                elif found or name in failed:
                    num_failed += 1
                else:
                    missing += 1
            runs[column] = own
            values = tuple(value for value in own if value is not None)
            scores[row.label, column] = Score(
                values, num_failed, tuple(degenerate), missing, cell.key
            )
        papers = paper_numbers.PAPER[experiment.name].get(row.label, {})
        if AVERAGE in papers:
            # Of the first runs of all tasks, of the second ones, ...
            parts = [runs.get(c, []) for c in papers if c != AVERAGE]
            every = zip(*parts, strict=False)
            whole = (run for run in every if None not in run)
            scores[row.label, AVERAGE] = Score(
                tuple(map(statistics.fmean, whole))
            )
    return Results(experiment, scores)


def as_csv(results: Results) -> str:
    """Return a table as CSV, a line per cell; numbers are not rounded."""
    lines = []
    for row in results.labels:
        for column in results.experiment.columns:
            score = results.score(row, column)
            every = score.values + score.degenerate
            numbers = {
                "mean": score.mean,
                "standard_deviation": score.deviation,
                "runs": len(score.values),
                "failed": score.failed,
                "degenerate": len(score.degenerate),
                "mean_with_degenerate": statistics.fmean(every)
                if every
                else None,
                "missing": score.missing,
                "difference_to_first_row": results.difference(row, column),
                "paper": results.paper(row, column),
                "paper_difference_to_first_row": results.paper_difference(
                    row, column
                ),
            }
            # Ten digits: 84.4 - 83.9 is 0.5, not 0.5000000000000142.
            texts = {
                name: "" if value is None else f"{value:.10g}"
                for name, value in numbers.items()
            }
            lines.append({"row": row, "column": column, **texts})
    file = io.StringIO()
    writer = csv.DictWriter(file, lines[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return file.getvalue()


def digits_of(column: str) -> int:
    """Return the decimals that a column is shown with."""
    return 2 if column == PERPLEXITY else 1


def cell_text(score: Score, digits: int) -> str:
    """Return "84.4 ± 0.3 (3)", "84.4 (1)", "failed", "not run" or ""."""
    counts = {
        "degenerate": len(score.degenerate),
        "failed": score.failed,
        "not run": score.missing,
    }
    if score.mean is None:
        return next((what for what, count in counts.items() if count), "")
    notes = [f"{count} {what}" for what, count in counts.items() if count]
    text = f"{score.mean:.{digits}f}"
    if score.deviation is not None:
        text += f" ± {score.deviation:.{digits}f}"
    return f"{text} ({', '.join([str(len(score.values)), *notes])})"


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
    columns, labels = results.experiment.columns, results.labels

    def table(rows: Sequence[str], cell: Callable[[str, str], str]) -> str:
        cells = [[row, *(cell(row, c) for c in columns)] for row in rows]
        return markdown(["", *columns], cells)

    def text(value: float | None, column: str, sign: str = "") -> str:
        if value is None:
            return ""
        return f"{value:{sign}.{digits_of(column)}f}"

    def papers(row: str, column: str) -> str:
        return text(results.paper(row, column), column)

    def differences(row: str, column: str) -> str:
        own = text(results.difference(row, column), column, "+")
        theirs = text(results.paper_difference(row, column), column, "+")
        return f"{own} ({theirs})".strip() if theirs else own

    parts = [
        "Ours: mean ± sample standard deviation (number of runs), without "
        "degenerate runs.\n",
        table(
            labels, lambda r, c: cell_text(results.score(r, c), digits_of(c))
        ),
    ]
    if numbers := paper_numbers.PAPER[results.experiment.name]:
        rows = dict.fromkeys([*labels, *numbers])
        known = [r for r in rows if any(papers(r, c) for c in columns)]
        parts += ["The paper's.\n", table(known, papers)]
    if len(labels) > 1:
        parts += [
            f"Differences to {labels[0]}: ours, and the paper's in "
            "parentheses.\n",
            table(labels[1:], differences),
        ]
    return "\n".join(parts)
