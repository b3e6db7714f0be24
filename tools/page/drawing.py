"""Results as HTML. Text of the input is escaped: it is shown as it is.

Colors and sizes are in style.css, which knows the light and the dark page.
"""

import html
import unicodedata
from collections.abc import Sequence

from tools.page.rows import Part, Piece

# Gradio fills templates, in which ${...} and {{...}} are expressions.
_TEMPLATE = {ord(char): f"&#{ord(char)};" for char in "${}"}

NUM_COLORS = 6  # of spans, in style.css

_SHOWN_AS_THEY_ARE = "\n\t"


def visible(text: str) -> str:
    """Return a text with signs in place of control characters.

    U+0007 is shown as the sign U+2407; a character that has no sign, such as
    one that reverses the direction of writing, as its code: <U+202E>.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_visible_char, text))


def _visible_char(char: str) -> str:
    code = ord(char)
    if char in _SHOWN_AS_THEY_ARE:
        return char
    if code < 32:
        return chr(0x2400 + code)
    if unicodedata.category(char) in ("Cc", "Cf", "Cs"):
        return f"<U+{code:04X}>"
    return char


def escape(text: str) -> str:
    """Return a text as HTML, also for the values of attributes."""
    return html.escape(visible(text)).translate(_TEMPLATE)


def error(message: str) -> str:
    """Return the line that says why there is no result."""
    line = " ".join(message.split())
    return f'<div class="bert-error" role="alert">{escape(line)}</div>'


def note(message: str) -> str:
    """Return a line of explanation."""
    return f'<div class="bert-note">{escape(message)}</div>'


# --- Numbers -----------------------------------------------------------------


def share(value: float) -> str:
    """Return a probability with the digits that tell it from others."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def bars(rows: Sequence[tuple[str, float]], best: int = 0) -> str:
    """Return probabilities as bars with their names.

    Args:
        rows: (name, probability).
        best: number of the row to stress.
    """
    cells = []
    for place, (name, value) in enumerate(rows):
        kind = "bert-best" if place == best else ""
        cells.append(
            f'<span class="{kind}">{escape(name)}</span>'
            f'<span class="bert-track {kind}">'
            f'<i style="width:{100 * value:.2f}%"></i></span>'
            f'<span class="{kind}">{share(value)}</span>'
        )
    return f'<div class="bert-bars">{"".join(cells)}</div>'


def table(
    headers: Sequence[str], rows: Sequence[Sequence[str]], wide: int
) -> str:
    """Return a table; long texts are wrapped.

    Args:
        headers: a name for each column.
        rows: as many texts each.
        wide: number of the column that takes the space that is left.
    """
    widths = " ".join(
        "1fr" if place == wide else "auto" for place in range(len(headers))
    )
    cells = [f'<span class="bert-head">{escape(h)}</span>' for h in headers]
    cells += [f"<span>{escape(cell)}</span>" for row in rows for cell in row]
    return (
        f'<div class="bert-table" style="grid-template-columns:{widths}">'
        f"{''.join(cells)}</div>"
    )


def number_line(name: str, value: float) -> str:
    """Return the number that a regression predicts."""
    return (
        f'<div class="bert-number"><b>{value:.4g}</b> '
        f"<span>{escape(name)}</span></div>"
    )


# --- Texts -------------------------------------------------------------------


def text_box(body: str) -> str:
    """Return a box that scrolls; `body` is HTML."""
    return f'<div class="bert-text" tabindex="0">{body}</div>'


def marked(text: str, start: int, end: int, anchor: str) -> str:
    """Return a text in a box, with characters [start, end) marked.

    Args:
        text: any text.
        start, end: of the mark.
        anchor: the id of the mark in the page, for links to it.
    """
    return text_box(
        f'{escape(text[:start])}<mark id="{anchor}">'
        f"{escape(text[start:end])}</mark>{escape(text[end:])}"
    )


def colored(
    text: str, spans: Sequence[tuple[int, int, str]], types: Sequence[str]
) -> str:
    """Return a text in a box, with colored spans and their types.

    Args:
        text: any text.
        spans: (first character, end, type), in order.
        types: all of them: the place of a type gives its color.
    """
    body, at = "", 0
    for start, end, kind in spans:
        color = types.index(kind) % NUM_COLORS if kind in types else 0
        body += (
            f"{escape(text[at:start])}"
            f'<mark class="bert-entity bert-color-{color}">'
            f"{escape(text[start:end])}<sub>{escape(kind)}</sub></mark>"
        )
        at = end
    return text_box(body + escape(text[at:]))


def with_cut(parts: Sequence[Part], max_seq_length: int) -> str:
    """Return texts, the part that the model does not see struck through.

    Args:
        parts: of the texts of a row.
        max_seq_length: of the row.
    """
    cut = sum(len(part.cut) for part in parts)
    body = "\n\n".join(
        f"{escape(part.read)}<del>{escape(part.cut)}</del>" for part in parts
    )
    message = (
        f"The model reads {max_seq_length} tokens: it does not see the last "
        f"{cut:,} characters, struck through here."
    )
    return note(message) + text_box(body)


def filled(parts: Sequence[str], tokens: Sequence[str]) -> str:
    """Return the text between masks, with a marked token for each mask.

    Args:
        parts: the texts before, between and after the masks.
        tokens: one for each mask.
    """
    body = escape(parts[0])
    for number, (token, part) in enumerate(zip(tokens, parts[1:], strict=True)):
        body += f"<mark><sub>{number + 1}</sub>{escape(token)}</mark>"
        body += escape(part)
    return text_box(body)


def piece_chips(pieces: Sequence[Piece]) -> str:
    """Return word pieces with their ids; those that are cut struck through."""
    chips = []
    for place, piece in enumerate(pieces):
        kind = "bert-piece bert-second" if piece.segment else "bert-piece"
        if piece.is_cut:
            kind += " bert-cut"
        tag = "del" if piece.is_cut else "span"
        chips.append(
            f'<{tag} class="{kind}" title="{place}">'
            f"<b>{escape(piece.token)}</b><i>{piece.id}</i></{tag}>"
        )
    return f'<div class="bert-pieces" tabindex="0">{"".join(chips)}</div>'


def heading(name: str, body: str) -> str:
    """Return HTML under a heading."""
    return f"<h4>{escape(name)}</h4>{body}"
