"""The tables have what tokenization.py makes of every code point."""

import itertools
import unicodedata

import pytest
from marks import nightly

from tasks import character_tables
from tokenization import BasicTokenizer, TokenizerSettings

CODE_POINTS = range(0x110000)

SETTINGS = [
    TokenizerSettings(*flags, is_of_hub=is_of_hub)
    for *flags, is_of_hub in itertools.product((False, True), repeat=4)
]

# A model of the hub, and a cased one; the others take a minute.
FEW = (SETTINGS[-1], SETTINGS[2])


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings", [s if s in FEW else nightly(s) for s in SETTINGS]
)
def test_replacements_are_the_tokenizer_s(settings):
    """Each code point between two letters, as in "aXb"."""
    table = character_tables.replacement_table(settings)
    basic = BasicTokenizer(settings=settings)
    for codes in (CODE_POINTS[i : i + 4096] for i in CODE_POINTS[::4096]):
        cells = [
            "ab" if 0xD800 <= code < 0xE000 else f"a{chr(code)}b"
            for code in codes
        ]
        wanted = " ".join(basic.tokenize(" zz ".join(cells))).split(" zz ")
        found = character_tables.replaced(table, codes)
        assert [f"a{text}b" for text in found] == wanted


def test_classes_of_case_are_those_of_lower():
    ignorable, cased = character_tables.case_classes()
    is_final = {
        before: [
            code
            for code in CODE_POINTS
            if f"{before}{chr(code)}\u03a3".lower()[-1] == "\u03c2"
        ]
        for before in ("", "a")
    }
    assert cased.tolist() == is_final[""]
    assert sorted([*ignorable, *cased]) == is_final["a"]


def test_marks_are_those_of_unicodedata():
    marks, classes, kept = character_tables.combining_marks()
    wanted = {c: unicodedata.combining(chr(c)) for c in CODE_POINTS}
    found = dict(zip(marks.tolist(), classes.tolist(), strict=True))
    assert found == {c: kind for c, kind in wanted.items() if kind}
    assert kept.tolist() == [
        c for c in found if unicodedata.category(chr(c)) != "Mn"
    ]
