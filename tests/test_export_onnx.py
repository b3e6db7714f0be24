"""--format=onnx: the numbers of the checkpoint by ONNX Runtime, and errors."""

import json
import sys

import litert_files
import numpy as np
import pytest
import scripts
import tiny
from classifier_runs import VOCAB
from exports import export_saved_model
from marks import nightly

from tasks import loading, registry
from tasks.graph import INPUT_NAMES
from tokenization import Vocabulary

KINDS = [*litert_files.TEXTS, "embeddings", "gelu_erf"]
FAST = ("gelu_erf", "question_answering")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [kind if kind in FAST else nightly(kind) for kind in KINDS]
)
def test_same_numbers_as_the_checkpoint(tmp_path, kind):
    """Of rows of any number and length, with padding."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    path, options = tmp_path / "m.onnx", litert_files.options_for(kind)
    source = tmp_path / "model"
    if kind == "gelu_erf":  # the exact form, by an operation that ONNX lacks
        config = tiny.config_of(VOCAB, hidden_act=kind)
        tiny.write_model(source, config, VOCAB)
    else:
        litert_files.write_model(source, kind)
    if kind in ("encoder", "gelu_erf"):
        options["task"] = "encoder"
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
    assert {one.name for one in file.get_inputs()} == {*INPUT_NAMES}
    rng = np.random.default_rng(0)
    for shape in ((1, 5), (4, 12)):
        ids = rng.integers(4, len(vocabulary.tokens), shape)
        ids[:, 1] = vocabulary.tokens.get("[MASK]", 1)
        segments = np.arange(shape[1]) > 3 + 0 * ids
        mask = np.arange(shape[1]) < rng.integers(4, shape[1], [shape[0], 1])
        values = (x.astype(np.int32) for x in (ids, mask, segments))
        rows = dict(zip(INPUT_NAMES, values, strict=True))
        wanted = graph.rows_function()(**rows)
        found = dict(zip(wanted, file.run([*wanted], rows), strict=True))
        for name, value in wanted.items():
            np.testing.assert_allclose(
                found[name], value, rtol=1e-5, atol=1e-5, err_msg=name
            )


def test_without_the_converter(tmp_path, encoder_dir, monkeypatch):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    flags = {"init_checkpoint": encoder_dir, "export_dir": tmp_path / "m.onnx"}
    line = scripts.error_of(export_saved_model, format="onnx", **flags)
    assert "pip install -r requirements-onnx.txt" in line
    line = scripts.error_of(
        export_saved_model, format="onnx", dtype="bfloat16", **flags
    )
    assert "give --dtype or --format=onnx, not both" in line
    assert not list(tmp_path.iterdir())
