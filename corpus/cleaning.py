"""Clean text: Unicode normal form C, no control characters, single spaces."""

import re
import unicodedata

# Removed: control characters (C0, DEL, C1) that are not white space, soft
# hyphens, marks of text direction, byte order marks, surrogates and
# noncharacters. Zero-width joiners and non-joiners stay, since Persian and
# Hindi words need them. White space, which has U+0085, U+2028 and U+2029 in
# it, becomes a space.
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200e\u200f\u202a-\u202e"
    "\u2066-\u2069\ufeff\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"
)


def clean_text(text: str) -> str:
    r"""Return text in NFC without control characters; \n, \t and so on stay.

    The same characters may be written in several ways: "é" is one code point
    or an "e" and an accent. In NFC it is always one.
    """
    text = _REMOVED.sub("", text)
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    return text


def clean_line(text: str) -> str:
    """Return clean text with single spaces for all white space, stripped."""
    return " ".join(clean_text(text).split())
