"""Read and write the weights of a checkpoint by the names of the variables.

The format is TensorFlow 1's, as the original's `tf.train.Saver` wrote it: a
table from variable name to tensor. A variable's path in this project is its
name there (`bert/encoder/layer_0/output/dense/kernel`), with the same shape
and orientation, so that reading and writing need no conversion.
"""

import contextlib
import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from base import errors, file_system
from base.errors import UserError, naming

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import lookup
from checkpoints.published import OBJECT_GRAPH
from checkpoints.run_folder import RUN_NAME, RunFolder

# First part of the names of the loss scale's variables (runs in float16).
LOSS_SCALE = "loss_scale"

# What the name of a weight is followed by in that of its average.
AVERAGE = "/average"

# Names of single numbers that an optimizer keeps: steps, powers of Adam's
# betas, loss scales, and whether gradients were finite.
_NUMBERS = re.compile(
    rf"^{LOSS_SCALE}/|(step|steps|power|{LOSS_SCALE}|finite)(_\d+)?$"
)

# Variables that a checkpoint must have: the encoder without its pooler. A head
# starts from new weights when fine-tuning begins, and a model that was saved
# for masked-word prediction alone has no pooler.
ENCODER = r"^bert/(?!pooler/)"

# The files of a checkpoint, in the order in which they are written: the index
# comes last, since readers look for it.
SUFFIXES = (".data-00000-of-00001", ".index")

# What a reader of TensorFlow raises. IndexError: the file ends too early;
# MemoryError: the index says that a part of it is larger than the memory.
_DAMAGED = (
    tf.errors.OpError,
    ValueError,
    RuntimeError,
    IndexError,
    MemoryError,
)

# --- Restoring a model -------------------------------------------------------


class LoadReport(NamedTuple):
    """The variables of a model compared with those of a checkpoint."""

    restored: list[str]  # paths in both, of one shape
    new: list[str]  # paths in the model alone
    unused: list[str]  # weights in the checkpoint alone
    mismatched: list[str]  # "path: ..." and both shapes


def restore_weights(
    variables: Sequence, prefix: str, required: str = ENCODER
) -> LoadReport:
    """Set variables from a checkpoint by their paths; log each that it lacks.

    Nothing is assigned unless the checkpoint has all variables whose paths
    match `required`. A head may be missing (fine-tuning starts with a new one),
    a part of the encoder may not: the original then silently trained it from
    scratch.

    Raises:
        UserError: a required variable is missing or has another shape.
    """
    reader = open_weights(prefix)
    shapes = reader.get_variable_to_shape_map()
    report = compare(
        {variable.path: list(variable.shape) for variable in variables}, shapes
    )
    # Logged before it is checked: the list shows why a checkpoint is refused.
    for name in ("new", "unused", "mismatched"):
        # Pre-trained models have heads that fine-tuning leaves unused.
        log = logging.debug if name == "unused" else logging.info
        for path in getattr(report, name):
            log("Checkpoint %s: %s: %s", prefix, name, path)
    check_required(report, prefix, required)
    restored, damaged = set(report.restored), ""
    for variable in variables:
        if variable.path in restored:
            value = reader.get_tensor(variable.path)
            if not (damaged or np.isfinite(value).all()):
                damaged = f"{variable.path} holds numbers that are not finite"
            variable.assign(value)
    if damaged:  # a ReLU in a fused product may hide them
        logging.warning("%s: %s", prefix, damaged)
    logging.info(
        "Read %d of the model's %d variables from %s",
        len(restored),
        len(variables),
        prefix,
    )
    return report


def compare(
    wanted: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]
) -> LoadReport:
    """Compare {path: shape} of a model's variables and of a checkpoint's."""
    # Lists on both sides: a tuple (2, 3) and a list [2, 3] are not equal. A
    # scalar has the shape [], which is no reason to call it missing.
    shapes = {
        path: (list(wanted[path]), list(found[path]))
        for path in wanted
        if path in found
    }
    return LoadReport(
        restored=[path for path, (ours, its) in shapes.items() if ours == its],
        new=[path for path in wanted if path not in found],
        unused=[path for path in weight_names(found) if path not in wanted],
        mismatched=[
            f"{path}: the model has shape {ours}, the checkpoint holds {its}"
            for path, (ours, its) in shapes.items()
            if ours != its
        ],
    )


