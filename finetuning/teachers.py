"""Teachers of distillation: find them, check their heads, run them once.

A teacher reads the text with a vocabulary, casing and length of its own. Its
outputs are written to a file beside the records of the student, with a
fingerprint of the teacher and the text: later runs read the file.
"""

import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from base import cluster, file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

from checkpoints import lookup, weight_files
from checkpoints.checkpoint import open_checkpoint
from records import cache as record_cache
from tasks import bilstm, registry
from tasks.source import ModelSource
from tasks.teaching import Teaching
from training import prediction

FLAG = "teacher_checkpoint"


class Teacher(NamedTuple):
    """A fine-tuned model to learn from.

    Attributes:
        path: as the flag names it.
        source: checkpoint, tokenizer and length.
        fingerprint: everything that its outputs for a text depend on.
        order: the place of each of the student's labels among its outputs,
            [K]: [1, 0] where it has no and yes, and the student yes and no.
            None where outputs have no names.
    """

    path: str
    source: ModelSource
    fingerprint: Mapping[str, Any]
    order: np.ndarray | None = None

    @property
    def digest(self) -> str:
        """A short checksum of the fingerprint, for file names."""
        text = json.dumps(self.fingerprint, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def error(self, reason: str) -> UserError:
        """Return the error that this model cannot teach the task."""
        return UserError(f"--{FLAG}={self.path} {reason}")


def find(path: str, teaching: Teaching) -> Teacher:
    """Return the teacher of a path.

    Raises:
        UserError: there is no model, it cannot teach this, or files are
            missing beside it.
    """
    teacher = read(path, teaching.job.source.max_seq_length)
    source = teacher.source
    shapes = weight_files.open_reader(source.prefix).get_variable_to_shape_map()
    if teaching.head not in shapes:
        raise teacher.error(
            f"has no fine-tuned head for this task ({teaching.head}): a model "
            "that was not fine-tuned teaches noise; fine-tune it with this "
            "script first"
        )
    wanted = teaching.job.fine_tuned_task
    found = source.trained_for.task
    registry.check_task(found, wanted, source.prefix, f"--{FLAG}")
    head = shapes[teaching.head]
    if problem := teaching.problem(source, head):
        raise teacher.error(problem)
    labels = teaching.labels
    if labels is None:
        return teacher
    names = source.trained_for.class_names(head[0])
    if sorted(names) != sorted(labels):
        raise teacher.error(
            f"was fine-tuned on the labels {', '.join(names[:8])}; those of "
            f"this task are {', '.join(labels[:8])}: use a teacher of the same "
            "labels, or correct id2label in its configuration"
        )
    order = np.array([names.index(label) for label in labels])
    return teacher._replace(order=order)


def read(path: str, max_seq_length: int) -> Teacher:
    """Return the model of a path as a teacher, whatever it can teach.

    Args:
        path: an item of --teacher_checkpoint.
        max_seq_length: for a model whose configuration has none.

    Raises:
        UserError: there is no model, or files are missing beside it.
    """
    prefix = lookup.find_checkpoint(path, FLAG)
    try:
        checkpoint = open_checkpoint(prefix)
        length = checkpoint.trained_for.max_seq_length or min(
            max_seq_length, checkpoint.config.max_position_embeddings
        )
        checkpoint.check_length(length)
        size = bilstm.size_in(checkpoint.trained_for)
        text = record_cache.text_fingerprint(checkpoint.tokenizer, length)
    except UserError as error:
        # Flags that the message names describe the student.
        raise UserError(
            f"--{FLAG}={path}: {error} (of a teacher, the files beside its "
            "weights count, no flags)"
        ) from error
    fingerprint = {
        "weights": [
            file_system.sha256(file) for file in weight_files.files_of(prefix)
        ],
        "config": checkpoint.config.to_dict()
        | checkpoint.trained_for.to_dict(),
        **text,
    }
    return Teacher(path, ModelSource(checkpoint, length, size), fingerprint)


def create_predictor(
    teacher: Teacher, teaching: Teaching, strategy: tf.distribute.Strategy
) -> prediction.Predictor:
    """Return a teacher as a function of records.

    Raises:
        UserError: the weights are damaged or incomplete.
    """
    source, training = teacher.source, teaching.job.settings.training
    logging.info("Running the teacher %s", source.prefix)
    if cluster.has_other_workers():
        # The chief alone runs it: the others wait for the file.
        strategy = tf.distribute.get_strategy()
    with strategy.scope():
        model = teaching.create_model(source, training.dtype)
    required = registry.find(teaching.task_name).required
    weight_files.restore_weights(model.variables, source.prefix, required)
    return prediction.Predictor(
        strategy,
        functools.partial(teaching.forward, model),
        training.jit_compile,
    )


def kept_outputs(
    cache: record_cache.RecordCache,
    name: str,
    teacher: Teacher,
    fingerprint: Mapping[str, Any],
    compute: Callable[[], np.ndarray],
) -> np.ndarray:
    """Return the outputs of a teacher, from an earlier run or computed now.

    Args:
        cache: of the student's records, beside which the outputs are kept.
        name: of the record file whose texts the teacher reads.
        teacher: its digest is part of the file's name.
        fingerprint: everything else that the outputs depend on.
        compute: returns them, float32 [n, ...].

    Raises:
        UserError: they are not finite, or the file is damaged.
    """
    path = os.path.join(cache.directory, f"{name}_teacher_{teacher.digest}.npy")

    def write(path: str) -> None:
        outputs = compute()
        bad = np.flatnonzero(~np.isfinite(outputs.reshape(len(outputs), -1)))
        if len(bad):
            raise teacher.error(
                f"computes {outputs.flat[bad[0]]} for row "
                f"{bad[0] * len(outputs) // outputs.size + 1} of {name}: its "
                "weights are damaged, or --dtype is too narrow for it"
            )
        with file_system.atomic_file(path) as file:
            np.save(file, outputs)
        logging.info(
            "Wrote the outputs of the teacher for %s rows to %s",
            f"{len(outputs):,}",
            path,
        )

    wanted = {**fingerprint, "teacher": dict(teacher.fingerprint)}
    cache.make(path, wanted, write)
    with file_system.open_for_reading(path) as file:
        data = file.read()
    try:
        return np.load(io.BytesIO(data))
    except (ValueError, EOFError) as error:
        raise UserError(
            f"{path} is damaged ({error}): remove it, and it is made again"
        ) from error
