"""Tables of the tokenizer's replacement for each code point of Unicode.

They are computed by running tokenization.py and Python's `str.lower`, so they
have this interpreter's Unicode version. The tokenizer is asked once about code
points that it treats alike, such as the ideographs. The tables are cached.
"""

import functools
import itertools
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from tokenization import BasicTokenizer, TokenizerSettings

_CODE_POINTS = 0x110000

# All but planes 4 to 13, to which no version of Unicode has assigned any.
_ASSIGNED = np.r_[:0x40000, 0xE0000:_CODE_POINTS].astype("<u4")

PAGE = 256  # code points per page of a table

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


def _pages() -> list[str]:
    """Return the characters of each page that has some."""
    text = _ASSIGNED.tobytes().decode("utf-32-le", "surrogatepass")
    return [text[at : at + PAGE] for at in range(0, len(text), PAGE)]


@functools.cache
def categories() -> np.ndarray:
    """Return the category of each code point, such as b"Lu"; cached."""
    found = np.full(_CODE_POINTS, b"Cn")
    names = "".join(map(unicodedata.category, "".join(_pages())))
    found[_ASSIGNED] = np.frombuffer(names.encode(), "S2")
    return found


def _normalized(text: str, settings: TokenizerSettings) -> str:
    """Return a text in lower case and NFD, as the settings want it."""
    text = text.lower() if settings.do_lower_case else text
    return (
        unicodedata.normalize("NFD", text) if settings.strip_accents else text
    )


def _alike(settings: TokenizerSettings) -> np.ndarray:
    """Return the first code point that the tokenizer treats like each one.

    The tokenizer knows a character by its category, as an ideograph, by its
    lower case and NFD, and of ASCII's and U+FFFD by itself.
    """
    kinds = categories().view(np.uint16).astype(np.int32)
    for first, last in tokenization.CJK_RANGES:
        kinds[first : last + 1] += 1 << 16
    alone = [*range(128), 0xFFFD]
    for page in _pages():
        if _normalized(page, settings) != page:
            alone += [ord(c) for c in page if _normalized(c, settings) != c]
    kinds[alone] = np.add(alone, 1 << 17)
    codes = np.arange(_CODE_POINTS, dtype=np.int32)
    first = np.zeros(kinds.max() + 1, np.int32)
    first[kinds[::-1]] = codes[::-1]
    return first[kinds]


@functools.cache
def replacement_table(settings: TokenizerSettings) -> Table:
    """Return the table of replacements of all code points; cached."""
    basic = BasicTokenizer(settings=settings)
    numbers = {(SELF,): 0}
    alike = _alike(settings)
    entries = np.zeros(_CODE_POINTS, np.int32)
    for code in np.flatnonzero(alike == np.arange(_CODE_POINTS)).tolist():
        part = "ab"  # of surrogates, which cannot be in UTF-8, hence in no text
        if not 0xD800 <= code < 0xE000:
            # By itself, without neighbors that it depends on.
            part = " ".join(basic.tokenize(f"a{chr(code)}b"))
        replacement = tuple(
            SELF if ord(char) == code else ord(char) for char in part[1:-1]
        )
        entries[code] = numbers.setdefault(replacement, len(numbers))
    entries = entries[alike]
    rows: dict[bytes, int] = {}
    pages = [
        rows.setdefault(page.tobytes(), len(rows))
        for page in entries.reshape(-1, PAGE)
    ]
    lengths = np.array([len(values) for values in numbers], np.int32)
    return Table(
        np.array(pages, np.int32),
        np.frombuffer(b"".join(rows), np.int32),
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
    for page in _pages():
        if "\u03c2" not in ("a" + "\u03a3 a".join(page) + "\u03a3").lower():
            continue
        for char in page:
            if (char + "\u03a3").lower()[-1] == "\u03c2":
                cased.append(ord(char))
            elif ("a" + char + "\u03a3").lower()[-1] == "\u03c2":
                ignorable.append(ord(char))
    return np.array(ignorable, np.int32), np.array(cased, np.int32)


@functools.cache
def combining_marks() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the combining marks, their classes, and which marks are kept.

    Marks of category Mn are dropped as accents.
    """
    is_mark = categories().view("S1")[::2] == b"M"
    marks = np.flatnonzero(is_mark).astype(np.int32)
    classes = [unicodedata.combining(chr(code)) for code in marks]
    classes = np.array(classes, np.int32)
    marks, classes = marks[classes > 0], classes[classes > 0]
    return marks, classes, marks[categories()[marks] != b"Mn"]
