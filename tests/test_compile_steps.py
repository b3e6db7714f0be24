"""tools.compile_steps: its mistakes, its rows, and what compiles.

Compilers are needed for the last: `make test-accelerators` installs them, and
sets ACCELERATOR_PYTHON to the interpreter that has them.
"""

import json
import os
import sys

import pytest
import scripts
from paths import GOLDEN

from tools.accelerators import compiler, rows, steps
from tools.json_process import JsonProcess

script = scripts.load("tools.compile_steps")

PYTHON = os.environ.get("ACCELERATOR_PYTHON")
ROWS = [
    row
    for row in rows.read(str(GOLDEN / "accelerators.json"))
    if (row["size"], row["length"]) == ("tiny", 128)
    and row["device"] in ("v5e", "H100")
]
GROWTH = 1.05  # of memory, from where on a test fails


@pytest.mark.parametrize(
    "values, message",
    [
        ({"steps": "walk"}, "--steps=walk: 'walk': value should be one of"),
        ({"devices": "v5e,TI83"}, "'TI83': value should be one of"),
        ({"lengths": "8,1024"}, "1024 is not an integer in the range [8, 512]"),
        ({"tokens": "511"}, "--tokens=511: less than 4 sequences of 128"),
        ({"sizes": "huge"}, "--sizes=huge: 'huge': value should be one of"),
        ({"again": True}, "--again needs --rows_file"),
        ({}, "has no jax; name an interpreter with requirements-accelerators"),
        ({"accelerator_python": "/no/where"}, "No such file"),
    ],
)
def test_a_mistake_is_one_line(values, message):
    values = {"accelerator_python": sys.executable} | values
    assert message in scripts.error_of(script, **values)


def test_a_row_takes_the_place_of_the_same_job(tmp_path):
    path = str(tmp_path / "rows.json")
    assert rows.read(path) == []
    old, other = ({**ROWS[0], "batch": n, "seconds": 9} for n in (8, 4))
    new = {**old, "seconds": 1}
    rows.write(path, rows.merged([old, other], [new]))
    assert rows.read(path) == [other, new]


@pytest.mark.slow
def test_every_row_is_kept_and_printed(tmp_path, monkeypatch, capsys):
    """With a stand-in for the compilers."""
    stand_in = tmp_path / "compiler.py"
    stand_in.write_text(
        "import json, os, sys\n"
        "print(json.dumps({'jax': '1.0'}), flush=True)\n"
        "for line in sys.stdin:\n"
        "    job = json.loads(line)\n"
        "    found = {'arguments': os.path.getsize(job['program'])}\n"
        "    if job['device'] == 'H100':\n"
        "        found = {'error': 'no'}\n"
        "    print(json.dumps(found), flush=True)\n"
    )
    monkeypatch.setattr(compiler, "__file__", str(stand_in))
    values = {"accelerator_python": sys.executable, "devices": "v5e,H100"}
    values["rows_file"] = tmp_path / "rows.json"
    assert scripts.run(script, **values) == 1
    kept = rows.read(str(values["rows_file"]))
    assert [row["device"] for row in kept] == ["H100", "v5e"]
    assert kept[0]["error"] == "no" and kept[1]["arguments"] > 10_000
    assert {row["logits"] for row in kept} == {20 * 30522}
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(", jax 1.0")
    assert json.loads(lines[-1])[::-1] == kept


@pytest.fixture(scope="module")
def running():
    if not PYTHON:
        pytest.skip("no ACCELERATOR_PYTHON: make test-accelerators")
    with JsonProcess(PYTHON, [PYTHON, compiler.__file__]) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    ROWS,
    ids=lambda row: "-".join(map(str, (*rows.job(row)[0], row["device"]))),
)
def test_it_compiles_and_needs_no_more_memory(row, running):
    is_gpu = isinstance(compiler.DEVICES[row["device"]], compiler.Gpu)
    if is_gpu and "jax-cuda12-plugin" not in running.first:
        pytest.skip("no jax[cuda12]")
    ((_, _, found),) = script.compiled([rows.job(row)], running)
    assert "error" not in found, found
    needed, before = (x["arguments"] + x["temporaries"] for x in (found, row))
    assert needed <= GROWTH * before, found


def test_flags_offer_every_kind_of_step():
    assert rows.KINDS == tuple(steps.KINDS)
