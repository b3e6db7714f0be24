"""What a person sees: a bar on a terminal, whole lines in a pipe, no noise.

Programs run as a user runs them, once with standard error in a pipe and once
in a pseudo-terminal.
"""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import NamedTuple

import pretraining_runs
import pytest
from paths import ROOT

COLOR = re.compile(r"\x1b\[[0-9;]*m")
# Lines of TensorFlow's C++ code, in both forms that it has had.
NOISE = re.compile(
    r"^[IWEF]\d{4} |^\d{4}-\d\d-\d\d .*: [IWEF] |oneDNN|cuda|InitializeLog",
    re.MULTILINE | re.IGNORECASE,
)


class Output(NamedTuple):
    """What a process wrote, and its exit status."""

    status: int
    stdout: str
    stderr: str


def environment(**changes: str) -> dict[str, str]:
    """Return the variables of a user who has set none of ours."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("TF_CPP_MIN_LOG_LEVEL", "NO_COLOR", "COLUMNS", "TERM")
    }
    return kept | {"TERM": "xterm-256color"} | changes


def in_pipe(*arguments: str | Path, **variables: str) -> Output:
    """Run Python with both outputs in pipes."""
    result = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=environment(**variables),
        capture_output=True,
        timeout=300,
    )
    return Output(
        result.returncode, result.stdout.decode(), result.stderr.decode()
    )


def in_terminal(
    *arguments: str | Path,
    size: tuple[int, int] = (40, 100),
    **variables: str,
) -> Output:
    """Run Python in a terminal of (lines, columns); all it writes is stderr."""
    ours, theirs = pty.openpty()
    pixels = (0, 0)
    packed = struct.pack("HHHH", *size, *pixels)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, packed)
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT,
        env=environment(**variables),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    except OSError:  # Linux reports the end of the other side as an error.
        pass
    os.close(ours)
    return Output(process.wait(timeout=300), "", b"".join(parts).decode())


def screen_of(text: str) -> list[str]:
    """Return the lines that a very wide terminal shows in the end."""
    lines, row, column = [[]], 0, 0
    for token in re.findall(r"\x1b\[\w|.|\n|\r", text):
        if token == "\r":
            column = 0
        elif token == "\n":
            row += 1
            lines += [[] for _ in range(row + 1 - len(lines))]
        elif token == "\x1b[A":
            row = max(0, row - 1)
        else:
            line = lines[row]
            line += " " * (column + 1 - len(line))
            line[column] = token
            column += 1
    return ["".join(line).rstrip() for line in lines]


# --- A small program ---------------------------------------------------------

PROGRAM = """
import time
from base import errors, logs, progress, script
from absl import logging

def main(_):
    progress.SECONDS_BETWEEN_LINES = 0.25
    with progress.Bar(10, "records", "Outer") as outer:
        for number in range(10):
            with progress.Bar(4_000_000, "B", "Inner") as bar:
                for _ in range(4):
                    time.sleep(0.035)
                    bar.update(1_000_000)
            logs.say("item %d", number)
            logging.info("in the log alone")
            outer.update(1)
            outer.note(f"note {number}")
        with outer.doing("thinking"):
            time.sleep(2.5)
    logging.warning("the end")

if __name__ == "__main__":
    script.run(main)
"""


@pytest.mark.slow
def test_a_terminal_shows_bars_and_keeps_messages_whole():
    output = in_terminal("-c", PROGRAM)
    assert output.status == 0
    assert COLOR.findall(output.stderr) == ["\x1b[33m", "\x1b[m"]  # WARNING:
    assert re.search(r"\rOuter: +\d+%\|", output.stderr)
    assert "note 8]" in output.stderr
    assert re.search(
        r"Inner: +\d+%\|.*[\d.]+M/4\.00M \[.*MB/s\]", output.stderr
    )
    assert re.search(r"\rOuter, thinking \(2 s\): +100%\|", output.stderr)
    shown = list(filter(None, screen_of(output.stderr)))
    items = [f"item {number}" for number in range(10)]
    assert [COLOR.sub("", line) for line in shown] == [
        *items,
        "WARNING: the end",
    ]


def test_a_terminal_without_a_size_has_a_bar_too():
    """Those of containers have 0 columns and lines."""
    program = """
