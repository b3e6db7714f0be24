"""ONNX files under OpenVINO: the checkpoint's predictions, vectors, errors."""

import json
import os
import signal
import subprocess
import sys

from base.errors import UserError

import litert_files
import numpy as np
import prediction_runs
import pytest
import scripts
from exports import export_saved_model
from fine_tuned_models import changed

from tasks import heads
from tasks.openvino_files import ACTIVATIONS, OpenVinoModel, settings_of

litert_model = scripts.load("litert_model")
search = scripts.load("search")


def export(folder, kind, **more):
    """Return a checkpoint, its ONNX file, and the flags of both."""
    source, path = folder / "model", folder / "m.onnx"
    litert_files.write_model(folder / "source", kind)
    changed(folder / "source", source, **more)
    options = litert_files.options_for(kind)
    flags = {"init_checkpoint": source, "export_dir": path, "format": "onnx"}
    assert scripts.run(export_saved_model, **flags | options) == 0
    return source, path, options


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("masked_lm", {}),
        ("regression", {"output_activation": "sigmoid"}),
        ("classifier", {"task": "multi_label_classification"}),
    ],
)
def test_predictions_are_the_checkpoints(tmp_path, kind, more):
    """Those that the contract suite asks of no case without windows."""
    pytest.importorskip("onnx")
    pytest.importorskip("openvino")
    source, path, options = export(tmp_path, kind, **more)
    texts = litert_files.write_texts(tmp_path / "in.jsonl", kind)
    wanted = prediction_runs.predict(source, texts, tmp_path / "a", **options)
    by_files = litert_files.predict(path, texts, tmp_path / "out.jsonl")
    for found in (
        prediction_runs.predict(path, texts, tmp_path / "b"),
        by_files,
        OpenVinoModel(settings_of(str(path))).predict(litert_files.TEXTS[kind]),
    ):
        for one, other in zip(found, wanted, strict=True):
            for name in other.keys() - {"id"}:
                value = other[name]
                if name in ("labels", "tokens"):
                    assert one[name] == value
                elif isinstance(value, dict):
                    assert one[name] == pytest.approx(value, abs=1e-5)
                else:
                    np.testing.assert_allclose(one[name], value, atol=1e-5)


def test_vectors_that_are_no_numbers(tmp_path, monkeypatch):
    """A file of them is not written."""
    source = litert_files.write_model(tmp_path / "model", "embeddings")
    file = litert_files.export(source, tmp_path / "m.tflite")
    monkeypatch.setattr(
        litert_model.predict,
        "run_units",
        lambda task, model, units, size: [
            {"embedding": np.array([0, np.nan])} for _ in units
        ],
    )
    texts = tmp_path / "in.txt"
    texts.write_text("a film\n")
    out = tmp_path / "out.npy"
    line = scripts.error_of(
        litert_model, model=file, input_file=texts, output_file=out
    )
    assert "not finite" in line
    assert not out.exists()


def test_functions_on_a_number():
    """Those of every cross-encoder, with the numbers of the checkpoint."""
    x = np.linspace(-4, 4, 33, dtype=np.float32)[:, None]
    assert ACTIVATIONS.keys() == heads.ACTIVATIONS.keys()
    for name, function in heads.ACTIVATIONS.items():
        np.testing.assert_allclose(
            ACTIVATIONS[name](x), function(x), atol=1e-6, err_msg=name
        )


