"""Sentences of the paper about its tables, checked on our numbers.

A claim compares two cells of a column. It "shows" if the difference has the
paper's sign and is larger than one standard deviation of a run, "does not
show" if it has the other sign and is larger, and is "within one standard
deviation" else. The standard deviation of both cells together is
sqrt((a^2 + b^2) / 2). One run has none: then only the sign is told. Degenerate
runs are left out, and nothing follows where they are all.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tools.reproduction import tables
from tools.reproduction.experiments import (
    OF_PRETRAINING,
    PERPLEXITY,
    TABLE_7,
)
from tools.reproduction.paper_numbers import (
    BERT,
    BOTH_AT_ONCE,
    DOCUMENTS,
    ENSEMBLE,
    LEFT_AND_RIGHT,
    LTR,
    LTR_BILSTM,
    NO_NSP,
    SHUFFLED,
    SINGLE,
    TRIVIAQA_SINGLE,
)
from tools.reproduction.tables import Results


class Claim(NamedTuple):
    """In some columns the cells of a row are below those of another, or above.

    `text` says so in words.
    """

    text: str
    row: str
    other: str
    columns: Sequence[str]
    is_above: bool = False


def claims_of(results: Results) -> list[Claim]:
    """Return the paper's claims about a table."""
    name, rows = results.experiment.name, results.experiment.rows
    tasks = [c for c in results.experiment.columns if c not in OF_PRETRAINING]
    if name in ("table1", "table3", "table4"):
        return []  # one row
    if name == "table2":
        return [
            Claim(f"{row} above {SINGLE}", row, SINGLE, tasks, True)
            for row in (ENSEMBLE, TRIVIAQA_SINGLE)
        ]
    if name == "table5":
        others = [task for task in tasks if task != "SQuAD"]
        return [
            Claim(f"{NO_NSP} below {BERT}", NO_NSP, BERT, tasks),
            Claim(f"{LTR} below {NO_NSP}", LTR, NO_NSP, tasks),
            Claim(f"+ BiLSTM above {LTR}", LTR_BILSTM, LTR, ["SQuAD"], True),
            Claim(f"+ BiLSTM below {NO_NSP}", LTR_BILSTM, NO_NSP, ["SQuAD"]),
            Claim(f"+ BiLSTM not above {LTR}", LTR_BILSTM, LTR, others),
        ]
    if name == "table6":
        # Columns of tasks first; larger sizes have a lower perplexity too.
        sizes = list(pairwise(results.labels))
        found = [Claim(f"{a} below {b}", a, b, tasks) for a, b in sizes]
        for small, large in sizes:
            text = f"The perplexity of {large} below that of {small}"
            found.append(Claim(text, large, small, [PERPLEXITY]))
        return found
    if name == "table7":
        tuned, *frozen = TABLE_7
        four = "Concat Last Four Hidden"
        return [
            Claim(f"{row} below {best}", row, best, tasks)
            for best in (tuned, four)
            for row in frozen
            if row != best
        ]
    if name == "sentence_order":
        text = f"{SHUFFLED} below {DOCUMENTS}"
        return [Claim(text, SHUFFLED, DOCUMENTS, tasks)]
    if name == "two_directions":
        text = f"{LEFT_AND_RIGHT} below {BOTH_AT_ONCE}"
        return [Claim(text, LEFT_AND_RIGHT, BOTH_AT_ONCE, tasks)]
    if name == "table8":
        usual, mask, random = "80/10/10", "100/0/0", "0/0/100"
        frozen = f"[MASK] alone below {usual}, frozen layers"
        return [
            Claim(f"Random tokens alone below {usual}", random, usual, tasks),
            Claim(frozen, mask, usual, ["NER-features"]),
        ]
    masked = rows[::2]  # Figure 5: both curves in turns
    return [
        Claim(
            f"At step {one.step:,}, {left.curve} below {one.curve}",
            left.label,
            one.label,
            tasks,
        )
        for one, left in zip(masked, rows[1::2], strict=True)
    ] + [
        Claim(
            f"{early.curve} at step {early.step:,} below step {late.step:,}",
            early.label,
            late.label,
            tasks,
        )
        for early, late in pairwise(masked)
    ]


def sentences(results: Results) -> Iterator[str]:
    """Yield a sentence for each claim and column that has numbers."""
    for text, row, other, columns, is_above in claims_of(results):
        for column in columns:
            ours = [results.score(label, column) for label in (row, other)]
            if not all(score.values + score.degenerate for score in ours):
                continue
            place = "" if column == PERPLEXITY else f" {column}:"
            degenerate = [
                f"{len(score.degenerate)} of "
                f"{len(score.values + score.degenerate)} runs of {label}"
                for label, score in zip((row, other), ours, strict=True)
                if score.degenerate
            ]
            note = f"degenerate are {' and '.join(degenerate)}"
            if not all(score.values for score in ours):
                yield f"{text}:{place} nothing follows, {note}."
                continue
            digits = tables.digits_of(column)
            difference = ours[0].mean - ours[1].mean
            sign = -1 if is_above else 1
            deviations = (score.deviation for score in ours)
            found = verdict(sign * difference, *deviations, digits)
            if degenerate:
                found += f", {note}, left out"
            paper = ""
            papers = [results.paper(label, column) for label in (row, other)]
            if None not in papers:
                theirs = papers[0] - papers[1]
                paper = f"; in the paper {theirs:+.{digits}f}"
            yield f"{text}:{place} {found} ({difference:+.{digits}f}{paper})."


def verdict(
    difference: float, one: float | None, other: float | None, digits: int = 1
) -> str:
    """Return whether a difference of means, which should be below 0, is.

    `one` and `other` are the standard deviations of the two cells.
    """
    if one is None or other is None:
        sign = "the same" if difference < 0 else "another"
        sign = "no" if difference == 0 else sign
        return f"{sign} direction, one run has no spread"
    deviation = math.sqrt((one**2 + other**2) / 2)
    if abs(difference) <= deviation:
        return f"within one standard deviation, {deviation:.{digits}f}"
    return "shows" if difference < 0 else "does not show"
