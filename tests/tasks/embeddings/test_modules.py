"""Vectors of models with more modules than a pooling: dense layers, norms."""

import json
import re
import shutil
from pathlib import Path

from base.errors import UserError

import exports
import hub_models
import hub_server
import litert_files
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from marks import nightly

from checkpoints import checkpoint, hub
from checkpoints.trained_for import Module, TrainedFor
from modeling import BIDIRECTIONAL
from serving import onnx_file
from tasks import loading, predict, registry
from tasks.embeddings import model as embeddings_model
from tasks.rows import INPUT_NAMES
from tasks.task import Input, Place

GOLDEN = Path(__file__).parents[2] / "golden" / "sentence_modules"
FOUND = json.loads((GOLDEN / "vectors.json").read_text())
TEXTS, VECTORS = FOUND["texts"], FOUND["vectors"]

convert_checkpoint = scripts.load("convert_checkpoint")


def write_model(name: str, folder: Path) -> Path:
    """Write the golden model of a name."""
    shutil.copytree(GOLDEN / "encoder", folder)
    shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
    return folder


def change(path: Path, **keys) -> None:
    """Set keys of a JSON file; None removes one."""
    found = json.loads(path.read_text()) | keys
    kept = {key: value for key, value in found.items() if value is not None}
    path.write_text(json.dumps(kept))


def vectors_of(folder: Path) -> np.ndarray:
    """Return the vectors of TEXTS by a model in a folder, or a SavedModel."""
    settings = loading.find(str(folder))
    inputs = [
        Input(n, Place("", n), {"text": text}) for n, text in enumerate(TEXTS)
    ]
    run, task = loading.load(settings), registry.create_task(settings)
    found = predict.predict(task, run, inputs, 2)
    return np.array([one["embedding"] for one in found])


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VECTORS])
def test_vectors_are_those_of_sentence_transformers(name, tmp_path, caplog):
    """Also of both formats that convert_checkpoint.py writes."""
    folders = [write_model(name, tmp_path / "theirs")]
    assert checkpoint.open_checkpoint(str(folders[0])).trained_for.modules
    for format_ in ("original", "huggingface"):
        folders.append(tmp_path / format_)
        flags = {"input": folders[-2], "output": folders[-1]}
        scripts.run(convert_checkpoint, output_format=format_, **flags)
    found = [checkpoint.open_checkpoint(str(x)).trained_for for x in folders]
    assert found[1:] == found[:1] * 2
    assert "lacks" not in caplog.text and "unknown" not in caplog.text
    for folder in folders:
        np.testing.assert_allclose(
            vectors_of(folder), VECTORS[name], atol=1e-5, err_msg=str(folder)
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["joined", *map(nightly, ("norm", "all", "two"))]
)
def test_exports_compute_the_modules(name, tmp_path):
    """A SavedModel of texts and of ids, a LiteRT and an ONNX file."""
    source = write_model(name, tmp_path / "model")
    saved = exports.export(source, tmp_path / "saved")
    served = tf.saved_model.load(str(saved)).signatures["serving_default"]
    file = litert_files.export(source, tmp_path / "m.tflite")
    runtime = litert_files.litert_model.LiteRtModel(str(file))
    texts = [{"text": text} for text in TEXTS]
    vectors = {
        "texts": served(text=tf.constant(TEXTS))["embedding"],
        "ids": vectors_of(saved),
        "LiteRT": [one["embedding"] for one in runtime.predict(texts)],
    }
    for way, found in vectors.items():
        np.testing.assert_allclose(found, VECTORS[name], atol=1e-5, err_msg=way)
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    path = tmp_path / "m.onnx"
    exports.export(source, path, format="onnx")
    graph = loading.load_graph(loading.find(str(source)))
    features = graph.features(tf.constant(TEXTS))
    names = dict(zip(INPUT_NAMES, onnx_file.INPUTS, strict=True))
    rows = {names[n]: x.numpy().astype(np.int64) for n, x in features.items()}
    (found,) = onnxruntime.InferenceSession(path).run(["embedding"], rows)
    np.testing.assert_allclose(found, VECTORS[name], atol=1e-5)


