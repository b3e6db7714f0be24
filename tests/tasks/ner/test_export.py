"""ner/export.py: windows in the graph are those of the records."""

import ner_pieces
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from ner_pieces import LABELS, WORDS, features

import tokenization
from tasks import graph_tokenizer
from tasks.ner import export as ner_export
from tasks.ner.data import Sentence
from tasks.ner.windows import Converter


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> tokenization.FullTokenizer:
    return ner_pieces.tokenizer_in(tmp_path_factory.mktemp("vocab"))


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


@pytest.mark.slow
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


@pytest.mark.slow
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
