"""ONNX files: the numbers of the checkpoint by ONNX Runtime, and errors."""

import collections
import json
import os
import sys

from base.errors import UserError

import litert_files
import numpy as np
import pytest
import scripts
import tiny
from classifier_runs import VOCAB
from exports import export_saved_model
from fine_tuned_models import changed
from marks import nightly

from checkpoints import checkpoint, weight_files
from ops.choices import LEFT_TO_RIGHT, RIGHT_TO_LEFT
from serving import onnx_file
from serving.onnx_file import INPUTS
from tasks import loading, registry
from tasks.graph import INPUT_NAMES, TaskGraph
from tokenization import Vocabulary

convert_checkpoint = scripts.load("convert_checkpoint")

# Kinds of models, and what differs in their configuration.
OTHERS = {
    "gelu_erf": {"hidden_act": "gelu_erf"},
    "no function": {"hidden_act": "linear"},
}
VECTORS = {
    "embeddings": {},
    "maximum": {
        "modules": [
            {"kind": "Pooling", "poolings": ["max"]},
            {"kind": "Normalize"},
        ]
    },
    "first numbers": {
        "modules": [{"kind": "Pooling", "poolings": ["cls"]}],
        "truncate_dim": 8,
    },
}
KINDS = [*litert_files.TEXTS, *OTHERS, *VECTORS]
KINDS.remove("sentence_score")
KINDS.remove("classifier with a BiLSTM")
FAST = ("gelu_erf", "question_answering", "maximum")


def write_model(folder, kind):
    """Write a checkpoint; return the flags that name it and its task."""
    options = litert_files.options_for(kind)
    if kind in OTHERS:
        config = tiny.config_of(VOCAB, **OTHERS[kind])
        tiny.write_model(folder, config, VOCAB)
    elif kind in VECTORS:
        source = folder.with_suffix(".source")
        litert_files.write_model(source, "embeddings")
        changed(source, folder, **VECTORS[kind])
    else:
        litert_files.write_model(folder, kind)
    if kind in OTHERS or kind == "encoder":
        options["task"] = "encoder"
    return options


