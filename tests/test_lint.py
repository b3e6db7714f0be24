"""What `make lint` refuses beyond style; the commands of the hooks."""

import re
import shutil
import subprocess
import sys

from paths import ROOT

WORKER_FILES = (
    "base/workers.py",
    "tokenization.py",
    "compat/tokenization.py",
    "compat/create_pretraining_data.py",
    "records/tfrecord.py",
    "pretraining/data/steps.py",
    "pretraining/data/packing.py",
    "tasks/squad/windows.py",
    "create_pretraining_data.py",
    "build_vocab.py",
)


def test_what_is_refused_besides_style(tmp_path):
    """TensorFlow in files of workers; relative imports; calls of Linux."""
    tensorflow = "import keras\nimport tensorflow\n\nprint(keras, tensorflow)\n"
    sources = dict.fromkeys(WORKER_FILES, tensorflow)
    sources |= {"modeling.py": tensorflow, "tasks/squad/model.py": tensorflow}
    sources["tasks/ner/scores.py"] = "from . import data\n\nprint(data)\n"
    sources["base/file_system.py"] = "import fcntl\n\nprint(fcntl)\n"
    for path, source in sources.items():
        assert (ROOT / path).is_file()
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(source)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--output-format=concise"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    found = re.findall(r"^(\S+?):\d+:\d+: (\w+)", run.stdout, re.M)
    wanted = [(path, "TID253") for path in WORKER_FILES] * 2
    wanted += [("tasks/ner/scores.py", "TID252")]
    wanted += [("base/file_system.py", "TID251")]
    assert sorted(found) == sorted(wanted)


def test_hooks_run_the_commands_of_make_lint():
    makefile = (ROOT / "Makefile").read_text()
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.M)[1]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for line in lint.splitlines():
        command = line.strip().replace("$(BIN)/", "")
        assert f"entry: {command}\n" in hooks, command
