"""BertConfig: files, errors, and the parameter counts of published sizes."""

import json

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

import modeling
from modeling import BertConfig, BertModel

# Parameters of embeddings, encoder and pooler by (L, H), vocabulary 30522.
MINIATURES = {
    (2, 128): 4_385_920,
    (2, 256): 9_591_040,
    (2, 512): 22_458_880,
    (2, 768): 38_603_520,
    (4, 128): 4_782_464,
    (4, 256): 11_170_560,
    (4, 512): 28_763_648,
    (4, 768): 52_779_264,
    (6, 128): 5_179_008,
    (6, 256): 12_750_080,
    (6, 512): 35_068_416,
    (6, 768): 66_955_008,
    (8, 128): 5_575_552,
    (8, 256): 14_329_600,
    (8, 512): 41_373_184,
    (8, 768): 81_130_752,
    (10, 128): 5_972_096,
    (10, 256): 15_909_120,
    (10, 512): 47_677_952,
    (10, 768): 95_306_496,
    (12, 128): 6_368_640,
    (12, 256): 17_488_640,
    (12, 512): 53_982_720,
    (12, 768): 109_482_240,
}
# (size, vocabulary) of the other published models.
PUBLISHED = {
    ("large", 30522): 335_141_888,
    ("large", 28996): 333_579_264,  # cased
    ("base", 28996): 108_310_272,  # cased
    ("base", 119547): 177_853_440,  # multilingual cased
    ("base", 21128): 102_267_648,  # Chinese
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
        ("{", ["line 1 column 2", "not valid JSON"]),
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


# --- Sizes -------------------------------------------------------------------


def count_parameters(config: BertConfig) -> int:
    """Count without allocating: variables of a symbolic graph."""
    with tf.Graph().as_default():
        return sum(np.prod(v.shape) for v in BertModel(config).variables)


def test_table_of_miniatures_is_complete():
    sizes = {(n, h) for n in range(2, 13, 2) for h in (128, 256, 512, 768)}
    assert set(MINIATURES) == sizes
    named = set(modeling.NAMED_SIZES.values())
    assert named - sizes == {(24, 1024)}
    assert {name for name, _ in PUBLISHED} == {"base", "large"}


@pytest.mark.parametrize(
    "layers, hidden",
    [
        pytest.param(n, h, marks=[pytest.mark.slow] if n > 4 else [])
        for n, h in MINIATURES
    ],
)
def test_parameters_of_miniatures(layers, hidden):
    config = BertConfig(
        30522, hidden, layers, hidden // 64, 4 * hidden, type_vocab_size=2
    )
    assert count_parameters(config) == MINIATURES[layers, hidden]


@pytest.mark.slow
@pytest.mark.parametrize("name, vocab_size", PUBLISHED)
def test_parameters_of_published_models(name, vocab_size):
    config = BertConfig.from_size(name, vocab_size)
    assert count_parameters(config) == PUBLISHED[name, vocab_size]