def wanted_of(graph: TaskGraph, rows: dict) -> dict[str, np.ndarray]:
    """Return what the checkpoint gives, by the names of an ONNX file."""
    if graph.task.name == "masked_lm":
        shape = rows["input_ids"].shape
        places = np.resize(np.arange(shape[1]), shape)
        output = graph.model(rows | {"masked_lm_positions": places})
        return {"logits": output.masked_lm_logits}
    found = graph.model.outputs(rows)
    for name in ("probabilities", "value"):
        found.pop(name, None)
    if graph.task.name == "multiple_choice":
        return {"logits": found["logits"][:, None]}
    if graph.task.name == "embeddings":
        output = graph.model.bert(**graph.model.encoder_inputs(rows))
        found["sequence_output"] = output.sequence_output
    if "sequence_output" in found:
        found["last_hidden_state"] = found.pop("sequence_output")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [kind if kind in FAST else nightly(kind) for kind in KINDS]
)
def test_same_numbers_as_the_checkpoint(tmp_path, kind):
    """Of rows of any number and length, with padding."""
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    path, source = tmp_path / "m.onnx", tmp_path / "model"
    options = write_model(source, kind)
    flags = {"init_checkpoint": source, "export_dir": path, "format": "onnx"}
    assert scripts.run(export_saved_model, **flags | options) == 0
    file = runtime.InferenceSession(path)
    properties = file.get_modelmeta().custom_metadata_map
    described = json.loads(properties["export.json"])
    vocabulary = Vocabulary("vocab.txt", properties["vocab.txt"].encode())
    settings = registry.described(described, "m.onnx", str(path), vocabulary)
    assert vocabulary.tokens == Vocabulary(source / "vocab.txt").tokens

    graph = loading.load_graph(loading.find(str(source), **options))
    assert settings.task == graph.task.name
    for one, name in zip(file.get_inputs(), INPUTS, strict=True):
        assert (one.name, one.type) == (name, "tensor(int64)")
        assert one.shape == ["batch_size", "sequence_length"]
    for one in file.get_outputs():
        sizes = [size for size in one.shape if isinstance(size, str)]
        assert sizes == ["batch_size", "sequence_length"][: len(sizes)]
        assert sizes
    rng = np.random.default_rng(0)
    for shape in ((1, 5), (4, 12)):
        ids = rng.integers(4, len(vocabulary.tokens), shape)
        segments = np.arange(shape[1]) > 3 + 0 * ids
        mask = np.arange(shape[1]) < rng.integers(4, shape[1], [shape[0], 1])
        values = [x.astype(np.int64) for x in (ids, mask, segments)]
        named = zip(INPUT_NAMES, values, strict=True)
        rows = {name: value.astype(np.int32) for name, value in named}
        wanted = wanted_of(graph, rows)
        names = [one.name for one in file.get_outputs()]
        if "last_hidden_state" in wanted:
            assert names[0] == "last_hidden_state"
        assert {*names} == wanted.keys()
        found = file.run(names, dict(zip(INPUTS, values, strict=True)))
        for name, value in zip(names, found, strict=True):
            is_token = 1
            if name == "last_hidden_state":  # padding has no meaning
                is_token = mask[..., None]
            np.testing.assert_allclose(
                value * is_token,
                wanted[name] * is_token,
                rtol=1e-5,
                atol=1e-5,
                err_msg=name,
            )
    # What programs that optimize a file look for.
    layers = graph.model.config.num_hidden_layers
    nodes = onnx.load(path).graph.node
    kinds = collections.Counter(node.op_type for node in nodes)
    assert kinds["Softmax"] == layers
    assert kinds["LayerNormalization"] >= 1 + 2 * layers
    assert kinds["Gelu"] == (layers if kind == "gelu_erf" else 0)


@pytest.mark.slow
def test_files_beside_a_converted_model(tmp_path):
    """--onnx, and --quantize=int8, in the places where programs look."""
    runtime = pytest.importorskip("onnxruntime")
    source = litert_files.write_model(tmp_path / "model", "classifier")
    out = tmp_path / "out"
    flags = {"input": source, "output_format": "huggingface", "onnx": True}
    assert (
        scripts.run(convert_checkpoint, output=out, quantize="int8", **flags)
        == 0
    )
    names = ["model.onnx", "model_quantized.onnx"]
    assert sorted(os.listdir(out / "onnx")) == names
    rows = np.array([[2, 6, 7, 8, 3]])
    inputs = dict(zip(INPUTS, (rows, rows * 0 + 1, rows * 0), strict=True))
    files = [runtime.InferenceSession(out / "onnx" / name) for name in names]
    exact, rounded = (file.run(["logits"], inputs)[0] for file in files)
    properties = [file.get_modelmeta().custom_metadata_map for file in files]
    for name in ("export.json", "vocab.txt"):
        assert properties[0][name] == properties[1][name]
    graph = loading.load_graph(loading.find(str(out)))
    features = dict(zip(INPUT_NAMES, inputs.values(), strict=True))
    np.testing.assert_allclose(exact, graph.model(features), atol=2e-6)
    np.testing.assert_allclose(rounded, exact, atol=0.1)
    assert not np.array_equal(rounded, exact)

    # What is there is not replaced.
    written = (out / "onnx" / "model.onnx").read_bytes()
    (out / "model.safetensors").unlink()
    line = scripts.error_of(convert_checkpoint, output=out, **flags)
    names = "(config.json, onnx/model.onnx, onnx/model_quantized.onnx, "
    assert names in line
    assert (out / "onnx" / "model.onnx").read_bytes() == written


