"""Steps compile for a TPU and a GPU, and need no more memory than before.

`make test-accelerators` installs the compilers, and sets ACCELERATOR_PYTHON to
the interpreter that has them.
"""

import os

import pytest
from accelerators import compiler, steps

from tools.json_process import JsonProcess

PYTHON = os.environ.get("ACCELERATOR_PYTHON")
ROWS = [
    row
    for row in steps.ROWS
    if (row["size"], row["length"]) == ("tiny", 128)
    and row["device"] in ("v5e", "H100")
]
GROWTH = 1.05  # of memory, from where on a test fails


@pytest.fixture(scope="module")
def running():
    if not PYTHON:
        pytest.skip("no ACCELERATOR_PYTHON: make test-accelerators")
    with JsonProcess(PYTHON, [PYTHON, compiler.__file__]) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS, ids=steps.name_of)
def test_it_compiles_and_needs_no_more_memory(row, running, tmp_path):
    if row["device"] == "H100" and "jax_cuda12_plugin" not in running.first:
        pytest.skip("no jax[cuda12]")
    file = tmp_path / "program"
    file.write_bytes(steps.lower(steps.Program.of(row)))
    job = {"program": str(file), "replicas": row["replicas"]}
    found = running.ask({**job, "device": row["device"]})
    assert "error" not in found, found
    needed, before = (x["arguments"] + x["temporaries"] for x in (found, row))
    assert needed <= GROWTH * before, found


def test_every_kind_of_step_has_a_row():
    """But for rtl, the mirror image of ltr."""
    assert {row["step"] for row in ROWS} == {*steps.KINDS} - {"rtl"}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", steps.KINDS)
def test_every_kind_of_step_is_lowered(kind):
    """Without compilers; 8 replicas form sums in the program, if they train."""
    program = steps.Program(kind, "tiny", 16, 4, "bfloat16", replicas=8)
    has_sums = b"all-reduce" in steps.lower(program)
    assert has_sums == steps.KINDS[kind].trains
