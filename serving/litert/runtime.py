"""Run the signatures of a LiteRT file with ai-edge-litert.

A file has one signature whose inputs can be resized, or several of one row and
a fixed length. The runtime's Interpreter runs both.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from base import packages
from base.errors import UserError

import numpy as np

from tasks.task import Outputs

Features = Mapping[str, np.ndarray]


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
            self.runners[length](**{n: v[i : i + 1] for n, v in padded.items()})
            for i in range(len(features["input_ids"]))
        ]
        return {n: np.concatenate([row[n] for row in rows]) for n in rows[0]}


def _open(path: str, num_threads: int) -> Any:
    """Return the interpreter of a file.

    Raises:
        UserError: the file is damaged, or the runtime is not installed.
    """
    runtime = packages.load(
        "ai_edge_litert.interpreter",
        "a LiteRT file",
        "ai-edge-litert",
        "requirements-litert.txt",
    )
    try:
        # The runtime's own default is a single thread.
        return runtime.Interpreter(path, num_threads=num_threads)
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
