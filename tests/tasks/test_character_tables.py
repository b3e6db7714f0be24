"""Replacements, case classes and combining marks of all code points."""

import sys
import unicodedata

import numpy as np
import pytest

import tokenization
from tasks import character_tables


def replacement(table: character_tables.Table, char: str) -> str:
    """Look a character up as the graph does."""
    page, place = divmod(ord(char), character_tables.PAGE)
    number = table.entries[table.pages[page] * character_tables.PAGE + place]
    start, length = table.starts[number], table.lengths[number]
    values = table.values[start : start + length]
    return "".join(
        char if value == character_tables.SELF else chr(value)
        for value in values
    )


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_replacements_are_those_of_the_tokenizer(do_lower_case):
    table = character_tables.replacement_table(do_lower_case)
    basic = tokenization.BasicTokenizer(do_lower_case)
    for char in (
        "aZ!\u00c9\u0130\u00df\u0301\u0007\u00a0\t\u4e2d\ufffd\ud55c\U0001d165"
    ):
        found = f"a{replacement(table, char)}b".split()
        assert found == basic.tokenize(f"a{char}b"), ascii(char)


def test_a_table_is_small():
    table = character_tables.replacement_table(True)
    assert len(table.pages) * character_tables.PAGE == sys.maxunicode + 1
    assert sum(part.nbytes for part in table) < 1_000_000


def test_case_classes_tell_letters_from_ignorable_characters():
    ignorable, cased = map(set, character_tables.case_classes())
    assert not ignorable & cased
    assert {ord(c) for c in "aZ\u03a3\u00df"} <= cased
    assert {ord(c) for c in "\u0301\u00ad'."} <= ignorable
    assert not {ord(c) for c in " 1\u4e2d"} & (ignorable | cased)


def test_combining_marks_are_sorted_and_some_are_kept():
    marks, classes, kept = character_tables.combining_marks()
    assert (np.diff(marks) > 0).all()
    assert len(kept) >= 20 and classes.min() > 0
    assert all(unicodedata.category(chr(code)) != "Mn" for code in kept)
    assert set(kept) < set(marks)
