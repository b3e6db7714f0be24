"""What a tab shows, as HTML: tables with bars, marked texts, notes.

Every text goes through `escaped`. Plain HTML has what Gradio's Label,
HighlightedText and Dataframe lack: all digits, whole words on a phone, colors
that can be read on light and dark pages, and names for screen readers.
"""

import html
import unicodedata
from collections.abc import Sequence

# Of the kinds of a text: classes of style.css, in their order.
_NUM_COLORS = 6


def escaped(text: str) -> str:
    """Return a text as HTML, in which Gradio finds no template either.

    Control characters become signs: U+0007 is shown as U+2407; one that has no
    sign, such as one that reverses the direction of writing, as <U+202E>.
    """
    if not (text.isascii() and text.isprintable()):
        text = "".join(map(_visible, text))
    template = {ord(char): f"&#{ord(char)};" for char in "${}"}
    return html.escape(text).translate(template)


def _visible(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return char
    if code < 32:
        return chr(0x2400 + code)
    if unicodedata.category(char) in ("Cc", "Cf", "Cs"):
        return f"<U+{code:04X}>"
    return char


def share(value: float) -> str:
    """Return a probability with the digits that tell it from others."""
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
        headers: of the columns.
        rows: of cells.
        shares: from 0 to 1, of each row: a bar behind its first cell; empty:
            no bars.
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
        parts: (text, kind); parts of no kind have no color.
        kinds: all of them, in the order of the colors.
        is_named: whether each part names its kind; else a legend does.
    """
    colors = {k: f"kind{n % _NUM_COLORS}" for n, k in enumerate(kinds)}
    body = []
    for text, kind in parts:
        if kind is None:
            body.append(escaped(text))
            continue
        name = f"<small>{escaped(kind)}</small>" if is_named else ""
        body.append(
            f'<mark class="{colors[kind]}">{escaped(text)}{name}</mark>'
        )
    legend = "".join(
        f'<mark class="{color}">{escaped(kind)}</mark> '
        for kind, color in ({} if is_named else colors).items()
    )
    return _text(caption, legend, "".join(body))


def shaded(caption: str, parts: Sequence[tuple[str, float]]) -> str:
    """Return words in shades of two colors, by numbers from -1 to 1."""
    body = " ".join(
        f'<mark class="{"for" if x > 0 else "against"}" '
        f'style="--share: {abs(x):.0%}">{escaped(word)}</mark>'
        for word, x in parts
    )
    return _text(caption, "", body)


def _text(caption: str, legend: str, body: str) -> str:
    legend = f'<p class="legend">{legend}</p>' if legend else ""
    return (
        f"<figure><figcaption>{escaped(caption)}</figcaption>{legend}"
        f'<div class="scroll text" tabindex="0">{body}</div></figure>'
    )
