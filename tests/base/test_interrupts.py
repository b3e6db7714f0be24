"""Ctrl-C while a script imports its modules, SIGTERM while it has files."""

import os
import signal
import subprocess
import sys

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


def test_sigterm_is_ctrl_c_inside_the_block():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interrupts.ending_on_sigterm():
        os.kill(os.getpid(), signal.SIGTERM)
        signal.pause()
    assert signal.getsignal(signal.SIGTERM) == before
