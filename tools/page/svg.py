"""Attention as SVG: a heat map, lines between tokens, all heads at once.

In pictures a weight is drawn with the opacity of its square root: most are
small, and 0.01 would be invisible beside 1. Lines cover one another, so theirs
is the weight as a share of the largest one.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from tools.page import png
from tools.page.drawing import escape, share

_COLOR = (37, 99, 235)  # a blue that is readable on white and on black

_CELL = 20  # pixels of a token's row and column

# So many tokens have a text on every cell, "the -> cat 0.12".
_MAX_TOOLTIPS = 48

# Lighter lines are left out; a token has at most 1 / 0.05 = 20 of the others.
MIN_LINE = 0.05

_THUMBNAIL = 48  # pixels of a head in the overview


def _label_width(tokens: Sequence[str]) -> int:
    """Return pixels that the longest token needs."""
    return 12 + 8 * max(len(_short(token)) for token in tokens)


def _short(token: str) -> str:
    return token if len(token) <= 20 else token[:19] + "…"


def _svg(width: int, height: int, body: str, title: str) -> str:
    return (
        f'<div class="bert-scroll" tabindex="0"><svg role="img" '
        f'aria-label="{escape(title)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{body}</svg></div>'
    )


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(text)}</text>'


def _image(x: float, y: float, size: tuple[float, float], url: str) -> str:
    return (
        f'<image x="{x:g}" y="{y:g}" width="{size[0]:g}" height="{size[1]:g}" '
        f'preserveAspectRatio="none" href="{url}"/>'
    )


def heat_map(tokens: Sequence[str], probs: np.ndarray) -> str:
    """Return the probabilities of a head as a picture.

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    count, margin = len(tokens), _label_width(tokens)
    size = count * _CELL
    url = png.data_url(np.sqrt(probs), _COLOR)
    parts = [_image(margin, margin, (size, size), url)]
    for place, token in enumerate(map(_short, tokens)):
        middle = margin + (place + 0.5) * _CELL
        parts.append(_text(margin - 6, middle + 4, token, 'text-anchor="end"'))
        turned = f'transform="rotate(-90 {middle + 4:g} {margin - 6})"'
        parts.append(_text(middle + 4, margin - 6, token, turned))
    if count <= _MAX_TOOLTIPS:
        parts += _tooltips(tokens, probs, margin)
    edge = size + margin
    parts.append(
        f'<rect class="bert-frame" x="{margin}" y="{margin}" width="{size}" '
        f'height="{size}"/>'
    )
    title = f"Attention among {count} tokens: rows look at columns"
    return _svg(edge + 8, edge + 8, "".join(parts), title)


def _tooltips(
    tokens: Sequence[str], probs: np.ndarray, margin: int
) -> Iterable[str]:
    """Yield an invisible rectangle with a text for each cell."""
    for row, column in np.ndindex(*probs.shape):
        x, y = margin + column * _CELL, margin + row * _CELL
        weight = share(float(probs[row, column]))
        label = f"{tokens[row]} → {tokens[column]} {weight}"
        yield (
            f'<rect class="bert-cell" x="{x}" y="{y}" width="{_CELL}" '
            f'height="{_CELL}"><title>{escape(label)}</title></rect>'
        )


def lines(tokens: Sequence[str], probs: np.ndarray) -> str:
    """Return the tokens in two columns, with lines from left to right.

    A line is as opaque as its weight is large; weights below MIN_LINE are left
    out. Pointing at a token on the left hides the lines of the others.

    Args:
        tokens: S of them.
        probs: [F, T]; each row sums to 1.
    """
    margin, gap, step = _label_width(tokens), 180, 20
    height = len(tokens) * step + 8
    width = 2 * margin + gap
    largest = float(probs.max())
    parts = []
    for row, token in enumerate(tokens):
        y = (row + 0.5) * step + 4
        kept = np.flatnonzero(probs[row] >= MIN_LINE).tolist()
        drawn = "".join(
            f'<line x1="{margin}" y1="{y:g}" x2="{margin + gap}" '
            f'y2="{(column + 0.5) * step + 4:g}" '
            f'stroke-opacity="{probs[row, column] / largest:.2f}"><title>'
            f"{escape(f'{token} → {tokens[column]}')} "
            f"{share(float(probs[row, column]))}</title></line>"
            for column in kept
        )
        label = _text(margin - 6, y + 4, _short(token), 'text-anchor="end"')
        # An area to point at, as wide as the column.
        area = (
            f'<rect class="bert-cell" x="0" y="{y - step / 2:g}" '
            f'width="{margin}" height="{step}"/>'
        )
        parts.append(f'<g class="bert-from">{drawn}{label}{area}</g>')
    for row, token in enumerate(tokens):
        y = (row + 0.5) * step + 8
        parts.append(_text(margin + gap + 6, y, _short(token)))
    body = f'<g class="bert-lines">{"".join(parts)}</g>'
    title = f"Attention among {len(tokens)} tokens: left looks at right"
    return _svg(width, height, body, title)


def overview(layers: Sequence[np.ndarray]) -> str:
    """Return a small picture of every head, a row of them for each layer.

    Args:
        layers: L of `thumbnails`.
    """
    gap, margin, top = 6, 28, 20
    step = _THUMBNAIL + gap
    heads = layers[0].shape[0]
    parts = [
        _text(margin + (n + 0.5) * step - 4, 14, str(n + 1))
        for n in range(heads)
    ]
    for row, pictures in enumerate(layers):
        y = top + row * step
        parts.append(
            _text(margin - 8, y + 28, str(row + 1), 'text-anchor="end"')
        )
        for n, picture in enumerate(pictures):
            x = margin + n * step
            url = png.data_url(np.sqrt(picture), _COLOR)
            parts.append(_image(x, y, (_THUMBNAIL, _THUMBNAIL), url))
            parts.append(
                f'<rect class="bert-frame" x="{x}" y="{y}" '
                f'width="{_THUMBNAIL}" height="{_THUMBNAIL}">'
                f"<title>layer {row + 1}, head {n + 1}</title></rect>"
            )
    width, height = margin + heads * step, top + len(layers) * step
    title = f"Attention of {len(layers)} layers (rows) of {heads} heads"
    return _svg(width, height, "".join(parts), title)


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