@pytest.mark.slow
def test_modules_are_trained_further(tmp_path):
    """Flags change the first and the last of them, the others stay."""
    source = write_model("norm", tmp_path / "model")
    pairs = tmp_path / "pairs.jsonl"
    pair = {"sentence1": TEXTS[0], "sentence2": TEXTS[1], "score": 0}
    pairs.write_text(
        json.dumps(pair) + "\n" + json.dumps(pair | {"score": 0.5})
    )
    texts = tmp_path / "texts.txt"
    texts.write_text("\n".join(TEXTS))
    flags = tiny.TRAINING | {
        "init_checkpoint": source,
        "output_dir": tmp_path / "out",
        "train_file": pairs,
        "test_file": texts,
        "do_eval": False,
        "do_predict": True,
        "train_batch_size": 2,
        "num_train_epochs": 4,
        "learning_rate": 1e-2,
        "pooling": "lasttoken",
        "normalize": True,
    }
    assert scripts.run(scripts.load("run_embeddings"), **flags) == 0
    found = checkpoint.open_checkpoint(str(tmp_path / "out"))
    kinds = [one.kind for one in found.trained_for.modules]
    assert kinds == ["Pooling", "LayerNorm", "Dense", "Normalize"]
    assert found.trained_for.modules[0].poolings == ("lasttoken",)
    weights = checkpoint.read_weights(found)
    began = checkpoint.read_weights(checkpoint.open_checkpoint(str(source)))
    for path in ("2_LayerNorm/gamma", "3_Dense/kernel", "3_Dense/bias"):
        moved = weights[path] - began[path]
        assert np.all(moved) and np.all(np.abs(moved) < 0.2), (path, moved)
    lines = (tmp_path / "out/embeddings.jsonl").read_text().splitlines()
    wanted = [json.loads(line)["embedding"] for line in lines]
    np.testing.assert_allclose(vectors_of(tmp_path / "out"), wanted, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(wanted, axis=1), 1, atol=1e-6)


def test_modules_in_a_configuration():
    """There and back, without what is usual."""
    modules = (
        Module("Pooling", ("max",)),
        Module("Dense", (), 3, 2, False, "relu"),
        Module("Normalize"),
    )
    keys = json.loads(json.dumps(TrainedFor(modules=modules).to_dict()))
    pooling, _, normalize = keys["modules"]
    assert pooling == {"kind": "Pooling", "poolings": ["max"]}
    assert normalize == {"kind": "Normalize"}
    assert TrainedFor.from_dict(keys).modules == modules


@pytest.mark.parametrize(
    "keys, words",
    [
        ({"modules": [{"kind": "Pooling", "poolings": ["x"]}]}, "a module is"),
        ({"modules": {"kind": "Pooling"}}, "modules must be a list of modules"),
        ({"modules": []}, "modules are , wanted one Pooling"),
        ({"modules": [{"kind": "Normalize"}]}, "modules are Normalize, wanted"),
        ({"modules": ["Pooling"]}, "a module is Pooling, wanted"),
        ({"modules": [{"kind": []}]}, "a module is"),
        ({"modules": [{"kind": "Dense", "in_features": 3}]}, "a module is"),
        ({"modules": [{"kind": "LayerNorm"}]}, "a module is"),
        ({"modules": [{"kind": "Normalize", "activation": "x"}]}, "a module"),
        ({"modules": [{"kind": "Pooling", "poolings": [[]]}]}, "a module"),
        ({"modules": [{"kind": "Normalize", "of": 1}]}, "a module is"),
    ],
)
def test_keys_that_describe_no_modules(keys, words):
    with pytest.raises(UserError, match=words):
        TrainedFor.from_dict(keys, "bert_config.json")


def _no_file(folder: Path) -> None:
    (folder / "2_Dense/model.safetensors").unlink()


def _no_bias(folder: Path) -> None:
    change(folder / "2_Dense/config.json", bias=True)


def _damaged(folder: Path) -> None:
    (folder / "2_Dense/model.safetensors").write_bytes(b"PK")


def _of_dense(**keys):
    return lambda folder: change(folder / "2_Dense/config.json", **keys)


