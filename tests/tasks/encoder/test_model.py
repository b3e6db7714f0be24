"""The layers of an encoder that --layers names, and the mean of tokens."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
import tiny

from tasks.encoder import model as encoder_model
from tasks.encoder.layers import parse_layers


def test_layers_are_a_comma_list():
    assert parse_layers("-1,-2, 0", 2) == [-1, -2, 0]


@pytest.mark.parametrize("text", ["-3", "2", "", "-1,", "1.0", "embeddings"])
def test_texts_that_name_no_layer_of_the_model(text):
    with pytest.raises(UserError, match=f"--layers={text}"):
        parse_layers(text, 2)


def test_a_row_of_padding_has_a_mean_of_zeros():
    """As in an ONNX file; it was NaN."""
    model = encoder_model.TextEncoder(tiny.config_of(range(9)), "float32")
    mask = tf.constant([[1, 1, 0, 0], [0, 0, 0, 0]])
    features = {
        "input_ids": tf.ones_like(mask),
        "input_mask": mask,
        "segment_ids": tf.zeros_like(mask),
    }
    found = model.outputs(features)["mean_output"].numpy()
    assert found[0].any() and not found[1].any()
    layers = encoder_model.encode_layers(model, features, [-1], "mean")
    np.testing.assert_allclose(layers[:, 0], found, atol=1e-6)
