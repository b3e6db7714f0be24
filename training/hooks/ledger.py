"""The ledger of a run: what it read and what it became, as digests.

ledger.jsonl in output_dir has a line of JSON for each start of the command, and
one every so many steps and wherever a checkpoint is saved:

    {"step": 0, "weights": ..., "moments": ..., "command": [...], ...}
    {"step": 100, "from": 0, "records": ..., "order": ..., "weights": ..., ...}

`records` is a digest of the examples of the steps from `from` to `step` that
does not depend on their order; `order` is one that does. Examples are hashed as
the model gets them: with their masks and padding. tools.verify_run repeats such
steps and compares.
"""

import collections
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable
from typing import Any

from base import cluster, file_system, machine, text_files
from base.errors import UserError

import numpy as np
import tensorflow as tf

from checkpoints.training_state import TrainingState
from training.hooks.hook import Call, Hook, is_due
from training.hooks.save import Pace

NAME = "ledger.jsonl"

# What decides in which order sums are formed, and so the last bits.
_INSTRUCTIONS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")
_INSTRUCTIONS += ("asimd", "sve", "sve2", "bf16")  # of ARM


class Ledger(Hook):
    """Writes the ledger of a process.

    It comes before the checkpoint: a run that is killed between the two does
    both again when it is resumed.
    """

    def __init__(self, state: TrainingState, pace: Pace, every: int):
        if cluster.has_other_workers():
            raise UserError(
                "--ledger is of runs on one machine: each machine of a cluster "
                "reads a part of the records"
            )
        self.state, self.pace, self.every = state, pace, (every,)
        self.path = os.path.join(state.output_dir, NAME)
        self.last = 0  # step of the last line
        self.again: set[int] = set()  # steps of lines that are written again
        self._read: collections.deque[list[bytes]] = collections.deque()
        self._parts = 1  # of a batch, one for each device

    def begin(self, first: int) -> None:
        """Write the line of a start; remove what was written of later steps.

        They have lines again, also where the clock or a signal made them.
        """
        lines = read(self.state.output_dir)
        kept = [line for line in lines if line["step"] <= first]
        self.again = {line["step"] for line in lines[len(kept) :]}
        flags = machine.cpu_flags()
        kept.append(
            {
                "step": first,
                **self.state.digests(),
                "command": sys.argv,
                "folder": os.getcwd(),
                "settings": self.pace.settings.adjustable(),
                # What decides the last bits of the weights, too.
                "machine": {
                    "architecture": platform.machine(),
                    "instructions": [n for n in _INSTRUCTIONS if n in flags],
                    "tensorflow": tf.__version__,
                    "devices": [
                        d.device_type for d in tf.config.list_logical_devices()
                    ],
                },
            }
        )
        lines = [json.dumps(line) + "\n" for line in kept]
        file_system.write_text(self.path, "".join(lines))
        self.last = first

    def watch(
        self, batches: tf.data.Dataset, context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """Return the batches of a run, noted as they are read."""
        self._parts = context.num_replicas_in_sync

        def note(*features: np.ndarray) -> np.int64:
            rows = zip(*features, strict=True)
            self._read.append([_digest(row) for row in rows])
            return np.int64(0)

        def noted(batch: Any) -> Any:
            done = tf.numpy_function(note, tf.nest.flatten(batch), tf.int64)
            with tf.control_dependencies([done]):
                return tf.nest.map_structure(tf.identity, batch)

        return batches.map(noted)

    def next_stop(self, done: int) -> float:
        """Return the next step with a line."""
        later = [step for step in self.again if step > done]
        return min([super().next_stop(done), *later])

    def after(self, call: Call) -> None:
        """Write a line, if one is due or a checkpoint will be saved."""
        done, last = call.done, self.pace.settings.last_step
        is_again = done in self.again
        if self.pace.saves or is_again or is_due(done, *self.every, last):
            self.close(done)

    def close(self, done: int) -> None:
        """Add the line of the steps since the last one, if there are some."""
        if done == self.last:
            return
        # Batches that were read ahead stay for the next line.
        count = (done - self.last) * self._parts
        rows = [row for _ in range(count) for row in self._read.popleft()]
        line = {
            "step": done,
            "from": self.last,
            "records": _digest(sorted(rows)).hex(),
            "order": _digest(rows).hex(),
            **self.state.digests(),
        }
        with tf.io.gfile.GFile(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        self.last = done


def read(output_dir: str) -> list[dict[str, Any]]:
    """Return the lines of a ledger; none without a file.

    The last line of a killed process may be cut off, and does not count.

    Raises:
        UserError: another line is not one of a ledger.
    """
    path = os.path.join(output_dir, NAME)
    if not tf.io.gfile.exists(path):
        return []
    text = text_files.read_text(path)
    lines = []
    for number, line in text_files.json_objects(
        path, text[: text.rfind("\n") + 1]
    ):
        if not isinstance(line.get("step"), int):
            raise UserError(
                f"{path}, line {number}: wanted a line of a ledger, with a step"
            )
        lines.append(line)
    return lines


def _digest(values: Iterable[Any]) -> bytes:
    """Return a digest of bytes or arrays, one after the other."""
    digest = hashlib.blake2b(digest_size=16)
    for value in values:
        digest.update(value if isinstance(value, bytes) else value.tobytes())
    return digest.digest()
