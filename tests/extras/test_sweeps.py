"""Sweeps: the commands of their runs, flags, signals, folders."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from base import child_processes
from base.errors import UserError

import pytest
import scripts
from paths import ROOT
from waiting import wait_for

from extras import sweeps


def grid(*arguments: str) -> list[str]:
    """Return the names of the runs of a grid."""
    f = scripts.parse(scripts.load("run_swag"))
    f(["run_swag", *arguments])
    return list(sweeps.grid(f))


@pytest.mark.parametrize(
    "flag, value",
    [
        ("sweep_learning_rates", "nan"),
        ("sweep_epochs", "inf"),
        ("sweep_epochs", "-1"),
        ("sweep_batch_sizes", "two"),
    ],
)
def test_a_value_that_cannot_be_trained_with_is_named(flag, value):
    """Before the first run, though it is the last of the list."""
    with pytest.raises(UserError, match=f"--{flag}={value}: "):
        grid(f"--{flag}=1,{value}")


def test_the_last_seed_has_to_be_one():
    with pytest.raises(UserError, match="=4294967295 with --num_restarts=2: "):
        grid("--random_seed=4294967295", "--num_restarts=2")


def test_a_point_of_the_grid_is_trained_once():
    names = grid("--sweep_learning_rates=1e-4,0.0001,2e-4")
    assert [name.partition("_")[0] for name in names] == ["lr1e-4", "lr2e-4"]


def test_all_runs_have_the_type_that_auto_was_in_the_first(
    tmp_path, monkeypatch
):
    """A second measurement could give another one."""
    commands = []

    def run_command(command):
        commands.append(command[2:-1])
        folder = Path(command[-1].removeprefix("--output_dir="))
        folder.mkdir(parents=True)
        run = {"fixed": {}, "adjustable": {"dtype": "bfloat16"}}
        (folder / "training_config.json").write_text(json.dumps(run))
        (folder / "checkpoint").write_text('model_checkpoint_path: "m"\n')
        (folder / "m.index").write_text("")
        (folder / "eval_results.txt").write_text("accuracy = 0.5\n")
        return 0

    monkeypatch.setattr(child_processes, "run", run_command)
    arguments = {"dtype": "--dtype=auto"}
    runs = {"a": {}, "b": {}, "c": {}}
    sweep = sweeps.Sweep("script.py", runs, arguments)
    sweeps.run_all(sweep, str(tmp_path), "accuracy")
    types = ["auto", "bfloat16", "bfloat16"]
    assert commands == [[f"--dtype={name}"] for name in types]
    # Given again, the same command repeats nothing.
    sweeps.run_all(sweep, str(tmp_path), "accuracy")
    assert len(commands) == 3


def test_a_run_is_made_again_when_its_inputs_change(tmp_path, monkeypatch):
    """The script says then whether what has changed matters."""
    folders = []

    def run_command(command):
        folders.append(Path(command[-1].removeprefix("--output_dir=")))
        folders[-1].mkdir(parents=True, exist_ok=True)
        (folders[-1] / "eval_results.txt").write_text("accuracy = 0.5\n")
        return 0

    monkeypatch.setattr(child_processes, "run", run_command)
    sweep = sweeps.Sweep("script.py", {"a": {}, "b": {}}, {})
    for digest in ("x", "y"):
        for _ in range(2):
            inputs = [{"data": digest, "labels": ("no", "yes")}]
            sweeps.run_all(sweep, str(tmp_path), "accuracy", inputs)
        assert [folder.name for folder in folders] == ["a", "b"]
        folders.clear()


def test_a_failing_run_stops_its_sweep_and_is_made_again(tmp_path, monkeypatch):
    """The runs that finished before it are kept."""
    begun, statuses = [], [0, 3, 0, 0]

    def run_command(command):
        folder = Path(command[-1].removeprefix("--output_dir="))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "eval_results.txt").write_text("accuracy = 0.5\n")
        begun.append(folder.name)
        return statuses[len(begun) - 1]

    monkeypatch.setattr(child_processes, "run", run_command)
    runs = {"a": {}, "b": {}, "c": {}}
    sweep = sweeps.Sweep("script.py", runs, {})
    with pytest.raises(UserError, match="^run b ended with status 3, "):
        sweeps.run_all(sweep, str(tmp_path), "accuracy")
    assert begun == ["a", "b"]
    sweeps.run_all(sweep, str(tmp_path), "accuracy")
    assert begun == ["a", "b", "b", "c"]


@pytest.mark.parametrize(
    "failed, words",
    [
        ("a", "1 of 2 runs failed; b is the best of the others"),
        ("ab", "2 of 2 runs failed; so the one that is kept, a, is one of"),
    ],
)
def test_failed_runs_are_counted(failed, words, tmp_path, monkeypatch, caplog):
    def run_command(command):
        folder = Path(command[-1].removeprefix("--output_dir="))
        folder.mkdir(parents=True)
        text = "accuracy = 0.5\ndegenerate = 1\n"
        if folder.name not in failed:
            text = "accuracy = 0.1\n"
        (folder / "eval_results.txt").write_text(text)
        return 0

    monkeypatch.setattr(child_processes, "run", run_command)
    sweep = sweeps.Sweep("script.py", {"a": {}, "b": {}}, {})
    best = sweeps.run_all(sweep, str(tmp_path), "accuracy")
    assert best == str(tmp_path / "runs" / ("a" if failed == "ab" else "b"))
    assert words in caplog.text


# --- Signals -----------------------------------------------------------------

# Notes each SIGTERM; saves until the test has looked at the lock, and ends.
TRAINING = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1])
def save(number, frame):
    with open(folder / "signals", "a") as file:
        file.write(f"{number}\\n")
    while not (folder / "looked").exists():
        time.sleep(0.05)
    (folder / "saved").touch()
    os._exit(1)
signal.signal(signal.SIGTERM, save)
(folder / "begun").touch()
time.sleep(60)
"""

SWEEP = """
import sys
from base import child_processes
child_processes.run([sys.executable, "-c", sys.argv[1], sys.argv[2]])
"""


def is_locked(path):
    """Return whether another process has the lock of a file."""
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_run_saves_and_is_locked_when_its_sweep_is_stopped(number, tmp_path):
    lock = tmp_path / "lock"
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        sweep = subprocess.Popen(
            [sys.executable, "-c", SWEEP, TRAINING, str(tmp_path)],
            cwd=ROOT,
            start_new_session=True,
            pass_fds=[file.fileno()],
            stderr=subprocess.DEVNULL,
        )
    wait_for((tmp_path / "begun").exists)
    # As tools.reproduce_paper does: to the whole group.
    os.killpg(sweep.pid, number)
    wait_for((tmp_path / "signals").exists)
    assert is_locked(lock)
    (tmp_path / "looked").touch()
    assert sweep.wait() != 0
    if number == signal.SIGTERM:  # it has waited for its run
        assert (tmp_path / "saved").exists()
    wait_for((tmp_path / "saved").exists)
    signals = (tmp_path / "signals").read_text().splitlines()
    assert set(signals) == {str(signal.SIGTERM.value)}
    if number == signal.SIGTERM:  # after kill -9 one for each ended thread
        assert len(signals) == 1
    wait_for(lambda: not is_locked(lock))
