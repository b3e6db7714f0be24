"""Compile programs ahead of time for TPUs and GPUs that this machine lacks.

This runs as a process of its own, in an environment of
requirements-accelerators.txt: it imports neither TensorFlow nor anything of
this project. Standard input has one JSON object per line, {"program": path of a
serialized HLO module, "device": a key of DEVICES, "replicas": 1 or 8}. Standard
output has one for each: the figures of the compiled program, or {"error": why
it does not compile}.
"""

import contextlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Gpu(NamedTuple):
    """What XLA has to know of a card, from its data sheet."""

    capability: tuple[int, int]
    cores: int  # streaming multiprocessors
    threads: int  # largest number on a core
    float32_units: int  # of a core
    core_kib: int  # shared memory of a core
    block_kib: int  # largest part of it for one block
    cache_mib: int
    memory_gib: int
    bandwidth: int  # GB/s
    clock_ghz: float


class Tpu(NamedTuple):
    """Topologies to compile for, of one chip and of eight, and its memory."""

    one: str
    eight: str
    memory_gib: int


DEVICES: dict[str, Tpu | Gpu] = {
    "v4": Tpu("v4:2x2x1", "v4:2x2x1", 16),  # one of two cores
    "v5e": Tpu("v5e:2x2", "v5e:2x4", 16),
    "v6e": Tpu("v6e:2x2", "v6e:2x4", 32),
    "V100": Gpu((7, 0), 80, 2048, 64, 96, 96, 6, 16, 900, 1.53),
    "T4": Gpu((7, 5), 40, 1024, 64, 64, 64, 4, 15, 320, 1.59),
    "A100": Gpu((8, 0), 108, 2048, 64, 164, 163, 40, 40, 1555, 1.41),
    "H100": Gpu((9, 0), 132, 2048, 128, 228, 227, 50, 80, 3352, 1.98),
}


def dtype_for(device: str) -> str:
    """Return the type of --dtype=auto on a device (training/dtypes.py)."""
    found = DEVICES[device]
    is_old = isinstance(found, Gpu) and found.capability < (8, 0)
    return "float16" if is_old else "bfloat16"


# Settings that libtpu and XLA need before they are loaded: not to ask a cloud
# what they run on, and not to time candidates on a GPU.
SETTINGS = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_gpu_autotune_level=0",
    "TF_CPP_MIN_LOG_LEVEL": "3",
}


def target_config(gpu: Gpu) -> str:
    """Return the card as a GpuTargetConfigProto of XLA, in text."""
    major, minor = gpu.capability
    return f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: {48 << 10}
  shared_memory_per_block_optin: {gpu.block_kib << 10}
  shared_memory_per_core: {gpu.core_kib << 10}
  threads_per_core_limit: {gpu.threads}
  core_count: {gpu.cores}
  fpus_per_core: {gpu.float32_units}
  block_dim_limit_x: {2**31 - 1}
  block_dim_limit_y: {2**16 - 1}
  block_dim_limit_z: {2**16 - 1}
  memory_bandwidth: {gpu.bandwidth * 10**9}
  l2_cache_size: {gpu.cache_mib << 20}
  clock_rate_ghz: {gpu.clock_ghz}
  device_memory_size: {gpu.memory_gib << 30}
  registers_per_core_limit: {2**16}
  registers_per_block_limit: {2**16}
  cuda_compute_capability {{ major: {major} minor: {minor} }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
"""


def devices_for(name: str, replicas: int) -> list:
    """Return devices of a client that only compiles."""
    from jax.experimental import topologies

    found = DEVICES[name]
    if isinstance(found, Gpu):
        topology = topologies.get_topology_desc(
            name,
            "cuda",
            target_config=target_config(found),
            topology=f"1x1x{replicas}",
        )
    else:
        name = found.one if replicas == 1 else found.eight
        topology = topologies.get_topology_desc(name, "tpu")
    return topology.devices[:replicas]


def to_module(serialized: bytes) -> str:
    """Return an HLO module of TensorFlow as StableHLO, in text."""
    from jax._src.lib import _jax, xla_client

    text = _jax.mlir.xla_computation_to_mlir_module(
        xla_client.XlaComputation(serialized)
    )
    # StableHLO has no copy, which stands where an output is an input. A barrier
    # of the same value compiles to the same.
    return text.replace("mhlo.copy", "stablehlo.optimization_barrier")


def compiled(program: str, device: str, replicas: int) -> dict[str, Any]:
    """Compile a program; return its figures, bytes where not said otherwise."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir

    targets = devices_for(device, replicas)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[d.id] for d in targets])
    )
    serialized = Path(program).read_bytes()
    with mlir.make_ir_context():
        module = ir.Module.parse(to_module(serialized))
        began = time.perf_counter()
        done = targets[0].client.compile(
            module, xla_client.DeviceList(tuple(targets)), options
        )
        seconds = time.perf_counter() - began
    memory = done.get_compiled_memory_stats()
    return {
        "seconds": round(seconds, 1),
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
    }


def versions() -> dict[str, str]:
    """Return the versions of what is installed of the compilers' packages."""
    found = {}
    for name in ("jax", "libtpu", "jax-cuda12-plugin"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def answers(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    """Yield the figures of each job."""
    for line in lines:
        try:
            yield compiled(**json.loads(line))
        except Exception as error:  # XLA raises many kinds: they are the result
            yield {"error": " ".join(str(error).split())[:300]}


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    # The assembler of this environment, not that of the machine.
    for folder in Path(sys.prefix).glob("lib/*/site-packages/nvidia/cuda_nvcc"):
        os.environ["XLA_FLAGS"] += f" --xla_gpu_cuda_data_dir={folder}"
    # Compilers write to standard output too.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps(versions()), file=output, flush=True)
    for answer in answers(sys.stdin):
        print(json.dumps(answer), file=output, flush=True)
