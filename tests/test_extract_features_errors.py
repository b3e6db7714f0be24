"""extract_features.py with flags, texts and signals that end it."""

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from base import file_system

import feature_runs
import numpy as np
import pytest
import scripts
from feature_runs import CONFIG, VOCAB, flags_for
from paths import ROOT

import modeling
from checkpoints import weight_files

extract_features = scripts.load("extract_features")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    return feature_runs.write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def input_file(tmp_path_factory) -> Path:
    return feature_runs.write_text(tmp_path_factory.mktemp("text"))


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"input_file": None}, "--input_file is required"),
        ({"output_file": None}, "--output_file is required"),
        ({"init_checkpoint": None}, "--init_checkpoint is required"),
        ({"input_file": "/nowhere.txt"}, "/nowhere.txt: cannot be read"),
        ({"input_file": "/tmp"}, "/tmp: cannot be read: Is a directory"),
        ({"output_file": "/tmp"}, "--output_file=/tmp is a directory"),
        ({"output_file": "/proc/x/y"}, "--output_file=/proc/x cannot be"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"bert_config_file": "/nowhere"}, "/nowhere: cannot be read"),
        ({"vocab_file": "/nowhere"}, "cannot read the vocabulary"),
        ({"max_seq_length": 41}, "max_position_embeddings=40"),
        ({"layers": "-5"}, "has 4 layers, -5 is none of them"),
        ({"layers": "-1;-2"}, "'-1;-2' is not a layer"),
        ({"do_lower_case": True}, "was trained with False"),
        ({"use_tpu": True}, "--use_tpu: no TPU answers"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(
    model_dir, input_file, tmp_path, changes, words
):
    out = tmp_path / "out.jsonl"
    flags = flags_for(model_dir, input_file, out) | changes
    line = scripts.error_of(extract_features, **flags)
    assert words in line, line
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "data, words",
    [
        (b"", "holds no line"),
        (b"a b\nc \xff\n", "line 2: not UTF-8 (byte 0xff)"),
    ],
)
def test_text_that_cannot_work(model_dir, tmp_path, data, words):
    (tmp_path / "in.txt").write_bytes(data)
    out = tmp_path / "out.jsonl"
    out.write_text("from before")
    flags = flags_for(model_dir, tmp_path / "in.txt", out)
    line = scripts.error_of(extract_features, **flags)
    assert words in line, line
    assert sorted(os.listdir(tmp_path)) == ["in.txt", "out.jsonl"]
    assert out.read_text() == "from before"
    (tmp_path / "link").symlink_to("in.txt")
    for path in (flags["input_file"], f"{tmp_path}/./in.txt", "link"):
        flags["output_file"] = str(tmp_path / path)
        line = scripts.error_of(extract_features, **flags)
        assert "is the input file too" in line
    assert (tmp_path / "in.txt").read_bytes() == data
    flags["output_file"] = str(tmp_path / "new" / "out.jsonl")
    flags["init_checkpoint"] = str(tmp_path / "nowhere")
    scripts.error_of(extract_features, **flags)
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_outputs_that_are_no_numbers(model_dir, input_file, tmp_path):
    model = modeling.TaskModel(CONFIG)
    table = np.ones(model.bert.embeddings.word_embeddings.shape, np.float32)
    table[VOCAB.index("é")] = np.nan
    model.bert.embeddings.word_embeddings.assign(table)
    broken = tmp_path / "broken.ckpt"
    weight_files.write(str(broken), weight_files.as_tensors(model.variables))
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl") | {
        "init_checkpoint": str(broken),
        "bert_config_file": str(model_dir / "bert_config.json"),
        "vocab_file": str(model_dir / "vocab.txt"),
        "do_lower_case": False,
    }
    line = scripts.error_of(extract_features, **flags)
    assert line.startswith("line 3: the model's outputs are not finite numbers")
    assert not (tmp_path / "out.jsonl").exists()


def test_text_that_ends_in_a_read_error(
    model_dir, input_file, tmp_path, monkeypatch
):
    class Failing(io.BytesIO):
        def __next__(self) -> bytes:
            if self.tell():
                raise OSError(5, "Input/output error")
            return super().__next__()

    data, opened = input_file.read_bytes(), file_system.open_for_reading
    monkeypatch.setattr(
        file_system,
        "open_for_reading",
        lambda p: Failing(data) if p == str(input_file) else opened(p),
    )
    flags = flags_for(model_dir, input_file, tmp_path / "out.jsonl")
    line = scripts.error_of(extract_features, **flags)
    wanted = f"{input_file}: cannot be read after 1 lines: Input/output error"
    assert line == wanted


@pytest.mark.slow
def test_sigterm_leaves_nothing(model_dir, tmp_path, tmp_path_factory):
    """Ended in the middle: no output; a killed run's rest goes next time."""
    fifo, out = tmp_path / "in", tmp_path / "out"
    os.mkfifo(fifo)
    ended = subprocess.Popen(["true"])
    ended.wait()
    leftover = tmp_path / f".out.{ended.pid}-0.tmp"
    leftover.write_text("of a run that was killed")
    flags = flags_for(model_dir, fifo, out, output_format="npz")
    code = "import extract_features; from base import errors; "
    code += "from tasks.encoder import lines; lines._WINDOW_LINES = 1; "
    code += "errors.run(extract_features.main)"
    log = tmp_path_factory.mktemp("log") / "stderr"
    with open(log, "w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", code]
            + [f"--{name}={value}" for name, value in flags.items()],
            stderr=stderr,
            cwd=ROOT,
        )
    # Open for both, neither side waits for the other to open it.
    text = os.open(fifo, os.O_RDWR)
    os.write(text, b"a b\n" * 3)
    end = time.monotonic() + 300  # of a machine that does other things
    try:
        while "unique_id: 2" not in log.read_text():  # the last line so far
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        time.sleep(0.5)
        assert [n for n in os.listdir(tmp_path) if f".{process.pid}-" in n]
        assert not leftover.exists()
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=300)
    finally:
        process.kill()
        os.close(text)
    assert process.returncode == 1
    assert log.read_text().splitlines()[-1] == "ERROR: interrupted"
    assert os.listdir(tmp_path) == ["in"]
