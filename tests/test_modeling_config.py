"""BertConfig: files, errors, and the parameter counts of published sizes."""

import json

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from marks import nightly

from modeling import BertConfig, BertModel

# Parameters of embeddings, encoder and pooler by (layers, hidden size,
# vocabulary); a layer more adds the same number.
PUBLISHED = {
    (2, 128, 30522): 4_385_920,
    (12, 768, 30522): 109_482_240,
    (24, 1024, 30522): 335_141_888,
    (24, 1024, 28996): 333_579_264,  # cased
    (12, 768, 119547): 177_853_440,  # multilingual cased
    (12, 768, 21128): 102_267_648,  # Chinese
}


def test_unknown_keys_are_kept_and_written_back(tmp_path):
    text = (
        '{"vocab_size": 50, "pooler_type": "first_token_transform", '
        '"hidden_size": 24}'
    )
    path = tmp_path / "bert_config.json"
    path.write_text(text)
    config = BertConfig.from_json_file(str(path))
    assert config.pooler_type == "first_token_transform"
    assert config.hidden_size == 24
    assert config.type_vocab_size == 16
    written = config.to_json_string()
    assert json.loads(written)["pooler_type"] == "first_token_transform"
    assert written.endswith("}\n") and written.startswith('{\n  "attention_')
    again = BertConfig.from_dict(json.loads(written))
    assert again.to_json_string() == written


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", ["column 2", "not JSON"]),
        ("[1]", ["list"]),
        ('{"hidden_size": 12}', ["vocab_size is missing"]),
        (
            '{"vocab_size": 9, "hidden_size": 10, "num_attention_heads": 4}',
            ["hidden_size 10", "num_attention_heads 4"],
        ),
        (
            '{"vocab_size": 9, "hidden_act": "swish"}',
            ["'swish'", "gelu, gelu_erf, relu, tanh, linear"],
        ),
        ('{"vocab_size": "9"}', ["vocab_size", "'9'"]),
        ('{"vocab_size": 9, "hidden_dropout_prob": 1}', ["[0, 1)", "1"]),
    ],
)
def test_errors_are_one_line_and_name_the_file(tmp_path, text, words):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        BertConfig.from_json_file(str(path))
    message = str(error.value)
    assert "\n" not in message
    for word in [str(path), *words]:
        assert word in message


def test_missing_config_file_is_named(tmp_path):
    with pytest.raises(UserError, match="nothing.json"):
        BertConfig.from_json_file(str(tmp_path / "nothing.json"))


@pytest.mark.parametrize(
    "layers, hidden, vocab_size",
    [size if size[0] == 2 else nightly(*size) for size in PUBLISHED],
)
def test_parameters_of_published_models(layers, hidden, vocab_size):
    config = BertConfig(
        vocab_size, hidden, layers, hidden // 64, 4 * hidden, type_vocab_size=2
    )
    with tf.Graph().as_default():  # allocates nothing
        count = sum(np.prod(v.shape) for v in BertModel(config).variables)
    assert count == PUBLISHED[layers, hidden, vocab_size]


def test_a_named_size_has_heads_of_64_numbers():
    found = BertConfig.from_size("large", 28996)
    wanted = BertConfig(28996, 1024, 24, 16, 4096, type_vocab_size=2)
    assert found.to_dict() == wanted.to_dict()
