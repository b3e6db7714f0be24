"""Which devices a run uses, and how fast their matrix product is.

Apart from training.py because benchmark.py and predictors ask the same
questions without training anything.
"""

import functools
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import tensorflow as tf
from absl import logging

from base import cluster
from base.errors import UserError

_PEAK_SECONDS = 0.5


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether strategy.run compiles for a TPU by itself."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


def what_compiles(strategy: tf.distribute.Strategy, jit_compile: bool) -> str:
    """Say what XLA is to compile: "step", "pieces" or "nothing".

    On a GPU the whole step. On a CPU the elementwise pieces alone: XLA's
    matrix products there are slower than TensorFlow's own. On a TPU nothing,
    since strategy.run compiles whatever it holds by itself.
    """
    if is_tpu(strategy) or not jit_compile:
        return "nothing"
    return "pieces" if _device_kind() == "CPU" else "step"


_PROBE = """
import tensorflow as tf
x = tf.ones([64, 64], tf.bfloat16)
print(float(tf.reduce_sum(tf.cast(tf.matmul(x, x), tf.float32))))
"""


def avoid_broken_amx(dtype: str) -> None:
    """Keep 16-bit products from instructions a processor only claims to have.

    Some virtual machines report AMX and kill the process that uses it. Where
    it is reported, one product in a process of its own tells; call this
    before any other TensorFlow work.
    """
    setting = "ONEDNN_MAX_CPU_ISA"
    if dtype == "float32" or setting in os.environ or not _reports_amx():
        return
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, check=False
    )
    if probe.returncode == -signal.SIGILL:
        os.environ[setting] = "AVX512_CORE_BF16"
        logging.warning(
            "This processor reports AMX, but dies of it: a virtual machine "
            "that does not pass it on. Set %s=%s and went on without",
            setting,
            os.environ[setting],
        )


def _reports_amx() -> bool:
    try:
        return " amx_" in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


def create_strategy(
    use_tpu: bool = False,
    tpu_name: str | None = None,
    tpu_zone: str | None = None,
    gcp_project: str | None = None,
    master: str | None = None,
    num_tpu_cores: int = 8,
) -> tf.distribute.Strategy:
    """Choose the strategy; call before any other TensorFlow work.

    With `use_tpu` the TPU of that name; else, with TF_CONFIG, several
    machines; else all local GPUs; else the CPU (each logical CPU device, one
    unless configured otherwise).

    Raises:
        UserError: no TPU can be reached, or a batch flag makes no sense.
    """
    if use_tpu:
        return _tpu_strategy(
            tpu_name or master, tpu_zone, gcp_project, num_tpu_cores
        )
    for name, value in (("tpu_name", tpu_name), ("master", master)):
        if value:
            logging.warning("--%s is ignored without --use_tpu", name)
    if cluster.has_other_workers():
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        devices = tf.config.list_logical_devices(
            "GPU"
        ) or tf.config.list_logical_devices("CPU")
        strategy = (
            tf.distribute.MirroredStrategy([d.name for d in devices])
            if len(devices) > 1
            else tf.distribute.get_strategy()
        )
    logging.info("Devices: %s", describe(strategy))
    return strategy


def describe(strategy: tf.distribute.Strategy) -> str:
    """Say in a few words what the strategy runs on."""
    kind = "TPU" if is_tpu(strategy) else _device_kind()
    replicas = strategy.num_replicas_in_sync
    if cluster.has_other_workers():
        return f"{replicas} {kind} replicas on several machines (TF_CONFIG)"
    return f"{replicas} {kind}" + (" replicas" if replicas > 1 else "")


def _device_kind() -> str:
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def _tpu_strategy(
    name: str | None, zone: str | None, project: str | None, num_cores: int
) -> tf.distribute.Strategy:
    """Connect to a TPU; the many ways that fails become one line."""
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=zone, project=project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # whatever the resolver and gRPC may raise
        reason = (str(error) or type(error).__name__).splitlines()[0][:300]
        raise UserError(
            f"--use_tpu: no TPU answers as tpu_name={name!r}, "
            f"tpu_zone={zone!r}, gcp_project={project!r}: {reason}. On a TPU "
            "VM use --tpu_name=local and the tensorflow-tpu wheel; elsewhere "
            "leave --use_tpu out"
        ) from error
    if strategy.num_replicas_in_sync != num_cores:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d cores; all are used",
            num_cores,
            strategy.num_replicas_in_sync,
        )
    logging.info("Devices: %s", describe(strategy))
    return strategy


def measure_matmul_peak(
    dtype: str = "float32", strategy: tf.distribute.Strategy | None = None
) -> float:
    """Measure the matrix-product rate of all devices together, in FLOP/s.

    The best of several square products: what the machine can do, measured on
    the spot, since shared machines are not what their data sheet says. The
    CPU's cores are one device, however many logical ones it is cut into.
    """
    strategy = strategy or tf.distribute.get_strategy()
    seconds, operations = _timed_products(dtype, strategy)
    best, end = float("inf"), time.monotonic() + _PEAK_SECONDS
    while time.monotonic() < end:
        best = min(best, seconds())
    return operations / best


@functools.cache
def _timed_products(
    dtype: str, strategy: tf.distribute.Strategy
) -> tuple[Callable[[], float], int]:
    """Return a function that times square products, and their operations."""
    is_cpu = not is_tpu(strategy) and _device_kind() == "CPU"
    size = 2048 if is_cpu else 8192
    repeats = 1 if is_cpu else 10  # so that launching does not show

    def fill() -> tf.Tensor:
        values = tf.random.stateless_uniform([size, size], [1, 2], -1, 1)
        return tf.cast(values, dtype)

    def multiply(matrix: tf.Tensor) -> tf.Tensor:
        result = matrix
        for _ in range(repeats):
            result = tf.matmul(result, matrix) / size
        return result[0, 0]

    def on_devices(function):
        function = tf.function(function, autograph=False)
        if is_cpu:
            return function
        return tf.function(lambda *args: strategy.run(function, args))

    matrix, multiply = on_devices(fill)(), on_devices(multiply)

    def seconds() -> float:
        began = time.perf_counter()
        for value in strategy.experimental_local_results(multiply(matrix)):
            float(value)  # waits for the device
        return time.perf_counter() - began

    seconds()  # traces
    devices = 1 if is_cpu else strategy.num_replicas_in_sync
    return seconds, devices * repeats * 2 * size**3
