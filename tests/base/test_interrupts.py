"""Ctrl-C while a script imports its modules, SIGTERM while it has files."""

import os
import signal
import subprocess
import sys
import time

from base import interrupts

import pytest
from paths import ROOT

# Interrupted where a script would import its other modules.
PROGRAM = """
import sys
sys.path.insert(0, {root!r})
sys.modules["__main__"].__file__ = {file!r}
import base
{error}
"""


@pytest.mark.parametrize(
    "file, error, words, is_trace",
    [
        ("run_ner.py", "raise KeyboardInterrupt", "ERROR: interrupted", False),
        ("run_ner.py", "raise ValueError(3)", "ValueError: 3", True),
        ("other/x.py", "raise KeyboardInterrupt", "KeyboardInterrupt", True),
    ],
)
def test_ctrl_c_while_modules_are_imported(file, error, words, is_trace):
    program = PROGRAM.format(root=str(ROOT), file=str(ROOT / file), error=error)
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert result.returncode
    assert result.stderr.splitlines()[-1] == words
    assert ("Traceback" in result.stderr) == is_trace


# A minute in C, as when TensorFlow compiles, in which Python has no turn.
BUSY = """
import contextlib, hashlib, sys
from base import interrupts, script
from training import stop_request

def main(argv):
    with {block} as stop:
        if stop:
            stop.is_unneeded = True
        print("busy", flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**8)

script.run(main)
"""


@pytest.mark.parametrize(
    "block, first, last",
    [
        ("contextlib.nullcontext()", "Ending when the", "interrupted"),
        # A run that has nothing to save.
        (
            "stop_request.StopRequest()",
            "",
            "stopped by SIGINT before the first",
        ),
    ],
)
def test_ctrl_c_is_answered_while_python_has_no_turn(block, first, last):
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY.format(block=block)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "busy\n"
    time.sleep(1)  # Python has its turn before it
    process.send_signal(signal.SIGINT)
    if first:
        assert process.stderr.readline().startswith(first)
        process.send_signal(signal.SIGINT)
    found = process.communicate(timeout=30)[1]
    assert found.startswith(f"\nERROR: {last}") and found.count("\n") == 2
    assert process.returncode == 1


def test_sigterm_is_ctrl_c_inside_the_block():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupts.ending_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    assert signal.getsignal(signal.SIGTERM) == before
