"""The paper's claims about its tables, checked on our numbers.

A claim compares two cells of a column. It "shows" if their difference has the
paper's sign and exceeds one standard deviation of a run. It "does not show" if
the difference has the other sign and exceeds it. Else it is "within one
standard deviation". The standard deviation of both cells together is
sqrt((a^2 + b^2) / 2). If a cell has one run, only the sign is told. Degenerate
runs are left out, and nothing follows if a cell has no others.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tools.reproduction import tables
from tools.reproduction.experiments import OF_PRETRAINING, PERPLEXITY
from tools.reproduction.paper import PAPER, Claim
from tools.reproduction.tables import Results


def claims_of(results: Results) -> Sequence[Claim]:
    """Return the paper's claims about a table.

    Those of Table 6 and Figure 5 follow from our sizes and steps.
    """
    name, labels = results.experiment.name, results.labels
    if name == "table6":
        sizes = list(pairwise(labels))
        found = [Claim(small, large) for small, large in sizes]
        # Larger models have a lower perplexity too.
        return found + [Claim(b, a, [PERPLEXITY]) for a, b in sizes]
    if name == "figure5":
        masked, left = labels[::2], labels[1::2]  # both curves in turns
        found = list(map(Claim, left, masked))
        return found + [Claim(early, late) for early, late in pairwise(masked)]
    return PAPER[name].claims


def sentences(results: Results) -> Iterator[str]:
    """Yield a sentence for each claim and column that has numbers."""
    tasks = [c for c in results.experiment.columns if c not in OF_PRETRAINING]
    for row, other, columns, without, is_above in claims_of(results):
        for column in columns or tasks:
            ours = {
                label: results.score(label, column) for label in (row, other)
            }
            if column in without or not all(s.every for s in ours.values()):
                continue
            digits = tables.digits_of(column)
            text = f"{row} {'above' if is_above else 'below'} {other}: {column}"
            note = " and ".join(
                f"{len(score.degenerate)} of {len(score.every)} runs of {label}"
                for label, score in ours.items()
                if score.degenerate
            )
            if not all(score.values for score in ours.values()):
                yield f"{text}: nothing follows, degenerate are {note}."
                continue
            difference = results.difference(row, column, other)
            found = verdict(
                -difference if is_above else difference,
                *(score.deviation for score in ours.values()),
                digits,
            )
            if note:
                found += f", degenerate are {note}, left out"
            theirs = results.papers.difference(row, column, other)
            if theirs is None:
                paper = ""
            else:
                paper = f"; in the paper {theirs:+.{digits}f}"
            yield f"{text}: {found} ({difference:+.{digits}f}{paper})."


def verdict(
    difference: float, one: float | None, other: float | None, digits: int = 1
) -> str:
    """Return in words whether a difference has the paper's sign.

    That sign is minus: the difference is of two means, of which the paper says
    that the first is below the second. `one` and `other` are the standard
    deviations of the two cells, None for one run.
    """
    if one is None or other is None:
        sign = "the same" if difference < 0 else "another"
        sign = "no" if difference == 0 else sign
        return f"{sign} direction, one run has no spread"
    deviation = math.sqrt((one**2 + other**2) / 2)
    if abs(difference) <= deviation:
        return f"within one standard deviation, {deviation:.{digits}f}"
    return "shows" if difference < 0 else "does not show"
