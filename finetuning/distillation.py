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

Teachers are in teachers.py. A task adds the features SOFT_TARGETS and
LABEL_WEIGHTS to its training records.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags, logging

from checkpoints import hub, run_settings
from training.objective import Objective, Sums

flags.disclaim_key_flags()  # --help of a script shows what is defined here

SOFT_TARGETS = "soft_targets"  # float32 [n, ..., K]

LABEL_WEIGHTS = "label_weights"  # float32 [n], 0 for rows without a label

_FLAG = "teacher_checkpoint"


class Options(NamedTuple):
    """How to distil.

    Attributes:
        teachers: paths of their checkpoints.
        temperature: T of the soft loss.
        alpha: weight of the soft loss; 1 - alpha is that of the labels.
    """

    teachers: tuple[str, ...]
    temperature: float
    alpha: float

    def fingerprint(self, digests: Sequence[str]) -> dict[str, Any]:
        """Return what must not change when a run goes on.

        Args:
            digests: of the teachers' files.
        """
        return {
            "teacher_checkpoint": list(digests),
            "distillation_temperature": self.temperature,
            "distillation_alpha": self.alpha,
        }

    def adjustable(self) -> dict[str, Any]:
        """Return the commits of teachers on the hub; see run_settings.

        Nothing where no teacher is on the hub: the files of a teacher are in
        the fingerprint.
        """
        if not any(map(hub.is_name, self.teachers)):
            return {}
        return {
            _FLAG: [
                hub.with_commit(path, _FLAG) if hub.is_name(path) else None
                for path in self.teachers
            ]
        }


# A run without teachers. Runs of versions without the flags have no such keys,
# which counts as None.
NO_FINGERPRINT = dict.fromkeys(Options((), 1.0, 1.0).fingerprint(()))

# --- Flags -------------------------------------------------------------------


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
        run_settings.pinned_all(f.teacher_checkpoint, f.output_dir, _FLAG),
        f.distillation_temperature,
        f.distillation_alpha,
    )


def with_commits(f: flags.FlagValues) -> str | None:
    """Return --teacher_checkpoint with a commit for each model on the hub.

    Returns:
        A value of the flag, as `read` finds it, for the runs of a sweep; None
        without a teacher on the hub, or in a script without the flag.
    """
    options = read(f) if _FLAG in f else None
    commits = options.adjustable() if options else {}
    if not commits:
        return None
    found = zip(commits[_FLAG], options.teachers, strict=True)
    return ",".join(commit or path for commit, path in found)


def check(f: flags.FlagValues, *more: str) -> None:
    """Check the flags of distillation.

    Args:
        f: FLAGS of a script that called `define_flags`.
        *more: further flags that need a teacher.

    Raises:
        UserError: names the flag.
    """
    names = ("distillation_temperature", "distillation_alpha", *more)
    for name in names if not f.teacher_checkpoint else ():
        if f[name].present:
            raise UserError(f"--{name} needs --teacher_checkpoint")
    teachers = f.teacher_checkpoint
    if not teachers:
        return
    if not f.do_train:
        raise UserError(
            "--teacher_checkpoint needs --do_train: a teacher is for training"
        )
    for path in teachers:
        if not path.strip() or teachers.count(path) > 1:
            raise UserError(
                f"--teacher_checkpoint={','.join(teachers)}: found "
                f"{path!r} {teachers.count(path)} times, wanted different paths"
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


# --- Targets -----------------------------------------------------------------


def mean_probabilities(
    logits: Sequence[np.ndarray], temperature: float
) -> np.ndarray:
    """Return the mean of teachers' probabilities at a temperature.

    >>> mean_probabilities([np.log([[1.0, 3.0]]), np.log([[1.0, 1.0]])], 1.0)
    array([[0.375, 0.625]], dtype=float32)

    Args:
        logits: of each teacher, [..., K].
        temperature: T.
    """
    total = np.zeros(logits[0].shape)
    for values in logits:
        scaled = values.astype(np.float64) / temperature
        exps = np.exp(scaled - scaled.max(-1, keepdims=True))
        total += exps / exps.sum(-1, keepdims=True)
    return (total / len(logits)).astype(np.float32)


def log_loss(options: Options, entropy: float | None) -> None:
    """Log the loss of distillation, and how small its soft part can be.

    Args:
        options: of the loss.
        entropy: mean of the targets' entropy; None for numbers, whose loss
            has the minimum 0.
    """
    logging.info(
        "Distilling: loss = %g * soft_loss + %g * label_loss",
        options.alpha,
        1.0 - options.alpha,
    )
    if entropy is not None:
        logging.info(
            "soft_loss is a cross entropy at temperature %g, times %g; a "
            "perfect student has %.4f, the entropy of the targets",
            options.temperature,
            options.temperature**2,
            options.temperature**2 * entropy,
        )


def entropy(targets: np.ndarray) -> np.ndarray:
    """Return the entropy of probabilities [..., K] over K."""
    tiny = np.finfo(targets.dtype).tiny  # 0 ln 0 is 0
    return -(targets * np.log(np.maximum(targets, tiny))).sum(-1)


# --- Objective ---------------------------------------------------------------


def objective(
    forward: Callable[..., Sums],
    count: Callable[..., tf.Tensor],
    options: Options,
    names: Sequence[str],
) -> Objective:
    """Return the objective of the module's loss.

    Both sums are divided by the number of all rows. Divided by the labelled
    ones alone, a label would count for more in a batch that has few of them.

    Args:
        forward: as Objective.forward; it returns soft_loss and label_loss.
        count: batch -> number of its rows, float32 scalar.
        options: of the loss.
        names: keys of what `forward` returns.
    """
    alpha = options.alpha

    def loss_weights(batch: Mapping) -> dict[str, tf.Tensor]:
        rows = count(batch)
        return {"soft_loss": rows, "label_loss": rows}

    def total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
        soft = sums["soft_loss"] / weights["soft_loss"]
        label = sums["label_loss"] / weights["label_loss"]
        return alpha * soft + (1.0 - alpha) * label

    return Objective(loss_weights, forward, total_loss, tuple(names))
