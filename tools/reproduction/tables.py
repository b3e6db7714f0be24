"""The numbers of a table: mean, spread and differences; CSV and Markdown.

Differences are to the first row, in our numbers and in the paper's. Their
directions can be compared whatever the level of the scores is.

Degenerate runs are counted and left out of means. Their eval_results.txt has
`degenerate = 1`: the fine-tuned model gives one answer to everything
(tasks/signs.py), or the pre-trained one knows only the frequencies of tokens.
"""

import csv
import io
import math
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tools.reproduction.experiments import Experiment
from tools.reproduction.paper import AVERAGE, PAPER, PERPLEXITY


class Score(NamedTuple):
    """The scores of a cell of a table; none if the column has no data."""

    values: tuple[float, ...] = ()  # of the runs that are not degenerate
    failed: int = 0  # runs that failed, or whose pre-training failed
    degenerate: tuple[float, ...] = ()  # of the degenerate runs
    missing: int = 0  # runs that are not finished
    key: str = ""  # the name of the score in eval_results.txt

    @property
    def every(self) -> tuple[float, ...]:
        """Return the scores of the degenerate runs too."""
        return self.values + self.degenerate

    @property
    def mean(self) -> float | None:
        """Return the mean of the runs that are not degenerate, if any."""
        return statistics.fmean(self.values) if self.values else None

    @property
    def deviation(self) -> float | None:
        """Return their sample standard deviation (n - 1), if two or more."""
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

    def difference(
        self, row: str, column: str, other: str = ""
    ) -> float | None:
        """Return the mean minus that of another row, if comparable.

        The default is the first row.
        """
        score = self.score(row, column)
        other = self.score(other or self.labels[0], column)
        # A left-to-right perplexity is not comparable with a masked one.
        is_comparable = score.values and other.values and score.key == other.key
        return score.mean - other.mean if is_comparable else None

    @property
    def papers(self) -> "Results":
        """Return the paper's numbers, as the scores of one run each."""
        paper = PAPER[self.experiment.name]
        scores = {
            (row, column): Score((number,))
            for row, numbers in paper.numbers.items()
            for column, number in zip(paper.columns, numbers, strict=True)
        }
        return Results(self.experiment, scores)


def collect(
    experiment: Experiment,
    found: Mapping[str, Mapping[str, float]],
    failed: Collection[str],
) -> Results:
    """Return the numbers of a table.

    Args:
        experiment: the table.
        found: the scores of each step, {} if it has none.
        failed: the steps that have failed.
    """
    scores, runs = {}, {}  # of runs: None for one that does not count
    for place, cell in experiment.cells.items():
        own, degenerate, missing = [], [], 0
        for name in cell.steps:
            step = {} if name in failed else found[name]
            value = step.get(cell.key, math.nan) * cell.factor
            missing += not step and name not in failed
            is_degenerate = math.isfinite(value) and step.get("degenerate")
            if is_degenerate:
                degenerate.append(value)
            counts = math.isfinite(value) and not is_degenerate
            own.append(value if counts else None)
        runs[place] = own
        values = tuple(value for value in own if value is not None)
        num_failed = len(own) - len(values) - len(degenerate) - missing
        scores[place] = Score(
            values, num_failed, tuple(degenerate), missing, cell.key
        )
    averaged = [c for c in PAPER[experiment.name].columns if c != AVERAGE]
    if AVERAGE in PAPER[experiment.name].columns:
        for row in experiment.rows:
            # The first runs of all tasks have an average, so do the second.
            own = [runs.get((row.label, column), []) for column in averaged]
            whole = (run for run in zip(*own, strict=False) if None not in run)
            means = tuple(map(statistics.fmean, whole))
            scores[row.label, AVERAGE] = Score(means)
    return Results(experiment, scores)


def as_csv(results: Results) -> str:
    """Return a table as CSV, a line per cell; numbers are not rounded."""
    lines, papers = [], results.papers
    for row, column in product(results.labels, results.experiment.columns):
        score = results.score(row, column)
        every = Score(score.every)
        numbers = {
            "mean": score.mean,
            "standard_deviation": score.deviation,
            "runs": len(score.values),
            "failed": score.failed,
            "degenerate": len(score.degenerate),
            "mean_with_degenerate": every.mean,
            "missing": score.missing,
            "difference_to_first_row": results.difference(row, column),
            "paper": papers.score(row, column).mean,
            "paper_difference_to_first_row": papers.difference(row, column),
        }
        # Ten digits: 84.4 - 83.9 is 0.5, not 0.5000000000000142.
        texts = {
            name: "" if value is None else f"{value:.10g}"
            for name, value in numbers.items()
        }
        texts["scores"] = " ".join(f"{own:.10g}" for own in score.values)
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
    papers = results.papers

    def table(rows: Sequence[str], cell: Callable[[str, str], str]) -> str:
        cells = [[row, *(cell(row, c) for c in columns)] for row in rows]
        return markdown(["", *columns], cells)

    def text(value: float | None, column: str, sign: str = "") -> str:
        return "" if value is None else f"{value:{sign}.{digits_of(column)}f}"

    def differences(row: str, column: str) -> str:
        own = text(results.difference(row, column), column, "+")
        theirs = text(papers.difference(row, column), column, "+")
        return f"{own} ({theirs})".strip() if theirs else own

    parts = [
        "Ours: mean ± sample standard deviation (number of runs), without "
        "degenerate runs.\n",
        table(
            labels, lambda r, c: cell_text(results.score(r, c), digits_of(c))
        ),
    ]
    if numbers := PAPER[results.experiment.name].numbers:
        rows = dict.fromkeys([*labels, *numbers])
        known = [
            r for r in rows if any(papers.score(r, c).every for c in columns)
        ]
        theirs = table(known, lambda r, c: text(papers.score(r, c).mean, c))
        parts += ["The paper's.\n", theirs]
    if len(labels) > 1:
        parts += [
            f"Differences to {labels[0]}: ours, and the paper's in "
            "parentheses.\n",
            table(labels[1:], differences),
        ]
    return "\n".join(parts)
