"""A result as HTML. All texts in it are escaped."""

import html
from collections.abc import Sequence

from tools.page.models import PageModel
from tools.page.views import Shown, percent

# Numbers of parts of a text: from here on a part is bold; below, it is plain.
_STRONG, _FAINT = 1 / 3, 0.1

_BLUE, _ORANGE = 220, 30  # hues


def facts(models: Sequence[PageModel]) -> str:
    """Return the name or number of the models, and more behind an "i"."""
    name = models[0].name if len(models) == 1 else f"{len(models)} models"
    rows = "".join(
        f"<p><code>{html.escape(model.name)}</code>: {model.summary()}</p>"
        for model in models
    )
    return (
        f"<details><summary>{html.escape(name)} "
        f'<span class="info">i</span></summary>{rows}</details>'
    )


def result(shown: Shown) -> str:
    """Return all of a result but its figure, the verdict first."""
    parts = []
    if shown.verdict:
        parts.append(f"<h2>{html.escape(shown.verdict)}</h2>")
    if shown.marked:
        kinds = sorted({m for _, m in shown.marked if isinstance(m, str)})
        hues = {kind: _BLUE + 137 * n for n, kind in enumerate(kinds)}
        text = "".join(_part(*part, hues) for part in shown.marked)
        parts.append(f'<p class="text">{text}</p>')
    parts += [f"<p>{html.escape(note)}</p>" for note in shown.notes if note]
    if shown.rows:
        head = "".join(
            f"<th>{html.escape(name)}</th>" for name in shown.headers
        )
        rows = "".join(
            f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown.rows
        )
        parts.append(
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
        )
    return "".join(parts)


def _part(text: str, mark: str | float | None, hues: dict[str, int]) -> str:
    """Return a part of a text with its mark."""
    text = html.escape(text)
    if isinstance(mark, str):
        text = f"{text} <small>{html.escape(mark)}</small>"
        hue, opacity = hues[mark], 0.3
    elif mark is None or abs(mark) < _FAINT:
        return text
    else:
        hue, opacity = _BLUE if mark > 0 else _ORANGE, abs(mark) / 2
        if abs(mark) >= _STRONG:
            text = f"<b>{text}</b>"
    color = f"hsl({hue} 90% 50% / {opacity:.0%})"
    return f'<mark style="background: {color}">{text}</mark>'


def _cell(value: str | float) -> str:
    """Return a cell of a table; a probability is a bar and a number."""
    if isinstance(value, str):
        return f"<td>{html.escape(value)}</td>"
    return (
        f'<td><div class="share" style="--share: {value:.2%}">'
        f"<span>{html.escape(percent(value))}</span></div></td>"
    )
