"""Choose the devices of a run."""

import os
import signal
import subprocess
import sys

from base import cluster, machine
from base.errors import UserError

import tensorflow as tf
from absl import logging

from training.settings import DeviceChoice


def is_tpu(strategy: tf.distribute.Strategy) -> bool:
    """Whether the strategy runs on a TPU."""
    return isinstance(strategy, tf.distribute.TPUStrategy)


# --- Matrix products that fail on some machines ------------------------------

# The environment variable that limits the instructions of oneDNN, and the value
# that leaves out AMX alone. A lower value breaks float16 products on processors
# with avx512_fp16: TensorFlow looks at the processor only, and takes oneDNN's
# products, which then lack the type.
AMX_SETTING, WITHOUT_AMX = "ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16"

_PROBE = """
import tensorflow as tf
x = tf.ones([64, 64], tf.bfloat16)
print(float(tf.reduce_sum(tf.cast(tf.matmul(x, x), tf.float32))))
"""

# XLA's flag for products that it generates with Triton instead of calling
# cuBLAS. On an H200 with TensorFlow 2.21 the gradients of bfloat16 models
# became nan or inf within four steps, with ptxas of CUDA 12.9 and 13.0 alike.
# With cuBLAS the losses are those of float32 (docs/records/h200.md).
TRITON_FLAG = "--xla_gpu_enable_triton_gemm"


def avoid_broken_products(dtype: str) -> None:
    """Set environment variables that keep 16-bit matrix products right.

    They turn off AMX and Triton where these are known to fail. A variable or
    flag that the user has set stays. Call this before other TensorFlow work.
    """
    if dtype == "float32":
        return
    # Some virtual machines report AMX although its instructions fail (SIGILL).
    # Where AMX is reported, one product is tried in another process.
    is_reported = any(name.startswith("amx_") for name in machine.cpu_flags())
    if AMX_SETTING not in os.environ and is_reported:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE], capture_output=True, check=False
        )
        if probe.returncode == -signal.SIGILL:
            os.environ[AMX_SETTING] = WITHOUT_AMX
            logging.warning(
                "This processor reports AMX, but its instructions fail, as on "
                "virtual machines that do not pass them on: set %s=%s, which "
                "does without AMX",
                AMX_SETTING,
                WITHOUT_AMX,
            )
    # Before XLA reads its flags.
    flags = os.environ.get("XLA_FLAGS", "")
    if TRITON_FLAG not in flags and tf.config.list_physical_devices("GPU"):
        os.environ["XLA_FLAGS"] = f"{flags} {TRITON_FLAG}=false".strip()
        logging.info(
            "XLA_FLAGS has %s=false now: these products of 16-bit types gave "
            "nan on an H200",
            TRITON_FLAG,
        )


# --- Strategies --------------------------------------------------------------


def create_strategy(choice: DeviceChoice) -> tf.distribute.Strategy:
    """Return the strategy for the devices; call before other TensorFlow work.

    The first of these is used: the TPU of that name, with `use_tpu`; the
    machines that TF_CONFIG names; all GPUs of this machine; its CPU.
    """
    avoid_broken_products(choice.dtype)
    for name in ("tpu_name", "master"):
        if getattr(choice, name) and not choice.use_tpu:
            logging.warning("--%s is ignored without --use_tpu", name)
    if choice.use_tpu:
        strategy = _tpu_strategy(choice)
    elif cluster.has_other_workers():
        from training import cluster_watch

        strategy = cluster_watch.create_strategy()
    else:
        # Several CPU devices are logical ones, which tests split a CPU into.
        logical = tf.config.list_logical_devices(kind())
        strategy = (
            tf.distribute.MirroredStrategy([device.name for device in logical])
            if len(logical) > 1
            else tf.distribute.get_strategy()
        )
    logging.info("Devices: %s", describe(strategy))
    if not choice.use_tpu and kind() == "CPU" and os.path.exists(_NVIDIA):
        logging.warning(
            "This machine has a GPU of NVIDIA that TensorFlow does not see: "
            "`make gpu` installs CUDA's libraries, or says what else is missing"
        )
    return strategy


_NVIDIA = "/dev/nvidiactl"  # of its driver


def describe(strategy: tf.distribute.Strategy) -> str:
    """Return a phrase such as "2 GPU replicas" for the log."""
    name = "TPU" if is_tpu(strategy) else kind()
    replicas = strategy.num_replicas_in_sync
    if cluster.has_other_workers():
        return f"{replicas} {name} replicas on several machines (TF_CONFIG)"
    return f"{replicas} {name}" + (" replicas" if replicas > 1 else "")


def kind() -> str:
    """Return GPU where TensorFlow finds one, else CPU."""
    return "GPU" if tf.config.list_logical_devices("GPU") else "CPU"


def _tpu_strategy(choice: DeviceChoice) -> tf.distribute.Strategy:
    """Connect to a TPU; every kind of failure is raised as a UserError."""
    if choice.dtype == "float16":
        raise UserError(
            "--dtype=float16 is for GPUs; on a TPU use --dtype=bfloat16"
        )
    name = choice.tpu_name or choice.master
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=choice.tpu_zone, project=choice.gcp_project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
        strategy = tf.distribute.TPUStrategy(resolver)
    except Exception as error:  # the resolver and gRPC raise many kinds
        reason = (str(error) or type(error).__name__).splitlines()[0][:300]
        raise UserError(
            f"--use_tpu: no TPU answers as tpu_name={name!r}, "
            f"tpu_zone={choice.tpu_zone!r}, "
            f"gcp_project={choice.gcp_project!r}: {reason}. On a TPU "
            "VM use --tpu_name=local and the tensorflow-tpu wheel; elsewhere "
            "leave --use_tpu out"
        ) from error
    if strategy.num_replicas_in_sync != choice.num_tpu_cores:
        logging.warning(
            "--num_tpu_cores=%d, but the TPU has %d cores; all are used",
            choice.num_tpu_cores,
            strategy.num_replicas_in_sync,
        )
    return strategy
