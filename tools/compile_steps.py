r"""Compile the project's steps for TPUs and GPUs that this machine lacks.

    python -m tools.compile_steps --accelerator_python=other/bin/python
    python -m tools.compile_steps --accelerator_python=other/bin/python \
        --steps=mlm_nsp,squad --sizes=tiny,base --lengths=128,512 \
        --devices=v5e,H100 --rows_file=rows.json

Every combination of steps, sizes, lengths and devices is a row. It says whether
the compiler for TPUs (libtpu) or for GPUs (XLA with CUDA) accepts the step, and
how much memory the step needs according to this compiler. No step runs. The
table is Markdown. The last line on standard output is one JSON list with all
figures.

The interpreter belongs to an environment in which
requirements-accelerators.txt is installed.
"""

import dataclasses
import itertools
import json
import multiprocessing
import operator
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from base import interrupts, script, startup
from base.errors import UserError
from base.flags import define, flag

from absl import flags

from ops.choices import DTYPES, NAMED_SIZES
from tools.accelerators import compiler, rows
from tools.accelerators.rows import Program
from tools.benchmarks.measuring import Row
from tools.json_process import JsonProcess
from training.settings import AUTO

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The programs, and the devices to compile for."""

    accelerator_python: str = flag(required=True)
    """A Python interpreter that has jax and libtpu; for GPUs also jax's
    packages for CUDA."""

    steps: tuple[str, ...] = flag(("mlm_nsp",), choices=rows.KINDS)
    """Steps to compile: any of {choices}."""

    sizes: tuple[str, ...] = flag(("tiny",), choices=NAMED_SIZES)
    """Sizes of the model: any of {choices}."""

    lengths: tuple[int, ...] = flag((128,), 8, 512)
    """Lengths of the sequences, in tokens."""

    tokens: int = flag(4096, low=1)
    """Tokens in the batch of a replica, which has as many sequences as fit."""

    devices: tuple[str, ...] = flag(("v5e",), choices=compiler.DEVICES)
    """Devices to compile for: any of {choices}."""

    dtype: str = flag(AUTO, choices=(AUTO, *DTYPES))
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


def main(_: list[str]) -> int:
    """Compile; print the table and the JSON object."""
    for length in FLAGS.lengths:
        if FLAGS.tokens < 4 * length:
            raise UserError(
                f"--tokens={FLAGS.tokens}: less than 4 sequences of {length}"
            )
    with startup.importing():
        import tensorflow as tf

        from tools.accelerators import steps
        from training import memory
    kept = rows.read(FLAGS.rows_file) if FLAGS.rows_file else []
    jobs = list(map(rows.job, kept)) if FLAGS.again else _jobs()
    name = f"--accelerator_python={FLAGS.accelerator_python}"
    command = [FLAGS.accelerator_python, compiler.__file__]
    with interrupts.ending_on_sigterm(), JsonProcess(name, command) as other:
        if "jax" not in other.first:
            raise UserError(
                f"{name}: has no jax; name an interpreter with "
                "requirements-accelerators.txt"
            )
        names = {"tensorflow": tf.__version__, **other.first}
        versions = ", ".join(f"{n} {version}" for n, version in names.items())
        print(f"{versions}\n\n| step | compiled in | |\n|---|---|---|")
        new = []
        for program, device, found in compiled(jobs, other):
            row = {**program._asdict(), "device": device, **found}
            new.append({**row, "versions": versions})
            if FLAGS.rows_file:
                rows.write(FLAGS.rows_file, rows.merged(kept, new))
            if sizes := steps.sizes(row):
                found["estimate"] = memory.total_bytes(sizes)
            print(_line(program, device, found), flush=True)
    print("\n" + json.dumps(new))
    return 1 if any("error" in row for row in new) else 0


def _jobs() -> Iterator[tuple[Program, str]]:
    """Yield (program, device); the devices of one program follow each other."""
    for step, size, length, device in itertools.product(
        FLAGS.steps, FLAGS.sizes, FLAGS.lengths, FLAGS.devices
    ):
        dtype = FLAGS.dtype
        if dtype == AUTO:
            dtype = compiler.dtype_for(device)
        sizes = (step, size, length, FLAGS.tokens // length, dtype)
        yield Program(*sizes, int(FLAGS.replicas)), device


def _line(program: Program, device: str, found: dict[str, Any]) -> Row:
    """Return a line of the table, or why the step does not compile."""
    replicas = f"{program.replicas} x " if program.replicas > 1 else ""
    name = (
        f"{program.size}, {program.step}, {replicas}{program.batch} x "
        f"{program.length}, {program.dtype}, {device}"
    )
    if "error" in found:
        return Row(name, note=f"no: {found['error']}")
    return Row(name, found)


def compiled(
    jobs: Iterable[tuple[Program, str]], other: JsonProcess
) -> Iterator[tuple[Program, str, dict[str, Any]]]:
    """Yield program, device and what a process of compiler.py answers.

    The answer has its figures and the numbers of `steps.lower`, or "error", the
    reason. A program is lowered once for the devices that follow each other.
    """
    from tools.accelerators import steps

    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program"
        for program, group in itertools.groupby(jobs, operator.itemgetter(0)):
            # In a process of its own, since TensorFlow keeps the variables and
            # graphs of all programs: some 5 GB for each of Large.
            with startup.importing(), spawn.Pool(1) as child:
                lowered, known = child.apply(steps.lower, (program,))
            file.write_bytes(lowered)
            job = {"program": str(file), "replicas": program.replicas}
            for _, device in group:
                found = other.ask(job | {"device": device})
                yield program, device, found | known


if __name__ == "__main__":
    script.run(main)
