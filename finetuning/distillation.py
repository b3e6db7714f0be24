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

Teachers are in teachers.py; what all this means for a task, in its folder
(tasks/teaching.py).
"""

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags, logging

from checkpoints import hub, run_settings
from finetuning import teachers
from records import in_memory
from tasks.job import LoadedModel
from tasks.teaching import Teaching
from training.objective import Objective

flags.disclaim_key_flags()  # --help of a script shows what is defined here

# What the fingerprint of a run has of its teachers; of a run without any.
NO_FINGERPRINT = dict.fromkeys(
    (
        teachers.FLAG,
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
        """Return the commits of teachers on the hub; see run_settings.

        Nothing where no teacher is on the hub: the files of a teacher are in
        the fingerprint.
        """
        if not any(map(hub.is_name, self.teachers)):
            return {}
        return {
            teachers.FLAG: [
                hub.with_commit(path, teachers.FLAG)
                if hub.is_name(path)
                else None
                for path in self.teachers
            ]
        }


def define_flags(what_is_needed: str) -> None:
    """Define the flags of teachers and of the loss.

    Args:
        what_is_needed: end of the help of --teacher_checkpoint: what a
            teacher has to be.
    """
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
        run_settings.pinned_all(
            f.teacher_checkpoint, f.output_dir, teachers.FLAG
        ),
        f.distillation_temperature,
        f.distillation_alpha,
    )


def with_commits(f: flags.FlagValues) -> str | None:
    """Return --teacher_checkpoint with a commit for each model on the hub.

    For the runs of a sweep; None without a teacher on the hub, or in a script
    without the flag.
    """
    options = read(f) if teachers.FLAG in f else None
    commits = options.adjustable() if options else {}
    if not commits:
        return None
    found = zip(commits[teachers.FLAG], options.teachers, strict=True)
    return ",".join(commit or path for commit, path in found)


def check(f: flags.FlagValues, *more: str) -> None:
    """Check the flags of distillation.

    Args:
        f: FLAGS of a script that called `define_flags`.
        *more: further flags that need a teacher.

    Raises:
        UserError: names the flag.
    """
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
        self.teachers = [
            teachers.find(path, teaching) for path in options.teachers
        ]

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run goes on."""
        return {
            teachers.FLAG: [teacher.digest for teacher in self.teachers],
            "distillation_temperature": self.options.temperature,
            "distillation_alpha": self.options.alpha,
            **self.teaching.fingerprint(),
        }

    def adjustable(self) -> dict[str, Any]:
        """Return what may change when a run goes on."""
        return self.options.adjustable()

    def train_data(
        self, data: in_memory.ShortRecords, loaded: LoadedModel
    ) -> in_memory.ShortRecords:
        """Return the training records with soft targets.

        Args:
            data: the records of the training file.
            loaded: the student; its strategy runs the teachers too.
        """
        self.teaching.prepare(data)
        found = []
        for teacher in self.teachers:
            answers = self._answers(teacher, data, loaded)
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
        teacher: teachers.Teacher,
        data: in_memory.ShortRecords,
        loaded: LoadedModel,
    ) -> np.ndarray:
        """Return a teacher's logits for the texts, computed or kept before."""
        teaching = self.teaching

        @functools.cache
        def predictor():
            return teachers.create_predictor(
                teacher, teaching, loaded.predictor.strategy
            )

        dtype = teaching.job.settings.training.dtype
        parts = [
            teachers.kept_outputs(
                teaching.cache,
                name,
                teacher,
                {**fingerprint, "dtype": dtype},
                lambda name=name: teaching.answers(
                    name, data, teacher.source, predictor()
                ),
            )
            for name, fingerprint in teaching.texts()
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


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
