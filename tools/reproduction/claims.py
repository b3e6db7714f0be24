"""Sentences of the paper about its tables, checked on our numbers.

A claim compares two cells of a column. It "shows" if the difference has the
paper's sign and is larger than one standard deviation of a run, "does not
show" if it has the other sign and is larger, and is "within one standard
deviation" else. The standard deviation of both cells together is
sqrt((a^2 + b^2) / 2). One run has none: then only the sign is told. Nothing
follows from a run that learned nothing.
"""

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tools.reproduction import tables
from tools.reproduction.experiments import PERPLEXITY
from tools.reproduction.paper_numbers import BERT, LTR, LTR_BILSTM, NO_NSP
from tools.reproduction.tables import Results, Score

SQUAD = "SQuAD"


class Claim(NamedTuple):
    """One comparison of a column: `row` is below `other`, or above it.

    Attributes:
        text: the claim in words.
        row, other: labels of the rows that are compared.
        columns: in which the paper claims it; () for all but the perplexity.
        except_columns: those of all columns for which it is not claimed.
        is_above: whether `row` is claimed to be above `other`, not below.
    """

    text: str
    row: str
    other: str
    columns: tuple[str, ...] = ()
    except_columns: tuple[str, ...] = ()
    is_above: bool = False


TABLE_5_CLAIMS = (
    Claim(f"{NO_NSP} below {BERT}", NO_NSP, BERT),
    Claim(f"{LTR} below {NO_NSP}", LTR, NO_NSP),
    Claim(f"+ BiLSTM above {LTR}", LTR_BILSTM, LTR, (SQUAD,), is_above=True),
    Claim(f"+ BiLSTM below {NO_NSP}", LTR_BILSTM, NO_NSP, (SQUAD,)),
    Claim(
        f"+ BiLSTM not above {LTR}", LTR_BILSTM, LTR, except_columns=(SQUAD,)
    ),
)

_FROZEN = "[MASK] alone below 80/10/10, frozen layers"
TABLE_8_CLAIMS = (
    Claim("Random tokens alone below 80/10/10", "0/0/100", "80/10/10"),
    Claim(_FROZEN, "100/0/0", "80/10/10", ("NER-features",)),
)


def claims_of(results: Results) -> list[Claim]:
    """Return the paper's claims about a table."""
    name, rows = results.experiment.name, results.experiment.rows
    if name == "table5":
        return list(TABLE_5_CLAIMS)
    if name == "table8":
        return list(TABLE_8_CLAIMS)
    if name == "table6":
        # Columns of tasks first; larger sizes have a lower perplexity too.
        labels = list(pairwise(results.labels))
        found = [Claim(f"{a} below {b}", a, b) for a, b in labels]
        return found + [
            Claim(
                f"The perplexity of {large} below that of {small}",
                large,
                small,
                (PERPLEXITY,),
            )
            for small, large in labels
        ]
    masked = rows[::2]  # Figure 5: both curves in turns
    found = [
        Claim(
            f"At step {one.step:,}, {left.curve} below {one.curve}",
            left.label,
            one.label,
        )
        for one, left in zip(masked, rows[1::2], strict=True)
    ]
    return found + [
        Claim(
            f"{early.curve} at step {early.step:,} below step {late.step:,}",
            early.label,
            late.label,
        )
        for early, late in pairwise(masked)
    ]


def sentences(results: Results) -> Iterator[str]:
    """Yield a sentence for each claim and column that has numbers."""
    tasks = [c for c in results.experiment.columns if c != PERPLEXITY]
    for claim in claims_of(results):
        for column in claim.columns or tasks:
            one = results.scores.get((claim.row, column))
            other = results.scores.get((claim.other, column))
            if (
                column not in claim.except_columns
                and one
                and other
                and None not in (one.mean, other.mean)
            ):
                yield _sentence(results, claim, column, one, other)


def _sentence(
    results: Results, claim: Claim, column: str, one: Score, other: Score
) -> str:
    """Return a claim's verdict on the cells of its rows in a column."""
    digits = tables.digits_of(column)
    difference = one.mean - other.mean
    degenerate = [
        f"{cell.degenerate} of {len(cell.values)} runs of {label}"
        for label, cell in ((claim.row, one), (claim.other, other))
        if cell.degenerate
    ]
    if degenerate:
        found = f"nothing follows, degenerate are {' and '.join(degenerate)}"
    else:
        found = verdict(
            -difference if claim.is_above else difference,
            one.deviation,
            other.deviation,
            digits,
        )
    place = "" if column == PERPLEXITY else f" {column}:"
    text = f"{claim.text}:{place} {found} ({difference:+.{digits}f}"
    papers = [results.paper(row, column) for row in (claim.row, claim.other)]
    if None not in papers:
        text += f"; in the paper {papers[0] - papers[1]:+.{digits}f}"
    return text + ")."


def verdict(
    difference: float, one: float | None, other: float | None, digits: int = 1
) -> str:
    """Return whether a difference that should be below 0 is.

    Args:
        difference: of the means.
        one, other: standard deviations of the two cells, None for one run.
        digits: decimals of the standard deviation.
    """
    if one is None or other is None:
        sign = "the same" if difference < 0 else "another"
        sign = "no" if difference == 0 else sign
        return f"{sign} direction, one run has no spread"
    deviation = math.sqrt((one**2 + other**2) / 2)
    if abs(difference) <= deviation:
        return f"within one standard deviation, {deviation:.{digits}f}"
    return "shows" if difference < 0 else "does not show"