def check_required(
    report: LoadReport, prefix: str, required: str = ENCODER
) -> None:
    """Check that a checkpoint has the encoder and all that is `required`."""
    # Another shape in the encoder is another configuration; in a head it is
    # another number of labels, which fine-tuning may change.
    wrong = [line for line in report.mismatched if line.startswith("bert/")]
    if wrong:
        raise UserError(
            f"{prefix} and the configuration contradict each other in "
            f"{len(wrong)} variables, the first: {wrong[0]}; use the "
            "bert_config.json that belongs to the checkpoint"
        )
    for line in report.mismatched:
        if re.search(required, line):
            raise UserError(
                f"{prefix} was fine-tuned on another task, or other labels: "
                f"{line}"
            )
        logging.warning("%s: starts from new weights: %s", prefix, line)
    pooler = [path for path in report.new if path.startswith("bert/pooler/")]
    missing = [path for path in report.new if re.search(required, path)]
    # The pooler is a kernel and a bias. Both may be missing (see ENCODER); a
    # checkpoint with one of them is damaged.
    if len(pooler) == 1:
        missing = missing or pooler
    if missing:
        raise UserError(
            f"{prefix} lacks {len(missing)} variables that the model needs, "
            f"first {missing[0]} (it holds {len(report.unused)} unknown ones"
            + (f", first {report.unused[0]}" if report.unused else "")
            + "): it is not a BERT checkpoint with the original's names, has "
            "fewer layers than the configuration, or no head for this task"
        )


# --- Reading -----------------------------------------------------------------


class Reader:
    """Reads the tensors of a checkpoint, in any format, by their names.

    It has those methods of tf.train.load_checkpoint's reader that are needed.
    With `total`, what the factors of an average sum to, it has the averages of
    the weights in place of the weights.

    Raises:
        UserError: it cannot be read.
    """

    def __init__(self, prefix: str):
        self.prefix, self.total = prefix, 0.0
        with naming(f"{prefix} cannot be read as a checkpoint", _DAMAGED):
            if tf.io.gfile.isdir(prefix):
                from checkpoints import huggingface  # where it is their format

                self._reader = huggingface.Reader(prefix)
            else:
                self._reader = tf.train.load_checkpoint(prefix)
                if self._reader.has_tensor(OBJECT_GRAPH):
                    from checkpoints import model_garden  # likewise

                    model_garden.check_order(prefix)
                    self._reader = model_garden.Reader(self._reader)
            # Fails for names of other bytes.
            self._shapes = self._reader.get_variable_to_shape_map()

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return {name: shape}."""
        return dict(self._shapes)

    def has_tensor(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return name in self._shapes

    def get_tensor(self, name: str) -> np.ndarray:
        """Return the tensor of a name; of weights with averages, the average.

        Raises:
            UserError: it is damaged, or has no numbers.
        """
        has_average = self.total and self.has_tensor(name + AVERAGE)
        damaged = f"{self.prefix} is damaged at {name}, use an earlier one"
        with naming(damaged, _DAMAGED):
            value = np.asarray(
                self._reader.get_tensor(name + AVERAGE * bool(has_average))
            )
        if value.dtype.kind in "OSUc":  # texts and complex numbers
            raise UserError(
                f"{self.prefix}: {name} holds {value.dtype}, wanted real "
                "numbers"
            )
        return value / self.total if has_average else value

    def read_step(self) -> int:
        """Return `global_step`; a UserError if it is no whole number."""
        value = self.get_tensor("global_step")
        if value.shape or value.dtype.kind not in "iu" or value < 0:
            raise UserError(
                f"{self.prefix}: global_step is {value}, wanted a number of "
                "steps"
            )
        return int(value)


def open_weights(prefix: str) -> Reader:
    """Return a reader of the weights that a checkpoint is used for.

    In the training checkpoints of a run with --ema_decay these are the averages
    (optimization.AdamWeightDecay.averages), which the run scores and keeps. A
    run that is resumed reads the weights themselves, with `Reader`.
    """
    reader = Reader(prefix)
    if not any(n.endswith(AVERAGE) for n in reader.get_variable_to_shape_map()):
        return reader
    run = RunFolder.read(lookup.folder_of(prefix))
    decay = run.fixed.get("ema_decay")
    if not decay:
        logging.warning(
            "%s is of a run with --ema_decay, but %s, which has its value, is "
            "not beside it: the weights of the last step are used, and not "
            "their averages",
            prefix,
            RUN_NAME,
        )
        return reader
    logging.info(
        "%s: the averages of --ema_decay=%g are used, as its run does",
        prefix,
        decay,
    )
    reader.total = 1.0 - decay ** reader.read_step()
    return reader


def read_weights(prefix: str) -> dict[str, np.ndarray]:
    """Return {name: value} of a checkpoint, without slots and step.

    The values are those of `open_weights`.
    """
    reader = open_weights(prefix)
    return {
        name: reader.get_tensor(name)
        for name in weight_names(reader.get_variable_to_shape_map())
    }


def global_step(prefix: str) -> int:
    """Return the step at which a checkpoint was saved; 0 if unknown."""
    reader = Reader(prefix)
    return reader.read_step() if reader.has_tensor("global_step") else 0


def weight_names(shapes: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the names of the weights in {name: shape} of a checkpoint, sorted.

    The other variables belong to training. They are the numbers of _NUMBERS,
    and what an optimizer keeps for a weight: its name is that of the weight, a
    slash and more (adam_m, BERTAdam_1, lamb_v, ExponentialMovingAverage,
    accum, ...), and its shape is the weight's.
    """

    def is_kept_for_another(name: str) -> bool:
        parts = name.split("/")
        owners = ("/".join(parts[:end]) for end in range(1, len(parts)))
        return any(
            owner in shapes and [*shapes[owner]] == [*shapes[name]]
            for owner in owners
        )

    return [
        name
        for name in sorted(shapes)
        if (shapes[name] or not _NUMBERS.search(name))
        and not is_kept_for_another(name)
    ]


