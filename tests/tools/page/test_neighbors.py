"""Nearest sentences by cosine of vectors, and files with mistakes."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from tools.page import models, neighbors

TEXTS = ["good film", "a bad book", "the the the", "very good film"] * 3


@pytest.fixture(scope="module")
def model(model_of):
    return model_of("encoder")


def vector_of(model, text: str) -> np.ndarray:
    """Compute a vector with the encoder itself."""
    row = model.row(text)
    features = models.features_of(row)
    features = {name: tf.constant(v) for name, v in features.items()}
    output = model.model.bert(**model.model.encoder_inputs(features))
    vector = output.sequence_output[0].numpy().mean(0)
    return vector / np.linalg.norm(vector)


def test_cosines_are_those_of_the_vectors(model):
    sentences = neighbors.sentences_of("\n\n".join(TEXTS))
    collection = neighbors.Collection(model, sentences)
    query = vector_of(model, "good book")
    cosines = [query @ vector_of(model, text) for text in TEXTS]
    (found,) = collection.search(query[None], 5)
    best = sorted(cosines, reverse=True)[:5]
    np.testing.assert_allclose([n["score"] for n in found], best, atol=1e-5)
    for near in found:
        place = (near["id"] - 1) // 2  # blank lines are counted
        assert TEXTS[place] == near["text"]
        np.testing.assert_allclose(near["score"], cosines[place], atol=1e-5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no text|0 sentences"),
        (b" \n\n", "0 sentences"),
        (b"caf\xe9", "not UTF-8"),
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
