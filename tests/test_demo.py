"""tools.demo: its folder, its processes, and the whole of it in a few steps."""

import subprocess
import sys

from base import file_system
from base.errors import UserError

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
        "demo.startup.ROOT = sys.argv[2]; demo.run(sys.argv[2], 'x.py')"
    )
    command = [sys.executable, "-c", program, ROOT, tmp_path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        wait_for(lambda: (tmp_path / "pid").exists())
        wait_for(lambda: (tmp_path / "pid").read_text())
        process.kill()
    pid = int((tmp_path / "pid").read_text())
    wait_for(lambda: not file_system.is_running(pid))


def test_a_script_that_fails_ends_the_demo(tmp_path, capfd):
    with pytest.raises(UserError, match=r"^build_vocab.py failed, see above"):
        demo.run(
            str(tmp_path),
            "build_vocab.py --input_file=$dir/nothing.txt "
            "--output_file=$dir/vocab.txt",
        )
    assert "no file matches" in capfd.readouterr().err


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
    assert "A classifier of your own" in printed.splitlines()[-1]
    shown = result.stderr.splitlines()
    steps = [line for line in shown if line.startswith("step ")]
    assert len(steps) == 8
    assert "  (token frequencies alone: " in result.stderr
    assert len(printed.splitlines()) + len(shown) <= 100
    demo.claim(str(tmp_path), is_quick=True)  # its own folder, a second time
    with pytest.raises(UserError, match="was begun with"):
        scripts.run(demo, work_dir=tmp_path, quick=False)
