r"""Compile the project's steps for TPUs and GPUs that this machine lacks.

    python -m tools.compile_steps --accelerator_python=other/bin/python
    python -m tools.compile_steps --accelerator_python=other/bin/python \
        --steps=mlm_nsp,squad --sizes=tiny,base --lengths=128,512 \
        --devices=v5e,H100 --rows_file=rows.json

Every combination of steps, sizes, lengths and devices is a row. It says whether
the compiler for TPUs (libtpu) or for GPUs (XLA with CUDA) accepts the step, and
what the step costs according to this compiler. No step runs. The table is
Markdown. The last line on standard output is one JSON object with all figures.

The interpreter belongs to an environment in which
requirements-accelerators.txt is installed.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any

from base import interrupts, logs, script
from base.errors import UserError
from base.flags import define, flag, require

import tensorflow as tf
from absl import flags, logging

import modeling
from tools.accelerators import compiler, rows, steps
from tools.accelerators.jobs import Compiler
from training import memory
from training.settings import AUTO

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The programs, and the devices to compile for."""

    accelerator_python: str | None = flag()
    """A Python interpreter that has jax and libtpu; for GPUs also jax's
    packages for CUDA."""

    steps: tuple[str, ...] = flag(("mlm_nsp",), choices=steps.KINDS)
    """Steps to compile: any of {choices}."""

    sizes: tuple[str, ...] = flag(("tiny",), choices=modeling.NAMED_SIZES)
    """Sizes of the model: any of {choices}."""

    lengths: tuple[int, ...] = flag((128,), 8, 512)
    """Lengths of the sequences, in tokens."""

    tokens: int = flag(4096, low=1)
    """Tokens in the batch of a replica, which has as many sequences as fit."""

    devices: tuple[str, ...] = flag(("v5e",), choices=compiler.DEVICES)
    """Devices to compile for: any of {choices}."""

    dtype: str = flag(AUTO, choices=(AUTO, *modeling.DTYPES))
    """Type of the matrix products; auto: the type that training chooses on the
    device."""

    replicas: str = flag("1", choices=("1", "8"))
    """Number of replicas; with 8, a step also sums over them, as on TPUs."""

    rows_file: str | None = flag(is_output=True)
    """JSON file to keep the rows in, each as soon as it is done; a row replaces
    an older one of the same program and device."""

    again: bool = flag(False, needs={"rows_file": "it compiles its rows"})
    """Compile the rows of --rows_file again, whatever the other flags say."""


define(Flags)


# Column -> unit and figures; the cell is empty if the compiler gives no figure.
COLUMNS = {
    "compile, s": (1, "seconds"),
    "arguments, MB": (1e6, "arguments"),
    "temporaries, MB": (1e6, "temporaries"),
    "code, MB": (1e6, "code"),
    "estimate, MB": (1e6, "estimate"),
    "GFLOP": (1e9, "flops"),
    "GB accessed": (1e9, "accessed"),
    "of memory": (1e9, "moved"),
    "fusions": (1, "fusion"),
    "copies, transposes, converts": (1, "copy", "transpose", "convert"),
    "gathers, scatters": (1, "gather", "scatter"),
    "custom calls": (1, "custom-call"),
    "float32 products": (1, "float32 products"),
    "constants above 1 kB": (1, "constants"),
    "their kB": (1e3, "constant bytes"),
    "all-reduces": (1, "all-reduce"),
}


def _cell(found: dict[str, Any], unit: float, *names: str) -> str:
    values = [found[n] / unit for n in names if found.get(n) is not None]
    return ", ".join(f"{v:,.0f}" if v >= 100 else f"{v:.3g}" for v in values)


def main(_: list[str]) -> int:
    """Compile; print the table and the JSON object."""
    logs.set_level(logging.WARNING)
    _check_flags()
    kept = rows.read(FLAGS.rows_file) if FLAGS.rows_file else []
    jobs = list(map(rows.job, kept)) if FLAGS.again else list(_jobs())
    with (
        interrupts.ending_on_sigterm(),
        Compiler(FLAGS.accelerator_python) as other,
    ):
        versions = {"tensorflow": tf.__version__, **other.first}
        versions = ", ".join(
            f"{n} {version}" for n, version in versions.items()
        )
        print(versions)
        names = ["step", "device", *COLUMNS]
        print("\n| " + " | ".join(names) + " |\n|" + "---|" * len(names))
        new = []
        for program, device in jobs:
            found = other.compile(program, device)
            row = {**program._asdict(), "device": device, **found}
            new.append({**row, "versions": versions})
            if FLAGS.rows_file:
                rows.write(FLAGS.rows_file, rows.merged(kept, new))
            print(_line(program, device, row), flush=True)
    print("\n" + json.dumps(new))
    return 1 if any("error" in row for row in new) else 0


def _jobs() -> Iterator[tuple[steps.Program, str]]:
    """Yield (program, device); the devices of one program follow each other."""
    for step, size, length, device in itertools.product(
        FLAGS.steps, FLAGS.sizes, FLAGS.lengths, FLAGS.devices
    ):
        dtype = FLAGS.dtype
        if dtype == AUTO:
            dtype = compiler.dtype_for(device)
        sizes = (step, size, length, FLAGS.tokens // length, dtype)
        yield steps.Program(*sizes, int(FLAGS.replicas)), device


def _line(program: steps.Program, device: str, found: dict[str, Any]) -> str:
    """Return a row of the table, or why the step does not compile."""
    replicas = f"{program.replicas} x " if program.replicas > 1 else ""
    name = (
        f"{program.size}, {program.step}, {replicas}{program.batch} x "
        f"{program.length}, {program.dtype}"
    )
    cells = [name, device]
    if "error" in found:
        cells += [f"no: {found['error']}", *[""] * (len(COLUMNS) - 1)]
    else:
        if sizes := rows.sizes(found):
            found["estimate"] = memory.total_bytes(sizes)
        cells += [_cell(found, *column) for column in COLUMNS.values()]
    return "| " + " | ".join(cells) + " |"


def _check_flags() -> None:
    """Raise a UserError for names that do not exist, and bad numbers."""
    require(FLAGS, "accelerator_python")
    for length in FLAGS.lengths:
        if FLAGS.tokens < 4 * length:
            raise UserError(
                f"--tokens={FLAGS.tokens}: less than 4 sequences of {length}"
            )


if __name__ == "__main__":
    script.run(main)
