"""Traces of removed parts, and the judgement of sentences."""

import collections

import pytest

from corpus import repairs
from corpus.markup import FORMULA, GAP, LOST


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Rome () is.", "Rome is."),
        ("Rome ( ; ) is.", "Rome is."),
        ("Rome (, born 1950 ) is.", "Rome (born 1950) is."),
        ("Rome (born 1950;, died) is.", "Rome (born 1950; died) is."),
        ("One,, two , three, .", "One, two, three."),
        ("A  b\u00a0c\u200b d.", "A b c d."),
        ("King Jr.. He went on...", "King Jr. He went on..."),
        ("It is 5 .5 or .NET .", "It is 5 .5 or .NET."),
        (f"It is.{GAP}{GAP}So it was.{GAP} He.", "It is. So it was. He."),
        (f"A ({LOST}; b) c.", "A (b) c."),
        (f"A (Greek: {LOST}, b) c.", "A (b) c."),
        (f"A (x y z {LOST}; b) c.", "A c."),
        (f"A ({FORMULA}) c.", "A c."),
        (f"A {LOST} c.", f"A {LOST} c."),
        ("((بالألمانية: A))", "(بالألمانية: A)"),
        ("柏林（、，）是，，城。", "柏林是，城。"),
    ],
)
def test_repairs(text, expected):
    language = "zh" if "柏" in text else "en"
    counts = collections.Counter()
    assert repairs.repair(text, language, counts) == expected
    lost = "(" in text and (LOST in text or FORMULA in text)
    assert counts["parts_of_parentheses"] == lost


def test_french_keeps_its_spaces():
    assert repairs.repair("Qui ? Moi : oui !", "fr", {}) == "Qui ? Moi : oui !"
    assert repairs.repair("Who ? Me : yes !", "en", {}) == "Who? Me: yes!"


@pytest.mark.parametrize(
    ("sentence", "language"),
    [
        ("It is so.", "en"),
        ('"It is so."', "en"),
        ("iPhone is so.", "en"),
        ("d'Alembert is so.", "en"),
        ("არის ქალაქი.", "ka"),
        ("(It is so.)", "en"),
        ("那是。", "zh"),
        ("เป็นเมือง", "th"),
        ("यह है।", "hi"),
        ("هل هو؟", "ar"),
    ],
)
def test_whole_sentences_are_kept(sentence, language):
    assert repairs.judge(sentence, language, True, True) == ""


def test_a_colon_before_a_paragraph_is_kept():
    assert repairs.judge("He said:", "en", False, True) == ""
    assert repairs.judge("He said:", "en", True, True) == "introduces_removed"
