"""Compile programs ahead of time for a TPU and a GPU that need not be there.

This runs as a process of its own, in an environment of
requirements-accelerators.txt: it imports neither TensorFlow nor anything of
this project. Standard input has one JSON object per line, {"program": path of a
serialized HLO module, "device": "v5e" or "H100", "replicas": 1 or 8}. Standard
output has one for each: the bytes that the compiled program needs, or {"error":
why it does not compile}. The first line has the packages that are there.
"""

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

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

# A GpuTargetConfigProto of XLA, from the data sheet.
H100 = f"""
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: {48 << 10}
  shared_memory_per_block_optin: {227 << 10}
  shared_memory_per_core: {228 << 10}
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: {2**31 - 1}
  block_dim_limit_y: {2**16 - 1}
  block_dim_limit_z: {2**16 - 1}
  memory_bandwidth: {3352 * 10**9}
  l2_cache_size: {50 << 20}
  clock_rate_ghz: 1.98
  device_memory_size: {80 << 30}
  registers_per_core_limit: {2**16}
  registers_per_block_limit: {2**16}
  cuda_compute_capability {{ major: 9 minor: 0 }}
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 10 }}
"""


def to_module(serialized: bytes) -> str:
    """Return an HLO module of TensorFlow as StableHLO, in text."""
    from jax._src.lib import _jax, xla_client

    text = _jax.mlir.xla_computation_to_mlir_module(
        xla_client.XlaComputation(serialized)
    )
    # StableHLO has no copy, which stands where an output is an input. A barrier
    # of the same value compiles to the same.
    return text.replace("mhlo.copy", "stablehlo.optimization_barrier")


def compiled(program: str, device: str, replicas: int) -> dict[str, int]:
    """Compile a program for devices of a client that only compiles."""
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies

    if device == "H100":
        topology = topologies.get_topology_desc(
            device, "cuda", target_config=H100, topology=f"1x1x{replicas}"
        )
    else:
        name = "v5e:2x2" if replicas == 1 else "v5e:2x4"
        topology = topologies.get_topology_desc(name, "tpu")
    targets = topology.devices[:replicas]
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = replicas, 1
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[d.id] for d in targets])
    )
    with mlir.make_ir_context():
        module = ir.Module.parse(to_module(Path(program).read_bytes()))
        done = targets[0].client.compile(
            module, xla_client.DeviceList(tuple(targets)), options
        )
    memory = done.get_compiled_memory_stats()
    return {
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
    }


def answer(job: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a job."""
    try:
        return compiled(**job)
    except Exception as error:  # XLA raises many kinds: they are the result
        return {"error": " ".join(str(error).split())[:300]}


if __name__ == "__main__":
    os.environ.update(SETTINGS)
    # The assembler of this environment, not that of the machine.
    for folder in Path(sys.prefix).glob("lib/*/site-packages/nvidia/cuda_nvcc"):
        os.environ["XLA_FLAGS"] += f" --xla_gpu_cuda_data_dir={folder}"
    # Compilers write to standard output too.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    packages = ("jax", "libtpu", "jax_cuda12_plugin")
    found = [name for name in packages if importlib.util.find_spec(name)]
    print(json.dumps(found), file=output, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=output, flush=True)
