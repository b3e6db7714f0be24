"""Distillation: train a student on what fine-tuned teachers answer.

A small model learns more from a teacher's probabilities than from labels
(Hinton et al. 2015, arXiv:1503.02531), and from text without labels too (Turc
et al. 2019, arXiv:1908.08962). The loss of a row is

    alpha * soft loss + (1 - alpha) * label loss      of a row with a label
    alpha * soft loss                                 of one without

and the loss of a batch its mean over all rows. The soft loss of classes is
losses.soft_loss, T^2 times a cross entropy at temperature T; that of numbers is
the squared error to the teacher's number. Of several teachers, the mean of the
probabilities at temperature T is the target, or the mean of the numbers.

A teacher reads the text with a vocabulary, casing and length of its own. Its
outputs are written to a file beside the records of the student, with a
fingerprint of the teacher and the text: later runs read the file. What all this
means for a task is in its folder (tasks/teaching.py).
"""

import functools
import hashlib
import io
import json
import math
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from base import cluster, file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags, logging

from checkpoints import hub, lookup, run_settings, weight_files
from checkpoints.checkpoint import open_checkpoint
from records import cache as record_cache
from records import in_memory
from tasks import bilstm, registry
from tasks.job import LoadedModel
from tasks.source import ModelSource
from tasks.teaching import Teaching
from training import prediction
from training.objective import Objective

flags.disclaim_key_flags()  # --help of a script shows what is defined here

FLAG = "teacher_checkpoint"

# What the fingerprint of a run has of its teachers; of a run without any.
NO_FINGERPRINT = dict.fromkeys(
    (
        FLAG,
        "distillation_temperature",
        "distillation_alpha",
        "transfer_file",
    )
)


class Options(NamedTuple):
    """How to distil: paths of the teachers, T, and weight of the soft loss."""

    teachers: tuple[str, ...]
    temperature: float
    alpha: float

    def adjustable(self) -> dict[str, Any]:
        """Return the commits of the teachers that are on the hub, if any."""
        if not any(map(hub.is_name, self.teachers)):
            return {}
        return {
            FLAG: [
                hub.with_commit(path, FLAG) if hub.is_name(path) else None
                for path in self.teachers
            ]
        }


def define_flags(what_is_needed: str) -> None:
    """Define the flags; `what_is_needed` tells what a teacher has to be."""
    flags.DEFINE_list(
        "teacher_checkpoint",
        [],
        "Learn from this fine-tuned model, which may be larger: the output_dir "
        "of a run, a checkpoint or hf://owner/name, with configuration and "
        "vocabulary beside the weights; of several, separated by commas, the "
        f"mean is learned. {what_is_needed} Its outputs are computed once, "
        "predict_batch_size rows at a time, and kept in records_dir.",
    )
    flags.DEFINE_float(
        "distillation_temperature",
        1.0,
        "Divides the logits of teacher and student in the soft loss; above 1 "
        "the less likely classes count for more. The loss is multiplied by "
        "its square.",
    )
    flags.DEFINE_float(
        "distillation_alpha",
        1.0,
        "Weight of the soft loss, from 0 to 1; the loss of the labels has the "
        "rest.",
    )


def read(f: flags.FlagValues) -> Options | None:
    """Return the flags as plain values; None without a teacher.

    A teacher on the hub is that of the commit with which output_dir began.
    """
    if not f.teacher_checkpoint:
        return None
    return Options(
        run_settings.pinned_all(f.teacher_checkpoint, f.output_dir, FLAG),
        f.distillation_temperature,
        f.distillation_alpha,
    )


def with_commits(f: flags.FlagValues) -> str | None:
    """Return --teacher_checkpoint with a commit for each model on the hub.

    For the runs of a sweep; None without a teacher on the hub, or in a script
    without the flag.
    """
    options = read(f) if FLAG in f else None
    commits = options.adjustable() if options else {}
    if not commits:
        return None
    found = zip(commits[FLAG], options.teachers, strict=True)
    return ",".join(commit or path for commit, path in found)


def check(f: flags.FlagValues, *more: str) -> None:
    """Raise a UserError if flags, `more` too, do not fit a teacher or none."""
    paths = f.teacher_checkpoint
    if not paths:
        for name in ("distillation_temperature", "distillation_alpha", *more):
            if f[name].present:
                raise UserError(f"--{name} needs --teacher_checkpoint")
        return
    if not f.do_train:
        raise UserError(
            "--teacher_checkpoint needs --do_train: a teacher is for training"
        )
    for path in paths:
        if not path.strip() or paths.count(path) > 1:
            raise UserError(
                f"--teacher_checkpoint={','.join(paths)}: found {path!r} "
                f"{paths.count(path)} times, wanted different paths"
            )
    temperature, alpha = f.distillation_temperature, f.distillation_alpha
    if not 0.0 < temperature < math.inf:
        raise UserError(
            f"--distillation_temperature={temperature:g}: wanted a number "
            "above 0"
        )
    if not 0.0 <= alpha <= 1.0:
        raise UserError(
            f"--distillation_alpha={alpha:g}: wanted a number from 0 to 1"
        )
    if not alpha:
        logging.warning(
            "--distillation_alpha=0: nothing is learned from the teacher"
        )


