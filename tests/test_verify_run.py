"""verify_run: the same bits again, and what is found where they differ."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from paths import ROOT
from pretraining_runs import flags_for, write_data, write_records

from checkpoints import weight_files
from checkpoints.run_folder import Identity, RunFolder
from training.hooks import ledger
from training.hooks.hook import Call
from training.settings import TrainingSettings

verify_run = scripts.load("tools.verify_run")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run of 12 steps, interrupted by nothing, beside its records."""
    folder = write_data(tmp_path_factory.mktemp("audited"))
    values = flags_for(folder, folder / "out", ledger=4, jit_compile=False)
    values |= {"pictures": False, "keep_checkpoint_max": 0}
    command = [sys.executable, "run_pretraining.py"]
    command += [f"--{name}={value}" for name, value in values.items()]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def copy_of(run: Path, tmp_path: Path) -> Path:
    return shutil.copytree(run / "out", tmp_path / "out")


def change(prefix: Path, name: str) -> None:
    """Add 1 to the first value of a variable of a checkpoint."""
    tensors = tiny.weights_of(prefix)
    tensors[name].flat[0] += 1
    weight_files.write(str(prefix), tensors)


@pytest.mark.nightly
def test_the_same_steps_give_the_same_bits(run, capsys):
    """From a checkpoint, and from the start; a changed end is named."""
    lines = ledger.read(str(run / "out"))
    assert [line["step"] for line in lines] == [0, 4, 5, 8, 10, 12]
    assert scripts.run(verify_run, output_dir=run / "out", from_step=5) == 0
    assert "Steps 5 to 12: the same bits" in capsys.readouterr().out
    flags = {"output_dir": run / "out", "from_step": 0, "to_step": 5}
    assert scripts.run(verify_run, **flags) == 0


@pytest.mark.nightly
def test_a_changed_checkpoint_is_found(run, tmp_path, capsys):
    out = copy_of(run, tmp_path)
    variable = "cls/predictions/output_bias"
    for step in (10, 12):
        change(out / f"model.ckpt-{step}", f"{variable}/adam_v")
    assert scripts.run(verify_run, output_dir=out, from_step=10) == 1
    found = capsys.readouterr().out
    assert "Step 10: the checkpoint has other moments than the ledger" in found
    assert "Step 10: the checkpoint has other weights" not in found
    assert "Steps 10 to 12: other " in found and "records" not in found
    assert f"Checkpoint of step 12: {variable}" in found


@pytest.mark.nightly
def test_a_checkpoint_that_was_deleted_is_none(run, tmp_path):
    out = copy_of(run, tmp_path)
    (out / "model.ckpt-5.index").unlink()
    error = scripts.error_of(verify_run, output_dir=out, from_step=5)
    assert "no checkpoint of this step in the ledger; there are 0, 10" in error


@pytest.mark.nightly
def test_a_changed_record_is_found(run, tmp_path, capsys):
    data = run / "train-1"
    own = data.read_bytes()
    write_records(data, 41, seed=77)
    try:
        flags = {"output_dir": run / "out", "from_step": 5, "to_step": 10}
        assert scripts.run(verify_run, **flags) == 1
    finally:
        data.write_bytes(own)
    assert "Steps 5 to 8: other records, weights" in capsys.readouterr().out


class State(NamedTuple):
    """A model without variables."""

    output_dir: str

    def digests(self) -> dict[str, str]:
        return {"weights": "w", "moments": "m"}


def pace(**settings) -> Any:
    """Return what a ledger asks of the pace of a run."""
    return SimpleNamespace(
        saves=False,
        settings=TrainingSettings("out", num_train_steps=200, **settings),
    )


def line_of(folder: Path, rows: list[int], devices: int = 1) -> dict:
    """Return the line of a step on so many rows."""
    folder.mkdir(exist_ok=True)
    book = ledger.Ledger(State(str(folder)), pace(), 1)
    book.begin(0)
    size = len(rows) // devices
    data = tf.data.Dataset.from_tensor_slices({"a": rows, "b": rows})
    context = tf.distribute.InputContext(1, 0, devices)
    batches = book.watch(data.repeat().batch(size), context)
    # One device is a batch ahead.
    for _ in zip(range(devices + 1), batches, strict=False):
        pass
    book.close(1)
    return ledger.read(str(folder))[-1]


def test_other_orders_and_records_have_other_digests(tmp_path):
    line = line_of(tmp_path, [1, 2, 3, 4])
    assert line_of(tmp_path, [1, 2, 3, 4], devices=2) == line
    other = line_of(tmp_path, [1, 3, 2, 4])
    assert other["records"] == line["records"]
    problems = verify_run.compare(
        [line | {"step": 0}, line], [line | {"step": 0}, other], 0, 1
    )
    assert list(problems) == ["Steps 0 to 1: other order"]
    assert line_of(tmp_path, [1, 2, 3, 5])["records"] != line["records"]


