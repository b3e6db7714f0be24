"""ner/model.py: windows in the graph are those of the records."""

import ner_pieces
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from ner_pieces import LABELS, WORDS, features

import tokenization
from tasks import graph_tokenizer
from tasks.ner import model as ner_model
from tasks.ner.data import Sentence
from tasks.ner.windows import Converter

pytest.importorskip("tensorflow_text")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> tokenization.FullTokenizer:
    return ner_pieces.tokenizer_in(tmp_path_factory.mktemp("vocab"))


@pytest.fixture(scope="module")
def graphed(tokenizer) -> graph_tokenizer.Tokenizer:
    return graph_tokenizer.Tokenizer(tokenizer.vocab_file, do_lower_case=True)


@pytest.fixture(scope="module")
def in_graph(graphed):
    """The function of ragged words, compiled once."""
    return tf.function(
        lambda words: ner_model.make_word_features(graphed, words, 8),
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
    found, at = in_graph(tf.ragged.constant(texts))
    ids, (windows, positions) = found["input_ids"].numpy(), at.numpy().T
    rows = [ids[row] for row in dict.fromkeys(windows)]
    width = ids.shape[1]
    # Windows without the beginning of a word are no records.
    np.testing.assert_array_equal(rows, wanted["input_ids"][:, :width])
    assert not wanted["input_ids"][:, width:].any()
    places = np.argwhere(wanted["label_ids"] >= 0)
    assert positions.tolist() == places[:, 1].tolist()


@pytest.mark.slow
def test_words_of_a_text(graphed):
    texts = ["Bébé's  中文\u200b!", "", "ΣΟΣ x"]
    basic = tokenization.BasicTokenizer(do_lower_case=False)
    found = graphed.cased_words(tf.constant(texts)).to_list()
    words = [[word.decode() for word in row] for row in found]
    assert words == [basic.tokenize(text) for text in texts]
