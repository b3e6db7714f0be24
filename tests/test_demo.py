"""tools.demo: what it shows of the logs, and the whole of it in a few steps."""

import re
import subprocess
import sys

from base import file_system
from base.errors import UserError

import numpy as np
import pytest
import scripts
from paths import ROOT
from waiting import wait_for

demo = scripts.load("tools.demo")


@pytest.mark.parametrize(
    "work_dir, words",
    [
        ("", "--work_dir is required"),
        ("a,b", "--work_dir=a,b: ',' has a meaning in the lists"),
        (__file__, "test_demo.py is a file, wanted a directory"),
    ],
)
def test_a_folder_that_cannot_be_used(work_dir, words):
    assert words in scripts.error_of(demo, work_dir=work_dir)


@pytest.mark.parametrize("name", ["bert_config.json", "demo.json", "model"])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("another's")
    assert f"holds {name}" in scripts.error_of(demo, work_dir=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "another's"


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
        "import sys; sys.path.insert(0, sys.argv[1]); from tools import demo; "
        "demo.HERE = sys.argv[2]; demo.run(sys.argv[2], 'x.py')"
    )
    command = [sys.executable, "-c", program, ROOT, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: (tmp_path / "pid").exists())
        wait_for(lambda: (tmp_path / "pid").read_text())
        process.kill()
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not file_system.is_running(pid))


def test_a_script_that_fails_is_quoted_with_its_log(tmp_path):
    with pytest.raises(UserError, match="no file matches") as caught:
        demo.run(
            str(tmp_path),
            "build_vocab.py --input_file=$dir/nothing.txt "
            "--output_file=$dir/vocab.txt",
        )
    message = str(caught.value)
    assert message.startswith("build_vocab.py failed: --input_file")
    log = tmp_path / "logs" / "build_vocab.log"
    assert f"(its log: {log})" in message
    assert "no file matches" in log.read_text()


@pytest.mark.nightly
def test_demo_from_end_to_end(tmp_path):
    command = [sys.executable, "-m", "tools.demo", "--quick"]
    command.append(f"--work_dir={tmp_path}")
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    printed = result.stdout
    for script in ("build_vocab", "create_pretraining_data", "run_pretraining"):
        assert f"$ python {script}.py --" in printed
    for sentence in demo.SENTENCES:
        assert sentence in printed
    assert (tmp_path / "model" / "bert_model.ckpt.index").exists()
    assert (tmp_path / "model" / "curves.png").read_bytes()[:4] == b"\x89PNG"
    lines = printed.splitlines()
    steps = [line for line in lines if line.startswith("  step ")]
    assert len(steps) == 7  # the first step of 8 has no speed yet
    assert re.fullmatch(
        r"  step 8/8 \(100.0%\) \| loss [\d.]+ \| [\d.,]+ sequences/s \| "
        r"ETA [\d:]+",
        steps[-1],
    )
    assert len(lines) <= 80
    assert lines[-6].split() == ["BERT", "unigram"]
    assert "A classifier of your own" in lines[-1]
    assert re.match(" +masked LM accuracy +[0-9.]+% +[0-9.]+%$", lines[-4])
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == [
        "build_vocab.log",
        "create_pretraining_data.log",
        "fill_mask.log",
        "run_pretraining.log",
    ]
    demo.claim(str(tmp_path), is_quick=True)  # its own folder, a second time
    with pytest.raises(UserError, match="was begun with"):
        scripts.run(demo, work_dir=tmp_path, quick=False)


def test_baseline_by_hand():
    found = demo.baseline(
        np.array([1, 1, 1, 2]),
        np.array([1, 2, 0, 1]),
        np.array([0, 0, 1]),
        vocab_size=4,
    )
    # Counts with one added to each: 1, 4, 2, 1 of 8.
    loss = -np.mean(np.log([4 / 8, 2 / 8, 1 / 8, 4 / 8]))
    assert found == pytest.approx(
        {
            "masked_lm_perplexity": np.exp(loss),
            "masked_lm_accuracy": 0.5,
            "next_sentence_accuracy": 2 / 3,
        }
    )
