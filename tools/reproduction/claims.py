"""Sentences of the paper about its tables, checked on our numbers.

A claim compares two cells of a column. It "shows" if the difference has the
paper's sign and is larger than one standard deviation of a run, "does not
show" if it has the other sign and is larger, and is "within one standard
deviation" else. The standard deviation of both cells together is
sqrt((a^2 + b^2) / 2). One run has none: then only the sign is told. Nothing
follows from a run that learned nothing.
"""

import math
from collections.abc import Iterator, Sequence
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
        row: label of the row that the claim is about.
        other: label of the row that it is compared with.
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
    Claim(
        f"+ BiLSTM above {LTR}",
        LTR_BILSTM,
        LTR,
        (SQUAD,),
        is_above=True,
    ),
    Claim(f"+ BiLSTM below {NO_NSP}", LTR_BILSTM, NO_NSP, (SQUAD,)),
    Claim(
        f"+ BiLSTM not above {LTR}",
        LTR_BILSTM,
        LTR,
        except_columns=(SQUAD,),
    ),
)

TABLE_8_CLAIMS = (
    Claim("Random tokens alone below 80/10/10", "0/0/100", "80/10/10"),
    Claim(
        "[MASK] alone below 80/10/10, frozen layers",
        "100/0/0",
        "80/10/10",
        ("NER-features",),
    ),
)


def claims_of(results: Results) -> list[Claim]:
    """Return the paper's claims about a table."""
    experiment = results.experiment
    labels = results.labels
    if experiment.name == "table5":
        return list(TABLE_5_CLAIMS)
    if experiment.name == "table8":
        return list(TABLE_8_CLAIMS)
    if experiment.name == "table6":
        return [
            Claim(f"{small} below {large}", small, large)
            for small, large in zip(labels, labels[1:], strict=False)
        ]
    return _curve_claims(results)


def _curve_claims(results: Results) -> list[Claim]:
    """Return the claims about Figure 5's curves."""
    rows = results.experiment.rows
    found = []
    for masked, left in zip(rows[::2], rows[1::2], strict=True):
        found.append(
            Claim(
                f"At step {masked.step:,}, {left.curve} below {masked.curve}",
                left.label,
                masked.label,
            )
        )
    masked_rows = rows[::2]
    for early, late in zip(masked_rows, masked_rows[1:], strict=False):
        found.append(
            Claim(
                f"{early.curve} at step {early.step:,} below step "
                f"{late.step:,}",
                early.label,
                late.label,
            )
        )
    return found


def sentences(results: Results) -> Iterator[str]:
    """Yield a sentence for each claim and column that has numbers."""
    for claim in claims_of(results):
        columns = claim.columns or results.experiment.columns
        for column in columns:
            if column == PERPLEXITY or column in claim.except_columns:
                continue
            sentence = _sentence(results, claim, column)
            if sentence:
                yield sentence
    if results.experiment.name == "table6":
        yield from _perplexity_sentences(results)


def _sentence(results: Results, claim: Claim, column: str) -> str | None:
    """Return a claim's verdict on a column, None without numbers."""
    one = results.scores.get((claim.row, column))
    other = results.scores.get((claim.other, column))
    if not one or not other or one.mean is None or other.mean is None:
        return None
    difference = one.mean - other.mean
    found = _degenerate(((claim.row, one), (claim.other, other))) or verdict(
        -difference if claim.is_above else difference,
        one.deviation,
        other.deviation,
    )
    text = f"{claim.text}: {column}: {found} ({difference:+.1f}"
    papers = (
        results.paper(claim.row, column),
        results.paper(claim.other, column),
    )
    if None not in papers:
        text += f"; in the paper {papers[0] - papers[1]:+.1f}"
    return text + ")."


def _degenerate(cells: Sequence[tuple[str, Score]]) -> str:
    """Return the words for cells with degenerate runs, "" without such runs.

    Args:
        cells: label of a row and its cell.
    """
    counts = [
        f"{cell.degenerate} of {len(cell.values)} runs of {label}"
        for label, cell in cells
        if cell.degenerate
    ]
    if not counts:
        return ""
    return f"nothing follows, degenerate are {' and '.join(counts)}"


def verdict(
    difference: float,
    one: float | None,
    other: float | None,
    digits: int = tables.digits_of(""),
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


def _perplexity_sentences(results: Results) -> Iterator[str]:
    """Yield whether the perplexity falls from size to size."""
    labels = results.labels
    for small, large in zip(labels, labels[1:], strict=False):
        one = results.scores.get((small, PERPLEXITY))
        other = results.scores.get((large, PERPLEXITY))
        if not one or not other or None in (one.mean, other.mean):
            continue
        difference = other.mean - one.mean
        digits = tables.digits_of(PERPLEXITY)
        found = verdict(difference, one.deviation, other.deviation, digits)
        yield (
            f"The perplexity of {large} below that of {small}: {found} "
            f"({difference:+.{digits}f})."
        )