# --- Teachers ----------------------------------------------------------------


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


def open_teacher(path: str, max_seq_length: int) -> Teacher:
    """Return the model of a path as a teacher, whatever it can teach.

    `max_seq_length` is for a model whose configuration has none.

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


def find_teacher(path: str, teaching: Teaching) -> Teacher:
    """Return the teacher of a path.

    Raises:
        UserError: there is no model, it cannot teach this, or files are
            missing beside it.
    """
    teacher = open_teacher(path, teaching.job.source.max_seq_length)
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


class Distillation:
    """Adds what teachers answer to a job's training data.

    Raises:
        UserError: a teacher cannot teach the task.
    """

    def __init__(self, options: Options, teaching: Teaching):
        if teaching.learns_numbers and options.temperature != 1.0:
            raise UserError(
                f"--distillation_temperature={options.temperature:g} is for "
                "classes; this task is a regression: leave it out"
            )
        self.options, self.teaching = options, teaching
        self.adjustable = options.adjustable
        self.teachers = [
            find_teacher(path, teaching) for path in options.teachers
        ]

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run goes on."""
        return {
            FLAG: [teacher.digest for teacher in self.teachers],
            "distillation_temperature": self.options.temperature,
            "distillation_alpha": self.options.alpha,
            **self.teaching.fingerprint(),
        }

    def train_data(
        self, data: in_memory.ShortRecords, loaded: LoadedModel
    ) -> in_memory.ShortRecords:
        """Return the records of the training file with soft targets.

        The strategy of `loaded`, the student, runs the teachers too.
        """
        self.teaching.prepare(data)
        found = []
        for teacher in self.teachers:
            answers = self._answers(teacher, data, loaded.predictor.strategy)
            if teacher.order is not None:
                answers = answers[:, teacher.order]
            found.append(answers)
            logging.info(
                "Teacher %s: %s",
                teacher.source.prefix,
                self.teaching.fit(data, answers),
            )
        temperature = self.options.temperature
        entropy = self.teaching.add_targets(data, found, temperature)
        logging.info(
            "Distilling: loss = %g * soft_loss + %g * label_loss",
            self.options.alpha,
            1.0 - self.options.alpha,
        )
        if not self.teaching.learns_numbers:
            logging.info(
                "soft_loss is a cross entropy at temperature %g, times %g; a "
                "perfect student has %.4f, the entropy of the targets",
                temperature,
                temperature**2,
                temperature**2 * entropy,
            )
        return data

    def _answers(
        self,
        teacher: Teacher,
        data: in_memory.ShortRecords,
        strategy: tf.distribute.Strategy,
    ) -> np.ndarray:
        """Return a teacher's logits for the texts, computed or kept before."""
        teaching = self.teaching
        training = teaching.job.settings.training

        @functools.cache
        def predictor() -> prediction.Predictor:
            prefix = teacher.source.prefix
            logging.info("Running the teacher %s", prefix)
            # In a cluster the chief alone runs it: others wait for the file.
            own = strategy
            if cluster.has_other_workers():
                own = tf.distribute.get_strategy()
            with own.scope():
                model = teaching.create_model(teacher.source, training.dtype)
            required = registry.find(teaching.task_name).required
            weight_files.restore_weights(model.variables, prefix, required)
            forward = functools.partial(teaching.forward, model)
            return prediction.Predictor(own, forward, training.jit_compile)

        parts = []
        for name, fingerprint in teaching.texts():

            def compute(name: str = name) -> np.ndarray:
                return teaching.answers(name, data, teacher.source, predictor())

            fingerprint = {**fingerprint, "dtype": training.dtype}
            parts.append(
                kept_outputs(
                    teaching.cache, name, teacher, fingerprint, compute
                )
            )
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


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


# --- The student -------------------------------------------------------------


def distil(options: Options, teaching: Teaching) -> None:
    """Let the job of `teaching` learn from teachers."""
    teaching.job.distillation = Distillation(options, teaching)
    teaching.job.objective = objective(options, teaching)


def objective(options: Options, teaching: Teaching) -> Objective:
    """Return the objective of the module's loss.

    Both sums are divided by the number of all rows. Divided by the labelled
    ones alone, a label would count for more in a batch that has few of them.
    """

    def loss_weights(batch: Mapping) -> dict[str, tf.Tensor]:
        rows = teaching.count(batch)
        return {"soft_loss": rows, "label_loss": rows}

    def total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
        soft = sums["soft_loss"] / weights["soft_loss"]
        label = sums["label_loss"] / weights["label_loss"]
        return options.alpha * soft + (1.0 - options.alpha) * label

    forward = functools.partial(teaching.sums, options.temperature)
    return Objective(loss_weights, forward, total_loss, teaching.names)
