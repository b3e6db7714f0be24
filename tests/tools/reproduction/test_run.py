"""The processes of a run: how they are ended and when they are finished."""

import os

import pytest

from tools.reproduction import run, work_dir
from tools.reproduction.plan import FINETUNING, Places, Plan, Step


def run_scripts(tmp_path, *sources, **more):
    """Run steps whose scripts have these sources; return what failed."""
    plan = Plan()
    for number, source in enumerate(sources):
        (tmp_path / f"script{number}.py").write_text(source)
        step = Step(
            f"finetuning/{number}",
            "",
            FINETUNING,
            f"script{number}.py",
            (("output", f"{{work_dir}}/{number}"),),
            output=f"{number}",
        )
        (tmp_path / f"{number}").mkdir()
        plan.add(step, "table5")
    places = Places(
        str(tmp_path), str(tmp_path), "", {"{work_dir}": str(tmp_path)}
    )
    run.run(plan, places, {}, 2, **more)
    return work_dir.failures(str(tmp_path), plan)


def is_running(path):
    """Return whether the process whose id a file has is there."""
    try:
        os.kill(int(path.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def test_an_error_ends_the_running_steps(tmp_path):
    pid = tmp_path / "pid"
    hangs = (
        "import os, pathlib, time\n"
        f"pathlib.Path({str(pid)!r}).write_text(str(os.getpid()))\n"
        "time.sleep(60)\n"
    )
    waits = (
        "import os, time\n"
        f"while not os.path.exists({str(pid)!r}):\n"
        "    time.sleep(0.01)\n"
    )

    def fail():
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        run_scripts(tmp_path, hangs, waits, on_scores=fail)
    assert not is_running(pid)


def test_a_step_ends_although_it_leaves_a_process_that_prints(tmp_path):
    ended = tmp_path / "ended"
    code = (
        "import pathlib, sys, time\n"
        "for _ in range(600):\n"
        "    print(1, file=sys.stderr, flush=True)\n"
        "    time.sleep(0.05)\n"
        f"pathlib.Path({str(ended)!r}).touch()\n"
    )
    leaves = (
        "import subprocess, sys\n"
        f"subprocess.Popen([sys.executable, '-c', {code!r}])\n"
    )
    assert run_scripts(tmp_path, leaves) == []
    assert not ended.exists()


def test_the_error_of_a_step_is_shown_and_not_what_follows_it(tmp_path):
    fails = "import sys; sys.exit('ERROR: it is broken\\nand a farewell')\n"
    (failure,) = run_scripts(tmp_path, fails)
    assert failure.line == "it is broken"
