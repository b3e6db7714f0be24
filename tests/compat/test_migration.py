"""docs/migration.md: its names are there, its programs run."""

import importlib
import re
import subprocess
import sys

import flags_page
import pages
import pytest
import scripts
import tiny
from paths import ROOT

PAGE = ROOT / "docs" / "migration.md"
TABLES = {
    block.split("|")[1].strip(): block.split("\n")[2:]
    for block in PAGE.read_text("utf-8").split("\n\n")
    if block.startswith("| ")
}


def first_cells(rows: list[str]) -> str:
    """Return what the original has, of some rows of a table."""
    return " ".join(row.split("|")[1] for row in rows)


# Module -> the names of its rows, which stand below the module's own.
NAMES = {
    module: re.findall(r"`(\w+)", names)
    for module, names in re.findall(
        r"\*\*(\w+)\*\*([^*]*)", first_cells(TABLES["name"])
    )
}
MODULES = ("modeling", "optimization", "tokenization")


@pytest.mark.parametrize("name", NAMES)
def test_names_of_the_original_are_there(name):
    module = scripts.load(name) if name in scripts.names() else None
    module = module or importlib.import_module(name)
    assert NAMES[name]
    steps = module.BasicTokenizer if name == "tokenization" else module
    for each in NAMES[name]:
        assert hasattr(steps if each.startswith("_") else module, each), each


def test_every_module_of_the_original_has_a_table():
    assert {*NAMES} == {*MODULES, *flags_page.ORIGINAL}


def test_flags_of_the_table_are_the_originals():
    known = {f for names in flags_page.ORIGINAL.values() for f in names.split()}
    named = set(re.findall(r"`(\w+)`", first_cells(TABLES["flag"])))
    assert named and named <= known, named - known


@pytest.mark.nightly
def test_its_programs_learn(tmp_path):
    """In a process of their own, since they run at the top of a program."""
    vocab = [*tiny.SPECIAL, *"a good bad film".split()]
    folder = tmp_path / "uncased_L-12_H-768_A-12"
    # With dropout so small a model does not always learn.
    config = tiny.config_of(
        vocab, hidden_dropout_prob=0, attention_probs_dropout_prob=0
    )
    tiny.write_model(folder, config, vocab)
    programs = [b for b in pages.blocks(PAGE) if b.language == "python"]
    assert len(programs) == 2
    # A rate and a number of steps for a tiny model.
    code = [
        re.sub(r"\b20\b", "400", "\n".join(b.lines).replace("5e-5", "2e-3"))
        for b in programs
    ]
    run = subprocess.run(
        [sys.executable, "-c", f"for code in {code!r}: exec(code, {{}})"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    losses = [float(line.split()[1]) for line in run.stdout.splitlines()]
    assert len(losses) == 2 and max(losses) < 0.4, run.stdout
