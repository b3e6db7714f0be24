"""Where the time of a training step goes: TensorFlow's profile as a table.

Groups of operations with their share of the time of all operations. Operations
run beside each other, so their times add up to more than the step takes. The
groups are those of a CPU: kernels of GPUs have names of their own.

    python benchmark.py --parts=profile --sizes=base --dtype=bfloat16
"""

import collections
import glob
import os
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from base.errors import UserError

import tensorflow as tf

from ops import losses
from tools.benchmarks import steps
from tools.benchmarks.table import Row

PRODUCTS, ATTENTION = "matrix products", "attention's products"
VOCABULARY = "products with the vocabulary"
UPDATE = "update of weights and slots"
REST = "other operations"

# Smaller groups are added to REST.
_LEAST_SHARE = 0.005

# By the type of an operation.
_GROUPS = {
    "MatMul": PRODUCTS,
    "BatchMatMulV2": ATTENTION,
    "Cast": "conversions between number formats",
    "L2Loss": "norm of the gradients",
    "AddN": "sums of gradients",
    "GatherV2": "rows of tables, and their gradients",
    "UnsortedSegmentSum": "rows of tables, and their gradients",
    "TensorScatterSub": "rows of tables, and their gradients",
    "ResourceGather": "rows of tables, and their gradients",
}

# Of the same operation, by oneDNN or with the next operation in it.
_VARIANT = re.compile(r"^_(Mkl)?(Native)?(Fused)?")

# The types of operations that run others.
_CONTAINERS = {"While", "If", "PartitionedCall", "StatefulPartitionedCall"}

# A compiled program of the function f is a_inference_f_123__.4.
_PROGRAM = re.compile(r"_inference_(.+?)_\d+(?:__)?(?:\.\d+)?$")


class Operation(NamedTuple):
    """An operation that ran.

    Attributes:
        name: of an operation of TensorFlow, scope/name:type; of one of XLA
            without a type.
        program: that XLA compiled it for; "" for TensorFlow's.
        seconds: that it took.
    """

    name: str
    program: str
    seconds: float


# --- Reading TensorFlow's profile ---------------------------------------------


def profile(step: Any, repeats: int) -> tuple[list[Operation], float]:
    """Return the operations of some steps, and the seconds of each step.

    Args:
        step: see `steps.create_step`.
        repeats: steps to look at, after two that compile and warm up.
    """
    run = steps.runner(step)
    for number in range(2):
        run(number)
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        began = time.perf_counter()
        for number in range(repeats):
            run(2 + number)
        seconds = (time.perf_counter() - began) / repeats
        tf.profiler.experimental.stop()
        return list(_read(folder)), seconds


def _read(folder: str) -> Iterator[Operation]:
    """Yield the operations of a profile.

    Raises:
        UserError: this TensorFlow cannot read its profiles.
    """
    try:
        # There is no public reader of these files in TensorFlow.
        from tensorflow.tsl.profiler.protobuf import xplane_pb2
    except ImportError as error:
        raise UserError(
            f"--parts=profile: TensorFlow {tf.__version__} has no reader of "
            "its profiles; use 2.20 or 2.21"
        ) from error
    pattern = os.path.join(folder, "**", "*.xplane.pb")
    for path in glob.glob(pattern, recursive=True):
        with open(path, "rb") as file:
            space = xplane_pb2.XSpace.FromString(file.read())
        for plane in space.planes:
            for line in plane.lines:
                for event in line.events:
                    yield from _operation(plane, event)


def _operation(plane: Any, event: Any) -> Iterator[Operation]:
    """Yield the operation of an event, if it is one."""
    name = plane.event_metadata[event.metadata_id].name
    values = {
        plane.stat_metadata[stat.metadata_id].name: plane.stat_metadata[
            stat.ref_value
        ].name
        or stat.str_value
        for stat in event.stats
    }
    seconds = event.duration_ps / 1e12
    if "hlo_op" in values:
        yield Operation(name, values.get("hlo_module", ""), seconds)
    elif re.fullmatch(r"[^ :]+:\w+", name):
        yield Operation(name, "", seconds)


# --- Groups ------------------------------------------------------------------


def group_of(operation: Operation) -> str | None:
    """Return the group of an operation; None for one that runs others."""
    if operation.program:
        if operation.name.split(".")[0] in ("while", "call", "conditional"):
            return None
        found = _PROGRAM.search(operation.program)
        program = (found[1] if found else operation.program).strip("_")
        return UPDATE if program == "apply" else f"compiled: {program}"
    scope, _, kind = operation.name.rpartition(":")
    kind = _VARIANT.sub("", kind)
    if kind in _CONTAINERS:
        return None
    group = _GROUPS.get(kind, REST)
    if group == PRODUCTS and f"/{losses.VOCABULARY}" in f"/{scope}":
        return VOCABULARY
    return group


def sums(operations: Iterable[Operation]) -> dict[str, tuple[float, int]]:
    """Return seconds and number of operations by group, the longest first."""
    seconds: dict[str, float] = collections.defaultdict(float)
    counts: dict[str, int] = collections.defaultdict(int)
    for operation in operations:
        if group := group_of(operation):
            seconds[group] += operation.seconds
            counts[group] += 1
    total = sum(seconds.values())
    for group in list(seconds):
        if group != REST and seconds[group] < _LEAST_SHARE * total:
            seconds[REST] += seconds.pop(group)
            counts[REST] += counts.pop(group)
    order = sorted(seconds, key=lambda group: (group == REST, -seconds[group]))
    return {group: (seconds[group], counts[group]) for group in order}


# --- The rows ----------------------------------------------------------------


def measure(sized_steps: Iterable[steps.SizedStep]) -> Iterator[Row]:
    """Profile training steps; yield a row for each group of operations."""
    for size, _, step, count in sized_steps:
        operations, seconds = profile(step, count)
        yield from _rows(size, sums(operations), count, seconds)


def _rows(
    size: str,
    groups: Mapping[str, tuple[float, int]],
    count: int,
    step_seconds: float,
) -> Iterator[Row]:
    """Yield the rows of a size: the groups, then all of them."""
    total = sum(seconds for seconds, _ in groups.values())
    for group, (seconds, number) in groups.items():
        yield Row(
            f"step of {size}: {group}",
            f"{seconds / total:.1%}",
            f"{seconds / count * 1e3:.1f} ms, {number / count:.0f} operations",
            {"seconds": seconds / count, "share": seconds / total},
        )
    yield Row(
        f"step of {size}: all operations",
        f"{total / count:.3f} s",
        f"beside each other; the step takes {step_seconds:.3f} s with the "
        "profiler",
        {"seconds": total / count, "step_seconds": step_seconds},
    )
