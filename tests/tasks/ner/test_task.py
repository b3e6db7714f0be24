"""Entities and their places in a text."""

from hypothesis import given
from hypothesis import strategies as st

import tokenization
from tasks.ner import task as ner_task


def test_spans_of_tags():
    tags = ["O", "B-PER", "I-PER", "B-PER", "O", "B-LOC"]
    assert ner_task.entity_spans(tags) == [(1, 2), (3, 3), (5, 5)]
    assert ner_task.entity_spans(["O", "O"]) == []


def test_characters_of_words_with_dropped_characters():
    text = "a\u0007b (c)\u00a0 d\ufffde"
    words = tokenization.BasicTokenizer(False).tokenize(text)
    assert words == ["ab", "(", "c", ")", "de"]
    assert ner_task.characters_of_words(text, words) == [
        (0, 3),
        (4, 5),
        (5, 6),
        (6, 7),
        (9, 12),
    ]


@given(st.text(max_size=40))
def test_each_word_is_in_its_characters(text):
    basic = tokenization.BasicTokenizer(False)
    words = basic.tokenize(text)
    places = ner_task.characters_of_words(text, words)
    at = 0
    for word, (start, end) in zip(words, places, strict=True):
        assert at <= start < end
        assert basic.tokenize(text[start:end]) == [word]
        at = end