@pytest.mark.parametrize(
    "damage, words",
    [
        (_of_dense(in_features=9), "2_Dense reads vectors of 9 numbers, and"),
        (_of_dense(out_features=4), r"kernel is \[16, 5\], wanted \[16, 4\]"),
        (_of_dense(in_features="a"), "2_Dense/config.json: a module is"),
        (_of_dense(bias="no"), "2_Dense/config.json: a module is"),
        (_of_dense(use_residual=True), "use_residual is True"),
        (_of_dense(module_input_name="token_embeddings"), "module_input_name"),
        (_of_dense(activation_function="torch.nn.Mish"), "'torch.nn.Mish', wh"),
        (_of_dense(activation_function="my.Tanh"), "function is 'my.Tanh', wh"),
        (_of_dense(activation_function="Tanh"), "function is 'Tanh', wh"),
        (_no_file, "2_Dense/kernel is None, wanted .* as model.safetensors"),
        (_no_bias, r"2_Dense/bias is None, wanted \[5\]"),
        (_damaged, "2_Dense/model.safetensors cannot be read"),
        (
            lambda x: (x / "2_Dense/config.json").unlink(),
            "no 2_Dense/config.js",
        ),
    ],
)
def test_modules_that_do_not_fit_are_one_line(tmp_path, damage, words):
    source = write_model("joined", tmp_path / "model")
    damage(source)
    with pytest.raises(UserError) as caught:
        loading.find(str(source))
    assert re.search(words, str(caught.value)) and str(source) in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


def test_modules_that_are_lacking_are_not_converted(tmp_path):
    """The encoder is, without their weights and files."""
    source = write_model("joined", tmp_path / "model")
    _of_dense(activation_function="torch.nn.Mish")(source)
    out = tmp_path / "out"
    flags = {"input": source, "output": out, "output_format": "huggingface"}
    assert scripts.run(convert_checkpoint, **flags) == 0
    assert not [path for path in out.iterdir() if path.is_dir()]
    found = checkpoint.open_checkpoint(str(out))
    assert all(name.startswith("bert/") for name in found.shapes)


def test_older_files_and_other_activations(tmp_path):
    """The order of poolings is theirs, whatever that of the keys."""
    source = write_model("joined", tmp_path / "model")
    keys = {
        "word_embedding_dimension": 8,
        "pooling_mode_mean_tokens": True,
        "pooling_mode_lasttoken": False,
        "pooling_mode_max_tokens": True,
    }
    (source / "1_Pooling/config.json").write_text(json.dumps(keys))
    change(source / "2_Dense/config.json", activation_function=None)
    first, second, _ = checkpoint.open_checkpoint(
        str(source)
    ).trained_for.modules
    assert first.poolings == ("max", "mean")
    assert second == Module("Dense", (), 16, 5, False, "tanh")


def test_the_hub_gives_the_modules(tmp_path):
    source = write_model("norm", tmp_path / "model")
    server = hub_server.HubServer()
    files = [path for path in source.rglob("*") if path.is_file()]
    files = {str(x.relative_to(source)): x.read_bytes() for x in files}
    server.add("a/dense", main=files)
    with hub_models.client_of(server, tmp_path / "home"):
        folder = hub.fetch("hf://a/dense")
    server.close()
    found = checkpoint.open_checkpoint(folder)
    assert found.shapes["3_Dense/kernel"] == [8, 6]
    assert [*weight_files_of(found)] == ["model.safetensors"] * 3


def weight_files_of(found) -> list[str]:
    """Return the names of the files by which a model is told from others."""
    names = [name for name, _ in loading.fingerprint(loading.describe(found))]
    return [name for name in names if name.endswith(".safetensors")]


@pytest.mark.parametrize("is_left", [False, True])
def test_poolings_by_hand(is_left):
    """With padding behind the tokens, and before them."""
    x = np.random.default_rng(0).normal(size=[2, 5, 3]).astype(np.float32)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    x[1, 3:] = 1e3  # what stands there is not read
    if is_left:
        x, mask = x[:, ::-1], mask[:, ::-1]
    names = ["mean", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    found = embeddings_model.pool(
        tf.constant(x), tf.constant(mask), names, BIDIRECTIONAL
    ).numpy()
    for row, real in zip(found.reshape(2, 5, 3), mask == 1, strict=True):
        tokens = x[0][real] if real.all() else x[1][real]
        places = np.arange(1, len(tokens) + 1)[:, None]
        wanted = [
            tokens.mean(0),
            tokens.max(0),
            tokens.sum(0) / np.sqrt(len(tokens)),
            (tokens * places).sum(0) / places.sum(),
            tokens[-1],
        ]
        np.testing.assert_allclose(row, wanted, rtol=1e-5, atol=1e-6)
