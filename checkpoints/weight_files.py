"""Read and write the weights of a checkpoint by the names of the variables."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import huggingface, lookup

# What tf.train.load_checkpoint returns; TensorFlow does not name the class.
Reader = Any

# What a training checkpoint holds beside the weights.
_TRAINING_ONLY = re.compile(r"(/adam_m|/adam_v)$|^global_step$")

# A fine-tuned task starts its own head, and a masked LM saved without next
# sentences has no pooler; the rest of the encoder has to be there.
ENCODER = r"^bert/(?!pooler/)"

# The files a name-based checkpoint consists of, in the order in which they
# appear: the index last, since it makes the checkpoint visible.
SUFFIXES = (".data-00000-of-00001", ".index")


class LoadReport(NamedTuple):
    """What a checkpoint gave and what it did not, by variable path."""

    restored: list[str]
    new: list[str]  # in the model, not in the checkpoint
    unused: list[str]  # in the checkpoint, not in the model
    mismatched: list[str]  # "path: [model shape] and [checkpoint shape]"


def restore_weights(
    variables: Sequence,
    init_checkpoint: str,
    required: str = ENCODER,
) -> LoadReport:
    """Set `variables` from a checkpoint; report everything by name.

    Args:
        variables: keras.Variable list; a variable's `.path` is its key.
        init_checkpoint: prefix or directory, see `find_checkpoint`.
        required: paths that match this pattern have to be restored. A head
            may be new (fine-tuning starts that way); a piece of the encoder
            may not: the original trained from scratch without a word then.

    Raises:
        UserError: a required variable is missing or has another shape.
    """
    prefix = lookup.find_checkpoint(init_checkpoint)
    reader = open_reader(prefix)
    shapes = reader.get_variable_to_shape_map()
    report = compare(
        {variable.path: list(variable.shape) for variable in variables}, shapes
    )
    log_report(report, prefix)
    check_required(report, prefix, required)
    restored = set(report.restored)
    for variable in variables:
        if variable.path in restored:
            variable.assign(read_tensor(reader, prefix, variable.path))
    return report


def check_required(
    report: LoadReport, prefix: str, required: str = ENCODER
) -> None:
    """Stop at what a model cannot do without.

    Raises:
        UserError: a mismatched variable, or a missing one that matches
            `required`.
    """
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
                f"{prefix} was fitted to another task, or to other labels: "
                f"{line}"
            )
        logging.warning("%s: starts from new weights: %s", prefix, line)
    pooler = [path for path in report.new if path.startswith("bert/pooler/")]
    missing = [path for path in report.new if re.search(required, path)]
    if len(pooler) == 1:  # half of it is no way to save a model
        missing = missing or pooler
    if missing:
        raise UserError(
            f"{prefix} lacks {len(missing)} variables the encoder needs, the "
            f"first: {missing[0]} (it holds {len(report.unused)} unknown ones"
            + (f", the first: {report.unused[0]}" if report.unused else "")
            + "): not a BERT checkpoint in the original's names, or one with "
            "fewer layers"
        )
    if pooler:
        logging.warning(
            "%s has no pooler (bert/pooler/...): it starts from new weights",
            prefix,
        )


def compare(
    wanted: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]
) -> LoadReport:
    """Compare the shapes a model wants with those a checkpoint holds."""
    mismatched = [
        f"{path}: the model wants {list(wanted[path])}, the checkpoint holds "
        f"{list(found[path])}"
        for path in wanted
        if path in found and list(found[path]) != list(wanted[path])
    ]
    return LoadReport(
        restored=[p for p in wanted if list(found.get(p, ())) == wanted[p]]
        if wanted
        else [],
        new=[path for path in wanted if path not in found],
        unused=sorted(
            path
            for path in found
            if path not in wanted and not is_training_only(path)
        ),
        mismatched=mismatched,
    )


def is_training_only(name: str) -> bool:
    """Whether a key belongs to training (slots, step), not to the model."""
    return bool(_TRAINING_ONLY.search(name))


def log_report(report: LoadReport, prefix: str) -> None:
    """Say what was restored and name everything that was not."""
    logging.info(
        "Checkpoint %s: %d variables restored, %d new, %d unused, "
        "%d mismatched",
        prefix,
        *map(len, report),
    )
    for name in ("new", "unused", "mismatched"):
        for path in getattr(report, name):
            logging.info("  %s: %s", name, path)


def open_reader(prefix: str) -> Reader:
    """Open a checkpoint that `find_checkpoint` returned.

    Raises:
        UserError: it cannot be read.
    """
    try:
        if tf.io.gfile.isdir(prefix):
            return huggingface.Reader(prefix)
        return tf.train.load_checkpoint(prefix)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{prefix} cannot be read as a checkpoint: {error}"
        ) from error


def files_of(prefix: str) -> list[str]:
    """Return the files whose bytes say which weights a checkpoint holds.

    An index has the checksum of every tensor.
    """
    if tf.io.gfile.isdir(prefix):
        return sorted(tf.io.gfile.glob(os.path.join(prefix, "*.safetensors")))
    return [prefix + ".index"]


def read_tensor(reader: Reader, prefix: str, name: str) -> np.ndarray:
    """Read one tensor; damage on disk becomes a UserError that names it."""
    try:
        return reader.get_tensor(name)
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(
            f"{prefix} is damaged at {name}: {error}; use an earlier checkpoint"
        ) from error


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a name-based checkpoint; it appears whole or not at all.

    Args:
        prefix: path without suffix; files of that name are replaced.
        tensors: checkpoint key to value.
    """
    names = sorted(tensors)
    temporary = prefix + ".tmp"
    tf.raw_ops.SaveV2(
        prefix=tf.constant(temporary),
        tensor_names=tf.constant(names),
        shape_and_slices=tf.constant([""] * len(names)),
        tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
    )
    for suffix in SUFFIXES:
        tf.io.gfile.rename(temporary + suffix, prefix + suffix, overwrite=True)


def as_tensors(variables: Sequence) -> dict[str, tf.Tensor]:
    """Return {path: value} of keras or tf variables, ready for `write`."""
    return {
        getattr(variable, "path", variable.name): tf.convert_to_tensor(
            getattr(variable, "value", variable)
        )
        for variable in variables
    }


def remove(prefix: str) -> None:
    """Delete a checkpoint's files, the index first."""
    for suffix in reversed(SUFFIXES):
        if tf.io.gfile.exists(prefix + suffix):
            tf.io.gfile.remove(prefix + suffix)


def global_step(path: str) -> int:
    """Return the step a checkpoint was saved at, 0 if it does not say."""
    prefix = lookup.find_checkpoint(path)
    reader = open_reader(prefix)
    if not reader.has_tensor("global_step"):
        return 0
    return int(read_tensor(reader, prefix, "global_step"))
