"""Distillation: train a student on what fine-tuned teachers answer.

A small model learns more from a teacher's probabilities than from labels
(Hinton et al. 2015, arXiv:1503.02531), and from text without labels too (Turc
et al. 2019, arXiv:1908.08962). The loss of a row is

    alpha * soft loss + (1 - alpha) * label loss      of a row with a label
    alpha * soft loss                                 of one without

and the loss of a batch is the mean over all rows. The soft loss of classes is
losses.soft_loss, T^2 times a cross entropy at temperature T; that of numbers is
the squared error to the teacher's number. With several teachers, the target is
the mean of their probabilities at temperature T, or of their numbers.

A teacher reads the text with a vocabulary, casing and length of its own, in
batch_predict.py, whose files answers.py reads. A subclass of `Distillation` for
each task says what is asked, and which targets the answers give.

Letters in shapes: n rows of the training data, K classes, S positions.
"""

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from base import logs

import numpy as np
import tensorflow as tf
from absl import logging

from extras.distillation.answers import FLAG, Answers, Line
from modeling import Seed
from ops import losses
from records.in_memory import ShortRecords
from records.streaming import Batch
from tasks.job import FineTuningJob, Learned
from tasks.settings import DistillationFlags
from tasks.task import softmax
from training.objective import Objective, Sums, example_weights
from training.task_model import TaskModel

SOFT_TARGETS = "soft_targets"  # float32 [n, ..., K]

LABEL_WEIGHTS = "label_weights"  # float32 [n], 0 for rows without a label

_PART = 4096  # rows whose probabilities are computed at a time

AnyJob = TypeVar("AnyJob", bound=FineTuningJob)


class Distillation(abc.ABC, Generic[AnyJob]):
    """What a job learns from teachers: its wrapper; a subclass for each task.

    Args:
        job: the student's job.
        options: the answers, and how to learn from them.

    Attributes:
        learns_numbers: whether targets are numbers, not probabilities.
        hint: why there may be no answer.
    """

    learns_numbers = False
    hint = ""

    def __init__(self, job: AnyJob, options: DistillationFlags):
        self.job, self.options = job, options
        output_dir = job.settings.output_dir
        self.answers = Answers(options.teacher_answers, output_dir)
        self.temperature = options.distillation_temperature
        self.alpha = options.distillation_alpha
        if not self.alpha:
            logging.warning(
                "--distillation_alpha=0: nothing is learned from the teacher"
            )

    # --- What each task defines ----------------------------------------------

    @abc.abstractmethod
    def entries(self, line: Line, at: str) -> Iterable[tuple[str, np.ndarray]]:
        """Yield what was asked, and the logits, of a line of answers."""

    @abc.abstractmethod
    def keys(self, data: ShortRecords, answered: Iterable[str]) -> list[str]:
        """Return what the records ask, in their order.

        Texts of `answered` that are no training examples may be added.
        """

    def texts_of(self, keys: Sequence[str]) -> Iterable[str]:
        """Return the lines that ask this in batch_predict.py."""
        return keys

    def logits(self, data: ShortRecords, found: list[np.ndarray]) -> np.ndarray:
        """Return the answers to `keys` as one array, [..., K]."""
        return np.concatenate(found)

    @abc.abstractmethod
    def truths(self, data: ShortRecords) -> np.ndarray:
        """Return the labels [...] of the logits [..., K], NaN without one."""

    def add_targets(self, data: ShortRecords, targets: np.ndarray) -> None:
        """Add the targets, in the shape of the logits, to the records."""
        data.features[SOFT_TARGETS] = targets

    @abc.abstractmethod
    def soft_loss(self, logits: tf.Tensor, batch: Batch) -> losses.Loss:
        """Return the loss of the student's logits; its weight counts rows."""

    # --- For the run ---------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed."""
        return {
            FLAG: self.answers.fingerprint(),
            "distillation_temperature": self.temperature,
            "distillation_alpha": self.alpha,
        }

    def learned(self, of_job: Learned) -> Learned:
        """Return the training records with soft targets, and what they add."""
        data = of_job.data
        by_teacher = self.answers.by_teacher(self.entries)
        keys = self.keys(data, next(iter(by_teacher.values())))
        self.answers.check(by_teacher, keys, self.texts_of, self.hint)
        truths, logits = self.truths(data), []
        for teacher, answered in by_teacher.items():
            logits.append(self.logits(data, [answered[key] for key in keys]))
            logs.say("Teacher %s: %s", teacher, fit(logits[-1], truths))
        if self.learns_numbers:
            targets, least = np.mean(logits, 0, dtype=np.float32), 0.0
        else:
            targets = mean_probabilities(logits, self.temperature)
            least = self.temperature**2 * entropy(targets).mean()
        self.add_targets(data, targets)
        logging.info(
            "Distilling: loss = %g * soft_loss + %g * loss of the labels; a "
            "perfect student has a soft_loss of %.4f",
            self.alpha,
            1.0 - self.alpha,
            least,
        )
        return Learned(data, self.objective(of_job.objective))

    def objective(self, hard: Objective) -> Objective:
        """Return the loss above, made of the job's own objective.

        Both losses are divided by the number of all rows. If those of labels
        were divided by the number of labelled rows, a label would count for
        more in a batch that has few.
        """
        alpha = self.alpha

        def loss_weights(batch: Batch) -> dict[str, tf.Tensor]:
            weights = hard.loss_weights(batch)
            return {"soft_loss": next(iter(weights.values())), **weights}

        def forward(model: TaskModel, batch: Batch, seed: Seed) -> Sums:
            logits = model(batch, seed)
            soft = self.soft_loss(logits, batch)
            computed = _Computed(model, logits)
            if LABEL_WEIGHTS in batch:
                weights = example_weights(batch, LABEL_WEIGHTS)
                weights *= batch[LABEL_WEIGHTS]
                batch = {**batch, "example_weights": weights}
            sums = hard.forward(computed, batch, seed)
            sums["soft_loss"] = (soft.loss, soft.weight)
            if not self.learns_numbers:
                sums["agreement"] = (soft.correct, soft.weight)
            return sums

        def total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
            soft = sums["soft_loss"] / weights["soft_loss"]
            return alpha * soft + (1.0 - alpha) * hard.total_loss(sums, weights)

        names = ["soft_loss", *hard.names, "agreement"]
        return Objective(
            loss_weights,
            forward,
            total_loss,
            tuple(names[:-1] if self.learns_numbers else names),
        )


