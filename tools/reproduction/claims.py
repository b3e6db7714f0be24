"""The paper's claims about its tables, checked on our numbers.

A claim says that one cell of a column is below another. It "shows" if their
difference is negative and exceeds one standard deviation of a run. It "does not
show" if the difference is positive and exceeds it. Else it is "within one
standard deviation". The standard deviation of both cells together is
sqrt((a^2 + b^2) / 2). If a cell has one run, only the sign is told. Degenerate
runs are left out, and nothing follows if a cell has no others.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from tools.reproduction.paper import OF_PRETRAINING, PAPER, PERPLEXITY, Claim
from tools.reproduction.tables import DEGENERATE, Cell, Table, shown


def claims_of(table: Table) -> Sequence[Claim]:
    """Return the paper's claims about a table.

    Those of Table 6 and Figure 5 follow from our sizes and steps.
    """
    labels = table.labels
    if table.name == "table6":
        sizes = list(pairwise(labels))
        found = [Claim(small, large) for small, large in sizes]
        # Larger models have a lower perplexity too.
        return found + [Claim(b, a, [PERPLEXITY]) for a, b in sizes]
    if table.name == "figure5":
        masked, left = labels[::2], labels[1::2]  # both curves in turns
        found = list(map(Claim, left, masked))
        return found + [Claim(early, late) for early, late in pairwise(masked)]
    return PAPER[table.name].claims


def sentences(table: Table) -> Iterator[str]:
    """Yield a sentence for each claim and column that has numbers."""
    tasks = [c for c in table.columns if c not in OF_PRETRAINING]
    for row, other, columns in claims_of(table):
        for column in columns or tasks:
            one, two = table.cell(row, column), table.cell(other, column)
            difference = table.difference(row, column, other)
            text = f"{row} below {other}: {column}"
            if difference is None:
                degenerate = one.count(DEGENERATE) + two.count(DEGENERATE)
                if one.runs and two.runs and degenerate:
                    yield f"{text}: nothing follows from degenerate runs."
                continue
            text += f": {verdict(one, two, column)}"
            numbers = shown(difference, column, "+")
            theirs = table.papers.difference(row, column, other)
            if theirs is not None:
                numbers += f"; in the paper {shown(theirs, column, '+')}"
            yield f"{text} ({numbers})."


def verdict(one: Cell, other: Cell, column: str) -> str:
    """Return in words whether a cell is below another one of its column."""
    difference = one.mean - other.mean
    if one.deviation is None or other.deviation is None:
        sign = "the same" if difference < 0 else "another"
        sign = "no" if difference == 0 else sign
        return f"{sign} direction, one run has no spread"
    deviation = math.sqrt((one.deviation**2 + other.deviation**2) / 2)
    if abs(difference) <= deviation:
        return f"within one standard deviation, {shown(deviation, column)}"
    return "shows" if difference < 0 else "does not show"
