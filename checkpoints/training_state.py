"""Save and resume a training run: weights, optimizer slots and step."""

import json
import os
from collections.abc import Mapping, Sequence

from base import file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import weight_files

TRAINING_NAME = "model.ckpt"

CONFIG_NAME = "training_config.json"


class TrainingState:
    """Weights, slots and step in `output_dir`, newest few kept.

    The random numbers and the place in the data are functions of the seed and
    the step, so these three are the whole state of a run.

    Args:
        output_dir: where `model.ckpt-<step>` and `checkpoint` live.
        variables: the model's keras variables.
        slots: {variable path: {slot name: tf.Variable}} of the optimizer.
        keep_checkpoint_max: how many to keep; 0 keeps all.
        is_chief: the one process of several that writes.
    """

    def __init__(
        self,
        output_dir: str,
        variables: Sequence,
        slots: Mapping[str, Mapping[str, tf.Variable]],
        keep_checkpoint_max: int = 5,
        is_chief: bool = True,
    ):
        self.output_dir = output_dir
        self.keep_checkpoint_max = keep_checkpoint_max
        self.is_chief = is_chief
        self._weights = {variable.path: variable for variable in variables}
        self._slots = {
            f"{path}/{name}": slot
            for path, named in slots.items()
            for name, slot in named.items()
        }

    def latest(self) -> str | None:
        """Return the prefix of the newest whole checkpoint, if any."""
        return tf.train.latest_checkpoint(self.output_dir)

    def save(self, step: int) -> str:
        """Write `model.ckpt-<step>`, drop the oldest; return the prefix."""
        prefix = os.path.join(self.output_dir, f"{TRAINING_NAME}-{step}")
        if not self.is_chief:
            return prefix
        tensors = weight_files.as_tensors(self._weights.values())
        tensors.update(
            {name: tf.convert_to_tensor(s) for name, s in self._slots.items()}
        )
        tensors["global_step"] = np.int64(step)
        weight_files.write(prefix, tensors)
        kept = [p for p in self._listed() if p != prefix] + [prefix]
        dropped: list[str] = []
        if self.keep_checkpoint_max:
            dropped = kept[: -self.keep_checkpoint_max]
            kept = kept[-self.keep_checkpoint_max :]
        self._write_list(kept)
        for old in dropped:
            weight_files.remove(old)
        return prefix

    def restore(self, prefix: str) -> int:
        """Set every variable from a training checkpoint; return its step.

        Raises:
            UserError: anything missing, unknown or of another shape.
        """
        reader = weight_files.open_reader(prefix)
        targets = {**self._weights, **self._slots}
        found = reader.get_variable_to_shape_map()
        wanted = {name: list(v.shape) for name, v in targets.items()}
        report = weight_files.compare(wanted, found)
        problems = report.mismatched + report.new + report.unused
        if problems or "global_step" not in found:
            problem = problems[0] if problems else "global_step is missing"
            raise UserError(
                f"{prefix} is no training checkpoint of this model "
                f"({len(problems)} variables differ, the first: {problem}); "
                "weights alone can be given as --init_checkpoint"
            )
        for name, variable in targets.items():
            variable.assign(weight_files.read_tensor(reader, prefix, name))
        return int(weight_files.read_tensor(reader, prefix, "global_step"))

    def _write_list(self, prefixes: Sequence[str]) -> None:
        """Write the `checkpoint` file; the last prefix is the newest.

        Names are relative, so that a moved output_dir still works.
        """
        names = [json.dumps(prefix.rsplit("/", 1)[-1]) for prefix in prefixes]
        lines = [f"model_checkpoint_path: {names[-1]}"]
        lines += [f"all_model_checkpoint_paths: {name}" for name in names]
        file_system.write_text(
            os.path.join(self.output_dir, "checkpoint"), "\n".join(lines) + "\n"
        )

    def _listed(self) -> list[str]:
        state = tf.train.get_checkpoint_state(self.output_dir)
        return list(state.all_model_checkpoint_paths) if state else []

    def clean(self) -> None:
        """Remove what a killed run left half-written."""
        if self.is_chief:
            pattern = os.path.join(self.output_dir, f"{TRAINING_NAME}-*.tmp*")
            for path in tf.io.gfile.glob(pattern):
                logging.info("Removing the unfinished %s", path)
                tf.io.gfile.remove(path)


def claim_output_dir(
    output_dir: str,
    fixed: Mapping[str, object],
    adjustable: Mapping[str, object],
    is_chief: bool = True,
) -> None:
    """Write down what a run is, or compare with what it was.

    Args:
        output_dir: created when missing.
        fixed: model, data and whatever decides what a step computes on; a run
            with another value cannot go on here.
        adjustable: may change between restarts; a change is logged.

    Raises:
        UserError: names the first fixed value that differs, old and new.
    """
    file_system.make_directory(output_dir)
    path = os.path.join(output_dir, CONFIG_NAME)
    now = json.loads(json.dumps({"fixed": fixed, "adjustable": adjustable}))
    # Without a checkpoint there is nothing to protect: an earlier start failed.
    is_begun = tf.train.latest_checkpoint(output_dir) is not None
    if is_begun and tf.io.gfile.exists(path):
        with tf.io.gfile.GFile(path) as file:
            before = json.load(file)
        for name, value in now["fixed"].items():
            old = before["fixed"].get(name)
            if old != value:
                raise UserError(
                    f"output_dir {output_dir} belongs to a run with {name} = "
                    f"{_differing(old, value)}; use another --output_dir, or "
                    "the command that began this one"
                )
        for name, value in now["adjustable"].items():
            old = before["adjustable"].get(name)
            if old != value:
                logging.warning("%s changes from %s to %s", name, old, value)
    if is_chief:
        file_system.write_text(
            path, json.dumps(now, indent=2, sort_keys=True) + "\n"
        )


def _differing(old: object, new: object) -> str:
    """Say `old, not new`, of dictionaries only the entries that differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [n for n in {**old, **new} if old.get(n) != new.get(n)]
        old = {name: old.get(name) for name in names}
        new = {name: new.get(name) for name in names}
    return f"{old}, not {new}"
