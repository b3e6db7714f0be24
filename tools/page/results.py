"""What a tab shows of a model: plain data, which site.py draws.

Texts are those of the input, as they are; site.py makes them harmless.
"""

from typing import Any, NamedTuple


class Note(NamedTuple):
    """A line of explanation, without any text of the input."""

    text: str


class Error(NamedTuple):
    """Why there is no result, in a line."""

    text: str


class Bars(NamedTuple):
    """Probabilities by name."""

    label: str
    shares: dict[str, float]


class Number(NamedTuple):
    """What a regression predicts."""

    label: str
    value: float


class Text(NamedTuple):
    """A text in parts, some of them in color.

    Attributes:
        label: its name.
        parts: (text, kind); parts of no kind have no color. A kind may be a
            number from -1 to 1: shades of two colors.
        kinds: all of them, in the order of the colors; of numbers none.
        is_legend: whether kinds are named above the text, not in it.
    """

    label: str
    parts: list[tuple[str, str | float | None]]
    kinds: tuple[str, ...]
    is_legend: bool = False


class Table(NamedTuple):
    """Rows of texts; one column takes the space that the others leave."""

    headers: tuple[str, ...]
    rows: list[list[str]]
    wide: int


class Plot(NamedTuple):
    """A figure of Plotly, as its JSON."""

    figure: dict[str, Any]


class Drawing(NamedTuple):
    """An SVG; texts in it are escaped."""

    svg: str


Result = Note | Error | Bars | Number | Text | Table | Plot | Drawing


def share(value: float) -> str:
    """Return a probability with the digits that tell it from others."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"
