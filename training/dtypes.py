"""Choose the type of the matrix products: --dtype, and what `auto` is.

    TPU                                     bfloat16
    GPU of compute capability 8 and more    bfloat16
    GPU of compute capability 7             float16, with a loss scale
    older GPU, or one that does not say     float32
    CPU                                     bfloat16 where it is measured to be
                                            at least 1.5 times as fast

On a CPU one product of each type is timed as training computes it: as an
operation of its own, which oneDNN computes, and on ARM Eigen, in float32 for
either type. (Products that XLA compiles on a CPU are slower in bfloat16, so
compilation.py leaves them out there.)
"""

import functools
import time
from collections.abc import Sequence

import tensorflow as tf
from absl import logging

from checkpoints.run_folder import RunFolder
from training import agreement, devices
from training.settings import AUTO

# How many times as fast as float32 products bfloat16 ones have to be. The
# other operations of a step take about as long in both types.
_WORTHWHILE = 1.5

# Tokens for each core, times a kernel of Base: some milliseconds.
_TOKENS_PER_CORE, _MAX_TOKENS, _HIDDEN = 256, 4096, 768
_SECONDS = 0.06  # how long products are timed, after 3 of each type
_ROUNDS = 3


@functools.cache
def measure(dtype: str) -> float:
    """Return the speed of a type's matrix products on this CPU; float32 is 1.

    Both types are timed in turns, since the speed of a shared machine changes
    from one moment to the next; the best time of each type counts. What is
    measured is the process' time on all cores, which stands still while another
    process has them. Takes about 0.1 s.
    """
    from base import machine  # for --dtype=auto alone

    rows = min(machine.num_cores() * _TOKENS_PER_CORE, _MAX_TOKENS)
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


def choose(strategy: tf.distribute.Strategy) -> tuple[str, str]:
    """Return the type that --dtype=auto takes for a strategy, and why."""
    if devices.is_tpu(strategy):
        return "bfloat16", "it is the type of TPUs"
    if devices.kind() == "GPU":
        gpus = tf.config.list_physical_devices("GPU")
        details = map(tf.config.experimental.get_device_details, gpus)
        capabilities = [known.get("compute_capability") for known in details]
        if None in capabilities:
            return "float32", "the GPU does not tell its compute capability"
        capability = min(capabilities)  # all take part in a step
        version = ".".join(map(str, capability))
        why = f"the GPU has compute capability {version}"
        if capability >= (8, 0):
            return "bfloat16", why
        if capability >= (7, 0):
            return "float16", f"{why}: no bfloat16, and fast float16"
        return "float32", f"{why}: no fast 16-bit products"
    ratio = measure("bfloat16")
    why = (
        f"bfloat16 products are {ratio:.1f} times as fast as float32 ones on "
        "this CPU (measured)"
    )
    if ratio >= _WORTHWHILE:
        return "bfloat16", why
    return "float32", f"{why}, and {_WORTHWHILE} times would pay"


def resolve(
    dtype: str,
    strategy: tf.distribute.Strategy,
    continued: Sequence[RunFolder] = (),
) -> str:
    """Return the type of the products that --dtype asks for; log what to know.

    Call it after `devices.create_strategy`, before the model is created. With
    auto, the first of the runs that are continued gives the type.

    Raises:
        UserError: the machines of a cluster were given different types.
    """
    chosen, why = dtype, ""
    known = [run for run in continued if run.adjustable.get("dtype")]
    if dtype == AUTO and known:
        chosen = str(known[0].adjustable["dtype"])
        why = f"as the run in {known[0].path} began"
    elif dtype == AUTO:
        chosen, reason = choose(strategy)
        why = f"since {reason}"
    agreement.check_same_run(strategy, {"dtype": dtype})
    if dtype != AUTO:
        return dtype
    code = agreement.checksum(chosen)
    if agreement.machines_of(strategy).first_to_differ([code]):
        chosen, why = "float32", "since the machines of the cluster differ"
    logging.info("--dtype=auto: %s, %s", chosen, why)
    return chosen


def resolve_here(dtype: str) -> str:
    """Return the type for a script that predicts on this machine alone.

    Call it before other TensorFlow work.
    """
    devices.avoid_broken_products(dtype)
    return resolve(dtype, tf.distribute.get_strategy())
