"""How teachers of a task are asked, and what a student learns from them.

finetuning/distillation.py finds teachers, runs them and keeps what they answer.
What that means for a task is said by a subclass of `Teaching` in the task's
distillation.py: which models can teach it, the rows that they read, the targets
made of their answers, and the losses.

Letters in shapes: n rows of the training data, K classes, S positions.
"""

import abc
from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from base import progress

import numpy as np
import tensorflow as tf

import modeling
from records import cache as record_cache
from records import in_memory
from records.streaming import Batch
from tasks import registry
from tasks.job import Job
from tasks.source import ModelSource
from training import prediction
from training.objective import Sums

SOFT_TARGETS = "soft_targets"  # float32 [n, ..., K]

LABEL_WEIGHTS = "label_weights"  # float32 [n], 0 for rows without a label

RUNNING = "Running the teacher"  # in the progress bar

AnyJob = TypeVar("AnyJob", bound=Job)


class Texts(NamedTuple):
    """Texts that teachers answer.

    Attributes:
        name: of their record file; the answers are kept under it too.
        fingerprint: everything that they depend on.
    """

    name: str
    fingerprint: dict[str, Any]


class Teaching(abc.ABC, Generic[AnyJob]):
    """What distillation has to know of a task.

    Args:
        job: of the student.

    Attributes:
        task_name: a key of registry.TASKS.
        head: path of a variable that only fine-tuned models have.
        names: keys of what `sums` returns.
    """

    task_name: str
    head: str
    names: tuple[str, ...] = (
        "soft_loss",
        "label_loss",
        "agreement",
        "accuracy",
        "tokens",
    )

    def __init__(self, job: AnyJob):
        self.job = job

    @property
    def labels(self) -> Sequence[str] | None:
        """The classes in the student's order; None if outputs have no names."""
        return None

    @property
    def learns_numbers(self) -> bool:
        """Whether targets are numbers, not probabilities of classes."""
        return False

    def fingerprint(self) -> dict[str, Any]:
        """Return what else must not change when a run goes on."""
        return {}

    # --- Teachers ------------------------------------------------------------

    def problem(self, teacher: ModelSource, head: Sequence[int]) -> str | None:
        """Return why a model cannot teach the task; None if it can."""
        del teacher, head
        return None

    def create_model(
        self, teacher: ModelSource, dtype: str
    ) -> modeling.TaskModel:
        """Return a teacher's model with new weights."""
        settings = self.job.create_task().settings
        settings = settings._replace(trained_for=teacher.trained_for)
        return registry.create_task(settings).create_model(
            teacher.config, dtype
        )

    def forward(self, model: modeling.TaskModel, batch: Batch) -> Batch:
        """Return a teacher's outputs for a batch, {name: [B, ...]}."""
        return self.job.forward(model, batch)

    # --- Data ----------------------------------------------------------------

    @property
    def cache(self) -> record_cache.RecordCache:
        """The student's records, beside which answers are kept."""
        return self.job.cache

    def prepare(self, data: in_memory.ShortRecords) -> None:
        """Add what else is learned to the records of the training file."""

    @abc.abstractmethod
    def texts(self) -> list[Texts]:
        """Return the texts of the training data, in the order of its rows."""

    @abc.abstractmethod
    def answers(
        self,
        name: str,
        data: in_memory.ShortRecords,
        teacher: ModelSource,
        predictor: prediction.Predictor,
    ) -> np.ndarray:
        """Return a teacher's logits for some texts, float32 [n, ..., K]."""

    @abc.abstractmethod
    def fit(self, data: in_memory.ShortRecords, logits: np.ndarray) -> str:
        """Return how a teacher's answers fit the labels: a wrong one shows."""

    @abc.abstractmethod
    def add_targets(
        self,
        data: in_memory.ShortRecords,
        logits: Sequence[np.ndarray],
        temperature: float,
    ) -> float:
        """Add SOFT_TARGETS to the records; return their mean entropy.

        The classes of each teacher's logits are in the student's order.
        """

    # --- Loss ----------------------------------------------------------------

    @abc.abstractmethod
    def count(self, batch: Batch) -> tf.Tensor:
        """Return what both losses are divided by: rows, or words."""

    @abc.abstractmethod
    def sums(
        self,
        temperature: float,
        model: modeling.TaskModel,
        batch: Batch,
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> Sums:
        """Return soft_loss, label_loss and metrics; see Objective.forward."""


# --- Answers and targets -----------------------------------------------------


def predict(
    predictor: prediction.Predictor,
    parts: Iterable[in_memory.ShortRecords],
    batch_size: int,
    total: int,
) -> np.ndarray:
    """Return the logits of `total` examples in parts, float32 [n, ...].

    So not all of them are in memory.
    """
    found: list[np.ndarray] = []
    with progress.Bar(total, "rows", RUNNING) as bar:
        for part in parts:
            logits: np.ndarray | None = None
            for rows, outputs in predictor.batches(part, batch_size):
                values = outputs["logits"]
                if logits is None:
                    shape = [part.num_records, *values.shape[1:]]
                    logits = np.zeros(shape, np.float32)
                logits[rows] = values
                bar.update(len(rows))
            found.append(logits)
    return np.concatenate(found)


def mean_probabilities(
    logits: Sequence[np.ndarray], temperature: float
) -> np.ndarray:
    """Return the mean of teachers' probabilities at a temperature.

    >>> mean_probabilities([np.log([[1.0, 3.0]]), np.log([[1.0, 1.0]])], 1.0)
    array([[0.375, 0.625]], dtype=float32)
    """
    total = np.zeros(logits[0].shape)
    for values in logits:
        scaled = values.astype(np.float64) / temperature
        exps = np.exp(scaled - scaled.max(-1, keepdims=True))
        total += exps / exps.sum(-1, keepdims=True)
    return (total / len(logits)).astype(np.float32)


def entropy(targets: np.ndarray) -> np.ndarray:
    """Return the entropy of probabilities [..., K] over K."""
    tiny = np.finfo(targets.dtype).tiny  # 0 ln 0 is 0
    return -(targets * np.log(np.maximum(targets, tiny))).sum(-1)
