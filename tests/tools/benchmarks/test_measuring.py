"""Running scripts and reading numbers from their logs."""

import os
import subprocess
import sys
from pathlib import Path

from base.errors import UserError

import pytest
from paths import ROOT
from waiting import wait_for

from tools.benchmarks import measuring


def test_numbers_are_read_from_a_log():
    log = "I0 Took 3.5 s\nI0 Wrote 1,234 total instances\n"
    assert measuring.number_between(log, "Took ", " s") == 3.5
    assert measuring.number_between(log, "Wrote ", " total instances") == 1234


def test_a_script_is_run_and_its_memory_measured(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one two three\n" * 9)
    run = measuring.run_script(
        "build_vocab.py",
        input_file=text,
        output_file=tmp_path / "vocab.txt",
        vocab_size=120,
    )
    assert (tmp_path / "vocab.txt").exists() and "vocab.txt" in run.log
    assert run.seconds > 0 and run.megabytes > 10


def test_a_script_that_fails_is_quoted():
    with pytest.raises(UserError, match="no file matches") as caught:
        measuring.run_script(
            "build_vocab.py", input_file="/no/where", output_file="/no/vocab"
        )
    assert str(caught.value).startswith("build_vocab.py failed: --input_file")


def test_the_best_of_several_calls_is_returned():
    seconds = measuring.best_seconds(lambda: None, repeats=5)
    assert 0 <= seconds < 1


def test_a_function_is_called_in_a_process_of_its_own():
    assert measuring.call_apart("a sum", max, 2, 7, 5) == 7
    assert measuring.call_apart("its number", os.getpid) != os.getpid()


def test_a_process_that_fails_is_quoted():
    with pytest.raises(UserError) as caught:
        measuring.call_apart("a sum", max, 2, "x")
    assert str(caught.value).startswith(
        "the process of a sum ended with status 1 (-9: killed, most likely "
        "for its memory): TypeError: "
    )


PARENT = """
import time
from tools.benchmarks import measuring
measuring.call_apart("a wait", time.sleep, 300)
"""


def test_a_process_ends_with_its_parent():
    """After kill -9 nothing goes on beside the next measurement."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    # It has a command line of its own, so what precedes it has been done.
    wait_for(lambda: "importlib" in _command_of(children.read_text()))
    child = children.read_text()
    parent.kill()
    parent.wait()
    wait_for(lambda: not _command_of(child))


def _command_of(number):
    """Return the command line of a process, "" if it has ended or is none."""
    try:
        return Path(f"/proc/{number.strip() or 0}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
