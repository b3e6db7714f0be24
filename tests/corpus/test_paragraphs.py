"""corpus/paragraphs.py: wrapped lines are joined, others stay apart."""

import textwrap

import hypothesis
import pytest
from corpora import manual
from hypothesis import strategies

from corpus.paragraphs import split_paragraphs

# The first lines of "A Tale of Two Cities", as Project Gutenberg has them.
NOVEL = """I. The Period


It was the best of times, it was the worst of times, it was the age of
wisdom, it was the age of foolishness, it was the epoch of belief, it
was the epoch of incredulity, it was the season of Light, it was the
season of Darkness.

There were a king with a large jaw and a queen with a plain face, on the
throne of England; there were a king with a large jaw and a queen with
a fair face, on the throne of France.
"""

VERSE = """Shall I compare thee to a summer's day?
Thou art more lovely and more temperate:
Rough winds do shake the darling buds of May,
And summer's lease hath all too short a date:
"""


def test_lines_of_a_wrapped_novel_are_joined():
    found = split_paragraphs(NOVEL)
    assert [len(paragraph) for paragraph in found] == [13, 229, 181]
    assert found[0] == "I. The Period"
    assert "it was the age of wisdom, it" in found[1]
    assert found[1].endswith("season of Darkness.")


def test_lines_of_other_texts_stay_apart():
    pages = [page for page in manual(40) if len(page) > 5]
    assert len(pages) > 20
    for page in pages:  # one sentence per line
        assert split_paragraphs("\n".join(page)) == page
    list_of_words = ["apple", "pear", "quince"]
    assert split_paragraphs("\n".join(list_of_words)) == list_of_words
    assert split_paragraphs("One.\nTwo.\n\nThree.") == [
        "One.",
        "Two.",
        "Three.",
    ]


def test_flag_decides_where_the_guess_is_wrong():
    lines = VERSE.strip().split("\n")
    assert split_paragraphs(VERSE, "keep") == lines
    assert split_paragraphs(VERSE, "join") == [" ".join(lines)]
    assert len(split_paragraphs(NOVEL, "keep")) == 8


def test_wrapped_chinese_is_joined_without_spaces():
    text = "天地玄黄宇宙洪荒日月盈昃辰宿列张" * 20
    wrapped = "\n".join(textwrap.wrap(text, 35))
    assert split_paragraphs(wrapped) == [text]
    assert split_paragraphs("한국어 문장\n입니다.", "join") == [
        "한국어 문장 입니다."
    ]
    assert split_paragraphs("中文\nlatin\n中文", "join") == ["中文 latin 中文"]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_all_systems(end):
    text = NOVEL.replace("\n", end)
    assert split_paragraphs(text) == split_paragraphs(NOVEL)


@hypothesis.given(
    strategies.integers(45, 95),
    strategies.lists(strategies.integers(60, 400), min_size=4, max_size=9),
)
def test_wrapping_is_undone_at_any_width(width, lengths):
    """Paragraphs of words of a novel, some of one line, wrapped and found."""
    words = " ".join(NOVEL.split()).split()
    paragraphs = []
    for number, length in enumerate(lengths):
        some = words[number:] + words
        paragraphs.append(" ".join(some)[:length].strip())
    wrapped = "\n\n".join(textwrap.fill(p, width) for p in paragraphs)
    hypothesis.assume(any(len(p) > 2 * width for p in paragraphs))
    assert split_paragraphs(wrapped) == paragraphs
