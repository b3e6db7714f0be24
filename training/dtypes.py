"""Choose the type of the matrix products: --dtype, and what `auto` is.

    TPU                                     bfloat16
    GPU of compute capability 8 and more    bfloat16
    GPU of compute capability 7             float16, with a loss scale
    older GPU, or one that does not say     float32
    CPU                                     bfloat16 where it is measured to be
                                            at least 1.5 times as fast

On a CPU one product of each type is timed as training computes it: as an
operation of its own, which oneDNN computes. (Products that XLA compiles on a
CPU are slower in bfloat16, so compilation.py leaves them out there.)
"""

import functools
import time
from collections.abc import Callable
from typing import NamedTuple

from base import workers
from base.errors import UserError

import tensorflow as tf
from absl import logging

from checkpoints import run_settings
from training import agreement, devices

AUTO = "auto"

# How many times as fast as float32 products bfloat16 ones have to be. The
# other operations of a step take about as long in both types.
_WORTHWHILE = 1.5

# Tokens for each core, times a kernel of Base: some milliseconds.
_TOKENS_PER_CORE, _MAX_TOKENS, _HIDDEN = 256, 4096, 768
_SECONDS = 0.06  # how long products are timed, after 3 of each type
_ROUNDS = 3

# dtype -> product rate relative to float32's.
Measure = Callable[[str], float]


class Hardware(NamedTuple):
    """What a run is computed on.

    Attributes:
        kind: CPU, GPU or TPU.
        capability: the least compute capability of the GPUs, (7, 5) for
            example; None where they do not tell.
    """

    kind: str
    capability: tuple[int, int] | None = None


class Choice(NamedTuple):
    """A type and the reason for it, for the log."""

    dtype: str
    why: str


# --- The machine -------------------------------------------------------------


def find_hardware(strategy: tf.distribute.Strategy) -> Hardware:
    """Return what the strategy runs on."""
    if devices.is_tpu(strategy):
        return Hardware("TPU")
    if devices.kind() == "CPU":
        return Hardware("CPU")
    found = [
        tf.config.experimental.get_device_details(gpu).get("compute_capability")
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return Hardware("GPU", None if None in found else min(found))


@functools.cache
def measure(dtype: str) -> float:
    """Return the speed of a type's matrix products on this CPU; float32 is 1.

    Both types are timed in turns, since the speed of a shared machine changes
    from one moment to the next; the best time of each type counts. It is the
    time of the process on all cores: while another process has them, it stands
    still. Takes about 0.1 s.
    """
    rows = min(workers.num_cores() * _TOKENS_PER_CORE, _MAX_TOKENS)
    names = ("float32", dtype)
    with tf.device("CPU:0"):
        # The time does not depend on the values.
        operands = {
            name: (
                tf.fill([rows, _HIDDEN], tf.cast(0.5, name)),
                tf.fill([_HIDDEN, _HIDDEN], tf.cast(0.5, name)),
            )
            for name in names
        }
        for pair in operands.values():
            tf.matmul(*pair)  # the first one also prepares
        best = dict.fromkeys(names, float("inf"))
        began, rounds = time.perf_counter(), 0
        while rounds < _ROUNDS or time.perf_counter() - began < _SECONDS:
            for name, pair in operands.items():
                start = time.process_time()
                tf.matmul(*pair)
                best[name] = min(best[name], time.process_time() - start)
            rounds += 1
    return best["float32"] / best[dtype]


# --- The choice --------------------------------------------------------------


def choose(hardware: Hardware, measure: Measure = measure) -> Choice:
    """Return the type that --dtype=auto stands for on a machine."""
    if hardware.kind == "TPU":
        return Choice("bfloat16", "it is the type of TPUs")
    if hardware.kind == "GPU":
        if hardware.capability is None:
            return Choice(
                "float32", "the GPU does not tell its compute capability"
            )
        version = ".".join(map(str, hardware.capability))
        why = f"the GPU has compute capability {version}"
        if hardware.capability >= (8, 0):
            return Choice("bfloat16", why)
        if hardware.capability >= (7, 0):
            return Choice("float16", f"{why}: no bfloat16, and fast float16")
        return Choice("float32", f"{why}: no fast 16-bit products")
    ratio = measure("bfloat16")
    why = (
        f"bfloat16 products are {ratio:.1f} times as fast as float32 ones on "
        "this CPU (measured)"
    )
    if ratio >= _WORTHWHILE:
        return Choice("bfloat16", why)
    return Choice("float32", f"{why}, and {_WORTHWHILE} times would pay")


def resolve(
    dtype: str,
    strategy: tf.distribute.Strategy,
    resumed_dirs: tuple[str | None, ...] = (),
) -> str:
    """Return the type of the products that --dtype asks for; log what to know.

    Call it after `devices.create_strategy`, before the model is created. With
    auto, the first of `resumed_dirs` that holds a run gives the type.

    Raises:
        UserError: the machine cannot compute in the type, or the machines of
            a cluster were given different ones.
    """
    agreement.check_same_run(strategy, {"dtype": dtype})
    if dtype == "float16" and devices.is_tpu(strategy):
        raise UserError(
            "--dtype=float16 is for GPUs; on a TPU use --dtype=bfloat16"
        )
    if dtype != AUTO:
        return dtype
    for directory in filter(None, resumed_dirs):
        before = run_settings.read_adjustable(directory).get("dtype")
        if before:
            logging.info(
                "--dtype=auto: %s, as the run in %s began", before, directory
            )
            return str(before)
    choice = _agree(choose(find_hardware(strategy)), strategy)
    logging.info("--dtype=auto: %s, since %s", choice.dtype, choice.why)
    return choice.dtype


def resolve_here(dtype: str) -> str:
    """Return the type for a script that predicts on this machine alone.

    Call it before other TensorFlow work.

    Raises:
        UserError: as `resolve`.
    """
    devices.avoid_broken_amx(dtype)
    return resolve(dtype, tf.distribute.get_strategy())


def _agree(choice: Choice, strategy: tf.distribute.Strategy) -> Choice:
    """Return the choice if all machines made it, else float32."""
    code = agreement.checksum(choice.dtype)
    if agreement.machines_of(strategy).first_to_differ([code]):
        return Choice("float32", "the machines of the cluster differ")
    return choice
