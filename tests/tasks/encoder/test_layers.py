"""The chosen layers of an encoder, combined in the chosen way."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from tasks.encoder.layers import EMBEDDINGS, layer_features, parse_layers

EMBEDDED, FIRST, SECOND = (
    np.random.default_rng(seed).normal(size=[2, 3, 4]).astype(np.float32)
    for seed in range(3)
)


def features(*args) -> np.ndarray:
    return layer_features(EMBEDDED, [FIRST, SECOND], *args).numpy()


def test_layers_are_a_comma_list():
    assert parse_layers("-1,-2, 0", 2) == [-1, -2, 0]


@pytest.mark.parametrize(
    "text, words",
    [
        ("-3", "has 2 layers, -3 is none of them"),
        ("2", "from the beginning 0 to 1"),
        ("", "'' is not a layer"),
        ("-1,", "'' is not a layer"),
        ("last", "'last' is not a layer"),
        ("1.0", "'1.0' is not a layer"),
        ("embeddings", "'embeddings' is not a layer"),
    ],
)
def test_texts_that_name_no_layer_of_the_model(text, words):
    with pytest.raises(UserError) as caught:
        parse_layers(text, 2)
    assert words in str(caught.value)


def test_layers_are_stacked_joined_or_summed():
    indices = [-1, 0, EMBEDDINGS]
    parts = [SECOND, FIRST, EMBEDDED]
    stacked = np.stack(parts, axis=2)
    np.testing.assert_array_equal(features(indices), stacked)
    np.testing.assert_array_equal(
        features(indices, "concat"), np.concatenate(parts, axis=-1)
    )
    np.testing.assert_allclose(features(indices, "sum"), sum(parts), rtol=1e-6)
    weights = tf.constant([0.5, -2.0, 3.0])
    np.testing.assert_allclose(
        features(indices, "sum", weights),
        0.5 * SECOND - 2 * FIRST + 3 * EMBEDDED,
        rtol=1e-5,
        atol=1e-6,
    )


def test_sixteen_bits_come_out_as_float32():
    half = tf.cast(FIRST, tf.bfloat16)
    assert layer_features(half, [half], [0]).dtype == tf.float32
