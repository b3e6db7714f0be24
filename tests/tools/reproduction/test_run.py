"""The processes of a run, and the files of its work directory."""

import os

from base.errors import UserError

import pytest

from tools.reproduction import run, scales
from tools.reproduction.steps import Plan, Step
from tools.reproduction.work_dir import WorkDir


def run_scripts(tmp_path, *sources):
    """Run steps whose scripts have these sources; return {step: failure}."""
    plan, work = Plan(scales.read("smoke"), {}), WorkDir(str(tmp_path), {})
    for number, source in enumerate(sources):
        name, script = f"finetuning/{number}", tmp_path / f"script{number}.py"
        script.write_text(source)
        plan.steps[name] = Step(number, name, str(script), {})
        os.makedirs(work.output(plan.steps[name]))
    run.run(plan, work)
    return work.failures(plan)


def test_an_error_ends_the_running_steps(tmp_path, monkeypatch):
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

    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr(run, "_end", fail)
    with pytest.raises(OSError, match="no space"):
        run_scripts(tmp_path, hangs, waits)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


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
    assert run_scripts(tmp_path, leaves) == {}
    assert not ended.exists()


def test_weights_and_activations_are_removed(tmp_path):
    # A run of a sweep without weights is not finished.
    kept = {
        "runs/a/eval_results.txt",
        "eval_results.txt",
        "records/a.tf_record",
    }
    gone = {
        "bert_model.ckpt.index",
        "checkpoint",
        "runs/a/bert_model.ckpt.index",
        "runs/a/finished.json",
        "records/dev_1_2.npy",
        "records/dev_1_2.npy.json",
    }
    folder = tmp_path / "finetuning" / "a"
    for name in kept | gone:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    work = WorkDir(str(tmp_path), {})
    work.remove_weights(Step(1, "finetuning/a", "run.py", {}))
    left = {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
    assert set(map(str, left)) == kept


def test_files_of_one_name_are_told_apart(tmp_path):
    paths = []
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "text.txt").write_text(folder)
        paths.append(str(tmp_path / folder / "text.txt"))
    plan = Plan(scales.read("smoke"), {})
    plan.corpus()
    (step,) = plan.steps.values()
    (tmp_path / "work").mkdir()
    places = {"input_file": ",".join(paths)}
    work = WorkDir(str(tmp_path / "work"), places)
    work.begin(plan)
    work.note(step, 0.0)
    places["input_file"] = ",".join(paths[::-1])
    work.begin(plan)
    places["input_file"] = paths[0]
    with pytest.raises(UserError, match="corpus: a/text.txt was .*, is not"):
        work.begin(plan)
