"""The notebooks as files: no outputs, code that compiles, files that exist.

`make test-notebooks` runs them, which takes about ten minutes.
"""

import json
import re
import warnings

import pytest
import scripts
from paths import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
# A command, with the lines that a backslash joins.
COMMAND = re.compile(r"^!((?:.*\\\n)*.*)$", re.MULTILINE)


def cells_of(path) -> list[dict]:
    return json.loads(path.read_text("utf-8"))["cells"]


def source_of(cell: dict) -> str:
    return "".join(cell["source"])


def test_there_are_notebooks():
    assert len(NOTEBOOKS) == 5


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_are_stripped(path):
    """They would make every diff of a notebook unreadable."""
    for cell in cells_of(path):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_cells_compile(path):
    for cell in cells_of(path):
        if cell["cell_type"] == "code":
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                compile(COMMAND.sub("pass", source_of(cell)), path.name, "exec")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_all_begin_with_the_same_cell(path):
    """It finds the scripts, or fetches them: one way for all."""
    (first,) = [
        source_of(cell)
        for cell in cells_of(path)
        if "REPOSITORY" in source_of(cell)
    ]
    assert first == source_of(cells_of(NOTEBOOKS[0])[1])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_commands_have_flags_of_the_script(path):
    """A renamed flag is found without running the notebook."""
    commands = [
        command.replace("\\\n", " ").split()
        for cell in cells_of(path)
        for command in COMMAND.findall(source_of(cell))
    ]
    commands = [command for command in commands if command[0] == "python"]
    assert commands
    for _, script, *arguments in commands:
        module = scripts.load(script.removesuffix(".py"))
        for argument in arguments:
            name = re.match(r"--(\w+)", argument)
            if name:
                flag = name[1]
                known = flag in module.FLAGS or (
                    flag.removeprefix("no") in module.FLAGS
                )
                assert known, f"{script} has no flag --{flag}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    notes = [c for c in cells_of(path) if c["cell_type"] == "markdown"]
    for cell in notes:
        for target in re.findall(r"\]\(([^)]+)\)", source_of(cell)):
            if not target.startswith("http"):
                place = path.parent / target.partition("#")[0]
                assert place.exists(), target
