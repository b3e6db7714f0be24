"""Workers return results and errors; none outlives its parent."""

import os
import signal
import subprocess
import sys
import time

from base import workers
from base.errors import UserError

import pytest
from absl import logging
from paths import ROOT


def setup(settings):
    """Return the settings, which `work` gets with every job."""
    if settings == "bad":
        raise UserError("cannot set up")
    return settings


def work(state, job):
    """End, fail, sleep or multiply; run in a worker."""
    if job == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if job == "user error":
        raise UserError("line 3 is bad")
    if job == "bug":
        raise KeyError("a bug")
    if job == "disk":
        raise OSError(28, "No space left on device", "/x")
    if job == "log":
        logging.warning("a line")
        return None
    if job == "sleep":
        time.sleep(600)
    return state * job


def _run(jobs, num_workers=2, settings=10):
    with workers.WorkerPool(num_workers, setup, settings, work) as pool:
        return list(pool.run(jobs))


def test_every_job_is_done():
    assert sorted(_run(range(25))) == [(job, 10 * job) for job in range(25)]
    assert _run([]) == []


@pytest.mark.parametrize(
    "job, error, text",
    [
        ("die", UserError, "unexpectedly, signal 9 .SIGKILL.*--num_workers"),
        ("user error", UserError, "^line 3 is bad$"),
        ("disk", OSError, "No space left on device: '/x'"),
        ("bug", RuntimeError, r"(?s)Traceback.*KeyError: 'a bug'"),
    ],
)
def test_a_worker_that_fails_ends_the_run(job, error, text):
    with pytest.raises(error, match=text):
        _run([1, 2, job, *range(1000)])


def test_log_lines_have_the_form_of_all(capfd):
    _run(["log"])
    lines = capfd.readouterr().err.splitlines()
    assert lines[-1] == "WARNING: a line"


def test_an_error_in_setup_ends_the_run():
    with pytest.raises(UserError, match="^cannot set up$"):
        _run([1, 2, 3], settings="bad")


def _alive(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
@pytest.mark.parametrize("job", ["sleep", None])
def test_workers_of_a_killed_parent_end(job):
    """Busy or idle (None)."""
    code = (
        "import sys, time; sys.path += ['tests/helpers', 'tests/base']\n"
        "import test_workers\n"
        "from base import workers\n"
        "if __name__ == '__main__':\n"
        "    pool = workers.WorkerPool(2, test_workers.setup, 1, "
        "test_workers.work)\n"
        "    for _ in pool.run([1, 1]): pass\n"
        "    print(*[p.pid for p in pool._processes.values()], flush=True)\n"
        f"    for _ in pool.run([{job!r}] if {job!r} else []): pass\n"
        "    time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE
    )
    children = [int(word) for word in parent.stdout.readline().split()]
    time.sleep(0.5)
    assert len(children) == 2 and all(map(_alive, children))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 120
    while any(map(_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_alive, children))
