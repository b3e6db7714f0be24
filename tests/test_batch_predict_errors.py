"""batch_predict.py: bad inputs, wrong flags, interruptions, and Beam."""

import gzip
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import classifier_runs
import numpy as np
import pytest
import scripts
from paths import ROOT
from prediction_runs import (
    batch_predict,
    export,
    predict,
    problems,
    write_classifier,
    write_lines,
)

from records import tfrecord
from tasks import saved_model

pytest.importorskip("tensorflow_text")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory) -> Path:
    """A folder with a classifier and the task's test file."""
    return write_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def ids_only(monkeypatch) -> None:
    """Export without the signature for strings, which takes long to trace."""
    monkeypatch.setattr(
        saved_model.Export,
        "signatures",
        lambda self: {"ids": self.ids_signature()},
    )


# --- Inputs that cannot be predicted -----------------------------------------

BAD = [
    '{"id": 1, "text": "good film"}',
    '{"id": 2, "text": "good film"',  # not JSON
    '{"id": 3, "texts": "good film"}',  # another field
    '{"id": 4, "text": 7}',
    '{"id": 5, "text": " "}',
    "[1, 2]",
    '{"id": true, "text": "good"}',
    '{"id": 7, "text": "\\ud800"}',  # half a character
    '{"id": 1, "text": "a book"}',  # the id of the first line
    "",
    '{"text": "the film"}',
]


def write_bad(path: Path) -> Path:
    """Write BAD and a line that is not UTF-8."""
    path.write_bytes("\n".join(BAD).encode() + b'\n{"text": "\xff"}\n')
    return path


def test_bad_lines_are_named_and_the_others_predicted(
    classifier, tmp_path, caplog
):
    file = write_bad(tmp_path / "in.jsonl")
    found = predict(classifier / "model", file, tmp_path / "1", num_shards=2)
    assert [row["id"] for row in found] == [1, 1, f"{file}:11"]
    reasons = {
        2: "not JSON: Expecting ',' delimiter",
        3: "no field 'text'; it has 'id', 'texts' (--text_columns)",
        4: "field 'text' is int, wanted a string",
        5: "text is empty",
        6: "JSON list, wanted an object",
        7: "field 'id' is bool, wanted a string or an integer",
        8: "field 'text' has a lone surrogate",
        12: "not UTF-8 (byte 0xff)",
    }
    rows = problems(tmp_path / "1")
    assert {row["line"]: row["reason"] for row in rows} == reasons
    assert {row["file"] for row in rows} == {str(file)}
    assert [row["text"] for row in rows[:2]] == BAD[1:3]
    assert "8 of 11 inputs have no prediction" in caplog.text
    assert "Blank lines = 1" in caplog.text


def test_records_with_other_features_are_named(classifier, tmp_path):
    """Every kind of damage in a file whose first record is right."""
    good = {
        "input_ids": [2, 5, 3, 0],
        "input_mask": [1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0],
        "unique_ids": [77],
    }
    wrong = [
        ({"input_mask": [1, 0, 1, 0]}, "input_mask is not ones followed by"),
        ({"input_ids": [2, 99, 3, 0]}, "input_ids has 99; there are 14 tokens"),
        ({"segment_ids": [0, 2, 0, 0]}, "segment_ids has 2; there are 2"),
        ({"segment_ids": [0, 0]}, "4 input_ids, 4 input_mask, 2 segment_ids"),
        ({"segment_ids": None}, "no feature 'segment_ids'; it has input_ids"),
        ({"input_ids": [2.5, 5, 3, 0]}, "input_ids holds floats, wanted whole"),
        ({"unique_ids": [1.5]}, "unique_ids is 1.5, wanted a whole number"),
        ({"unique_ids": [np.nan]}, "unique_ids is nan, wanted a whole number"),
    ]
    path = tmp_path / "in.tf_record"
    with path.open("wb") as file, tfrecord.RecordWriter(file) as writer:
        for change in ({}, *(change for change, _ in wrong)):
            features = {k: v for k, v in (good | change).items() if v}
            writer.write_examples(
                {k: np.array([v]) for k, v in features.items()}
            )
    (found,) = predict(classifier / "model", path, tmp_path / "1")
    assert found["id"] == 77
    rows = problems(tmp_path / "1")
    assert [row["record"] for row in rows] == [*range(2, 10)]
    for row, (_, words) in zip(rows, wrong, strict=True):
        assert words in row["reason"]


@pytest.mark.parametrize(
    "flags, words",
    [
        ({"model": None}, "--model is required"),
        ({"input_file": None}, "--input_file is required"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"model": "/proc/nowhere"}, "--model=/proc/nowhere: no such checkp"),
        ({"output_dir": "/proc/nowhere/x"}, "--output_dir=/proc/nowhere/x can"),
        ({"input_file": "/proc/nowhere"}, "no file matches '/proc/nowhere'"),
        ({"task": "question_answering"}, "has no head for it: it can do class"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"text_columns": "a,b"}, "--text_columns=a,b: the model reads 1 (te"),
        ({"text_columns": "sentence"}, "line 1 cannot be predicted: no field"),
        ({"id_column": "key"}, "no field 'key' (--id_column)"),
        ({"beam_options": "--x"}, "--beam_options needs --runner=beam"),
        ({"runner": "beam", "dtype": "auto"}, "name the type that is fast"),
        ({"vocab_file": "/proc/nowhere"}, "/proc/nowhere"),
        ({"input_format": "tfrecord"}, "begins like jsonl"),
    ],
    ids=str,
)
def test_errors_name_the_flag_or_the_file(classifier, tmp_path, flags, words):
    file = write_lines(tmp_path / "in.jsonl", [{"text": "good film"}] * 3)
    given = {
        "model": str(classifier / "model"),
        "input_file": str(file),
        "output_dir": str(tmp_path / "out"),
    }
    line = scripts.error_of(batch_predict, **(given | flags))
    assert words in line, line
    assert not (tmp_path / "out").exists() or not any(
        (tmp_path / "out").iterdir()
    )


