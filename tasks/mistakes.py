r"""errors.tsv: the worst mistakes of a model, a line each.

The file has a header and tabs between its cells, without quoting. A tab, a
line break or another control character of a text is written as in Python, so
that each mistake is one line: \t, \n, \x07, \u2028; a backslash is \\.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from base import cluster, file_system

import numpy as np
from absl import logging

NAME = "errors.tsv"

# Control characters, what else ends a line somewhere, and halves of surrogate
# pairs, which JSON can hold and UTF-8 cannot.
_ESCAPED = re.compile(r"[\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Cell = str | int | float | None


class Mistakes(NamedTuple):
    """The mistakes of a model on one data set.

    Attributes:
        header: names of the columns.
        rows: the worst ones, the worst first; numbers are written with four
            decimals, None as an empty cell.
        num_wrong: how many there are in all.
        num_scored: how many answers were scored.
        what: name of what was scored, such as "examples".
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    num_wrong: int
    num_scored: int
    what: str = "examples"

    def summary(self) -> str:
        """Return how many mistakes are listed, of how many.

        >>> Mistakes(["id"], [["a"]], 3, 12).summary()
        'the worst 1 of 3 mistakes in 12 examples'
        """
        listed = f"the worst {len(self.rows):,} of {self.num_wrong:,} mistakes"
        if self.num_wrong == len(self.rows):
            listed = f"all {self.num_wrong:,} mistakes"
        return f"{listed} in {self.num_scored:,} {self.what}"


def cell(value: Cell) -> str:
    r"""Return a value as a cell of the file.

    >>> cell("a\tb\\c"), cell(0.98765), cell(None)
    ('a\\tb\\\\c', '0.9877', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return _ESCAPED.sub(
        lambda match: match[0].encode("unicode_escape").decode(), str(value)
    )


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a file: the header and a line for each row."""
    return ["\t".join(map(cell, row)) for row in (header, *rows)]


def write(path: str, found: Mistakes) -> None:
    """Write errors.tsv and log what is in it; only the chief writes."""
    if cluster.is_chief():
        lines = table(found.header, found.rows)
        file_system.write_text(path, "\n".join(lines) + "\n")
    logging.info("Wrote %s: %s", path, found.summary())


# --- Classes -----------------------------------------------------------------


class WrongClasses(NamedTuple):
    """The examples with a wrong class, that of the surest answer first.

    Attributes:
        rows: their numbers [m].
        predictions: class ids [m].
        confidences: the probability of the predicted class [m].
    """

    rows: np.ndarray
    predictions: np.ndarray
    confidences: np.ndarray


def wrong_classes(log_probs: np.ndarray, label_ids: np.ndarray) -> WrongClasses:
    """Return the wrong predictions, sorted, of log_probs [n, K]."""
    predictions = log_probs.argmax(-1)
    confidences = np.exp(log_probs.max(-1))
    (wrong,) = np.nonzero(predictions != label_ids)
    order = wrong[np.argsort(-confidences[wrong], kind="stable")]
    return WrongClasses(order, predictions[order], confidences[order])
