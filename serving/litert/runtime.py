"""Run the signatures of a LiteRT file with ai-edge-litert.

A file has one signature whose inputs can be resized, or several of one row and
a fixed length. The runtime's Interpreter runs both. It keeps a copy of the
weights, in the order in which the processor multiplies them, in the memory of
each process. CompiledModel keeps that copy in a file that all processes share,
so that they start faster and take less memory, but it needs fixed lengths.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from base import file_system, packages
from base.errors import UserError

import numpy as np

from tasks.task import Outputs

Features = Mapping[str, np.ndarray]


def _package(module: str) -> Any:
    """Return a module of the runtime.

    Raises:
        UserError: it is not installed.
    """
    return packages.load(
        f"ai_edge_litert.{module}",
        "a LiteRT file",
        "ai-edge-litert",
        "requirements-litert.txt",
    )


class Resizable:
    """Runs the signature `ids`, whose batch and length are free.

    Args:
        path: of the file.
        num_threads: of the products.

    Raises:
        UserError: the file is damaged, or has no such signature.
    """

    def __init__(self, path: str, num_threads: int):
        self.interpreter = _open(path, num_threads)
        self.runner = _signature(path, self.interpreter, "ids")

    def __call__(self, features: Features) -> Outputs:
        """Run the model on a batch of features [B, S]; return its outputs."""
        return self.runner(**features)


class Fixed:
    """Runs signatures of one row and a fixed length, row by row.

    Args:
        path: of the file.
        num_threads: of the products.
        lengths: of the signatures.

    Raises:
        UserError: the file is damaged, or lacks a signature.
    """

    def __init__(self, path: str, num_threads: int, lengths: Sequence[int]):
        self.lengths = sorted(lengths)
        self.interpreter = _open(path, num_threads)
        self.runners = {
            length: _signature(path, self.interpreter, f"ids_{length}")
            for length in self.lengths
        }

    def __call__(self, features: Features) -> Outputs:
        """Run the model on a batch of features [B, S]; return its outputs."""
        width = features["input_ids"].shape[1]
        length = next(one for one in self.lengths if one >= width)
        padded = {
            name: np.pad(value, [(0, 0), (0, length - width)])
            for name, value in features.items()
        }
        rows = [
            self.run_row(length, {n: v[i : i + 1] for n, v in padded.items()})
            for i in range(len(features["input_ids"]))
        ]
        return {n: np.concatenate([row[n] for row in rows]) for n in rows[0]}

    def run_row(self, length: int, features: Features) -> Outputs:
        """Run the model on one row of features [1, length]."""
        return self.runners[length](**features)


class Cached(Fixed):
    """As `Fixed`, with the weights in a file that all processes share.

    Args:
        path: of the LiteRT file.
        num_threads: of the products.
        lengths: of the signatures.
        weight_cache: a directory; a file in it is written if it is not there.
        digest: of the model, which names the file.

    Raises:
        UserError: the file is damaged, or the cache cannot be written.
    """

    def __init__(
        self,
        path: str,
        num_threads: int,
        lengths: Sequence[int],
        weight_cache: str,
        digest: str,
    ):
        self.lengths = sorted(lengths)
        # An old cache of another model would give other numbers.
        cache = os.path.join(weight_cache, f"{digest[:16]}.xnnpack")
        file_system.make_directory(weight_cache, "weight_cache")
        options = _package("options").Options(
            hardware_accelerators=_package(
                "hardware_accelerator"
            ).HardwareAccelerator.CPU,
            cpu_options=_package("cpu_options").CpuOptions(
                num_threads=num_threads,
                # A file, though the runtime's documentation says a directory.
                xnnpack_weight_cache_path=cache,
            ),
        )
        compiled = _package("compiled_model").CompiledModel
        try:
            self.model = compiled.from_file(path, options=options)
            self.buffers = {one: self._buffers(one) for one in self.lengths}
        except (KeyError, ValueError, RuntimeError) as error:
            raise _damaged(path, error) from error

    def _buffers(self, length: int) -> tuple[dict, dict]:
        """Return inputs and outputs of a length, name -> buffer."""
        key = f"ids_{length}"
        names = self.model.get_signature_list()[key]
        model = self.model
        return (
            {
                n: model.create_input_buffer_by_name(key, n)
                for n in names["inputs"]
            },
            {
                n: model.create_output_buffer_by_name(key, n)
                for n in names["outputs"]
            },
        )

    def run_row(self, length: int, features: Features) -> Outputs:
        """Run the model on one row of features [1, length]."""
        inputs, outputs = self.buffers[length]
        for name, buffer in inputs.items():
            buffer.write(features[name])
        self.model.run_by_name(f"ids_{length}", inputs, outputs)
        found = {}
        for name, buffer in outputs.items():
            shape = buffer.get_tensor_details()["shape"]
            values = buffer.read(int(np.prod(shape)), np.float32)
            found[name] = np.array(values).reshape(shape)
        return found


def _open(path: str, num_threads: int) -> Any:
    """Return the interpreter of a file.

    Raises:
        UserError: the file is damaged.
    """
    interpreter = _package("interpreter").Interpreter
    try:
        # The runtime's own default is a single thread.
        return interpreter(path, num_threads=num_threads)
    except (ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error


def _signature(path: str, interpreter: Any, key: str) -> Any:
    """Return the function of a signature.

    Raises:
        UserError: there is none of this name.
    """
    try:
        return interpreter.get_signature_runner(key)
    except (ValueError, RuntimeError) as error:
        raise _damaged(path, error) from error


def _damaged(path: str, error: Exception) -> UserError:
    return UserError(
        f"--model={path} cannot be loaded: {str(error).splitlines()[0][:200]}"
    )
