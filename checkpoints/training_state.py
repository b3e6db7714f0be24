"""Save and resume a training run: weights, optimizer slots and step.

An output_dir holds `model.ckpt-<step>` for the last few saved steps and the
file `checkpoint` with their names. Which of them an interrupted run resumes
from is decided in training/start.py (`resume_or_start`).
"""

import hashlib
import json
import math
import os
import shutil
import zlib
from collections.abc import Mapping, Sequence

from base import cluster, file_system
from base.errors import UserError, counted

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import weight_files
from checkpoints.run_folder import RunFolder

TRAINING_NAME = "model.ckpt"


class TrainingState:
    """The training checkpoints of a run: weights, slots and step.

    Of several processes only the chief writes.

    Random numbers and the order of the data are functions of the seed and the
    step, so these three, and the loss scale of a run in float16, are the whole
    state of a run: killed and started again, it ends with the same bits.

    Args:
        folder: what the output_dir holds before the run goes on.
        slots: {variable path: {slot name: tf.Variable}} of the optimizer. As
            in the original, a slot is saved as `<variable path>/<slot name>`.
        keep_checkpoint_max: 0 keeps all.
        loss_scale: {name: variable} of a run in float16, saved as
            `loss_scale/<name>`. Runs in other types have none.
        lasting_step: the step of a checkpoint that is kept besides.
    """

    def __init__(
        self,
        folder: RunFolder,
        variables: Sequence,
        slots: Mapping[str, Mapping[str, tf.Variable]],
        keep_checkpoint_max: int = 5,
        loss_scale: Mapping[str, tf.Variable] | None = None,
        lasting_step: int | None = None,
    ):
        self.output_dir = folder.path
        # Prefixes of the checkpoints of the run that are there.
        self.saved = [name for name in folder.listed if folder.has(name)]
        self.lasting_step = lasting_step
        self.keep_checkpoint_max = keep_checkpoint_max
        self._passing: str | None = None  # what the next save removes
        self._weights = {variable.path: variable for variable in variables}
        self._slots = {
            f"{path}/{name}": slot
            for path, named in slots.items()
            for name, slot in named.items()
        }
        self._loss_scale = {
            f"{weight_files.LOSS_SCALE}/{name}": variable
            for name, variable in (loss_scale or {}).items()
        }

    def save(self, step: int, stays: bool = True) -> str:
        """Write `model.ckpt-<step>`, delete the oldest; return the prefix.

        If it does not stay, the next save deletes it.
        """
        prefix = os.path.join(self.output_dir, f"{TRAINING_NAME}-{step}")
        if not cluster.is_chief():
            return prefix
        tensors = weight_files.as_tensors(self._weights.values())
        tensors |= self._slots | self._loss_scale
        tensors["global_step"] = np.int64(step)
        weight_files.write(prefix, tensors)
        kept = [
            listed
            for listed in self.saved
            if listed not in (prefix, self._passing)
            and tf.io.gfile.exists(listed + ".index")
        ] + [prefix]
        dropped = [self._passing] if self._passing else []
        self._passing = None if stays else prefix
        if self.keep_checkpoint_max:
            lasting = f"{TRAINING_NAME}-{self.lasting_step}"
            old = [
                listed
                for listed in kept[: -self.keep_checkpoint_max]
                if os.path.basename(listed) != lasting
            ]
            dropped += old
            kept = [listed for listed in kept if listed not in old]
        # The list first: a run killed here leaves files that nothing refers
        # to, never a reference to files that are deleted. As TensorFlow's, but
        # with relative names, so that an output_dir can be moved.
        names = [json.dumps(os.path.basename(path)) for path in kept]
        lines = [f"model_checkpoint_path: {names[-1]}"]
        lines += [f"all_model_checkpoint_paths: {name}" for name in names]
        file_system.write_text(
            os.path.join(self.output_dir, "checkpoint"), "\n".join(lines) + "\n"
        )
        self.saved = kept
        for old in dropped:
            weight_files.remove(old)
        return prefix

    def check_space(self, saves: int, weights: int, replaces: bool) -> None:
        """Check that the disk has room for what a run still has to write.

        Args:
            saves: checkpoints that will be saved and stay until they are old.
            weights: how often the weights alone are written.
            replaces: whether others are saved that the next one replaces.

        Raises:
            UserError: it has not.
        """
        if not cluster.is_chief() or file_system.is_remote(self.output_dir):
            return
        size, alone = (
            sum(4 * math.prod(variable.shape) for variable in some.values())
            for some in ({**self._weights, **self._slots}, self._weights)
        )
        count = saves
        if self.keep_checkpoint_max:
            old = len(self.saved)
            count = min(saves, max(0, self.keep_checkpoint_max - old))
            count += self.lasting_step is not None
        # The next one is complete before an older one is deleted.
        count += replaces or saves > count
        needed = count * size + weights * alone
        usage = shutil.disk_usage(self.output_dir)
        if usage.total and needed > (free := usage.free):  # 0: it is unknown
            raise UserError(
                f"{self.output_dir} has {free:,} bytes free, and the run needs "
                f"{needed:,}: {counted(count, 'checkpoint')} of {size:,} bytes "
                f"and {weights} x {alone:,} of weights alone; free space, or "
                "give a smaller --keep_checkpoint_max or another --output_dir"
            )

    def restore(self, prefix: str) -> int:
        """Set every variable from a training checkpoint; return its step.

        Raises:
            UserError: a variable is missing, unknown or of another shape.
        """
        reader = weight_files.Reader(prefix)
        targets = {**self._weights, **self._slots}
        found = reader.get_variable_to_shape_map()
        wanted = {name: list(v.shape) for name, v in targets.items()}
        report = weight_files.compare(wanted, found)
        # Unlike when fine-tuning starts, nothing may be new or unused: the run
        # would continue without its moments, or as another model.
        others = {*found} - {*wanted, "global_step"}
        problems = report.mismatched + report.new
        problems += sorted(
            name
            for name in others
            if not name.startswith(f"{weight_files.LOSS_SCALE}/")
        )
        if problems or "global_step" not in found:
            problem = problems[0] if problems else "global_step is missing"
            raise UserError(
                f"{prefix} is not a training checkpoint of this model "
                f"({len(problems)} variables differ, the first: {problem}); "
                "weights alone can be given as --init_checkpoint"
            )
        # A run may change its type: in float16 it then begins with the loss
        # scale of a new run, in the others it has none.
        targets.update(
            {n: v for n, v in self._loss_scale.items() if n in found}
        )
        step = reader.read_step()
        for name, variable in targets.items():
            variable.assign(reader.get_tensor(name))
        return step

    def digests(self) -> dict[str, str]:
        """Return digests of weights and moments; a loss scale is of these."""
        found = {}
        for what, state in (
            ("weights", self._weights),
            ("moments", {**self._slots, **self._loss_scale}),
        ):
            digest = hashlib.blake2b(digest_size=16)
            for name, variable in state.items():
                digest.update(name.encode())
                digest.update(variable.numpy().tobytes())
            found[what] = digest.hexdigest()
        return found

    def checksum(self) -> int:
        """Return a checksum of the state of the run, to compare machines."""
        return zlib.crc32(str(self.digests()).encode())

    def clean(self) -> None:
        """Remove the unfinished files of a run that was killed."""
        if cluster.is_chief():
            pattern = os.path.join(self.output_dir, f"{TRAINING_NAME}-*.tmp*")
            for path in tf.io.gfile.glob(pattern):
                logging.info("Removing the unfinished %s", path)
                tf.io.gfile.remove(path)
