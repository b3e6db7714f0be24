"""How scripts end: exit status, one line of error, the format of log lines."""

import re
import subprocess
import sys

from base import errors

import pytest
from paths import ROOT

TIME = r"\d\d:\d\d:\d\d "
SCRIPT = """
import os, signal, sys
from base import errors
from absl import flags, logging
flags.DEFINE_integer("count", 0, "A number.")

def main(_):
    logging.debug("a debug message")
    logging.info("an info message")
    logging.warning("a warning, of %d lines:\\nthe second", 2)
    {body}

if __name__ == "__main__":
    errors.run(main)
"""


def end_of(body: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run a script whose main ends with this statement."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize(
    "body, status, last",
    [
        ("pass", 0, "the second"),
        ("return 1", 1, "the second"),
        ("raise errors.UserError('x: bad\\nthing')", 1, "ERROR: x: bad thing"),
        ("os.kill(os.getpid(), signal.SIGINT)", 1, "ERROR: interrupted"),
    ],
)
def test_the_status_is_0_or_1_and_an_error_is_the_last_line(body, status, last):
    result = end_of(body)
    assert result.returncode == status
    assert "Traceback" not in result.stderr and not result.stdout
    assert result.stderr.splitlines()[-1] == last


def test_a_bug_keeps_its_stack_trace():
    result = end_of("raise KeyError('a bug')")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert result.stderr.splitlines()[-1] == "KeyError: 'a bug'"


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--cuont=1", "Unknown command line flag 'cuont'. Did you mean: count"),
        ("--count=x", "flag --count=x: invalid literal for int()"),
        ("count=1", "unexpected argument 'count=1': flags are --name=value"),
    ],
)
def test_a_wrong_argument_is_one_line(argument, message):
    result = end_of("pass", argument)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and not result.stdout
    assert result.stderr.startswith(f"ERROR: {message}")


def test_log_lines_are_time_and_message_with_the_level_of_warnings():
    lines = end_of("pass").stderr.splitlines()
    assert len(lines) == 3
    assert re.fullmatch(TIME + "an info message", lines[0])
    assert re.fullmatch(TIME + "WARNING: a warning, of 2 lines:", lines[1])


def test_verbosity_decides_which_lines_and_how_long():
    assert "an info message" not in end_of("pass", "--verbosity=-1").stderr
    assert end_of("pass", "-v=-2").stderr == ""
    lines = end_of("pass", "--verbosity=1").stderr.splitlines()
    prefix = r"[DI]\d{4} [\d:.]+ +\d+ \S+:\d+\] "
    assert re.fullmatch(prefix + "a debug message", lines[0])
    assert re.fullmatch(prefix + "an info message", lines[1])


def test_reason_is_the_text_of_an_error_without_code_and_path():
    error = FileNotFoundError(2, "No such file or directory", "/x")
    assert errors.reason(error) == "No such file or directory"
    assert errors.reason(ValueError("bad")) == "bad"


@pytest.mark.slow
def test_a_failed_operation_of_tensorflows_file_system_is_one_line():
    """As every operation on gs:// without network or credentials."""
    found = end_of(
        "import tensorflow; tensorflow.io.gfile.GFile('/nowhere/x').read()"
    )
    assert found.returncode == 1
    assert "ERROR: a file operation failed: /nowhere/x; No such" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.slow
def test_other_errors_of_tensorflow_keep_their_stack_trace():
    found = end_of("import tensorflow; tensorflow.ones([2]) + [1.0, 2.0, 3.0]")
    assert found.returncode == 1 and "Traceback" in found.stderr
