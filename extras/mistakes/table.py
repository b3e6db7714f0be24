r"""errors.tsv: the worst mistakes of a model, a line each.

The file has a header and tabs between its cells, without quoting. A tab, a
line break or another control character of a text is written as in Python, so
that each mistake is one line: \t, \n, \x07, \u2028; a backslash is \\.
"""

import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from base import cluster, file_system, pictures

from absl import logging

from tasks.settings import RunSettings

ERRORS = "errors.tsv"

# Control characters, what else ends a line somewhere, and halves of surrogate
# pairs, which JSON can hold and UTF-8 cannot.
_ESCAPED = re.compile(r"[\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Cell = str | int | float | None


class Mistakes(NamedTuple):
    """The mistakes of a model on one data set.

    Attributes:
        header: names of the columns.
        rows: the worst first; numbers are written with four decimals, None as
            an empty cell.
        num_scored: how many answers were scored.
        what: name of what was scored, such as "examples".
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    num_scored: int
    what: str = "examples"

    def summary(self, count: int) -> str:
        """Return how many mistakes are listed, of how many.

        >>> Mistakes(["id"], [["a"], ["b"], ["c"]], 12).summary(1)
        'the worst 1 of 3 mistakes in 12 examples'
        """
        listed = f"all {len(self.rows):,}"
        if count < len(self.rows):
            listed = f"the worst {count:,} of {len(self.rows):,}"
        return f"{listed} mistakes in {self.num_scored:,} {self.what}"


def worst(
    header: Sequence[str],
    names: Sequence[Cell],
    truths: Sequence[Cell],
    predictions: Sequence[Cell],
    sizes: Sequence[float],
    texts: Sequence[Sequence[str | None]],
    what: str = "examples",
) -> Mistakes:
    """Return the examples whose prediction is not the truth.

    Their cells are name, truth, prediction, size, texts; `header` has all but
    the second and the third. The size is that of the mistake, such as the
    confidence; the largest comes first.
    """
    rows = [
        (*cells, *own)
        for *cells, own in zip(
            names, truths, predictions, sizes, texts, strict=True
        )
        if cells[1] != cells[2]
    ]
    rows.sort(key=lambda row: -abs(row[3]))
    header = (header[0], "truth", "prediction", *header[1:])
    return Mistakes(header, rows, len(names), what)


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


def lines(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a file: the header and a line for each row."""
    return ["\t".join(map(cell, row)) for row in (header, *rows)]


def titled(name: str, title: str) -> str:
    """Return the name of a data set's file, with the set's title in it.

    >>> titled("errors.tsv", "retrieval"), titled("errors.tsv", "")
    ('errors_retrieval.tsv', 'errors.tsv')
    """
    base, ending = os.path.splitext(name)
    return f"{base}_{title}{ending}" if title else name


class Report(NamedTuple):
    """Writes the mistakes on one data set to output_dir; the chief alone does.

    Attributes:
        settings: those of the run.
        title: what is in the names of the files, see `titled`.
    """

    settings: RunSettings
    title: str = ""

    def errors(self, found: Mistakes) -> None:
        """Write the worst mistakes, and log how many there are.

        With --num_errors=0 nothing is written.
        """
        if count := self.settings.num_errors:
            rows = found.rows[:count]
            self.table(ERRORS, found.header, rows, f": {found.summary(count)}")

    def table(
        self,
        name: str,
        header: Sequence[str],
        rows: Sequence[Sequence[Cell]],
        summary: str = "",
    ) -> None:
        """Write a table; log its path."""
        if cluster.is_chief():
            text = "\n".join(lines(header, rows)) + "\n"
            file_system.write_text(self._path(name), text)
        logging.info("Wrote %s%s", self._path(name), summary)

    def draw(self, name: str, draw_to: Callable[[str], None]) -> None:
        """Draw a picture, unless --nopictures."""
        if self.settings.training.pictures and cluster.is_chief():
            pictures.draw(self._path(name), draw_to)

    def _path(self, name: str) -> str:
        return os.path.join(self.settings.output_dir, titled(name, self.title))
