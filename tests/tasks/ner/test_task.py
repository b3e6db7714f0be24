"""ner/task.py: the places of words in a text."""

from hypothesis import given
from hypothesis import strategies as st

import tokenization
from tasks.ner.task import characters_of_words


def test_characters_of_words_with_dropped_characters():
    text = "a\u0007b (c)\u00a0 d\ufffde"
    words = tokenization.BasicTokenizer(False).tokenize(text)
    assert words == ["ab", "(", "c", ")", "de"]
    places = [(0, 3), (4, 5), (5, 6), (6, 7), (9, 12)]
    assert characters_of_words(text, words) == places


@given(st.text(max_size=40))
def test_each_word_is_in_its_characters(text):
    basic = tokenization.BasicTokenizer(False)
    words = basic.tokenize(text)
    at = 0
    for word, (start, end) in zip(
        words, characters_of_words(text, words), strict=True
    ):
        assert at <= start < end
        assert basic.tokenize(text[start:end]) == [word]
        at = end