@pytest.mark.slow
def test_vectors_as_a_matrix_and_an_index(
    tmp_path, capsys, caplog, monkeypatch
):
    """In 32 and 16 bits, of texts of all lengths, in their order."""
    pytest.importorskip("onnx")
    openvino = pytest.importorskip("openvino")
    source, path, _ = export(
        tmp_path, "embeddings", prompts={"query": "good ", "document": "bad "}
    )
    texts = tmp_path / "in.txt"
    lines = ["a film " * (1 + n % 7) + "good" * (n % 2) for n in range(50)]
    texts.write_text("\n".join(lines) + "\n")
    found = prediction_runs.predict(source, texts, tmp_path / "a")
    wanted = np.array([one["embedding"] for one in found])
    for dtype, least in (("float32", 1 - 1e-6), ("bfloat16", 0.999)):
        out = tmp_path / f"{dtype}.npy"
        flags = {"model": path, "input_file": texts, "dtype": dtype}
        assert scripts.run(litert_model, output_file=out, **flags) == 0
        vectors = np.load(out)
        assert (vectors.shape, vectors.dtype) == (wanted.shape, np.float32)
        assert litert_files.cosines(vectors, wanted).min() > least

    # Of a processor without 16 bits.
    monkeypatch.setattr(openvino.Core, "get_property", lambda *_: ["FP32"])
    for dtype in "bfloat16", "float16":
        model = OpenVinoModel(settings_of(str(path))._replace(dtype=dtype))
        assert f"--dtype={dtype}: OpenVINO has no" in caplog.text
        found = [one["embedding"] for one in model.predict(lines)]
        wanted = np.load(tmp_path / "float32.npy")
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    # A model took another's place, and is gone; signals are still answered.
    del model
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    answers = []
    for model in (source, path):
        index = tmp_path / f"index of {model.name}"
        flags = {"init_checkpoint": model, "index": index, "query": "film"}
        scripts.run(search, input_file=texts, **flags)
        line = capsys.readouterr().out.splitlines()[-1]
        results = json.loads(line)["results"]
        answers.append([one["score"] for one in results])
    np.testing.assert_allclose(*answers, atol=1e-5)
    # TensorFlow would take seconds to import, and a gigabyte.
    code = (
        "import runpy, sys\n"
        "try: runpy.run_module('search', None, '__main__', True)\n"
        "finally: assert 'tensorflow' not in sys.modules"
    )
    given = f"--init_checkpoint={path}", f"--index={index}", "--query=film"
    line = subprocess.check_output([sys.executable, "-c", code, *given])
    assert json.loads(line)["results"] == results
    # Importing OpenVINO takes absl's handler away.
    given = f"--model={path}", f"--input_file={texts}", f"--output_file={out}"
    program = [sys.executable, "-m", "litert_model", *given]
    said = subprocess.run(program, capture_output=True, text=True, check=True)
    assert said.stderr == f"Wrote {out}: {len(lines)} vectors\n"
    line = scripts.error_of(
        litert_model, model=path, input_file="-", output_file="x.npy", dtype="x"
    )
    assert "--dtype" in line


@pytest.mark.slow
def test_files_that_cannot_be_used(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("openvino")
    _, path, _ = export(tmp_path, "classifier")
    given = {"init_checkpoint": path, "index": tmp_path / "i", "query": "a"}
    assert "does classifier" in scripts.error_of(search, **given)
    for name, value, found in (
        ("dtype", "auto", "OpenVINO runs"),
        ("max_seq_length", 16, "has its own"),
        ("do_lower_case", True, "has its own"),
    ):
        line = scripts.error_of(search, **given, **{name: value})
        assert f"--{name}" in line and found in line
    flags = {"input_file": path, "output_file": tmp_path / "out.npy"}
    line = scripts.error_of(litert_model, model=path, **flags)
    assert "one vector for each text; the model gives label" in line
    whole = path.read_bytes()
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(whole[: len(whole) // 2])
    line = scripts.error_of(litert_model, model=damaged, **flags)
    assert "damaged.onnx cannot be used" in line
    line = scripts.error_of(litert_model, model=tmp_path / "no.onnx", **flags)
    assert "no.onnx does not exist" in line
    other = onnx.load(path)
    del other.metadata_props[:]
    onnx.save(other, tmp_path / "other.onnx")
    line = scripts.error_of(
        litert_model, model=tmp_path / "other.onnx", **flags
    )
    assert "has no property export.json" in line
    settings_of(str(path))
    os.replace(tmp_path / "other.onnx", path)
    with pytest.raises(UserError, match="has no property"):
        settings_of(str(path))
    assert not (tmp_path / "out.npy").exists()


def test_without_the_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openvino", None)
    (tmp_path / "m.onnx").write_bytes(b"")
    flags = {"input_file": "-", "output_file": tmp_path / "out"}
    line = scripts.error_of(litert_model, model=tmp_path / "m.onnx", **flags)
    assert "pip install -r requirements-openvino.txt" in line
    flags["model"] = tmp_path / "m.tflite"
    line = scripts.error_of(litert_model, dtype="bfloat16", **flags)
    assert "--dtype is for ONNX files" in line
