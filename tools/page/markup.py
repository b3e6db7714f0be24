"""Results of a tab as HTML: tables with bars, marked texts, notes.

Every text goes through `escaped`. Plain HTML has what Gradio's Label,
HighlightedText and Dataframe lack: all digits, whole words on a phone, colors
that can be read on light and dark pages, and names for screen readers.
"""

import html
import unicodedata
from collections.abc import Sequence

_NUM_COLORS = 6  # kind0, kind1, ... of style.css


def escaped(text: str) -> str:
    """Escape a text for HTML, and for the templates of Gradio.

    Control characters are shown by their numbers, <U+202E> for one that
    reverses the direction of writing.
    """
    shown = "".join(
        f"<U+{ord(char):04X}>"
        if unicodedata.category(char) in ("Cc", "Cf", "Cs")
        and char not in "\n\t"
        else char
        for char in text
    )
    template = {ord(char): f"&#{ord(char)};" for char in "${}"}
    return html.escape(shown).translate(template)


def share(value: float) -> str:
    """Return a probability with two digits, small ones as 0.0012 or 1.2e-05."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def note(text: str) -> str:
    """Return a line of explanation."""
    return f"<p>{escaped(text)}</p>"


def error(text: str) -> str:
    """Return the sentence that says why there is no result."""
    sentence = " ".join(text.split())
    return (
        f'<p class="error">{escaped(sentence[:1].upper() + sentence[1:])}</p>'
    )


def number(label: str, value: float) -> str:
    """Return a number that a model predicts, with its name."""
    return f'<p class="number">{escaped(label)} <b>{value:.4g}</b></p>'


def bars(caption: str, header: str, rows: Sequence[tuple[str, float]]) -> str:
    """Return probabilities by name as a table with a bar behind each name."""
    listed = [[name, share(value)] for name, value in rows]
    shares = [value for _, value in rows]
    return table(caption, (header, "probability"), listed, shares)


def table(
    caption: str,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    shares: Sequence[float] = (),
) -> str:
    """Return a table whose first column is the widest and names the rows.

    Args:
        caption: its title.
        headers: the names of the columns.
        rows: the cells of each row.
        shares: numbers from 0 to 1, of each row: the length of a bar behind
            its first cell; empty: no bars.
    """
    head = "".join(f'<th scope="col">{escaped(h)}</th>' for h in headers)
    body = []
    for place, (first, *cells) in enumerate(rows):
        bar = ""
        if shares:
            width = max(0.0, min(1.0, shares[place]))
            bar = f' class="bar" style="--share: {width:.1%}"'
        others = "".join(f"<td>{escaped(cell)}</td>" for cell in cells)
        body.append(
            f'<tr><th scope="row"{bar}>{escaped(first)}</th>{others}</tr>'
        )
    return (
        '<div class="scroll" tabindex="0"><table>'
        f"<caption>{escaped(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def marked(
    caption: str,
    parts: Sequence[tuple[str, str | None]],
    kinds: Sequence[str],
    is_named: bool = True,
) -> str:
    """Return a text in parts, some of them in color.

    Args:
        caption: its title.
        parts: (text, kind) of each; a part of no kind has no color.
        kinds: all kinds, in the order of the colors.
        is_named: whether each part names its kind; else a legend does.
    """

    def mark(kind: str, content: str) -> str:
        color = kinds.index(kind) % _NUM_COLORS
        return f'<mark class="kind{color}">{content}</mark>'

    body, legend = "", ""
    for text, kind in parts:
        name = f"<small>{escaped(kind)}</small>" if kind and is_named else ""
        part = escaped(text) + name
        body += part if kind is None else mark(kind, part)
    if not is_named:
        shown = " ".join(mark(kind, escaped(kind)) for kind in kinds)
        legend = f'<p class="legend">{shown}</p>'
    return _figure(caption, legend, body)


def shaded(caption: str, parts: Sequence[tuple[str, float]]) -> str:
    """Return words in shades of two colors, by numbers from -1 to 1."""
    body = " ".join(
        f'<mark class="{"for" if x > 0 else "against"}" '
        f'style="--share: {abs(x):.0%}">{escaped(word)}</mark>'
        for word, x in parts
    )
    return _figure(caption, "", body)


def _figure(caption: str, legend: str, text: str) -> str:
    return (
        f"<figure><figcaption>{escaped(caption)}</figcaption>{legend}"
        f'<div class="scroll text" tabindex="0">{text}</div></figure>'
    )
