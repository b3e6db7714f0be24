"""Nearest sentences by cosine of vectors, and texts without sentences."""

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
    pasted = neighbors.Pasted(model, "\n\n".join(TEXTS))
    query = vector_of(model, "good book")
    cosines = [query @ vector_of(model, text) for text in TEXTS]
    (found,) = pasted.search(query[None], 5)
    best = sorted(cosines, reverse=True)[:5]
    np.testing.assert_allclose([n["score"] for n in found], best, atol=1e-5)
    for near in found:
        place = (near["id"] - 1) // 2  # blank lines are counted
        assert TEXTS[place] == near["text"]
        np.testing.assert_allclose(near["score"], cosines[place], atol=1e-5)


@pytest.mark.parametrize("text", ["", " \n\n", "a\n" * 201])
def test_none_or_too_many_sentences(text, model):
    count = text.count("a")
    with pytest.raises(UserError, match=f"^{count} sentences, wanted 1 to 200"):
        neighbors.Pasted(model, text)
