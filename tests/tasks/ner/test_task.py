"""ner/task.py: the places of words in a text."""

from hypothesis import given
from hypothesis import strategies as st

import tokenization


def words_of(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, their first and their last character."""
    basic = tokenization.BasicTokenizer(False)
    found = list(basic.words_with_places(text))
    assert [word for word, _ in found] == basic.tokenize(text)
    return [(word, at[0], at[-1]) for word, at in found]


def test_characters_of_words_with_dropped_characters():
    assert words_of("a\u0007b (c)\u00a0 d\ufffde") == [
        ("ab", 0, 2),
        ("(", 4, 4),
        ("c", 5, 5),
        (")", 6, 6),
        ("de", 9, 11),
    ]


@given(st.text(max_size=40))
def test_each_word_is_in_its_characters(text):
    at = 0
    basic = tokenization.BasicTokenizer(False)
    for word, start, end in words_of(text):
        assert at <= start <= end
        assert basic.tokenize(text[start : end + 1]) == [word]
        at = end + 1
