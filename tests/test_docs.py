"""README, CONTRIBUTING and docs/: every command, link and name is right.

tests/helpers/pages.py holds the checks. Each check also runs on a page with a
mistake, so that a check that finds nothing is noticed.
"""

import ast
import re
from pathlib import Path

import flags_page
import generated_pages
import pages
import pytest
import scripts
import test_import_rule
from paths import ROOT

PAGES = pages.all_pages()


@pytest.fixture(params=PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def page(request) -> Path:
    """Every page of the project."""
    return request.param


def bad_page(folder: Path, text: str) -> Path:
    """Write a page with a mistake."""
    path = folder / "bad.md"
    path.write_text(text, encoding="utf-8")
    return path


def shell_page(folder: Path, command: str) -> Path:
    """Write a page with one command."""
    return bad_page(folder, f"# Bad\n\n```sh\n{command}\n```\n")


# --- Commands ----------------------------------------------------------------


def test_commands_are_right(page):
    assert not pages.command_problems(page)


@pytest.mark.parametrize("name", scripts.names())
def test_commands_of_help_are_right(name, tmp_path):
    """Those of the script's docstring, with which --help begins."""
    source = (ROOT / scripts.path_of(name)).read_text()
    docstring = ast.get_docstring(ast.parse(source))
    commands = re.findall(r"^ {4}(python (?:.*\\\n)*.*)", docstring, re.M)
    assert commands
    page = shell_page(tmp_path, "\n".join(commands))
    assert not pages.command_problems(page)


def test_every_script_is_in_the_table_of_the_readme():
    text = (ROOT / "README.md").read_text("utf-8").split("\n## Scripts")[1]
    found = re.findall(r"`(?:(\w+)\.py|(tools\.\w+))`", text)
    assert sorted(map("".join, found)) == scripts.names()


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("python run_clasifier.py --do_train", "no run_clasifier.py"),
        ("python run_classifier.py --do_trane", "do_trane"),
        ("python run_classifier.py --train_batch_size=0", "train_batch_size"),
        ("python run_classifier.py \\\n    --do_trane", "bad.md:4: run_clas"),
        ("python run_classifier.py --do_eval \\", "ends in a backslash"),
        ("python run_classifier.py --do_eval out", "argument 'out'"),
        ("A=1 python fill_mask.py --txt='[MASK]' | head", "txt"),
        ("python run_squad.py --output_dir=corpus", "package corpus/"),
        ("python run_squad.py \\\n    --do_eval '", "ends in a backslash"),
        ("make tests", "no target tests"),
    ],
)
def test_a_wrong_command_is_found(command, problem, tmp_path):
    found = pages.command_problems(shell_page(tmp_path, command))
    assert len(found) == 1
    assert problem in found[0]


@pytest.mark.parametrize(
    "command",
    [
        "python run_classifier.py --do_train --verbosity=1  # a comment",
        "python run_classifier.py --help",
        "python -m pytest tests/test_docs.py -k 'command or link'",
        "python tests/test_import_rule.py",
        "make check PYTHON=python3.11",
        "nvidia-smi --no_flag_of_ours",
    ],
)
def test_a_right_command_is_not_a_problem(command, tmp_path):
    assert not pages.command_problems(shell_page(tmp_path, command))


# --- Links and names ---------------------------------------------------------


def test_links_lead_somewhere(page):
    assert not pages.link_problems(page)


def test_named_files_and_tests_exist(page):
    if page.name == "CHANGELOG.md":
        pytest.skip("it names files of earlier versions")
    assert not pages.name_problems(page, pages.test_names())


@pytest.mark.parametrize(
    ("link", "problem"),
    [
        ("other.md", "does not exist"),
        ("#no-such", "no such heading"),
        ("bad.md#not-here", "no such heading"),
    ],
)
def test_a_dead_link_is_found(link, problem, tmp_path):
    path = bad_page(tmp_path, f"# Bad\n\n## It's here\n\n[a]({link})\n")
    found = pages.link_problems(path)
    assert len(found) == 1
    assert problem in found[0]


