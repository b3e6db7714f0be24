"""The original's tokenizer, written down a second time: plain and slow.

It follows the rules one by one, a character at a time, and shares no code with
tokenization.py, so that the two can be compared over all of Unicode.
"""

import functools
import sys
import unicodedata
from collections.abc import Iterator

CJK_BLOCKS = [
    "4E00-9FFF",
    "3400-4DBF",
    "20000-2A6DF",
    "2A700-2B73F",
    "2B740-2B81F",
    "2B820-2CEAF",
    "F900-FAFF",
    "2F800-2FA1F",
]
CJK_BOUNDS = [
    [int(bound, 16) for bound in block.split("-")] for block in CJK_BLOCKS
]
_BLOCK = 1 << 14  # code points
ASCII_PUNCTUATION = set("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
MAX_WORD_LENGTH = 200


def tokenize(text: str, vocab: dict[str, int], lower: bool) -> list[str]:
    """Return the WordPiece tokens of a text."""
    tokens = []
    for word in basic_tokens(text, lower):
        tokens.extend(wordpieces(word, vocab))
    return tokens


def basic_tokens(text: str, lower: bool) -> list[str]:
    """Clean, isolate ideographs, split at whitespace, fold, split marks."""
    spaced = "".join(map(cleaned, text))
    tokens = []
    for word in spaced.split():
        if lower:
            word = fold(word)
        tokens.extend(" ".join(split_marks(word)).split())
    return tokens


@functools.lru_cache(1 << 12)
def cleaned(char: str) -> str:
    """Return what a character of raw text becomes."""
    if is_whitespace(char):
        return " "
    if is_dropped(char):
        return ""
    return f" {char} " if is_cjk(char) else char


def fold(word: str) -> str:
    """Lower-case, decompose and drop the nonspacing marks."""
    folded = ""
    for char in unicodedata.normalize("NFD", word.lower()):
        if unicodedata.category(char) != "Mn":
            folded += char
    return folded


def split_marks(word: str) -> list[str]:
    """Split so that every punctuation mark stands alone."""
    parts = []
    starts_part = True
    for char in word:
        if is_punctuation(char):
            parts.append(char)
            starts_part = True
        elif starts_part:
            parts.append(char)
            starts_part = False
        else:
            parts[-1] += char
    return parts


def wordpieces(word: str, vocab: dict[str, int]) -> list[str]:
    """Take the longest known piece from the left, again and again."""
    if len(word) > MAX_WORD_LENGTH:
        return ["[UNK]"]
    pieces = []
    rest = word
    while rest:
        taken = len(rest)
        while taken > 0:
            piece = rest[:taken] if not pieces else "##" + rest[:taken]
            if piece in vocab:
                break
            taken -= 1
        if taken == 0:
            return ["[UNK]"]
        pieces.append(piece)
        rest = rest[taken:]
    return pieces


def is_whitespace(char: str) -> bool:
    return char in (" ", "\t", "\n", "\r") or (
        unicodedata.category(char) == "Zs"
    )


def is_dropped(char: str) -> bool:
    if char in ("\x00", "\ufffd"):
        return True
    if char in ("\t", "\n", "\r"):
        return False
    return unicodedata.category(char) in ("Cc", "Cf")


@functools.lru_cache(1 << 12)
def is_punctuation(char: str) -> bool:
    return char in ASCII_PUNCTUATION or unicodedata.category(char)[0] == "P"


def is_cjk(char: str) -> bool:
    for first, last in CJK_BOUNDS:
        if first <= ord(char) <= last:
            return True
    return False


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
