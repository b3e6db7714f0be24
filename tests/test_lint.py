"""What `make lint` refuses beyond style; the commands of the hooks."""

import re
import subprocess
import sys

import pytest
from paths import ROOT

WORKER_FILES = (
    "base/workers.py",
    "tokenization.py",
    "compat/tokenization.py",
    "compat/create_pretraining_data.py",
    "records/tfrecord.py",
    "pretraining/data/buckets.py",
    "pretraining/data/packing.py",
    "tasks/squad/windows.py",
    "create_pretraining_data.py",
    "build_vocab.py",
)


def rules_broken_by(source: str, path: str) -> set[str]:
    """Return the codes ruff reports for a file of this text and path."""
    run = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--output-format=concise"]
        + [f"--stdin-filename={ROOT / path}", "-"],
        input=source,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    return set(re.findall(r"\b[A-Z]+\d{3}\b", run.stdout))


@pytest.mark.parametrize("path", WORKER_FILES)
@pytest.mark.parametrize("package", ["tensorflow", "keras"])
def test_files_of_worker_processes_do_not_import_tensorflow(path, package):
    assert (ROOT / path).is_file()
    source = f"import {package}\n\nprint({package})\n"
    assert rules_broken_by(source, path) == {"TID253"}


@pytest.mark.parametrize("path", ["modeling.py", "tasks/squad/model.py"])
def test_other_files_may_import_tensorflow(path):
    assert not rules_broken_by("import keras\n\nprint(keras)\n", path)


def test_relative_imports_are_refused():
    source = "from . import data\n\nprint(data)\n"
    assert rules_broken_by(source, "tasks/ner/scores.py") == {"TID252"}


def test_hooks_run_the_commands_of_make_lint():
    makefile = (ROOT / "Makefile").read_text()
    lint = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.M)[1]
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    for line in lint.splitlines():
        command = line.strip().replace("$(BIN)/", "")
        assert f"entry: {command}\n" in hooks, command