def test_anchors_are_those_of_github(tmp_path):
    path = bad_page(tmp_path, "# It's a `page`, here\n\n[a](#its-a-page-here)")
    assert not pages.link_problems(path)


def test_files_and_tests_that_do_not_exist_are_found(tmp_path):
    path = bad_page(tmp_path, "`modeling.py`, `ops/none.py`, `test_none_such`")
    found = pages.name_problems(path, pages.test_names())
    assert [line.split(": ")[1] for line in found] == [
        "there is no ops/none.py",
        "there is no test test_none_such",
    ]


@pytest.mark.parametrize("name", generated_pages.PAGES)
def test_tables_are_those_of_the_code(name):
    text = (ROOT / "docs" / name).read_text("utf-8")
    program = "python tests/helpers/generated_pages.py"
    is_current = generated_pages.filled(name, text) == text
    assert is_current, f"docs/{name} is old: {program}"


# --- The tree ----------------------------------------------------------------


def test_the_tree_of_the_packages_equals_the_disk():
    """Folders and modules have the levels of the import rule."""
    found = {}
    for path in test_import_rule.sources(ROOT):
        unit = path.relative_to(ROOT).parts[0]
        level = test_import_rule.level_of(unit.removesuffix(".py"))
        if level < test_import_rule.SCRIPT:  # scripts are not part of it
            found[unit if unit.endswith(".py") else f"{unit}/"] = level
    assert pages.tree_entries(ROOT / "CONTRIBUTING.md") == found


# --- Facts that stand in two places ------------------------------------------


def test_original_flags_exist():
    for script, names in flags_page.ORIGINAL.items():
        assert not set(names.split()) - set(scripts.load(script).FLAGS), script


def test_figures_of_the_readme_were_measured():
    """They stand in docs/measurements.md or in one of two records."""
    readme = (ROOT / "README.md").read_text("utf-8")
    section = readme.split("\n## Why ")[1].split("\n## ")[0]
    records = ("records/h200.md", "records/small_budgets.md")
    names = ("measurements.md", *records)
    known = "".join((ROOT / "docs" / n).read_text("utf-8") for n in names)
    numbers = re.findall(r"(?<!\w)\d[\d,.]*\d", section)
    assert len(numbers) > 10
    for number in numbers:
        pattern = rf"(?<![\d.,]){re.escape(number)}(?!\d)"
        assert re.search(pattern, known), number


def test_all_files_name_the_same_versions_of_python():
    """The Makefile's names of interpreters have the first and the last."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    names = re.search(r",python3 (python3\.[\d.python ]+)\)", makefile)[1]
    last, *_, first = names.replace("python3.", "").split()
    above = str(int(last) + 1)
    for name, text in {
        "README.md": f"Python 3.{first} to 3.{last}",
        "CONTRIBUTING.md": f"Python 3.{first} to 3.{last}",
        "Makefile": f"(3, {first}) <= sys.version_info[:2] <= (3, {last})",
        "pyproject.toml": f'requires-python = ">=3.{first},<3.{above}"',
        "requirements.txt": f" or 3.{last}.",
    }.items():
        assert text in (ROOT / name).read_text("utf-8"), name
    target = f'target-version = "py3{first}"'
    assert target in (ROOT / "pyproject.toml").read_text()


# --- What commands print -----------------------------------------------------


def test_output_is_compared_without_its_numbers():
    printed = ["step 1,200/9,000 (13.3%)  |  loss 5.3", "other", "done in 3 s"]
    shown = ["step 7/8 (1.0%) | loss 4.25", "...", "done ..."]
    assert not pages.unprinted(shown, printed)


@pytest.mark.parametrize(
    "shown",
    [["lost 5.3"], ["done in 3 s", "loss 5.3"], ["loss 5.3", "loss 5.3"]],
)
def test_output_that_is_not_printed_is_found(shown):
    """A wrong word, a wrong order, a line too many."""
    assert len(pages.unprinted(shown, ["loss 1.25", "done in 30 s"])) == 1
