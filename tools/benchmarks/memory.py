"""Measure the memory of a training step, and what --recompute saves of it.

Each measurement is a process of its own, since a process keeps the peak of all
that it has done. Linux only: the peak is VmHWM of /proc/self/status.

    python benchmark.py --parts=memory --shapes=base:8x512,large:4x512
"""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from base.errors import UserError

import numpy as np

import modeling
from ops import recompute
from tools.benchmarks import measuring, steps
from tools.benchmarks.table import Row
from training import memory, memory_limits


class Shape(NamedTuple):
    """A model and its batch, such as base:8x512.

    Attributes:
        size: one of modeling.NAMED_SIZES.
        rows: sequences of a step.
        length: of each sequence.
    """

    size: str
    rows: int
    length: int

    def __str__(self) -> str:
        return f"{self.size}:{self.rows}x{self.length}"


def parse_shape(text: str) -> Shape:
    """Return the shape of a text such as base:8x512.

    Raises:
        UserError: it is not one.
    """
    size, _, batch = text.partition(":")
    rows, _, length = batch.partition("x")
    if size in modeling.NAMED_SIZES and rows.isdecimal() and length.isdecimal():
        shape = Shape(size, int(rows), int(length))
        if shape.rows and 1 <= shape.length <= 512:
            return shape
    raise UserError(
        f"--shapes={text}: give size:rowsxlength, such as base:8x512, with a "
        f"size of {', '.join(modeling.NAMED_SIZES)} and a length of at most 512"
    )


def measure_here(
    size: str,
    rows: int,
    length: int,
    choice: str,
    dtype: str,
    jit_compile: bool,
    objective_name: str,
    repeats: int,
) -> dict[str, float]:
    """Train for some steps in this process; return memory and time.

    Returns:
        `estimate`: bytes, as a training run logs them; `before`: bytes resident
        with weights and slots, before the first step; `peak`: bytes resident at
        most; `seconds` and `processor_seconds` of the fastest step.
    """
    step = steps.create_step(
        size,
        rows,
        dtype,
        jit_compile,
        objective_name=objective_name,
        recompute_choice=choice,
    )
    predictions = steps.predictions_of(length)
    estimate = memory.run_of(
        step, length, memory.Rows(logits=predictions * steps.VOCAB_SIZE)
    ).estimate()
    before = _status("VmRSS")
    _, times = steps.time_steps(step, repeats, length, _clocks)
    seconds, processor_seconds = np.min(times, axis=0)
    return {
        "estimate": estimate.total + memory.RUNTIME_BYTES[dtype],
        "before": before,
        "peak": _status("VmHWM"),
        "seconds": float(seconds),
        "processor_seconds": float(processor_seconds),
    }


def _clocks() -> np.ndarray:
    """Return wall-clock time and the processor's time of all threads, [2]."""
    return np.array([time.perf_counter(), time.process_time()])


def _status(name: str) -> int:
    """Return a size that the kernel counts for this process, in bytes.

    Args:
        name: in /proc/self/status: VmRSS, resident now, or VmHWM, at most.
    """
    entries = memory_limits.proc_entries(Path("/proc/self/status"))
    if name not in entries:
        raise UserError(f"--parts=memory: /proc/self/status has no {name}")
    return entries[name]


def measure(
    shapes: Sequence[str],
    choices: Sequence[str],
    repeats: int,
    dtype: str,
    jit_compile: bool,
    objective_name: str,
) -> Iterator[Row]:
    """Measure each shape with each choice; yield a row for each pair.

    Args:
        shapes: see parse_shape.
        choices: some of recompute.CHOICES; the first is the one that the
            others are compared with.
        repeats: timed steps.
        dtype: of the matrix products.
        jit_compile: compile with XLA.
        objective_name: what the step is for, a key of OBJECTIVES.
    """
    options = dtype, jit_compile, objective_name, max(1, repeats // 4)
    for shape in map(parse_shape, shapes):
        first = None
        for choice in choices:
            found = measuring.call_apart(
                f"--parts=memory, {shape}, {choice}",
                measure_here,
                *shape,
                choice,
                *options,
            )
            first = first or found
            yield _row(shape, choice, found, first)


def _row(shape: Shape, choice: str, found: dict, first: dict) -> Row:
    """Return the row of a measurement, compared with the first choice's."""
    step = found["peak"] - found["before"]
    saved = step / (first["peak"] - first["before"])
    slower = found["seconds"] / first["seconds"]
    busier = found["processor_seconds"] / first["processor_seconds"]
    return Row(
        f"memory of a step, {shape}, --recompute={choice}",
        f"{found['peak'] / 1e6:,.0f} MB",
        f"estimate {found['estimate'] / 1e6:,.0f} MB; {step / 1e6:,.0f} MB "
        f"more than before the first step, {saved:.2f} times; "
        f"{found['seconds']:.2f} s, {slower:.2f} times (processor time "
        f"{busier:.2f} times)",
        {
            "peak_bytes": found["peak"],
            "estimate_bytes": found["estimate"],
            "step_bytes": step,
            "seconds": found["seconds"],
            "processor_seconds": found["processor_seconds"],
        },
    )


def check(shapes: Sequence[str], choices: Sequence[str]) -> None:
    """Check the flags of this part.

    Raises:
        UserError: a shape or a choice does not exist.
    """
    for shape in shapes:
        parse_shape(shape)
    for choice in choices:
        if choice not in recompute.CHOICES:
            raise UserError(
                f"--recompute={choice}: unknown; choose from "
                f"{', '.join(recompute.CHOICES)}"
            )
