"""How scripts end: exit status, one line of error, the format of log lines."""

import subprocess
import sys

from base import logs, script

import pytest
import tensorflow as tf
from paths import ROOT

SCRIPT = """
import errno, os, signal, sys
from base import errors, script
from absl import flags, logging
flags.DEFINE_integer("count", 0, "A number.")
flags.DEFINE_float("rate", 0.1, "A number.", lower_bound=0)
flags.DEFINE_integer("num_errors", 0, "A number.")
flags.DEFINE_integer("num_train_epochs", 0, "A number.")
flags.DEFINE_integer("train_batch_size", 0, "A number.")
flags.DEFINE_integer("predict_batch_size", 0, "A number.")
flags.DEFINE_string("init_checkpoint", None, "A path.")

def main(_):
    logging.warning("a warning, of %d lines:\\nthe second", 2)
    {body}

if __name__ == "__main__":
    script.run(main)
"""


def end_of(body: str, *arguments: str) -> subprocess.CompletedProcess:
    """Run a script whose main ends with this statement."""
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(body=body), *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.parametrize(
    "body, status, last",
    [
        ("pass", 0, "the second"),
        ("return 1", 1, "the second"),
        ("raise errors.UserError('x: bad\\nthing')", 1, "ERROR: x: bad thing"),
        ("os.kill(os.getpid(), signal.SIGINT)", 1, "ERROR: interrupted"),
        (
            "raise MemoryError('Unable to allocate 3.64 TiB')",
            1,
            "ERROR: out of memory: Unable to allocate 3.64 TiB; use smaller "
            "batches, shorter sequences or a smaller model",
        ),
        (
            "raise RuntimeError('Graph execution error:\\n\\nDetected at node '"
            "'Tile\\nOOM when allocating tensor with shape[9]\\n\\t [[Tile]]')",
            1,
            "ERROR: out of memory: OOM when allocating tensor with shape[9]; "
            "use smaller batches, shorter sequences or a smaller model",
        ),
        (
            "r, w = os.pipe(); os.close(r); os.dup2(w, 1); print(1, flush=1)",
            1,
            "ERROR: standard output was closed",
        ),
        ("raise KeyError('a bug')", 1, "KeyError: 'a bug'"),
    ],
)
def test_the_status_is_0_or_1_and_an_error_is_the_last_line(body, status, last):
    """A bug keeps its stack trace."""
    result = end_of(body)
    assert result.returncode == status and not result.stdout
    assert ("Traceback" in result.stderr) == ("a bug" in body)
    assert result.stderr.splitlines()[-1] == last


@pytest.mark.parametrize(
    "argument, message",
    [
        ("--cuont=1", "there is no flag --cuont: did you mean --count? (--"),
        (
            "--num_epochs=1",
            "there is no flag --num_epochs: did you mean --num_t",
        ),
        ("--nte=1", "there is no flag --nte: did you mean --num_train_epochs?"),
        ("--model=a", "there is no flag --model: did you mean --init_ch"),
        (
            "--per_device_train_batch_size=1",
            "there is no flag --per_device_train_batch_size: did you mean "
            "--train_batch_size?",
        ),
        ("--quantize=1", "there is no flag --quantize (--helpfull"),
        (
            "--transfer_file=a",
            "there is no flag --transfer_file: batch_predict.py --as",
        ),
        (
            "--max_steps=10",
            "there is no flag --max_steps: did you mean --num_train_epochs?",
        ),
        (
            "--resume_from_checkpoint=a",
            "there is no flag --resume_from_checkpoint: the same command",
        ),
        ("--count=x", "flag --count=x: invalid literal for int()"),
        ("--count=2147483648", "flag --count=2147483648: wanted a whole"),
        (f"--count={-(10**19)}", "flag --count=-1"),
        ("--count=" + 5000 * "9", "flag --count=9"),
        ("count=1", "unexpected argument 'count=1': flags are --name=value"),
        ("--rate=nan", "flag --rate=nan: wanted a finite number"),
        ("--rate=inf", "flag --rate=inf: wanted a finite number"),
        ("--rate=-1", "flag --rate=-1: -1.0 is not a non-negative number"),
    ],
)
def test_a_wrong_argument_is_one_line(argument, message):
    result = end_of("pass", argument)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1 and not result.stdout
    assert result.stderr.startswith(f"ERROR: {message}")


@pytest.mark.parametrize("name", ["x", "/dev/null"])
def test_a_full_disk_is_named_by_the_file_that_is_written(tmp_path, name):
    path = tmp_path / name
    found = end_of(
        "from base import file_system\n"
        f"    with file_system.atomic_file('{path}'):\n"
        "        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))"
    )
    assert found.returncode == 1 and "Traceback" not in found.stderr
    assert found.stderr.splitlines()[-1] == (
        f"ERROR: a file operation failed: {path}: Disk quota exceeded; "
        "free space there and give the same command again"
    )
    assert not list(tmp_path.iterdir())


def missing_file() -> None:
    tf.io.gfile.GFile("/nowhere/x").read()


def full_disk() -> None:
    words = "/x/events; No space left on device [Op:WriteSummary]"
    raise tf.errors.ResourceExhaustedError(None, None, words)


@pytest.mark.parametrize(
    "fail, words",
    [
        (missing_file, "/nowhere/x; No such"),
        (full_disk, "/x/events; No space left on device; free space there"),
    ],
)
def test_a_failed_file_operation_of_tensorflow_is_one_line(
    monkeypatch, fail, words
):
    """As all on gs:// without credentials, and that of its summaries."""
    monkeypatch.setattr(logs, "set_up", lambda: None)
    with pytest.raises(SystemExit) as ended:
        script._guarded(lambda _: fail(), ["script"])
    line = str(ended.value)
    assert line.startswith(f"ERROR: a file operation failed: {words}")
