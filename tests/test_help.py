"""--help and --helpfull of every script, and what its flags name."""

import subprocess
import sys

from base import flags as declared_flags

import pytest
import scripts
from paths import ROOT

SCRIPTS = scripts.names()

# These write nothing but standard output, or what they read too: the index of
# search.py.
READERS = (
    *("fill_mask", "search", "tools.benchmark"),
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


@pytest.mark.parametrize("name", SCRIPTS)
def test_what_a_flag_needs_excludes_or_implies_is_a_flag(name):
    """Else --a=1 would need what nobody can give, or exclude nothing."""
    own = scripts.load(name).FLAGS
    for flag in own:
        declared = declared_flags.of(own, flag)
        for words in (*declared.needs, *declared.excludes, *declared.implies):
            for way in words.split(" or "):
                other, equals, value = way.partition("=")
                assert other in own, f"--{flag}: {words}"
                if equals:
                    own[other].parser.parse(value)  # a value that it can have


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


# Scripts that run without flags -> an argument that they refuse.
REFUSED = {
    "tools.benchmark": "--parts=reader",
    "tools.demo": "--work_dir=",
    "tools.gpus": "one",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*SCRIPTS, "tools.gpus"])
def test_flags_are_explained_and_checked_without_tensorflow(name):
    """Importing it takes seconds, and 700 MB."""
    code = (
        "import runpy, sys; sys.modules |= dict.fromkeys(['tensorflow', "
        f"'keras']); runpy.run_module({name!r}, None, '__main__', True)"
    )
    ends = []
    for given in ("--help", "--mistyped", REFUSED.get(name)):
        command = [sys.executable, "-c", code, *filter(None, [given])]
        ended = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True
        )
        ends.append((ended.returncode, ended.stderr.partition(":")[0]))
    assert ends == [(0, ""), (1, "ERROR"), (1, "ERROR")]
