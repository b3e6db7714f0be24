"""Tables of the tokenizer's replacement for each code point of Unicode.

They are computed by running tokenization.py and Python's `str.lower` on every
code point, so they have this interpreter's Unicode version. This takes about a
second; the tables are cached.
"""

import functools
import itertools
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from tokenization import TokenizerSettings

_CODE_POINTS = 0x110000

PAGE = 256  # code points per page of a table

_NO_CHARACTER = {"Cn", "Co"}  # categories: unassigned, for private use

SELF = -1  # in a replacement: the character itself


class Table(NamedTuple):
    """Code point -> replacement, in two levels of arrays.

    Code point c has replacement number r = entries[pages[c // PAGE] * PAGE +
    c % PAGE], which is values[starts[r] : starts[r] + lengths[r]]. Equal pages
    are stored once: most of the 4,352 have nothing but characters that stay as
    they are.
    """

    pages: np.ndarray  # [code points / PAGE]: number of the page
    entries: np.ndarray  # [pages * PAGE]: number of the replacement
    starts: np.ndarray  # [replacements]: first index in values
    lengths: np.ndarray  # [replacements]
    values: np.ndarray  # code points, or SELF


def _replacements(settings: TokenizerSettings) -> Iterator[tuple[int, ...]]:
    """Yield the replacement of each code point by itself, without neighbors.

    Computed by the tokenizer, many code points at a time: each is put between
    two letters, as in "aXb", and the words are joined by spaces again.
    """
    basic = tokenization.BasicTokenizer(settings=settings)
    mark = "zz"
    for first in range(0, _CODE_POINTS, 4096):
        codes = range(first, first + 4096)
        kinds = {unicodedata.category(chr(code)) for code in codes}
        if kinds <= _NO_CHARACTER and not settings.is_of_hub:
            # Letters to the tokenizer. Most code points are such.
            yield from [(SELF,)] * len(codes)
            continue
        cells = [
            # Surrogates cannot be in UTF-8, hence in no text.
            "ab" if 0xD800 <= code < 0xE000 else f"a{chr(code)}b"
            for code in codes
        ]
        pieces = basic.tokenize(f" {mark} ".join(cells))
        parts = " ".join(pieces).split(f" {mark} ")
        for code, part in zip(codes, parts, strict=True):
            if (part[0], part[-1]) != ("a", "b"):
                raise AssertionError(f"U+{code:04X} changes its neighbours")
            yield tuple(
                SELF if ord(char) == code else ord(char) for char in part[1:-1]
            )


@functools.cache
def replacement_table(settings: TokenizerSettings) -> Table:
    """Return the table of replacements of all code points; cached."""
    numbers: dict[tuple[int, ...], int] = {(SELF,): 0}
    entries = np.array(
        [
            numbers.setdefault(replacement, len(numbers))
            for replacement in _replacements(settings)
        ],
        np.int32,
    )
    rows, pages = np.unique(
        entries.reshape(-1, PAGE), axis=0, return_inverse=True
    )
    lengths = np.array([len(values) for values in numbers], np.int32)
    return Table(
        pages.reshape(-1).astype(np.int32),
        rows.reshape(-1).astype(np.int32),
        (np.cumsum(lengths) - lengths).astype(np.int32),
        lengths,
        np.array([*itertools.chain(*numbers), 0], np.int32),
    )


def replaced(table: Table, codes: Sequence[int]) -> list[str]:
    """Return the replacement of each code point as a string."""
    texts = [
        table.values[start : start + length].tolist()
        for start, length in zip(table.starts, table.lengths, strict=True)
    ]
    pages, places = np.divmod(codes, PAGE)
    numbers = table.entries[table.pages[pages] * PAGE + places]
    return [
        "".join(chr(code if x == SELF else x) for x in texts[number])
        for code, number in zip(codes, numbers.tolist(), strict=True)
    ]


@functools.cache
def case_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return the code points that are case-ignorable, and the cased ones.

    Unicode's rule Final_Sigma needs them: the lower case of a capital sigma is
    the final sigma if a cased letter comes before it and none after it;
    ignorable characters in between do not count. Both sets are found by
    experiments with `str.lower`.
    """
    ignorable, cased = [], []
    for code in range(_CODE_POINTS):
        char = chr(code)
        if (char + "\u03a3").lower()[-1] == "\u03c2":
            cased.append(code)
        elif ("a" + char + "\u03a3").lower()[-1] == "\u03c2":
            ignorable.append(code)
    return np.array(ignorable, np.int32), np.array(cased, np.int32)


@functools.cache
def combining_marks() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the combining marks, their classes, and which marks are kept.

    Marks of category Mn are dropped as accents.
    """
    marks = [c for c in range(_CODE_POINTS) if unicodedata.combining(chr(c))]
    classes = [unicodedata.combining(chr(code)) for code in marks]
    kept = [c for c in marks if unicodedata.category(chr(c)) != "Mn"]
    return tuple(np.array(x, np.int32) for x in (marks, classes, kept))