def test_files_of_two_kinds_and_empty_ones_are_refused(classifier, tmp_path):
    write_lines(tmp_path / "a.jsonl", [{"text": "good"}])
    (tmp_path / "b.txt").write_text("good\n")
    (tmp_path / "c.txt").write_text("")
    (tmp_path / "d.txt.gz").write_bytes(gzip.compress(b"\n"))
    given = {
        "model": str(classifier / "model"),
        "output_dir": str(tmp_path / "out"),
    }
    for names, words in (
        ("a.jsonl,b.txt", "a.jsonl looks like jsonl"),
        ("c.txt", "all 1 files are empty"),
        ("d.txt.gz", "the inputs hold no text and no record"),
    ):
        files = ",".join(f"{tmp_path}/{name}" for name in names.split(","))
        line = scripts.error_of(batch_predict, input_file=files, **given)
        assert words in line, line


@pytest.mark.slow
def test_models_without_what_prediction_needs_are_refused(
    classifier, ids_only, tmp_path
):
    path = tmp_path / "in.txt"
    path.write_text("good film\n")
    given = {"input_file": str(path), "output_dir": str(tmp_path / "out")}

    def error_of(model: Path, **flags) -> str:
        return scripts.error_of(
            batch_predict, model=str(model), **given, **flags
        )

    model = tmp_path / "model"
    shutil.copytree(classifier / "model", model)
    (model / "vocab.txt").unlink()
    assert "no vocab.txt beside" in error_of(model)
    saved = export(classifier / "model", tmp_path / "saved")
    assert "the SavedModel" in error_of(saved, max_seq_length=8)
    assert "--dtype is for checkpoints" in error_of(saved, dtype="bfloat16")
    assert "was exported with --task=classifier" in error_of(
        saved, task="encoder"
    )
    place = saved / saved_model.DESCRIPTION
    place.write_text('{"task": "poetry"}')
    assert "task is 'poetry', wanted one of classifier" in error_of(saved)
    place.unlink()
    assert "export it again" in error_of(saved)


def test_a_job_without_any_prediction_is_an_error(classifier, tmp_path):
    """The first inputs are blank, so the mistake is found at the end only."""
    path = tmp_path / "in.txt"
    path.write_text("\n" * 3 + "two\tcolumns\n")
    line = scripts.error_of(
        batch_predict,
        model=str(classifier / "model"),
        input_file=str(path),
        output_dir=str(tmp_path / "out"),
    )
    assert "line 4 cannot be predicted: 2 columns, wanted 1 (text)" in line


# --- Interruptions, and Beam -------------------------------------------------


def long_input(folder: Path) -> Path:
    """Write bad and good lines for several shards and windows."""
    lines = [
        json.dumps({"id": n, "text": text})
        for n, (text, _) in enumerate(classifier_runs.sentences(400, 5))
    ]
    lines[100:100] = BAD
    path = folder / "in.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def bytes_of(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(
    classifier, tmp_path
):
    file = long_input(tmp_path)
    model, out = classifier / "model", tmp_path / "out"
    options = {"num_shards": 40, "batch_size": 1}
    predict(model, file, tmp_path / "whole", **options)
    command = [
        *(sys.executable, "batch_predict.py"),
        *(f"--model={model}", f"--input_file={file}", f"--output_dir={out}"),
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    while not list(out.glob(".predictions-0000[3-9]*counts.json")):
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = {path.name: path.stat().st_mtime_ns for path in out.glob("pred*")}
    assert 3 < len(done) < 40
    predict(model, file, out, **options)
    assert bytes_of(out) == bytes_of(tmp_path / "whole")
    for name, changed in done.items():
        assert (out / name).stat().st_mtime_ns == changed, name


@pytest.mark.slow
def test_beam_writes_the_same_lines(classifier, tmp_path):
    pytest.importorskip("apache_beam")
    write_bad(tmp_path / "bad.jsonl")
    files = f"{long_input(tmp_path)},{tmp_path}/bad.jsonl"
    model = classifier / "model"
    options = {"num_shards": 3}
    predict(model, files, tmp_path / "local", **options)
    wanted = bytes_of(tmp_path / "local")
    assert wanted["errors.jsonl"].count(b"\n") == 15
    options |= {
        "runner": "beam",
        "beam_options": "--runner=BundleBasedDirectRunner",
    }
    out = tmp_path / "beam"
    predict(model, files, out, **options)
    assert bytes_of(out) == wanted
    # Shards that are there are not made again.
    (out / "predictions-00001-of-00003.jsonl").unlink()
    before = (out / "predictions-00002-of-00003.jsonl").stat().st_mtime_ns
    predict(model, files, out, **options)
    assert bytes_of(out) == wanted
    after = (out / "predictions-00002-of-00003.jsonl").stat().st_mtime_ns
    assert after == before
