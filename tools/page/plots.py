"""Pictures of attention: all heads, one as a heat map, one as lines.

A weight is drawn with the opacity of its square root: most weights are small,
and 0.01 would be invisible beside 1. Lines cover one another, so the opacity of
a line is its share of the largest weight. The heat map is a figure of Plotly in
JSON. Gradio brings the program that draws it, so Plotly's Python package is not
needed.
"""

import base64
import collections
import html
import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from tools.page.markup import escaped, share

_COLOR = (37, 99, 235)  # a blue that is seen on white and on black

_ROW = 20  # pixels of a token

# Lighter lines are left out; a token has at most 1 / 0.05 = 20 of the others.
MIN_LINE = 0.05

_THUMBNAIL = 32  # the largest number of rows and columns of a small picture


def heat_map(tokens: Sequence[str], probs: np.ndarray) -> dict[str, Any]:
    """Return the probabilities of a head as a figure that fills its box.

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    # Plotly tells tokens apart by their names, in which it obeys some tags.
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for token in map(_short, tokens):
        seen[token] += 1
        number = f" ({seen[token]})" if seen[token] > 1 else ""
        names.append(html.escape(token) + number)
    levels = [step / 20 for step in range(21)]
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": probs.astype(np.float64).round(4).tolist(),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [[x**2, f"rgba{(*_COLOR, x)}"] for x in levels],
        "colorbar": {"title": {"text": "weight"}, "thickness": 12},
        "hovertemplate": "%{y} → %{x} %{z:.3f}<extra></extra>",
    }
    axis = {
        "type": "category",
        "showgrid": False,
        "zeroline": False,
        "ticks": "",
        "automargin": True,
        # Every token has its name where there is space for it.
        "dtick": 1 if len(tokens) <= 40 else None,
    }
    layout = {
        "xaxis": axis | {"side": "top", "tickangle": -90},
        "yaxis": axis | {"autorange": "reversed"},
        "height": 460,
        "margin": {"l": 10, "t": 40, "r": 10, "b": 10},
        "modebar": {"bgcolor": "rgba(0, 0, 0, 0)", "color": "#6b7280"},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
    }
    # The logo would be a link to another machine.
    return {"data": [trace], "layout": layout, "config": {"displaylogo": False}}


def _short(token: str) -> str:
    """Return a token with at most 20 characters."""
    return token if len(token) <= 20 else token[:19] + "…"


def overview(layers: Sequence[np.ndarray], chosen: tuple[int, int]) -> str:
    """Return a button with a picture for each head, a row for each layer.

    Args:
        layers: [N, F, T] each.
        chosen: layer and head that are shown, from 1.
    """
    buttons = []
    for layer, probs in enumerate(layers, 1):
        for head, weights in enumerate(probs, 1):
            name = f"Layer {layer}, head {head}"
            pressed = str((layer, head) == chosen).lower()
            buttons.append(
                f'<button type="button" data-head="{layer} {head}" '
                f'aria-pressed="{pressed}" title="{name}" aria-label="{name}">'
                f'<img alt="" src="{_thumbnail(weights)}"/></button>'
            )
    return (
        "<figure><figcaption>All heads: a row for each layer</figcaption>"
        f'<div class="heads" style="--heads: {len(layers[0])}">'
        f"{''.join(buttons)}</div></figure>"
    )


def _thumbnail(probs: np.ndarray) -> str:
    """Return probabilities [F, T] as a picture, in a data: URL for <img>.

    A pixel is the largest weight of the cells that it stands for.
    """
    from PIL import Image  # Gradio needs it too

    for axis in (0, 1):
        count = probs.shape[axis]
        starts = np.arange(min(count, _THUMBNAIL)) * count
        probs = np.maximum.reduceat(probs, starts // len(starts), axis=axis)
    pixels = np.zeros([*probs.shape, 4], np.uint8)
    pixels[..., :3] = _COLOR
    pixels[..., 3] = np.rint(255 * np.sqrt(probs))
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def lines(tokens: Sequence[str], probs: np.ndarray) -> str:
    """Return an SVG of two columns of tokens, with lines from left to right.

    Weights below MIN_LINE are left out. Pointing at a token on the left hides
    the lines of the others (style.css).

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    margin = 12 + 8 * max(len(_short(token)) for token in tokens)
    right, largest = margin + 180, float(probs.max())
    width, height = right + margin, len(tokens) * _ROW
    body = []
    for row, token in enumerate(tokens):
        y = (row + 0.5) * _ROW
        name = escaped(_short(token))
        body.append(
            f'<g class="from"><rect y="{row * _ROW}" width="{margin}" '
            f'height="{_ROW}"/><text x="{margin - 6}" y="{y + 4:g}" '
            f'text-anchor="end">{name}</text>'
        )
        for column in np.flatnonzero(probs[row] >= MIN_LINE).tolist():
            weight = float(probs[row, column])
            title = f"{token} → {tokens[column]} {share(weight)}"
            body.append(
                f'<line x1="{margin}" y1="{y:g}" x2="{right}" '
                f'y2="{(column + 0.5) * _ROW:g}" '
                f'stroke-opacity="{weight / largest:.2f}">'
                f"<title>{escaped(title)}</title></line>"
            )
        body.append(f'</g><text x="{right + 6}" y="{y + 4:g}">{name}</text>')
    return (
        f'<svg role="img" aria-label="Attention among {len(tokens)} tokens: '
        f'left looks at right" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px">{"".join(body)}</svg>'
    )
