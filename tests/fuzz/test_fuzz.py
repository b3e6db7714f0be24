"""Every reader of files ends damaged ones in a result or in one line."""

import subprocess
import sys

import pytest
from marks import nightly
from paths import ROOT

# A process of its own: a case may end it, and TensorFlow must not have begun
# to compute before it forks.
pytestmark = pytest.mark.slow

# Readers that do what none may, and what is found then.
WRONG = """
import os, signal, subprocess, sys
sys.path.insert(0, "tests/fuzz")
import fuzz, readers

def write(path):
    open(path, "w").close()

def forever(_):
    while True:
        pass

for number, read in enumerate((
    lambda folder: {}["x"],
    lambda folder: len(bytes(2 * fuzz.MEMORY)),
    forever,
    lambda folder: os.kill(os.getpid(), signal.SIGSEGV),
    lambda folder: write(folder / "other"),
    lambda folder: write(sys.argv[2]),
    lambda folder: subprocess.run(["true"]),
)):
    calls = []
    def later(folder, read=read, calls=calls):
        if calls:  # the sample itself is read well
            read(folder)
        calls.append(1)
    later.__name__ = f"wrong{number}"
    readers._reader({"a.json": [1]})(later)
fuzz.SECONDS = 1
fuzz.FLAGS(["fuzz", "--cases=1", sys.argv[1]])
for number in range(7):
    print(list(fuzz.fuzz(f"wrong{number}", 0)[1]))
"""


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize("cases", [3, nightly(0)])
def test_damaged_files_end_in_a_result_or_in_a_line(tmp_path, cases):
    flags = [f"--findings={tmp_path / 'findings'}", f"--cases={cases}"]
    found = run("tests/fuzz/fuzz.py", *flags)
    assert found.returncode == 0, found.stdout + found.stderr[-2000:]


@pytest.mark.nightly
def test_what_no_reader_may_do_is_found(tmp_path):
    findings = f"--findings={tmp_path / 'findings'}"
    found = run("-c", WRONG, findings, str(tmp_path / "outside"))
    lines = found.stdout.splitlines()
    assert len(lines) == 7, found.stderr
    for line, words in zip(
        lines,
        ["KeyError", "MemoryError", "SIGPROF", "SIGSEGV"]
        + ["not as before", "outside", "subprocess.Popen"],
        strict=True,
    ):
        assert words in line
