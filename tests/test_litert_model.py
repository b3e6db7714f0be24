"""litert_model.py: no TensorFlow, lines that are bad, errors."""

import io
import json
import subprocess
import sys
import zipfile

import litert_files
import numpy as np
import pytest
import scripts
from litert_files import litert_model
from paths import ROOT

from serving.litert import metadata
from serving.litert.model import LiteRtModel

pytest.importorskip("ai_edge_litert")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a function of a kind -> LiteRT file."""
    get = litert_files.made_once(tmp_path_factory.mktemp("files"))
    return lambda kind: get(kind)[1]


def with_description(file, target, **changes):
    """Write a copy of a LiteRT file with another export.json."""
    inside = metadata.read_files(str(file))
    details = json.loads(inside[metadata.DESCRIPTION]) | changes
    inside[metadata.DESCRIPTION] = json.dumps(details).encode()
    data = file.read_bytes()
    model = data[: data.index(b"PK\x03\x04")]
    target.write_bytes(metadata.with_files(model, inside))
    return target


# --- Without TensorFlow ------------------------------------------------------

_PROGRAM = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "sklearn", "scipy"):
            raise ImportError(name)

sys.meta_path.insert(0, Refused())
sys.path.insert(0, sys.argv[1])
import litert_model

model = litert_model.LiteRtModel(sys.argv[2])
print(model.predict(["a good film"])[0]["label"])
print(sorted({"tensorflow", "keras"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_tensorflow_is_not_needed(files):
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(ROOT), str(files("classifier"))],
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    label, loaded = ended.stdout.split("\n", 1)
    assert label in ("bad", "good") and loaded == "[]\n"


# --- Inputs ------------------------------------------------------------------


@pytest.mark.slow
def test_lines_come_from_standard_input_too(
    tmp_path, files, monkeypatch, caplog
):
    lines = b"a good film\n\n\xff\nbad\r\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    out = tmp_path / "out"
    status = scripts.run(
        litert_model,
        model=str(files("classifier")),
        output_file=str(out),
        num_answers=2,
    )
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert status == 1  # an answer is missing
    assert "stdin, line 3: not UTF-8 (byte 0xff)" in caplog.text
    ids = ["stdin:1", "stdin:3", "stdin:4"]
    assert [line["id"] for line in found] == ids
    assert [line["label"] is None for line in found] == [False, True, False]
    assert "--num_answers is ignored: it is for question_answ" in caplog.text


@pytest.mark.slow
def test_a_bad_text_of_a_program_is_numbered(files):
    model = LiteRtModel(str(files("classifier")), num_threads=1)
    with pytest.raises(ValueError, match="text 1: text is empty"):
        model.predict(["good", " "])
    rows = np.ones([1, model.longest + 1], np.int32)
    names = ("input_ids", "input_mask", "segment_ids")
    with pytest.raises(ValueError, match="rows of 65 tokens, but .* takes 64"):
        model(dict.fromkeys(names, rows))


# --- Errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"model": None}, "--model is required"),
        ({"model": "/proc/nowhere"}, "cannot be read: No such file"),
        ({"model": "/proc"}, "cannot be read: Is a directory"),
        ({"model": __file__}, "is not a LiteRT file"),
        ({"output_file": "/proc/nowhere/x"}, "cannot be written"),
        ({"output_file": "/tmp"}, "is a directory: name a file"),
        ({"model": "x", "output_file": "./x"}, "is a file of --model too"),
    ],
    ids=str,
)
def test_errors_before_a_model_is_read(tmp_path, flags, words):
    given = {"model": str(tmp_path / "m"), "output_file": str(tmp_path / "o")}
    line = scripts.error_of(litert_model, **(given | flags))
    assert words in line, line
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_errors_of_flags_that_do_not_fit_the_model(tmp_path, files):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n\n")
    out = str(tmp_path / "out")
    for flags, words in (
        ({"input_file": "/proc/nowhere"}, "is not a file"),
        ({"input_file": str(empty)}, "it is empty"),
        ({"text_columns": "a,b"}, "the model reads 1 (text)"),
    ):
        given = {"model": str(files("classifier")), "output_file": out} | flags
        line = scripts.error_of(litert_model, **given)
        assert words in line, line
        assert not (tmp_path / "out").exists(), flags


@pytest.mark.slow
def test_damaged_files_are_named(tmp_path, files):
    """tests/fuzz damages more of them; here is what the line says."""
    good = files("classifier")
    data = good.read_bytes()
    graph = data[: data.index(b"PK\x03\x04")]
    inside = metadata.read_files(str(good))
    bad = tmp_path / "bad.tflite"

    def check(words: str) -> None:
        flags = {"model": str(bad), "input_file": __file__}
        flags["output_file"] = str(tmp_path / "out")
        line = scripts.error_of(litert_model, **flags)
        assert words in line, line

    for content, words in (
        (data[: len(data) // 2], "is cut short, or was not written by export"),
        (graph, "has no vocabulary inside"),
        (b"", "is not a LiteRT file"),
    ):
        bad.write_bytes(content)
        check(words)
    for content, kind, words in (
        (data, zipfile.ZIP_STORED, "vocab.txt"),  # there are two then
        (graph, zipfile.ZIP_DEFLATED, "files that are not stored"),
    ):
        bad.write_bytes(content)
        with zipfile.ZipFile(bad, "a", kind) as archive:
            archive.writestr("vocab.txt", bytes(10**6))
        check(words)
    for name, content, words in (
        ("export.json", b"[1]", "wanted a JSON object"),
        ("vocab.txt", b"[CLS]\n[SEP]\n\xff", "vocab.txt inside: line 3"),
        ("vocab.txt", b"\n" * 999 + inside["vocab.txt"], "out of bounds"),
    ):
        bad.write_bytes(metadata.with_files(graph, inside | {name: content}))
        check(words)
    for change, words in (
        ({"version": 4}, "has version 4"),
        ({"task": "poetry"}, "task is 'poetry'"),
        ({"task": "encoder"}, "its graph is damaged, or is"),
        ({"max_seq_length": 10**9}, "more than the file holds"),
        ({"max_seq_length": 10**30}, "max_seq_length must be a whole number"),
        ({"labels": ["a", "b", "c"]}, "3 labels"),
    ):
        with_description(good, bad, **change)
        check(words)


@pytest.mark.slow
def test_what_is_missing_says_how_to_install_it(files, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    flags = {"model": str(files("classifier")), "input_file": __file__}
    line = scripts.error_of(litert_model, **flags)
    assert "pip install -r requirements-litert.txt" in line
