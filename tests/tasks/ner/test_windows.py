"""ner/windows.py: every word is classified once, with most context."""

import ner_pieces
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ner_pieces import LABELS, VOCAB, WORDS, features

import tokenization
from tasks.ner.data import Sentence
from tasks.ner.windows import Converter, Window, split_into_windows, widened


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> tokenization.FullTokenizer:
    return ner_pieces.tokenizer_in(tmp_path_factory.mktemp("vocab"))


def test_windows_by_hand():
    assert split_into_windows(4, 4) == [Window(0, 4, 0, 4)]
    # 0123 / 2345 / 456: of 2 and 3 the first sees 1 and 0 pieces behind them,
    # the second 0 and 1 before.
    assert split_into_windows(7, 4) == [
        Window(0, 4, 0, 3),
        Window(2, 6, 3, 5),
        Window(4, 7, 5, 7),
    ]


@given(st.integers(1, 400), st.integers(2, 40))
def test_windows_are_the_ones_with_most_context(num_pieces, limit):
    found = split_into_windows(num_pieces, limit)
    assert found[0].first == 0 and found[-1].last == num_pieces
    for before, after in zip(found, found[1:], strict=False):
        assert before.last == after.first
        assert before.end < after.end
        assert before.end == before.start + limit
    for number, window in enumerate(found):
        for piece in range(window.first, window.last):

            def context(of: Window, piece: int = piece) -> int:
                if not of.start <= piece < of.end:
                    return -1
                # What ends with the sentence itself takes nothing away.
                left = piece - of.start if of.start else num_pieces
                right = of.end - 1 - piece
                if of.end == num_pieces:
                    right = num_pieces
                return min(left, right)

            best = max(range(len(found)), key=lambda n: context(found[n]))
            assert number == best  # the earliest of equals


def test_widened_by_hand():
    """One piece before the sentence is all there is: three from behind."""
    assert widened(Window(1, 3, 1, 3), 10, 6) == Window(0, 6, 1, 3)
    assert widened(Window(8, 9, 8, 9), 10, 6) == Window(4, 10, 8, 9)
    assert widened(Window(1, 2, 1, 2), 3, 6) == Window(0, 3, 1, 2)


@given(st.data())
def test_widened_sees_what_there_is(data):
    total = data.draw(st.integers(1, 60))
    start = data.draw(st.integers(0, total - 1))
    end = data.draw(st.integers(start + 1, total))
    limit = data.draw(st.integers(end - start, 70))
    found = widened(Window(start, end, start, end), total, limit)
    assert (found.first, found.last) == (start, end)
    assert 0 <= found.start <= start and end <= found.end <= total
    assert found.end - found.start == min(limit, total)
    left, right = start - found.start, found.end - end
    if found.start > 0 and found.end < total:
        assert right - left in (0, 1)


def sentence(words: str, tags: str = "", document: int = 0) -> Sentence:
    words = words.split()
    return Sentence(words, tags.split() or None, [1] * len(words), document)


def test_first_pieces_are_labelled(tokenizer):
    converter = Converter(tokenizer, LABELS, 9, document_context=False)
    found = features(
        converter, sentence("baa \u200b A.", "B-x I-x O"), sentence("b")
    )
    tokens = [tokenizer.convert_ids_to_tokens(x) for x in found["input_ids"]]
    assert " ".join(tokens[0]) == ("[CLS] b ##a ##a [UNK] a . [SEP] [PAD]")
    assert found["label_ids"][0].tolist() == [-1, 1, -1, -1, 2, 0, -1, -1, -1]
    assert found["input_mask"][0].tolist() == [1] * 8 + [0]
    assert found["label_ids"][1].tolist() == [-1, 0, *[-1] * 7]
    assert not found["segment_ids"].any()
    assert converter.num_unknown == 1 and converter.num_split == 0


def test_the_document_fills_the_window(tokenizer):
    converter = Converter(tokenizer, LABELS, 7, document_context=True)
    found = features(
        converter,
        sentence("a a", "B-x I-x"),
        sentence("b", "O"),
        sentence(". .", "O B-x"),
        sentence("b", "O", document=1),
    )
    tokens = [
        " ".join(tokenizer.convert_ids_to_tokens(x)) for x in found["input_ids"]
    ]
    assert tokens == [
        *["[CLS] a a b . . [SEP]"] * 3,
        "[CLS] b [SEP] [PAD] [PAD] [PAD] [PAD]",
    ]
    assert found["label_ids"].tolist() == [
        [-1, 1, 2, -1, -1, -1, -1],
        [-1, -1, -1, 0, -1, -1, -1],
        [-1, -1, -1, -1, 0, 1, -1],
        [-1, 0, -1, -1, -1, -1, -1],
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=1, max_size=5),
    st.integers(5, 14),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_one_label_per_word_in_order(tokenizer, texts, length, context, random):
    """However long words and sentences are, and with the document around."""
    sentences = [
        Sentence(
            words,
            [random.choice(LABELS) for _ in words],
            [1] * len(words),
            random.randrange(2),
        )
        for words in texts
    ]
    converter = Converter(tokenizer, LABELS, length, context)
    found = features(converter, *sentences)
    labels = found["label_ids"]
    wanted = [LABELS.index(tag) for s in sentences for tag in s.tags]
    assert labels[labels >= 0].tolist() == wanted
    firsts = [
        (tokenizer.text_to_ids(word) or [VOCAB.index("[UNK]")])[0]
        for s in sentences
        for word in s.words
    ]
    assert found["input_ids"][labels >= 0].tolist() == firsts
    assert (found["input_mask"] == (found["input_ids"] != 0)).all()
    if not context:
        assert len(labels) >= len(sentences)
