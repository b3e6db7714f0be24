"""Scripts do the same without what Linux alone has: /proc and some calls."""

import functools
import os
import shlex
import subprocess
import sys
from pathlib import Path

import generator_runs
import prediction_runs
import pretraining_runs
import pytest
import scripts
from paths import ROOT

# What Python has on Linux, and not on macOS. Processes that a script starts
# read it, too.
_SITECUSTOMIZE = """
import ctypes, os
del os.sched_getaffinity, os.sched_setaffinity
del os.posix_fallocate, os.posix_fadvise
os.process_cpu_count = os.cpu_count
library = ctypes.CDLL
ctypes.CDLL = lambda name, *more, **named: (
    library(name, *more, **named) if name else object())  # no prctl
"""

# TensorFlow for Linux ends a process that does not find its program in /proc.
# It would look further for one whose path has "python" in it.
_WITHOUT_PROC = """
mount -t tmpfs none /proc && mkdir /proc/self && ln -s /bin/sh /proc/self/exe
"""
_NAMESPACE = ("unshare", "--mount", "sh", "-c")


@functools.cache
def _can_hide_proc() -> bool:
    try:
        command = [*_NAMESPACE, _WITHOUT_PROC]
        return not subprocess.run(command, capture_output=True).returncode
    except OSError:
        return False


@pytest.fixture
def run_elsewhere(tmp_path):
    """Return a function that runs a script on such a system."""
    if not _can_hide_proc():
        pytest.skip("only root of a Linux machine can hide /proc")
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(_SITECUSTOMIZE)

    def run(name: str, flags: dict) -> str:
        command = [sys.executable, ROOT / f"{name}.py"]
        command += [f"--{flag}={value}" for flag, value in flags.items()]
        result = subprocess.run(
            [*_NAMESPACE, _WITHOUT_PROC + shlex.join(map(str, command))],
            env=os.environ | {"PYTHONPATH": str(site)},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert result.returncode == 0, result.stderr
        return result.stderr

    return run


def _records(folder: Path) -> tuple[str, dict]:
    corpus = generator_runs.write_corpus(folder)
    flags = generator_runs.flags_for(corpus, "", num_workers=2)
    return "create_pretraining_data", flags


def _training(folder: Path) -> tuple[str, dict]:
    data = pretraining_runs.write_data(folder)
    return "run_pretraining", pretraining_runs.flags_for(data, "")


def _predictions(folder: Path) -> tuple[str, dict]:
    data = prediction_runs.write_classifier(folder)
    flags = {"model": folder / "model", "input_file": data / "test.tsv"}
    flags["text_columns"] = "sentence"
    return "batch_predict", flags


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "output", "files"),
    [
        (_records, "output_file", "out"),
        (_training, "output_dir", "out/bert_model.ckpt.data*"),
        (_predictions, "output_dir", "out/predictions-*"),
    ],
)
def test_a_script_writes_the_same_bytes(
    tmp_path, run_elsewhere, task, output, files
):
    name, flags = task(tmp_path)
    here, there = tmp_path / "here", tmp_path / "there"
    script = scripts.load(name)
    assert scripts.run(script, **flags | {output: here / "out"}) == 0
    shown = run_elsewhere(name, flags | {output: there / "out"})
    assert "WARNING" not in shown
    found = [
        [path.read_bytes() for path in sorted(folder.glob(files))]
        for folder in (here, there)
    ]
    assert found[0]
    assert found[0] == found[1]