def test_lines_that_the_clock_made_are_written_again(tmp_path):
    """By a run that goes on, and by the one that repeats its steps."""
    lines = [{"step": step} for step in (0, 100, 137, 151, 200)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / ledger.NAME).write_text(text)
    book = ledger.Ledger(State(str(tmp_path)), pace(num_warmup_steps=7), 100)
    book.begin(100)
    assert book.next_stop(100) == 137 and book.next_stop(137) == 151
    book._read.extend([[b""]] * 100)
    for done in (120, 137, 140, 151, 200):
        book.after(Call(done, 1, {}, 1.0, False))
    *kept, start, one, two, last = ledger.read(str(tmp_path))
    assert kept == lines[:2]
    assert [(x["from"], x["step"]) for x in (one, two, last)] == [
        *((100, 137), (137, 151), (151, 200))
    ]
    assert start["settings"]["num_warmup_steps"] == 7


def test_settings_are_those_of_the_command(tmp_path, monkeypatch):
    """A later command may have other steps: they come from its own start."""
    out, replay = tmp_path / "out", tmp_path / "replay"
    out.mkdir()
    settings = {"num_train_steps": 900, "schedule": "linear"}
    RunFolder(str(out)).write_settings(Identity({"seed": 1}, settings, {}))
    weight_files.write(str(out / "model.ckpt-5"), {"x": np.zeros(1)})
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')
    monkeypatch.setattr(
        verify_run, "FLAGS", scripts.parse(verify_run, output_dir=out)
    )
    lines = [{"step": step} for step in (0, 5, 8, 9)]
    begin = {"settings": {"num_train_steps": 10, "schedule": "wsd"}}
    run = RunFolder.read(str(out))
    verify_run.copy_state(run, begin, lines, 5, 8, str(replay))
    found = RunFolder.read(str(replay)).adjustable
    assert found == {"num_train_steps": 10, "schedule": "wsd"}
    assert [line["step"] for line in ledger.read(str(replay))] == [8]


@pytest.mark.nightly
def test_steps_that_the_clock_chose_are_verified(run, tmp_path, capsys):
    """Lines between the regular ones, with the records that they saw."""
    out = tmp_path / "out"
    values = flags_for(run, out, ledger=4, save_checkpoints_minutes=1e-5)
    command = [sys.executable, "run_pretraining.py", "--nopictures"]
    command += [f"--{name}={value}" for name, value in values.items()]
    subprocess.run(command, cwd=ROOT, check=True)
    assert {1, 2} < {line["step"] for line in ledger.read(str(out))}
    flags = {"output_dir": out, "from_step": 0, "to_step": 2}
    assert scripts.run(verify_run, **flags) == 0
    assert "Steps 0 to 2: the same bits" in capsys.readouterr().out
    data = run / "train-1"
    own = data.read_bytes()
    write_records(data, 41, seed=77)
    try:
        assert scripts.run(verify_run, output_dir=out, from_step=5) == 1
    finally:
        data.write_bytes(own)
    assert "other records, weights" in capsys.readouterr().out


def test_a_line_that_was_cut_off_does_not_count(tmp_path):
    line = line_of(tmp_path, [1, 2])
    with open(tmp_path / ledger.NAME, "a") as file:
        file.write('{"step": 2, "fro')
    assert ledger.read(str(tmp_path))[-1] == line
    # A run that goes on after step 0 does step 1 again.
    ledger.Ledger(State(str(tmp_path)), pace(), 1).begin(0)
    assert [x["step"] for x in ledger.read(str(tmp_path))] == [0, 0]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("[1]", "line 3: found list, wanted a JSON"),
        ("{}", "line 3: wanted a line"),
    ],
)
def test_a_damaged_line_is_named(line, problem, tmp_path):
    text = '{"step": 0}\n\n' + line + '\n{"step": 9}\n'
    (tmp_path / ledger.NAME).write_text(text)
    error = scripts.error_of(verify_run, output_dir=tmp_path)
    assert problem in error


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ({}, "has no ledger.jsonl: train with --ledger=100"),
        ({"from_step": 3}, "--from_step=3: no checkpoint of this step"),
        ({"to_step": 3}, "--to_step=3: no line of the ledger after step 0; t"),
        ({"to_step": 9}, "was resumed by another command at step 4"),
    ],
)
def test_what_cannot_be_verified(flags, problem, tmp_path):
    if flags:
        lines = [
            {"step": 0, "command": ["a"]},
            {"step": 4, "from": 0},
            {"step": 4, "command": ["b"]},
            {"step": 9, "from": 4},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (tmp_path / ledger.NAME).write_text(text)
    error = scripts.error_of(verify_run, output_dir=tmp_path, **flags)
    assert problem in error


def test_a_run_of_hours_cannot_be_verified_from_its_start(tmp_path):
    """The command would time its steps again."""
    line = json.dumps({"step": 0, "command": ["a"]})
    (tmp_path / ledger.NAME).write_text(f"{line}\n")
    settings = {"fixed": {"train_hours": 1.0}, "adjustable": {}}
    (tmp_path / "training_config.json").write_text(json.dumps(settings))
    error = scripts.error_of(verify_run, output_dir=tmp_path, from_step=0)
    assert "no checkpoint of this step in the ledger; there are none" in error
