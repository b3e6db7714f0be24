"""Pictures of attention: a heat map, all heads at once, lines between tokens.

The first two are figures of Plotly, whose program is a part of Gradio. It takes
their JSON, so its Python package is not needed. A weight has the opacity of its
square root: most are small, and 0.01 would be invisible beside 1. Lines cover
one another, so theirs is the weight as a share of the largest one.
"""

import collections
import html
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.page.results import share

_COLOR = "37, 99, 235"  # a blue that is readable on white and on black

_CELL = 20  # pixels of a token's row and column

_MAX_SIZE = 2000  # pixels; cells of longer rows are smaller

# Lighter lines are left out; a token has at most 1 / 0.05 = 20 of the others.
MIN_LINE = 0.05

_THUMBNAIL = 32  # most rows and columns of a head in the overview


# --- Figures of Plotly -------------------------------------------------------


def heat_map(tokens: Sequence[str], probs: np.ndarray) -> dict[str, Any]:
    """Return the probabilities of a head as a figure.

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    names, count = _distinct(tokens), len(tokens)
    margin = 20 + 8 * max(map(len, names))
    size = min(_MAX_SIZE, _CELL * count)
    axis = {
        "type": "category",
        # Every token has its name, as long as there is space for it.
        "dtick": 1 if size == _CELL * count else None,
        "constrain": "domain",
    }
    return _figure(
        probs,
        {"x": names, "y": names, "hovertemplate": "%{y} → %{x} %{z:.3f}"},
        axis | {"side": "top", "tickangle": -90},
        axis | {"autorange": "reversed", "scaleanchor": "x"},
        margin,
        (size, size),
    )


def overview(layers: Sequence[np.ndarray]) -> dict[str, Any]:
    """Return all heads as a figure, a row of heads for each layer.

    Args:
        layers: L of `thumbnails`.
    """
    # An empty row and column between heads.
    tiles = [
        np.pad(tile, ((0, 0), (0, 1), (0, 1)), constant_values=np.nan)
        for tile in layers
    ]
    picture = np.vstack([np.hstack(tile) for tile in tiles])
    # A head's cells are between its number - 0.5 and its number + 0.5.
    height, width = tiles[0].shape[1:]
    axis = {"dtick": 1, "constrain": "domain"}
    heads = len(tiles[0])
    return _figure(
        picture,
        {
            "x0": 0.5 + 0.5 / width,
            "dx": 1 / width,
            "y0": 0.5 + 0.5 / height,
            "dy": 1 / height,
            "hovertemplate": "layer %{y:.0f}, head %{x:.0f}",
        },
        axis | {"side": "top"},
        axis | {"autorange": "reversed"},
        40,
        (48 * heads, 48 * len(layers)),
    )


def _figure(
    probs: np.ndarray,
    trace: dict[str, Any],
    x: dict[str, Any],
    y: dict[str, Any],
    margin: int,
    size: tuple[int, int],
) -> dict[str, Any]:
    """Return a figure of weights: its trace, axes and size in pixels."""
    levels = np.linspace(0, 1, 21)
    colors = [
        [round(level**2, 4), f"rgba({_COLOR}, {level:.2f})"] for level in levels
    ]
    # Plotly has no number for an empty cell but null.
    rows = [
        [None if cell != cell else cell for cell in row]
        for row in probs.astype(np.float64).round(4).tolist()
    ]
    trace = {
        "type": "heatmap",
        "z": rows,
        "zmin": 0,
        "zmax": 1,
        "colorscale": colors,
        "showscale": False,
        **trace,
        "hovertemplate": f"{trace['hovertemplate']}<extra></extra>",
        "hoverongaps": False,
    }
    axis = {"showgrid": False, "zeroline": False, "ticks": ""}
    layout = {
        "xaxis": axis | x,
        "yaxis": axis | y,
        "width": size[0] + margin + 20,
        "height": size[1] + margin + 20,
        "margin": {"l": margin, "t": margin, "r": 20, "b": 20},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
    }
    # The logo would be a link to another machine.
    return {"data": [trace], "layout": layout, "config": {"displaylogo": False}}


def _distinct(tokens: Sequence[str]) -> list[str]:
    """Return names of tokens, which Plotly tells apart and takes for no tags.

    >>> _distinct(["the", "<b>", "the"])
    ['the', '&lt;b&gt;', 'the (2)']
    """
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for name in map(short, tokens):
        seen[name] += 1
        number = f" ({seen[name]})" if seen[name] > 1 else ""
        names.append(html.escape(name) + number)
    return names


def short(token: str) -> str:
    """Return a token with at most 20 characters."""
    return token if len(token) <= 20 else token[:19] + "…"


def thumbnails(probs: np.ndarray) -> np.ndarray:
    """Return [N, F, T] in at most _THUMBNAIL rows and columns.

    A pixel is the largest weight of the cells that it stands for.
    """
    for axis in (1, 2):
        count = probs.shape[axis]
        if count > _THUMBNAIL:
            starts = np.arange(_THUMBNAIL) * count // _THUMBNAIL
            probs = np.maximum.reduceat(probs, starts, axis=axis)
    return probs


# --- Lines -------------------------------------------------------------------


def lines(tokens: Sequence[str], probs: np.ndarray) -> str:
    """Return an SVG of two columns of tokens, with lines from left to right.

    Weights below MIN_LINE are left out. Pointing at a token on the left hides
    the lines of the others (style.css).

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    margin = 12 + 8 * max(len(short(token)) for token in tokens)
    right, largest = margin + 180, float(probs.max())
    width, height = right + margin, len(tokens) * _CELL
    places = [(row + 0.5) * _CELL for row in range(len(tokens))]
    body = []
    for row, token in enumerate(tokens):
        y = places[row]
        body.append(
            f'<g class="bert-from"><rect y="{y - _CELL / 2:g}" '
            f'width="{margin}" height="{_CELL}"/>'
            f"{_text(margin - 6, y, token, 'end')}"
        )
        for column in np.flatnonzero(probs[row] >= MIN_LINE).tolist():
            weight = float(probs[row, column])
            name = f"{token} → {tokens[column]} {share(weight)}"
            body.append(
                f'<line x1="{margin}" y1="{y:g}" x2="{right}" '
                f'y2="{places[column]:g}" stroke="rgb({_COLOR})" '
                f'stroke-opacity="{weight / largest:.2f}">'
                f"<title>{_escape(name)}</title></line>"
            )
        body.append("</g>")
    body += [
        _text(right + 6, y, token, "start")
        for y, token in zip(places, tokens, strict=True)
    ]
    return (
        f'<svg role="img" aria-label="Attention among {len(tokens)} tokens: '
        f'left looks at right" width="{width}" height="{height}">'
        f"{''.join(body)}</svg>"
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return (
        f'<text x="{x:g}" y="{y + 4:g}" text-anchor="{anchor}">'
        f"{_escape(short(text))}</text>"
    )


def _escape(text: str) -> str:
    """Return a text as HTML, in which Gradio finds no template either."""
    template = {ord(char): f"&#{ord(char)};" for char in "${}"}
    return html.escape(text).translate(template)
