"""ner_windows.py: every word once, where it has most context; and in graph."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import tokenization
from ner import export as ner_export
from ner import windows as ner_windows
from ner.data import Sentence
from ner.windows import Converter, Window, split_into_windows, widened
from serving import graph_tokenizer

LABELS = ("O", "B-x", "I-x")
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "##a", "."]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> tokenization.FullTokenizer:
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(VOCAB) + "\n")
    return tokenization.FullTokenizer(str(path), do_lower_case=True)


def test_by_hand():
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


def features(converter, *sentences: Sentence) -> dict[str, np.ndarray]:
    parts = list(converter(sentences, size=2))
    return {k: np.concatenate([part[k] for part in parts]) for k in parts[0]}


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


WORDS = st.text(st.sampled_from("abA.\u200b "), min_size=1, max_size=12).map(
    lambda text: "a" * (9 * len(text)) if text.startswith("aA") else text
)


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


# --- In the graph -----------------------------------------------------------


@pytest.fixture(scope="module")
def in_graph(tokenizer):
    """The function of ragged words, compiled once."""
    pytest.importorskip("tensorflow_text")
    made = graph_tokenizer.Tokenizer(tokenizer.vocab_file, do_lower_case=True)
    return tf.function(
        lambda words: ner_export.make_word_features(made, words, 8),
        input_signature=[
            tf.RaggedTensorSpec([None, None], tf.string, ragged_rank=1)
        ],
        autograph=False,
    )


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(WORDS, min_size=1, max_size=9), min_size=1, max_size=4)
)
def test_graph_and_records_agree(tokenizer, in_graph, texts):
    """The same windows, and each word at the same place in them."""
    sentences = [Sentence(words, None, [], 0) for words in texts]
    converter = Converter(tokenizer, LABELS, 8, document_context=False)
    wanted = features(converter, *sentences)
    found = in_graph(tf.ragged.constant(texts))
    ids = found.features["input_ids"].numpy()
    places = zip(found.windows.numpy(), found.positions.numpy(), strict=True)
    rows = [ids[row] for row in dict.fromkeys(w for w, _ in places)]
    width = ids.shape[1]
    # Windows without the beginning of a word are no records.
    np.testing.assert_array_equal(rows, wanted["input_ids"][:, :width])
    assert not wanted["input_ids"][:, width:].any()
    at = np.argwhere(wanted["label_ids"] >= 0)
    assert found.positions.numpy().tolist() == at[:, 1].tolist()


def test_words_of_a_text(tokenizer):
    pytest.importorskip("tensorflow_text")
    made = graph_tokenizer.Tokenizer(tokenizer.vocab_file, do_lower_case=True)
    texts = [
        "B\u00e9b\u00e9's  \u4e2d\u6587\u200b!",
        "",
        "\u03a3\u039f\u03a3 x",
    ]
    basic = tokenization.BasicTokenizer(do_lower_case=False)
    found = made.cased_words(tf.constant(texts)).to_list()
    words = [[word.decode() for word in row] for row in found]
    assert words == [basic.tokenize(text) for text in texts]
    assert words[0] == ["B\u00e9b\u00e9", "'", "s", "\u4e2d", "\u6587", "!"]


def test_schema_is_what_is_written(tokenizer):
    converter = Converter(tokenizer, LABELS, 6, document_context=False)
    found = features(converter, sentence("a b"))
    assert set(found) == set(ner_windows.schema(6))
