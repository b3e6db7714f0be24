"""The layers of an encoder that --layers names."""

from base.errors import UserError

import pytest

from tasks.encoder.layers import parse_layers


def test_layers_are_a_comma_list():
    assert parse_layers("-1,-2, 0", 2) == [-1, -2, 0]


@pytest.mark.parametrize("text", ["-3", "2", "", "-1,", "1.0", "embeddings"])
def test_texts_that_name_no_layer_of_the_model(text):
    with pytest.raises(UserError, match=f"--layers={text}"):
        parse_layers(text, 2)
