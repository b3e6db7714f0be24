"""A row of the benchmark's table; timing functions, products and scripts."""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from base import machine, startup
from base.errors import UserError

import numpy as np

from tasks import nearest

_PEAK_SECONDS = 0.5  # how long the matrix-product rate is measured

# Runs a command, then prints its processor time in seconds, and the peak memory
# of its largest process in MB. A process of its own, since RUSAGE_CHILDREN
# covers every child ever waited for: measured here, a script would inherit the
# peak of the scripts before it.
_WITH_MEMORY = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
print(used.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3))  # bytes
sys.exit(status)
"""


class Row(NamedTuple):
    """One row of the table: what was measured, and its figures by name."""

    what: str
    figures: Mapping[str, float] = {}
    note: str = ""

    def __str__(self) -> str:
        """Return the row in Markdown; the first figure has its own column."""
        cells = [
            f"{_in_words(value)} {name.replace('_', ' ')}"
            for name, value in self.figures.items()
        ]
        rest = [*cells[1:], self.note] if self.note else cells[1:]
        return f"| {self.what} | {''.join(cells[:1])} | {', '.join(rest)} |"


def _in_words(value: float) -> str:
    """Return a number in a few digits: 0.1234, 1,234, 12.3 G."""
    for unit, prefix in (1e9, " G"), (1e6, " M"):
        if value >= unit:
            return f"{value / unit:.3g}{prefix}"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def best_seconds(
    function: Callable[[], object],
    repeats: int = 3,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the shortest time that a call of the function took.

    The clock time.process_time counts the processor time of all threads, which
    other programs disturb little.
    """
    times = []
    for _ in range(repeats):
        began = clock()
        function()
        times.append(clock() - began)
    return min(times)


def run_script(script: str, **values) -> tuple[str, float]:
    """Run a script of this project with some flags, in a process of its own.

    Returns:
        Its standard error, and the MB of its largest process.

    Raises:
        UserError: the script failed; quotes the last line it wrote.
    """
    log, _, megabytes = run_python(script, *as_flags(**values))
    return log, megabytes


def as_flags(**values) -> list[str]:
    """Return values by the names of flags as arguments, --name=value."""
    return [f"--{name}={value}" for name, value in values.items()]


def run_python(
    script: str, *arguments: str, python: str = sys.executable
) -> tuple[str, float, float]:
    """Run a script of this project, or a program after "-c".

    Returns:
        Its standard error, its processor time in seconds, and the MB of its
        largest process.

    Raises:
        UserError: it failed; quotes the last line it wrote.
    """
    if script != "-c":
        script = os.path.join(startup.ROOT, script)
    command = [sys.executable, "-c", _WITH_MEMORY, python, script]
    result = subprocess.run(
        [*command, *arguments],
        capture_output=True,
        text=True,
        cwd=startup.ROOT if script == "-c" else None,
        preexec_fn=machine.end_with_parent,
    )
    if result.returncode:
        last = result.stderr.strip().rpartition("\n")[2]
        raise UserError(
            f"{os.path.basename(script)} failed: {last.removeprefix('ERROR: ')}"
        )
    seconds, megabytes = map(float, result.stdout.split()[-2:])
    return result.stderr, seconds, megabytes


def lowest_cosine(vectors: np.ndarray, others: np.ndarray) -> float:
    """Return the least cosine between vectors and others, each [n, D]."""
    pairs = map(nearest.prepared, (vectors, others))
    return float(nearest.scores(*pairs).min())


def matmul_peak(dtype: str) -> float:
    """Return the measured matrix-product rate of the device, in FLOP/s.

    It is the best of several square products. A data sheet would be wrong on
    shared machines. The CPU's cores count as one device.
    """
    function, operations = _products(dtype)
    best, end = float("inf"), time.monotonic() + _PEAK_SECONDS
    while time.monotonic() < end:
        best = min(best, best_seconds(function, 1))
    return operations / best


@functools.cache
def _products(dtype: str) -> tuple[Callable[[], float], int]:
    """Return a function that multiplies matrices, and its operations."""
    import tensorflow as tf

    from training import devices

    is_cpu = devices.kind() == "CPU"
    size = 2048 if is_cpu else 8192
    # Several per call, so that the time to launch them is negligible.
    repeats = 1 if is_cpu else 10
    values = tf.random.stateless_uniform([size, size], [1, 2], -1, 1)
    matrix = tf.cast(values, dtype)

    @tf.function(autograph=False)
    def multiply(matrix: tf.Tensor) -> tf.Tensor:
        result = matrix
        for _ in range(repeats):
            result = tf.matmul(result, matrix) / size
        return result[0, 0]

    def run() -> float:
        return float(multiply(matrix))  # waits for the device

    run()  # traces
    return run, repeats * 2 * size**3
