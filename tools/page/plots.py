"""Pictures of attention: all heads, one as a heat map, one as lines.

A weight has the opacity of its square root: most are small, and 0.01 would be
invisible beside 1. Lines cover one another, so theirs is the weight as a share
of the largest one. The heat map is a figure of Plotly, whose program is a part
of Gradio. It takes JSON, so Plotly's Python package is not needed.
"""

import base64
import collections
import html
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tools.page.markup import escaped, share

_COLOR = (37, 99, 235)  # a blue that is seen on white and on black

_ROW = 20  # pixels of a token

# Lighter lines are left out; a token has at most 1 / 0.05 = 20 of the others.
MIN_LINE = 0.05

_THUMBNAIL = 32  # most rows and columns of a head in the overview


def heat_map(tokens: Sequence[str], probs: np.ndarray) -> dict[str, Any]:
    """Return the probabilities of a head as a figure that fills its box.

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    names, color = _distinct(tokens), ", ".join(map(str, _COLOR))
    levels = np.linspace(0, 1, 21)
    trace = {
        "type": "heatmap",
        "x": names,
        "y": names,
        "z": probs.astype(np.float64).round(4).tolist(),
        "zmin": 0,
        "zmax": 1,
        "colorscale": [
            [round(x**2, 4), f"rgba({color}, {x:.2f})"] for x in levels
        ],
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


def _distinct(tokens: Sequence[str]) -> list[str]:
    """Return names of tokens, which Plotly tells apart and takes for no tags.

    >>> _distinct(["the", "<b>", "the"])
    ['the', '&lt;b&gt;', 'the (2)']
    """
    seen: collections.Counter[str] = collections.Counter()
    names = []
    for name in map(_short, tokens):
        seen[name] += 1
        number = f" ({seen[name]})" if seen[name] > 1 else ""
        names.append(html.escape(name) + number)
    return names


def _short(token: str) -> str:
    """Return a token with at most 20 characters."""
    return token if len(token) <= 20 else token[:19] + "…"


def overview(layers: Iterable[np.ndarray], chosen: tuple[int, int]) -> str:
    """Return a button with a picture for each head, a row for each layer.

    Args:
        layers: [N, F, T] each.
        chosen: layer and head that are shown, from 1.
    """
    from PIL import Image  # Gradio needs it too

    buttons, heads = [], 0
    for layer, probs in enumerate(layers, 1):
        heads = len(probs)
        for head, small in enumerate(_thumbnails(probs), 1):
            pixels = np.zeros([*small.shape, 4], np.uint8)
            pixels[..., :3] = _COLOR
            pixels[..., 3] = np.rint(255 * np.sqrt(small))
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            data = base64.b64encode(file.getvalue()).decode()
            pressed = str((layer, head) == chosen).lower()
            buttons.append(
                f'<button type="button" data-head="{layer} {head}" '
                f'aria-pressed="{pressed}" title="Layer {layer}, head {head}" '
                f'aria-label="Layer {layer}, head {head}">'
                f'<img alt="" src="data:image/png;base64,{data}"/></button>'
            )
    return (
        f"<figure><figcaption>All heads: a row for each layer</figcaption>"
        f'<div class="heads" style="--heads: {heads}">{"".join(buttons)}</div>'
        "</figure>"
    )


def _thumbnails(probs: np.ndarray) -> np.ndarray:
    """Return [N, F, T] in at most _THUMBNAIL rows and columns.

    A pixel is the largest weight of the cells that it stands for.
    """
    for axis in (1, 2):
        count = probs.shape[axis]
        if count > _THUMBNAIL:
            starts = np.arange(_THUMBNAIL) * count // _THUMBNAIL
            probs = np.maximum.reduceat(probs, starts, axis=axis)
    return probs


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
        body.append(
            f'<g class="from"><rect y="{y - _ROW / 2:g}" '
            f'width="{margin}" height="{_ROW}"/>'
            f"{_token(margin - 6, y, token, 'end')}"
        )
        for column in np.flatnonzero(probs[row] >= MIN_LINE).tolist():
            weight = float(probs[row, column])
            name = f"{token} → {tokens[column]} {share(weight)}"
            body.append(
                f'<line x1="{margin}" y1="{y:g}" x2="{right}" '
                f'y2="{(column + 0.5) * _ROW:g}" '
                f'stroke-opacity="{weight / largest:.2f}">'
                f"<title>{escaped(name)}</title></line>"
            )
        body.append(f"</g>{_token(right + 6, y, token, 'start')}")
    return (
        f'<svg role="img" aria-label="Attention among {len(tokens)} tokens: '
        f'left looks at right" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px">{"".join(body)}</svg>'
    )


def _token(x: float, y: float, token: str, anchor: str) -> str:
    return (
        f'<text x="{x:g}" y="{y + 4:g}" text-anchor="{anchor}">'
        f"{escaped(_short(token))}</text>"
    )