import time
from base import progress, script

def main(_):
    with progress.Bar(10, "steps", "Training", has_lines=False) as bar:
        bar.note("ETA 00:03:10, loss 1.3768, 33.2 sequences/s")
        with bar.doing("compiling"):
            time.sleep(1.2)
        bar.update(4)

script.run(main)
"""
    shown = in_terminal("-c", program, size=(0, 0)).stderr
    bars = re.findall(r"Training, compiling \(1 s\): [^\r]*", shown)
    assert bars and all("ETA 00:03:10" in bar[:80] for bar in bars)


def test_levels_have_colours_on_a_terminal_unless_no_color_is_set():
    program = """
from base import errors, script
def main(_):
    raise errors.UserError("a mistake")
script.run(main)
"""
    assert in_pipe("-c", program).stderr == "ERROR: a mistake\n"
    shown = in_terminal("-c", program).stderr
    assert shown == "\x1b[31mERROR:\x1b[m a mistake\r\n"
    shown = in_terminal("-c", program, NO_COLOR="1").stderr
    assert shown == "ERROR: a mistake\r\n"


# --- The scripts -------------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return pretraining_runs.write_data(tmp_path_factory.mktemp("data"))


def run_flags(data: Path, output_dir: Path, jit_compile: bool) -> list[str]:
    """Return the flags of a run that trains and evaluates."""
    values = pretraining_runs.flags_for(
        data,
        output_dir,
        do_eval=True,
        eval_input_file=data / "dev",
        eval_steps=20,
        num_train_steps=40,
        log_steps=10,
        jit_compile=jit_compile,
    )
    return [f"--{name}={value}" for name, value in values.items()]


@pytest.mark.nightly
def test_a_run_in_a_pipe_writes_lines_alone(data, tmp_path):
    flags = run_flags(data, tmp_path, jit_compile=True)  # XLA has messages too
    output = in_pipe("run_pretraining.py", *flags)
    assert output.status == 0 and not output.stdout
    assert not NOISE.search(output.stderr)
    assert "\r" not in output.stderr and "\x1b" not in output.stderr
    lines = output.stderr.splitlines()
    assert len(lines) <= 25
    reports = [line for line in lines if line.startswith("step ")]
    assert len(reports) == 5  # the first step, then every tenth
    assert re.search(
        r"step 20/40 \(50\.0%\) \| loss [\d.]+ \| .* \| [\d.]+ sequences/s "
        r"\| ETA 00:00:\d\d$",
        reports[2],
    )
    assert max(map(len, reports)) <= 100
    assert sum(s.startswith("  masked_lm_accuracy") for s in lines) == 1
    log = (tmp_path / "run.log").read_text()
    assert "Memory, estimated" in log and all(line in log for line in reports)


@pytest.mark.nightly
def test_a_run_in_a_terminal_is_a_bar_and_few_lines(data, tmp_path):
    flags = run_flags(data, tmp_path, jit_compile=False)
    output = in_terminal("run_pretraining.py", *flags)
    assert output.status == 0
    assert not NOISE.search(output.stderr)
    assert not COLOR.search(output.stderr)
    assert re.search(
        r"\rTraining: +\d+%\|.*\| \d+/40 \[\d\d:\d\d, ETA 00:00:\d\d, "
        r"loss [\d.]+, [\d,.]+ sequences/s\]",
        output.stderr,
    )
    assert "\rTraining, compiling (" in output.stderr
    assert re.search(r"\rEvaluating: \d+ batches \[", output.stderr)
    shown = list(filter(None, screen_of(output.stderr)))
    assert len(shown) <= 20
    assert not any(line.startswith("step ") for line in shown)
    assert "step 20/40 (50.0%) | " in (tmp_path / "run.log").read_text()
