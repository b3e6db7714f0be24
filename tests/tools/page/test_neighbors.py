"""Nearest sentences by cosine of vectors, and files with mistakes."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from tools.page import neighbors, rows

TEXTS = ["good film", "a bad book", "the the the", "very good film"] * 3


@pytest.fixture(scope="module")
def model(model_of):
    return model_of("encoder")


@pytest.fixture(scope="module")
def index(model):
    text = "\n\n".join(TEXTS)
    return neighbors.Index(model, neighbors.sentences_of(text, "x"))


def vector_of(model, text: str, pooling: str) -> np.ndarray:
    """Compute a vector with the encoder itself."""
    features = rows.features_of(rows.row_of(rows.pieces_of(model, text)))
    features = {name: tf.constant(v) for name, v in features.items()}
    output = model.model.encode(features).sequence_output[0].numpy()
    return output.mean(0) if pooling == "mean" else output[0]


@pytest.mark.parametrize("pooling", neighbors.POOLINGS)
def test_cosines_are_those_of_the_vectors(model, index, pooling):
    found = index.nearest("good book", pooling, 5)
    query = vector_of(model, "good book", pooling)
    cosines = []
    for text in TEXTS:
        other = vector_of(model, text, pooling)
        norms = np.linalg.norm(query) * np.linalg.norm(other)
        cosines.append(query @ other / norms)
    best = sorted(cosines, reverse=True)[:5]
    np.testing.assert_allclose([n.similarity for n in found], best, atol=1e-5)
    for near in found:
        place = (near.line - 1) // 2  # blank lines are counted
        assert TEXTS[place] == near.text
        np.testing.assert_allclose(near.similarity, cosines[place], atol=1e-5)


def test_a_sentence_is_nearest_to_itself(index):
    near = index.nearest("a bad book", "mean", 1)[0]
    assert near.text == "a bad book" and near.similarity > 0.99999


def test_long_sentences_are_counted(model):
    sentences = neighbors.Sentences("x", [1, 2], ["good " * 99, "bad"])
    assert neighbors.Index(model, sentences).num_cut == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no text"),
        (b" \n\n", "has no text"),
        (b"caf\xe9", "not UTF-8"),
        (b"\x7fELF\0\0", "zero bytes"),
        (b"a\n" * 100_001, "100,001 sentences"),
        (None, "No such file|cannot be read"),
    ],
)
def test_a_file_with_mistakes(content, message, tmp_path):
    path = tmp_path / "lines.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        neighbors.read_sentences(str(path))


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        neighbors.read_sentences(str(tmp_path))