def files_of(prefix: str) -> list[str]:
    """Return the files to hash to identify a checkpoint."""
    if tf.io.gfile.isdir(prefix):
        from checkpoints import sentence_transformers  # of their format

        pattern = os.path.join(glob.escape(prefix), "*.safetensors")
        own = sorted(tf.io.gfile.glob(pattern))
        return [*own, *sentence_transformers.weight_files(prefix).values()]
    # The index is enough, and small: it holds a checksum of every tensor.
    return [prefix + ".index"]


# --- Writing -----------------------------------------------------------------


def as_tensors(variables: Sequence) -> dict[str, tf.Tensor]:
    """Return {name: value} of keras or tf variables, for `write`."""
    return {
        getattr(variable, "path", variable.name): tf.convert_to_tensor(
            getattr(variable, "value", variable)
        )
        for variable in variables
    }


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write {variable name: value} as a checkpoint, complete or not at all.

    Files of that prefix are replaced.
    """
    temporary = prefix + ".tmp"
    try:
        _remove_unfinished(temporary)
        names = sorted(tensors)
        # The operation of TensorFlow 1's Saver. tf.train.Checkpoint would write
        # an object graph, whose names the original cannot read.
        tf.raw_ops.SaveV2(
            prefix=tf.constant(temporary),
            tensor_names=tf.constant(names),
            shape_and_slices=tf.constant([""] * len(names)),
            tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
        )
        # The index appears last, when its data are complete. An old one goes
        # first: killed in between, there is no checkpoint rather than one
        # whose index contradicts its data.
        if tf.io.gfile.exists(prefix + SUFFIXES[-1]):
            tf.io.gfile.remove(prefix + SUFFIXES[-1])
        for suffix in SUFFIXES:
            tf.io.gfile.rename(
                temporary + suffix, prefix + suffix, overwrite=True
            )
    except file_system.file_errors() as error:
        with contextlib.suppress(*file_system.file_errors()):
            _remove_unfinished(temporary)
        why = " ".join(errors.reason(error).split())
        if why.startswith(temporary):  # "...tempstate12; No space left on ..."
            why = why.split("; ", 1)[-1]
        raise UserError(
            f"{prefix} cannot be written: {why}; mend that "
            "(a full disk needs free space), then give the same command again"
        ) from error


def _remove_unfinished(prefix: str) -> None:
    """Delete the files of a checkpoint whose writing failed or was killed."""
    for path in tf.io.gfile.glob(prefix + ".*"):
        tf.io.gfile.remove(path)


def remove(prefix: str) -> None:
    """Delete a checkpoint's files."""
    # The index goes first: without it no reader finds a checkpoint of which
    # only a part is deleted.
    for suffix in reversed(SUFFIXES):
        if tf.io.gfile.exists(prefix + suffix):
            tf.io.gfile.remove(prefix + suffix)
