"""corpus/cleaning.py: NFC, control characters, white space."""

import unicodedata

import hypothesis
import pytest
from hypothesis import strategies

from corpus import cleaning


@pytest.mark.parametrize(
    "text, expected",
    [
        ("cafe\u0301", "café"),
        ("\u1112\u1161\u11ab", "한"),
        ("a\x00b\x07c\x7fd\x9be", "abcde"),
        ("soft\u00adhyphen \u202eright\u202c\ufeff", "softhyphen right"),
        ("a\t\tb\u00a0c\u3000d\u2028e\x85f\r\ng", "a b c d e f g"),
        ("  a  ", "a"),
        ("\ud800x\udfff\ufffe", "x"),
        # Joiners belong to the spelling of Persian and Hindi words.
        ("می\u200cخواهم", "می\u200cخواهم"),
        ("क्\u200dष", "क्\u200dष"),
        ("ﬁ ½ 𝒜 ①", "ﬁ ½ 𝒜 ①"),  # NFKC would change these
        ("", ""),
    ],
)
def test_clean_lines(text, expected):
    assert cleaning.clean_line(text) == expected


def test_line_breaks_of_a_text_stay():
    assert cleaning.clean_text("a\r\nb\n\n\tc\x00") == "a\r\nb\n\n\tc"


@hypothesis.given(strategies.text(max_size=30))
def test_clean_lines_are_nfc_without_control_characters(text):
    line = cleaning.clean_line(text)
    assert unicodedata.is_normalized("NFC", line)
    assert not {unicodedata.category(c) for c in line} & {
        "Cc",
        "Cs",
        "Zl",
        "Zp",
    }
    assert line == line.strip() and "  " not in line
    assert cleaning.clean_line(line) == line
    line.encode()
