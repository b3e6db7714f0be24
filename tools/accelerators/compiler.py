"""Compile programs ahead of time for TPUs and GPUs that this machine lacks.

This runs as a process of its own, in an environment of
requirements-accelerators.txt: it imports neither TensorFlow nor anything of
this project. Standard input has one JSON object per line, {"program": path of a
serialized HLO module, "device": a key of DEVICES, "replicas": 1 or 8}. Standard
output has one for each: the figures of the compiled program, or {"error": why
it does not compile}.
"""

import collections
import contextlib
import functools
import importlib.metadata
import json
import math
import operator
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple


class Gpu(NamedTuple):
    """What XLA has to know of a card, and its peak, from its data sheet."""

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
    tflops: int  # of dense 16-bit matrix products


class Tpu(NamedTuple):
    """Topologies to compile for, and what the documents tell of a chip."""

    one: str
    eight: str
    memory_gib: int
    bandwidth: int  # GB/s
    tflops: int  # in bfloat16


DEVICES: dict[str, Tpu | Gpu] = {
    "v4": Tpu("v4:2x2x1", "v4:2x2x1", 16, 614, 137),  # one of two cores
    "v5e": Tpu("v5e:2x2", "v5e:2x4", 16, 819, 197),
    "v6e": Tpu("v6e:2x2", "v6e:2x4", 32, 1638, 918),
    "V100": Gpu((7, 0), 80, 2048, 64, 96, 96, 6, 16, 900, 1.53, 125),
    "T4": Gpu((7, 5), 40, 1024, 64, 64, 64, 4, 15, 320, 1.59, 65),
    "A100": Gpu((8, 0), 108, 2048, 64, 164, 163, 40, 40, 1555, 1.41, 312),
    "H100": Gpu((9, 0), 132, 2048, 128, 228, 227, 50, 80, 3352, 1.98, 989),
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
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client
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
    found = {
        "seconds": round(seconds, 1),
        "arguments": memory.argument_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "code": memory.generated_code_size_in_bytes,
    }
    try:
        optimized = done.hlo_modules()[0]
        text = optimized.to_string()
        found |= counts(text)
        if isinstance(DEVICES[device], Gpu):
            # CUDA's client has no cost analysis. XLA's own reads any module; a
            # client lends it the sizes of types. It counts calls of cuBLAS as
            # nothing. So operations are those of the program before
            # optimization, and the bytes that the calls read and write are
            # added.
            analysis = functools.partial(
                _jax.hlo_module_cost_analysis, jax.devices("cpu")[0].client
            )
            module = xla_client.XlaComputation(serialized).get_hlo_module()
            found["flops"] = analysis(module)["flops"]
            found["accessed"] = analysis(optimized)["bytes accessed"]
            found["accessed"] += custom_call_bytes(text)
        else:
            cost = done.cost_analysis()
            found["flops"] = cost["flops"]
            found["accessed"] = cost["bytes accessed"]
            found["moved"] = memory_bytes(text)
    except RuntimeError as error:
        # A jaxlib may be unable to read a program of another libtpu, although
        # the step has compiled.
        found["no_counts"] = _reason(error)
    return found


_SMALL = 1000  # bytes of a constant that does not count


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


# Name, shape, operation and operands.
_INSTRUCTION = re.compile(
    r"^ *(?:ROOT )?(%?[\w.-]+) = \(?(.*?) ([a-z][a-z0-9-]*)\(([^)]*)", re.M
)


def counts(text: str) -> dict[str, Any]:
    """Return how often an optimized program has the operations that cost."""
    found: collections.Counter = collections.Counter()
    for _, shape, operation, _ in _INSTRUCTION.findall(text):
        # all-reduce-start and so on run while other operations compute.
        found[operation.removesuffix("-start")] += 1
        # A convolution is the product of a TPU.
        if operation in ("dot", "convolution") and shape.startswith("f32["):
            found["float32 products"] += 1
        if operation == "constant" and (size := _bytes(shape)) > _SMALL:
            found["constants"] += 1
            found["constant bytes"] += size
    names = ("fusion", "custom-call", "copy", "transpose", "convert", "gather")
    names += ("scatter", "all-reduce", "float32 products", "constants")
    names += ("constant bytes",)
    targets = re.findall(r'custom_call_target="([^"]+)"', text)
    return {name: found[name] for name in names} | {
        "targets": dict(collections.Counter(targets).most_common(5))
    }


def custom_call_bytes(text: str) -> int:
    """Return the bytes that custom calls read and write, without workspaces."""
    found = _INSTRUCTION.findall(text)
    sizes = {name: _bytes(shape) for name, shape, _, _ in found}
    return sum(
        _bytes(shape)
        + sum(sizes.get(name, 0) for name in re.findall(r"%?[\w.-]+", operands))
        for _, shape, operation, operands in found
        if operation == "custom-call"
    )


# Instructions of a program that move nothing themselves.
_STAYS = {
    *("parameter", "constant", "tuple", "get-tuple-element", "bitcast"),
    *("opt-barrier", "while", "conditional", "call"),
}


def memory_bytes(text: str) -> int:
    """Return the bytes that a TPU's program reads from its memory and writes.

    All operands and results of an instruction count, except those on the chip:
    S(1) is the memory of the vector unit, S(3) the common memory that v4 has
    beside it. libtpu's own count, "bytes accessed", has these too, and joins of
    slices that move nothing. A loop counts once.
    """
    fused = set(re.findall(r"calls=(%?[\w.-]+)", text))
    moved = 0
    for computation in re.split(r"^}", text, flags=re.M):
        name = re.search(r"^(?:ENTRY )?(%?[\w.-]+) \(", computation, re.M)
        if name and name[1] in fused:
            continue
        sizes: dict[str, int] = {}
        for name, shape, operation, operands in _INSTRUCTION.findall(
            computation
        ):
            arrays = re.findall(r"[a-z]\w*\[[\d,]*\](?:{[^}]*})?", shape)
            off_chip = [not re.search(r"S\([13]\)", array) for array in arrays]
            counted = list(map(_bytes, arrays))
            sizes[name] = sum(map(operator.mul, counted, off_chip))
            if operation.endswith("-start"):
                # A copy or a slice of one of the first two into the other.
                moved += min(counted[:2]) * sum(off_chip[:2])
            elif operation not in _STAYS and not operation.endswith("-done"):
                read = re.findall(r"%?[\w.-]+", operands)
                moved += sizes[name] + sum(sizes.get(x, 0) for x in read)
    return moved


def _bytes(shape: str) -> int:
    """Return the bytes of an array, "f32[8,128]{1,0}"."""
    found = re.match(r"[a-z]+(\d*)\w*\[([\d,]*)\]", shape)
    if not found:
        return 0
    bits, sizes = found.groups()  # a pred has a byte, and no number
    numbers = math.prod(int(size) for size in sizes.split(",") if size)
    return int(bits or 8) * numbers // 8


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
            yield {"error": _reason(error)}


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
