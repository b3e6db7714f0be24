"""Run the signatures of a LiteRT file with ai-edge-litert.

Two interfaces of the runtime are used. The Interpreter resizes inputs, so that
a batch needs no more padding than its longest row; it keeps a copy of the
weights, in the order of the processor's products, in the memory of each
process. CompiledModel has fixed sizes, one row at a time; it keeps that copy in
a file that all processes share, so that they start faster and take less memory.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

from base.errors import UserError

import numpy as np

from prediction.tasks import Outputs

Features = Mapping[str, np.ndarray]


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _package(module: str) -> Any:
    """Return a module of the runtime.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(f"ai_edge_litert.{module}")
    except ImportError as error:
        raise UserError(
            f"a LiteRT file needs ai-edge-litert ({error}): pip install -r "
            "requirements-litert.txt"
        ) from error


class Resizable:
    """Runs the signature `ids`, whose batch and length are free.

    Args:
        path: of the file.
        num_threads: of the products.

    Raises:
        UserError: the file is damaged, or has no such signature.
    """

    def __init__(self, path: str, num_threads: int):
        interpreter = _package("interpreter").Interpreter
        try:
            # The runtime's own default is a single thread.
            self.interpreter = interpreter(path, num_threads=num_threads)
            self.runner = self.interpreter.get_signature_runner("ids")
        except (ValueError, RuntimeError) as error:
            raise _damaged(path, error) from error

    def __call__(self, features: Features) -> Outputs:
        """Return the outputs for features [B, S]."""
        return self.runner(**features)


class Fixed:
    """Runs signatures of one row and a fixed length, with a weight cache.

    Args:
        path: of the LiteRT file.
        num_threads: of the products.
        weight_cache: a file; it is written if it does not exist.
        lengths: of the signatures.

    Raises:
        UserError: the file is damaged, or the cache cannot be written.
    """

    def __init__(
        self,
        path: str,
        num_threads: int,
        weight_cache: str,
        lengths: Sequence[int],
    ):
        module = _package("compiled_model")
        self.lengths = sorted(lengths)
        if not self.lengths:
            raise UserError(
                f"--weight_cache needs signatures of fixed lengths, and {path} "
                "has none: export it with --lengths=128 or the like"
            )
        _check_cache(weight_cache)
        options = _package("options").Options(
            hardware_accelerators=_package(
                "hardware_accelerator"
            ).HardwareAccelerator.CPU,
            cpu_options=_package("cpu_options").CpuOptions(
                num_threads=num_threads, xnnpack_weight_cache_path=weight_cache
            ),
        )
        try:
            self.model = module.CompiledModel.from_file(path, options=options)
            self.parts = {one: self._buffers(one) for one in self.lengths}
        except (ValueError, RuntimeError) as error:
            raise _damaged(path, error) from error

    def _buffers(self, length: int) -> tuple[dict, dict, dict]:
        """Return inputs, outputs and shapes of outputs of a length."""
        key = f"ids_{length}"
        names = self.model.get_signature_list()[key]
        inputs = {
            name: self.model.create_input_buffer_by_name(key, name)
            for name in names["inputs"]
        }
        outputs = {
            name: self.model.create_output_buffer_by_name(key, name)
            for name in names["outputs"]
        }
        details = self.model.get_output_tensor_details(key)
        return inputs, outputs, {n: details[n]["shape"] for n in outputs}

    def __call__(self, features: Features) -> Outputs:
        """Return the outputs for features [B, S], one row after the other."""
        width = features["input_ids"].shape[1]
        length = next(one for one in self.lengths if one >= width)
        inputs, outputs, shapes = self.parts[length]
        rows = []
        for row in range(len(features["input_ids"])):
            for name, buffer in inputs.items():
                values = np.zeros([1, length], np.int32)
                values[0, :width] = features[name][row]
                buffer.write(values)
            self.model.run_by_name(f"ids_{length}", inputs, outputs)
            rows.append(
                {
                    name: buffer.read(int(np.prod(shapes[name])), np.float32)
                    .reshape(shapes[name])
                    .copy()
                    for name, buffer in outputs.items()
                }
            )
        return {
            name: np.concatenate([row[name] for row in rows]) for name in shapes
        }


def _check_cache(path: str) -> None:
    """Raise a UserError if the weight cache cannot be written."""
    folder = os.path.dirname(path) or "."
    if os.path.isdir(path):
        raise UserError(f"--weight_cache={path} is a directory: give a file")
    place = path if os.path.exists(path) else folder
    if not os.access(place, os.W_OK):
        raise UserError(f"--weight_cache={path} cannot be written")


def _damaged(path: str, error: Exception) -> UserError:
    return UserError(
        f"--model={path} cannot be loaded: {str(error).splitlines()[0][:200]}"
    )
