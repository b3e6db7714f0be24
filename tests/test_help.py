"""--help and --helpfull of every script."""

import subprocess
import sys

import pytest
import scripts
from paths import ROOT

SCRIPTS = scripts.names()

# These write nothing but standard output, or what they read too: the rows of
# tools.compile_steps, the index of search.py.
READERS = (
    *("fill_mask", "search", "tools.benchmark", "tools.compile_steps"),
    *("tools.playground", "tools.verify_run"),
)
OUTPUTS = {"output_dir", "output_file", "export_dir", "work_dir"}


@pytest.mark.parametrize("name", sorted({*SCRIPTS} - {*READERS}))
def test_every_script_that_writes_takes_output(name):
    found = scripts.parse(scripts.load(name), output="some/place")
    given = [flag for flag in OUTPUTS & {*found} if found[flag].present]
    assert len(given) == (name != "convert_checkpoint")  # has no other name
    assert {found[n].value for n in [*given, "output"]} == {"some/place"}


@pytest.mark.parametrize("name", SCRIPTS)
def test_helpfull_shows_every_flag(name):
    """Flags of shared modules too, each with a sentence that explains it."""
    module = scripts.load(name)
    own = module.FLAGS
    shown = {f.name for f in own.get_key_flags_for_module(module.__name__)}
    assert shown == set(own) and shown
    for flag in own:
        assert len(own[flag].help) > 5, flag


def test_help_shows_the_flags_that_the_docstring_names():
    def shown(flag: str) -> set[str]:
        command = [sys.executable, str(ROOT / "build_vocab.py"), flag]
        text = subprocess.run(
            command, check=True, capture_output=True, text=True
        ).stdout
        about, listed = text.split("Flags:")
        assert "python build_vocab.py --input_file=" in about
        assert flag == "--helpfull" or "more: --helpfull" in listed
        lines = [line.split() for line in listed.splitlines()]
        return {line[0] for line in lines if line and line[0][:2] == "--"}

    main = {"--input_file:", "--output_file:", "--output:", "--vocab_size:"}
    assert shown("--help") == main | {"--[no]do_lower_case:"}
    assert shown("--helpfull") > shown("--help") | {"--num_workers:"}
