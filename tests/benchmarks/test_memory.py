"""The memory benchmark: figures of a step, and what a row says of them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from paths import ROOT

from benchmarks import memory


def test_a_row_compares_with_the_first_choice():
    first = {
        "estimate": 900e6,
        "before": 400e6,
        "peak": 1000e6,
        "seconds": 2.0,
        "processor_seconds": 4.0,
    }
    found = first | {"estimate": 700e6, "peak": 700e6, "seconds": 3.0}
    shape = memory.parse_shape("tiny:2x16")
    row = memory._row(shape, "layers", found, first)
    assert row.what == "memory of a step, tiny:2x16, --recompute=layers"
    assert row.value == "700 MB"
    assert row.note == (
        "estimate 700 MB; 300 MB more than before the first step, 0.50 times; "
        "3.00 s, 1.50 times (processor time 1.00 times)"
    )
    assert row.figures["step_bytes"] == 300e6


@pytest.mark.slow
def test_a_process_that_measures_ends_with_its_parent(tmp_path):
    """After kill -9 nothing goes on beside the next measurement."""
    child = f"""
import os, pathlib, time
pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
time.sleep(300)
"""
    parent = f"""
from benchmarks import memory
memory._CHILD = {child!r}
memory._measure_apart("tiny", 2, 16)
"""
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT)
    pid = tmp_path / "pid"
    _wait_for(lambda: pid.exists() and pid.read_text())
    process.kill()
    process.wait()
    _wait_for(lambda: not _is_running(int(pid.read_text())))


def _wait_for(condition):
    """Wait until a function returns true, a minute at most."""
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def _is_running(pid):
    """Whether there is such a process that has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
def test_a_step_is_measured_in_a_process_of_its_own():
    (row,) = memory.measure(
        ["tiny:2x16"], ["none"], 2, "float32", False, "mlm_nsp"
    )
    figures = row.figures
    # 4.4 million weights, gradients and slots: 70 MB beside TensorFlow's own.
    assert figures["estimate_bytes"] > 1_020_000_000
    assert figures["peak_bytes"] == pytest.approx(
        figures["estimate_bytes"], rel=0.3
    )
    assert 0 < figures["step_bytes"] < figures["peak_bytes"]
    assert figures["seconds"] > 0
