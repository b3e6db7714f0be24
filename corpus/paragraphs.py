"""Find the paragraphs of plain text.

A line break means one of two things. In a file of a paragraph or sentence per
line, it ends a paragraph. In a file that was wrapped by hand, such as a book of
Project Gutenberg, it stands in the middle of a sentence, and a blank line ends
a paragraph. The lengths of the lines show which of the two a text is.
"""

import itertools
import re
import unicodedata

# A wrapped text has no line longer than this, but for a few such as addresses.
_LONGEST_WRAPPED = 100
_LONG_LINES = 0.01

# In a wrapped text, most lines with another line after them in the paragraph
# are about as long as all others: at least this part of the 90th percentile.
_FULL_LINE = 0.7
_FULL_LINES = 0.6

# Shorter "full" lines are verse, lists or a table.
_SHORTEST_WRAPPED = 40

# Lines of a sentence each nearly all end like one; wrapped lines by chance.
_SENTENCE_ENDS = 0.5
_SENTENCE_END = re.compile("[.!?…。！？।؟][\"'”’»)\\]」』]*$")

_LINE_BREAK = re.compile("\r\n|\r|\n")


def split_paragraphs(text: str, line_breaks: str = "auto") -> list[str]:
    """Return the paragraphs of a text, each as one stripped line.

    Blank lines separate them. With "join" a line break means nothing, with
    "keep" it ends a paragraph. "auto" is "join" if the lines look wrapped.
    """
    lines = map(str.strip, _LINE_BREAK.split(text))
    groups = itertools.groupby(lines, bool)
    blocks = [list(group) for has_text, group in groups if has_text]
    if line_breaks == "auto":
        line_breaks = "join" if is_wrapped(blocks) else "keep"
    if line_breaks == "keep":
        return [line for block in blocks for line in block]
    return [_join(block) for block in blocks]


def is_wrapped(blocks: list[list[str]]) -> bool:
    """Return whether the lines of a text were wrapped at a fixed width.

    That is so if hardly any line is longer than 100, and most lines that do not
    end their paragraph are full: at least 0.7 times as long as the 90th
    percentile, which is at least 40. At most half of them end like a sentence.
    """
    followed = [line for block in blocks for line in block[:-1]]
    if not followed:
        return False
    ends = sum(bool(_SENTENCE_END.search(line)) for line in followed)
    # A line of Chinese holds half as many characters in the same width.
    widths = sorted(map(_width, followed))
    long = sum(width > _LONGEST_WRAPPED for width in widths)
    typical = widths[int(0.9 * (len(widths) - 1))]
    full = sum(width >= _FULL_LINE * typical for width in widths)
    return (
        long <= _LONG_LINES * len(widths)
        and typical >= _SHORTEST_WRAPPED
        and full >= _FULL_LINES * len(widths)
        and ends <= _SENTENCE_ENDS * len(widths)
    )


def _join(lines: list[str]) -> str:
    """Return wrapped lines as one; no spaces between Chinese characters."""
    joined = lines[0]
    for line in lines[1:]:
        between = "" if _is_wide(joined[-1]) and _is_wide(line[0]) else " "
        joined = f"{joined}{between}{line}"
    return joined


def _width(line: str) -> int:
    """Return how many columns of a terminal a line takes."""
    if line.isascii():
        return len(line)
    return len(line) + sum(map(_is_wide, line))


def _is_wide(character: str) -> bool:
    """Whether a character is Chinese or Japanese, written without spaces.

    Korean characters are as wide, but Korean has spaces.
    """
    return unicodedata.east_asian_width(character) in "WF" and not (
        "\uac00" <= character <= "\ud7a3"
    )