class _Computed:
    """A model whose logits are computed already."""

    def __init__(self, model: TaskModel, logits: tf.Tensor):
        self._model, self._logits = model, logits

    def __call__(self, *_: Any) -> tf.Tensor:
        return self._logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


# --- Answers to targets ------------------------------------------------------


def fit(logits: np.ndarray, truths: np.ndarray) -> str:
    """Return how well a teacher's answers fit the labels, for the log.

    Logits are [..., K], labels [...], NaN where there is none. With K = 1 both
    are numbers.
    """
    is_known = ~np.isnan(truths)
    logits, truths = logits[is_known], truths[is_known]
    found = f"accuracy {np.mean(logits.argmax(-1) == truths):.4f}"
    if logits.shape[-1] == 1:
        found = f"squared error {np.mean((logits[:, 0] - truths) ** 2):.4f}"
    return f"{found} on {len(truths):,} labels"


def mean_probabilities(
    logits: Sequence[np.ndarray], temperature: float
) -> np.ndarray:
    """Return the mean of teachers' probabilities at a temperature.

    >>> mean_probabilities([np.log([[1.0, 3.0]]), np.log([[1.0, 1.0]])], 1.0)
    array([[0.375, 0.625]], dtype=float32)
    """
    found = np.zeros(logits[0].shape, np.float32)
    for at in range(0, len(found), _PART):
        part = slice(at, at + _PART)
        wide = [x[part].astype(np.float64) / temperature for x in logits]
        found[part] = sum(map(softmax, wide)) / len(logits)
    return found


def entropy(targets: np.ndarray) -> np.ndarray:
    """Return the entropy of probabilities [..., K] over K."""
    tiny = np.finfo(targets.dtype).tiny  # 0 ln 0 is 0
    return -(targets * np.log(np.maximum(targets, tiny))).sum(-1)
