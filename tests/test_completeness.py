"""Every task has all of its parts: modules, script, tests, page, table row."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest
from paths import ROOT

from finetuning import fine_tuned
from tasks.job import Job

TASKS = ("classifier", "squad", "ner", "swag")
MODULES = ("data", "records", "model", "job", "export")


def missing_parts(root: Path, task: str) -> list[str]:
    """Return what CONTRIBUTING.md asks of a task and `task` does not have."""
    script = f"run_{task}.py"
    wanted = [
        f"{task}/__init__.py",
        *(f"{task}/{module}.py" for module in MODULES),
        script,
        f"tests/{task}/test_data.py",
        f"tests/test_{script}",
        f"docs/{task}.md",
    ]
    found = [path for path in wanted if not (root / path).is_file()]
    mentions = {
        "README.md": (f"`{script}`", f"docs/{task}.md", f"{task}/ "),
        "docs/flags.md": (f"## {script}",),
        "tests/test_import_rule.py": (f'"{task}"',),
        "tests/test_completeness.py": (f'"{task}"',),
    }
    for path, texts in mentions.items():
        file = root / path
        text = file.read_text("utf-8") if file.is_file() else ""
        found += [f"{entry} in {path}" for entry in texts if entry not in text]
    return found


def test_every_task_is_complete():
    found = {task: missing_parts(ROOT, task) for task in TASKS}
    assert not any(found.values()), found


def test_every_package_with_a_script_is_a_task():
    """run_pretraining.py trains on records that another script makes."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    scripts = {path.stem[4:] for path in ROOT.glob("run_*.py")}
    assert packages & scripts == {*TASKS, "pretraining"}


@pytest.mark.parametrize("task", TASKS)
def test_every_job_is_whole(task):
    """It defines every abstract method, its head and its objective."""
    module = importlib.import_module(f"{task}.job")
    jobs = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Job) and value != Job
    ]
    assert len(jobs) == 1, jobs
    assert not jobs[0].__abstractmethods__
    assert jobs[0].head_pattern
    source = (ROOT / task / "job.py").read_text("utf-8")
    assert "objective" in vars(jobs[0]) or "self.objective =" in source


def config_keys(source: str) -> set[str]:
    """Return the attributes of `config` that a job's source assigns."""
    return {
        target.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "config"
    }


@pytest.mark.parametrize("path", ["finetuning", *TASKS])
def test_keys_of_a_fine_tuned_configuration_are_known(path):
    """A key that is not listed would count as the encoder's."""
    keys = config_keys((ROOT / path / "job.py").read_text("utf-8"))
    assert keys <= {*fine_tuned.ADDED_TO_CONFIG}
    assert keys or path == "swag"  # it adds what every job adds


def test_keys_are_found_in_a_source():
    assert config_keys("config.a = b.config.c = 1\nd.e = config.f") == {"a"}


def test_what_a_new_task_lacks_is_named(tmp_path):
    (tmp_path / "cloze").mkdir()
    (tmp_path / "cloze" / "data.py").write_text("")
    (tmp_path / "README.md").write_text("`run_cloze.py`")
    assert missing_parts(tmp_path, "cloze") == [
        "cloze/__init__.py",
        "cloze/records.py",
        "cloze/model.py",
        "cloze/job.py",
        "cloze/export.py",
        "run_cloze.py",
        "tests/cloze/test_data.py",
        "tests/test_run_cloze.py",
        "docs/cloze.md",
        "docs/cloze.md in README.md",
        "cloze/  in README.md",
        "## run_cloze.py in docs/flags.md",
        '"cloze" in tests/test_import_rule.py',
        '"cloze" in tests/test_completeness.py',
    ]
