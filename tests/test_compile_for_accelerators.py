"""compile_for_accelerators.py: its mistakes, its counts, and what compiles.

Compilers are needed for the last: `make test-accelerators` installs them, and
sets ACCELERATOR_PYTHON to the interpreter that has them.
"""

import json
import os
import sys

import pytest
import scripts
from paths import GOLDEN

from tools.accelerators import compiler, jobs, steps

script = scripts.load("compile_for_accelerators")

PYTHON = os.environ.get("ACCELERATOR_PYTHON")
ROWS = json.loads((GOLDEN / "accelerators.json").read_text())
GROWTH = 1.05  # of memory, from where on a test fails


@pytest.mark.parametrize(
    "values, message",
    [
        ({"steps": "walk"}, "--steps=walk: unknown; choose from mlm_nsp"),
        ({"devices": "v5e,TI83"}, "--devices=TI83: unknown"),
        ({"lengths": "128,1024"}, "--lengths=1024: not a number from 8 to 512"),
        ({"tokens": "511"}, "--tokens=511: less than 4 sequences of 128"),
        ({"sizes": "huge"}, "--sizes=huge: unknown"),
        ({}, "has no jax; name an interpreter with requirements-accelerators"),
        ({"accelerator_python": "/no/where"}, "No such file"),
    ],
)
def test_a_mistake_is_one_line(values, message):
    values = {"accelerator_python": sys.executable} | values
    assert message in scripts.error_of(script, **values)


def test_counts_are_those_of_the_program():
    text = """
  %p.1 = f32[8,8]{1,0:T(8,128)} parameter(0), metadata={op_name="dot(x)"}
  %copy-start.1 = (f32[8]{0}, u32[]{:S(2)}) copy-start(%p.1)
  %copy-done.1 = f32[8]{0} copy-done(%copy-start.1)
  %dot.2 = f32[8,8]{1,0} dot(%p.1, %p.1), lhs_contracting_dims={1}
  ROOT %dot.3 = bf16[8,8]{1,0} dot(%p.1, %p.1), metadata={op_name="copy(x)"}
  %fusion = (f32[8]{0}, bf16[8]{0}) fusion(%dot.2), kind=kLoop, calls=%f
"""
    found = {name: n for name, n in compiler.counts(text).items() if n}
    assert found == {"copy": 1, "float32 products": 1, "fusion": 1}


@pytest.fixture(scope="module")
def running():
    if not PYTHON:
        pytest.skip("no ACCELERATOR_PYTHON: make test-accelerators")
    with jobs.Compiler(PYTHON) as found:
        yield found


@pytest.mark.slow
@pytest.mark.parametrize(
    "row",
    ROWS,
    ids=lambda row: "-".join(map(str, row["program"])) + "-" + row["device"],
)
def test_it_compiles_and_needs_no_more_memory(row, running):
    is_gpu = isinstance(compiler.DEVICES[row["device"]], compiler.Gpu)
    if is_gpu and "jax-cuda12-plugin" not in running.versions:
        pytest.skip("no jax[cuda12]")
    found = running.compile(steps.Program(*row["program"]), row["device"])
    assert "error" not in found, found
    needed, before = (x["arguments"] + x["temporaries"] for x in (found, row))
    assert needed <= GROWTH * before, found
