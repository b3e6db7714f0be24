"""demo.py: what it shows of the logs, and the whole of it in a few steps."""

import subprocess
import sys

from base import file_system
from base.errors import UserError

import pytest
import scripts
from paths import ROOT
from waiting import wait_for

demo = scripts.load("demo")

LINE = (
    "12:03:44 step 1,200/3,000 (40.0%) | loss 6.1267 | masked_lm_loss 5.4900 "
    "| learning_rate 0.0012 | 401.2 sequences/s | 20,000 tokens/s | ETA "
    "00:01:40"
)


def test_a_few_reports_and_nothing_else_is_shown():
    select = demo.training_report(3000)
    shown = [
        step
        for step in range(100, 3001, 100)
        if select(LINE.replace("step 1,200", f"step {step:,}"))
    ]
    assert shown == list(range(200, 3001, 200))
    for line in ("", "Saved model/model.ckpt-600", "step 600 of nothing"):
        assert select(line) == ""


def test_the_folder_of_a_demo_of_another_size_stays_as_it_is(tmp_path):
    steps = demo.Steps(str(tmp_path))
    demo.claim(steps, demo.Scale())
    with pytest.raises(UserError, match="was begun without --quick: give the"):
        scripts.run(demo, work_dir=tmp_path, quick=True)
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "scale.json"}


@pytest.mark.parametrize(
    "work_dir, words",
    [
        ("", "--work_dir is required"),
        ("a,b", "--work_dir=a,b: ',' has a meaning in the lists"),
        (__file__, "test_demo.py/logs cannot be written: Not a directory"),
    ],
)
def test_a_folder_that_cannot_be_used(work_dir, words):
    assert words in scripts.error_of(demo, work_dir=work_dir)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the signal")
def test_a_script_ends_with_the_demo(tmp_path, monkeypatch):
    """Also when the demo is killed, so that the next one finds no other run."""
    (tmp_path / "x.py").write_text(
        "import os, pathlib, time\n"
        f"pid = pathlib.Path({str(tmp_path / 'pid')!r})\n"
        "pid.write_text(str(os.getpid()))\n"
        "time.sleep(300)\n"
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); import demo; "
        "demo.HERE = sys.argv[2]; demo.Steps(sys.argv[2]).run('x.py', str)"
    )
    command = [sys.executable, "-c", program, ROOT, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: (tmp_path / "pid").exists())
        wait_for(lambda: (tmp_path / "pid").read_text())
        process.kill()
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not file_system.is_running(pid))


def test_a_script_that_fails_is_quoted_with_its_log(tmp_path, capsys):
    steps = demo.Steps(str(tmp_path))
    with pytest.raises(UserError, match="no file matches") as caught:
        steps.run(
            "build_vocab.py",
            demo.matching("."),
            input_file=tmp_path / "nothing.txt",
            output_file=tmp_path / "vocab.txt",
        )
    message = str(caught.value)
    assert message.startswith("build_vocab.py failed: --input_file")
    log = tmp_path / "logs" / "1_build_vocab.log"
    assert f"(its log: {log})" in message
    assert "no file matches" in log.read_text()


@pytest.fixture(scope="module")
def quick_run(tmp_path_factory):
    """The work directory of a quick run and what it printed."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "demo.py", "--quick", f"--work_dir={folder}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    return folder, result.stdout


@pytest.mark.slow
def test_demo_from_end_to_end(quick_run):
    folder, printed = quick_run
    for script in ("build_vocab", "create_pretraining_data", "run_pretraining"):
        assert f"$ python {script}.py --" in printed
    for sentence in demo.SENTENCES:
        assert sentence in printed
    assert (folder / "model" / "bert_model.ckpt.index").exists()
    assert (folder / "curves.png").read_bytes()[:4] == b"\x89PNG"
    lines = printed.splitlines()
    # A whole run has more reports of training than this one.
    steps = demo.QUICK.num_train_steps
    assert len(lines) - steps + demo.NUM_REPORTS <= 85
    assert sum(line.startswith("  step ") for line in lines) == steps
    assert lines[-6].split() == ["BERT", "unigram"]
    assert lines[-1].strip().startswith("training speed")
    logs = sorted(path.name for path in (folder / "logs").iterdir())
    assert logs == [
        "1_build_vocab.log",
        "2_create_pretraining_data.log",
        "3_create_pretraining_data.log",
        "4_run_pretraining.log",
        "5_fill_mask.log",
    ]


@pytest.mark.slow
def test_without_matplotlib_one_line_names_the_remedy(
    quick_run, monkeypatch, capsys
):
    folder, _ = quick_run
    for name in ("matplotlib", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    steps = demo.Steps(str(folder))
    steps.begin("Results")
    demo.summarize(steps, demo.QUICK)
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if "matplotlib" in line]
    assert "python -m pip install -r requirements.txt" in line
    assert lines[-1].strip().startswith("training speed")
