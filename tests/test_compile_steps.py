"""tools.compile_steps: its mistakes, its counts, and what compiles.

Compilers are needed for the last: `make test-accelerators` installs them, and
sets ACCELERATOR_PYTHON to the interpreter that has them.
"""

import os
import sys

import pytest
import scripts
from paths import GOLDEN

from tools.accelerators import compiler, jobs, rows

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
        (
            {"steps": "walk"},
            "--steps=walk: 'walk': value should be one of <mlm_nsp",
        ),
        ({"devices": "v5e,TI83"}, "'TI83': value should be one of"),
        (
            {"lengths": "128,1024"},
            "'1024': 1024 is not an integer in the range [8, 512]",
        ),
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


def test_counts_are_those_of_the_program():
    text = """
  %p.1 = f32[8,8]{1,0:T(8,128)} parameter(0), metadata={op_name="dot(x)"}
  %copy-start.1 = (f32[8]{0}, u32[]{:S(2)}) copy-start(%p.1)
  %copy-done.1 = f32[8]{0} copy-done(%copy-start.1)
  %dot.2 = f32[8,8]{1,0} dot(%p.1, %p.1), lhs_contracting_dims={1}
  ROOT %dot.3 = bf16[8,8]{1,0} dot(%p.1, %p.1), metadata={op_name="copy(x)"}
  %fusion = (f32[8]{0}, bf16[8]{0}) fusion(%dot.2), kind=kLoop, calls=%f
  %constant.1 = bf16[8,64]{1,0} constant({...})
  %constant.2 = f32[] constant(1)
  %c = (f32[8,8]{1,0}, s8[4096]{0}) custom-call(%dot.2, %constant.1)
"""
    found = {name: n for name, n in compiler.counts(text).items() if n}
    assert found == {
        "copy": 1,
        "float32 products": 1,
        "fusion": 1,
        "custom-call": 1,
        "constants": 1,
        "constant bytes": 1024,
    }
    # Two arrays of 256 bytes and the constant; not the workspace.
    assert compiler.custom_call_bytes(text) == 256 + 256 + 1024


@pytest.mark.parametrize("on_chip", ["S(1)", "S(3)"])  # VMEM, v4's CMEM
def test_bytes_are_those_of_the_memory(on_chip):
    text = """
%fused_computation (p: f32[64]) -> f32[64] {
  %p = f32[64]{0} parameter(0)
  ROOT %n = f32[64]{0} negate(%p)
}

ENTRY %main (a: f32[64]) -> (f32[64], bf16[8,8]) {
  %a = f32[64]{0:T(256)} parameter(0)
  %slice-start.1 = ((f32[64]{0:T(256)}), f32[16]{0:T(256)S(1)}, s32[]{:S(2)}) \
slice-start(%a), slice={[0:16]}
  %slice-done.1 = f32[16]{0:T(256)S(1)} slice-done(%slice-start.1)
  %f = (f32[64]{0:T(256)}, bf16[8,8]{1,0:T(8,128)(2,1)S(1)}) \
fusion(%a, %slice-done.1), kind=kLoop, calls=%fused_computation
  %g = f32[64]{0:T(256)} get-tuple-element(%f), index=0
  %h = bf16[8,8]{1,0:T(8,128)(2,1)S(1)} get-tuple-element(%f), index=1
  %c = bf16[8,8]{1,0:T(8,128)(2,1)} copy(%h)
  ROOT %t = (f32[64]{0:T(256)}, bf16[8,8]{1,0:T(8,128)(2,1)}) tuple(%g, %c)
}
""".replace("S(1)", on_chip)
    # The slice is read; the fusion reads a and writes as much; the copy writes.
    assert compiler.memory_bytes(text) == 64 + 256 + 256 + 128


def test_a_row_takes_the_place_of_the_same_job(tmp_path):
    path = str(tmp_path / "rows.json")
    assert rows.read(path) == []
    old, other = ({**ROWS[0], "batch": n, "seconds": 9} for n in (8, 4))
    new = {**old, "seconds": 1}
    rows.write(path, rows.merged([old, other], [new]))
    assert rows.read(path) == [other, new]


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
    ids=lambda row: "-".join(map(str, (*rows.job(row)[0], row["device"]))),
)
def test_it_compiles_and_needs_no_more_memory(row, running):
    is_gpu = isinstance(compiler.DEVICES[row["device"]], compiler.Gpu)
    if is_gpu and "jax-cuda12-plugin" not in running.first:
        pytest.skip("no jax[cuda12]")
    found = running.compile(*rows.job(row))
    assert "error" not in found, found
    needed, before = (x["arguments"] + x["temporaries"] for x in (found, row))
    assert needed <= GROWTH * before, found