@pytest.mark.parametrize(
    ("kind", "more", "word"),
    [
        ("multiple_choice", {}, "no layout"),
        ("classifier", {"task": "multi_label_classification"}, "no layout"),
        ("classifier with a BiLSTM", {}, "BiLSTM"),
    ],
)
def test_models_that_programs_cannot_call(tmp_path, kind, more, word):
    """They are refused before anything is written."""
    litert_files.write_model(tmp_path / "source", kind)
    source = changed(tmp_path / "source", tmp_path / "model", **more)
    line = scripts.error_of(
        convert_checkpoint,
        input=source,
        output=tmp_path / "out",
        output_format="huggingface",
        onnx=True,
    )
    assert "--onnx" in line
    assert word in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"task": "sentence_score"}, "scores of sentences"),
        ({"task": "encoder", "long_texts": "windows"}, "windows"),
    ],
)
def test_what_a_file_lacks(tmp_path, options, word):
    source = litert_files.write_model(tmp_path / "model", "masked_lm")
    flags = {"init_checkpoint": source, "export_dir": tmp_path / "m.onnx"}
    line = scripts.error_of(
        export_saved_model, format="onnx", **flags | options
    )
    assert "--format=onnx" in line
    assert word in line
    assert not (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize("direction", [LEFT_TO_RIGHT, RIGHT_TO_LEFT])
def test_attention_to_one_side_is_refused(tmp_path, direction):
    config = tiny.config_of(VOCAB, attention_direction=direction)
    tiny.write_model(tmp_path / "model", config, VOCAB)
    flags = {"init_checkpoint": tmp_path / "model", "format": "onnx"}
    line = scripts.error_of(
        export_saved_model, export_dir=tmp_path / "m.onnx", **flags
    )
    assert f"lacks attention that is {direction}" in line


def test_size_is_the_weights_alone(tmp_path, monkeypatch):
    """What an optimizer keeps for them is not written."""
    litert_files.write_model(tmp_path / "model", "classifier")
    found = checkpoint.open_checkpoint(str(tmp_path / "model"))
    weights = weight_files.read_weights(found.prefix)
    size = 4 * sum(value.size for value in weights.values())
    slots = {f"{name}/adam_m": value for name, value in weights.items()}
    weight_files.write(found.prefix, weights | slots)
    settings = loading.find(str(tmp_path / "model"))
    monkeypatch.setattr(onnx_file, "_MOST_BYTES", size)
    onnx_file.check(settings, "--onnx")
    monkeypatch.setattr(onnx_file, "_MOST_BYTES", size - 1)
    with pytest.raises(UserError, match="an ONNX file holds"):
        onnx_file.check(settings, "--onnx")


@pytest.mark.parametrize(
    ("file_format", "name"), [("onnx", "m"), ("litert", "m.onnx")]
)
def test_readers_know_a_file_by_its_name(tmp_path, file_format, name):
    """It is refused before the model is read."""
    line = scripts.error_of(
        export_saved_model,
        format=file_format,
        init_checkpoint=tmp_path / "nothing",
        export_dir=tmp_path / name,
    )
    assert f"/{name} with --format={file_format}: the name of an ONNX" in line
    assert not list(tmp_path.iterdir())


def test_without_onnxruntime(tmp_path, encoder_dir, monkeypatch):
    """--quantize needs it, which is said before anything is written."""
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    line = scripts.error_of(
        convert_checkpoint,
        input=encoder_dir,
        output=tmp_path / "out",
        output_format="huggingface",
        onnx=True,
        quantize="int8",
    )
    assert "pip install -r requirements-onnx.txt" in line
    assert not list(tmp_path.iterdir())


def test_without_the_package(tmp_path, encoder_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    flags = {"init_checkpoint": encoder_dir, "export_dir": tmp_path / "m.onnx"}
    line = scripts.error_of(export_saved_model, format="onnx", **flags)
    assert "pip install -r requirements-onnx.txt" in line
    line = scripts.error_of(
        export_saved_model, format="onnx", dtype="bfloat16", **flags
    )
    assert "give --dtype or --format=onnx, not both" in line
    assert not list(tmp_path.iterdir())
