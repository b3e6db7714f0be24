"""All of Unicode, each code point in texts of its own."""

import sys
import unicodedata
from collections.abc import Iterator

_BLOCK = 1 << 14  # code points


def blocks() -> Iterator[list[str]]:
    """Yield all characters in blocks; some of a block without assigned ones.

    Only category and block decide what a tokenizer does with such characters.
    """
    for first in range(0, sys.maxunicode + 1, _BLOCK):
        chars = list(map(chr, range(first, first + _BLOCK)))
        if {"Cn", "Co"}.issuperset(map(unicodedata.category, chars)):
            chars = [*chars[:2], *chars[2:-2:61], *chars[-2:]]
        yield chars


def put_in_context(char: str) -> str:
    """Put a character inside a word, at the end of one, and alone.

    Of the 1,114,112 code points, some 970,000 are unassigned, private or
    surrogates, nothing but unknown letters: the first is enough for them.
    """
    if unicodedata.category(char) in ("Cn", "Co", "Cs"):
        return f"a{char}b"
    return f"a{char}b c{char} {char}"
