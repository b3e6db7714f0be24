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

A teacher reads the text with a vocabulary, casing and length of its own. Its
outputs are written to a file beside the records of the student, with a
fingerprint of the teacher and the text: later runs read the file.

`Distillation` finds teachers, runs them and keeps what they answer. Its
subclass in a task's folder says which models can teach the task, which rows
they read, which targets their answers give, and what the losses are.

Letters in shapes: n rows of the training data, K classes, S positions.
"""

import abc
import dataclasses
import functools
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from base import cluster, file_system
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import hub, lookup, published, weight_files
from checkpoints.checkpoint import open_checkpoint
from checkpoints.model import Checkpoint
from records import cache as record_cache
from records import in_memory
from records.streaming import Batch
from tasks import bilstm, registry
from tasks.job import FineTuningJob, LoadedModel
from tasks.rows import text_fingerprint
from tasks.task import Model
from training import prediction
from training.objective import Objective, Sums
from training.task_model import TaskModel

FLAG = "teacher_checkpoint"

SOFT_TARGETS = "soft_targets"  # float32 [n, ..., K]

RUNNING = "Running the teacher"  # in the progress bar

AnyJob = TypeVar("AnyJob", bound=FineTuningJob)


class Options(NamedTuple):
    """How to distil: paths of the teachers, T, and weight of the soft loss."""

    teachers: tuple[str, ...]
    temperature: float
    alpha: float

    def adjustable(self) -> dict[str, Any]:
        """Return the commits of the teachers that are on the hub, if any."""
        if not any(map(published.is_of_hub, self.teachers)):
            return {}
        return {
            FLAG: [
                hub.with_commit(path, FLAG)
                if published.is_of_hub(path)
                else None
                for path in self.teachers
            ]
        }


# --- Teachers ----------------------------------------------------------------


class Teacher(NamedTuple):
    """A fine-tuned model to learn from.

    Attributes:
        path: as the flag names it.
        source: checkpoint, tokenizer and length.
        fingerprint: everything that its outputs for a text depend on.
        order: the place of each of the student's labels among the teacher's
            outputs, [K]: [1, 0] if the student has yes and no, and the teacher
            no and yes. None if outputs have no names.
    """

    path: str
    source: Checkpoint
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
        checkpoint.fitting_length(length, is_given=True)
        bilstm.size_in(checkpoint.trained_for)  # is it valid?
        text = text_fingerprint(checkpoint.tokenizer, length)
    except UserError as error:
        # Flags that the message names describe the student.
        raise UserError(
            f"--{FLAG}={path}: {error} (a teacher is described by the files "
            "beside its weights, not by flags)"
        ) from error
    fingerprint = {
        "weights": [
            file_system.sha256(file) for file in weight_files.files_of(prefix)
        ],
        "config": checkpoint.config.to_dict()
        | checkpoint.trained_for.to_dict(),
        **text,
    }
    used = checkpoint.trained_for._replace(max_seq_length=length)
    source = dataclasses.replace(checkpoint, trained_for=used)
    return Teacher(path, source, fingerprint)


class Texts(NamedTuple):
    """Texts that teachers answer.

    Attributes:
        name: name of their record file; the answers are kept under it too.
        fingerprint: everything that they depend on.
    """

    name: str
    fingerprint: dict[str, Any]


# --- What a student learns ---------------------------------------------------


class Distillation(abc.ABC, Generic[AnyJob]):
    """Teachers of a job; a subclass for each task that can be distilled.

    Args:
        job: the student's job.
        options: which teachers, and how to learn from them.

    Attributes:
        task_name: a key of registry.TASKS.
        names: keys of what `sums` returns.

    Raises:
        UserError: a teacher cannot teach the task.
    """

    task_name: str
    names: tuple[str, ...] = (
        "soft_loss",
        "label_loss",
        "agreement",
        "accuracy",
        "tokens",
    )

    def __init__(self, job: AnyJob, options: Options):
        self.job, self.options = job, options
        if self.learns_numbers and options.temperature != 1.0:
            raise UserError(
                f"--distillation_temperature={options.temperature:g} is for "
                "classes; this task is a regression: leave it out"
            )
        self.teachers = [self._teacher(path) for path in options.teachers]

    # --- What each task defines ----------------------------------------------

    @property
    def labels(self) -> Sequence[str] | None:
        """The classes in the student's order; None if outputs have no names."""
        return None

    @property
    def class_names(self) -> Sequence[str] | None:
        """What a teacher may call the classes instead; in the same order."""
        return self.labels

    @property
    def learns_numbers(self) -> bool:
        """Whether targets are numbers, not probabilities of classes."""
        return False

    def problem(self, teacher: Checkpoint, head: Sequence[int]) -> str | None:
        """Return why a model cannot teach the task; None if it can.

        `head` is the shape of the variable that only its models have.
        """
        del teacher, head
        return None

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
        teacher: Checkpoint,
        run: Model,
    ) -> np.ndarray:
        """Return a teacher's logits for some texts, float32 [n, ..., K]."""

    @abc.abstractmethod
    def fit(self, data: in_memory.ShortRecords, logits: np.ndarray) -> str:
        """Return how well a teacher's answers fit the labels, for the log."""

    @abc.abstractmethod
    def add_targets(
        self, data: in_memory.ShortRecords, logits: Sequence[np.ndarray]
    ) -> float:
        """Add SOFT_TARGETS to the records; return their mean entropy.

        The classes of each teacher's logits are in the student's order.
        """

    @abc.abstractmethod
    def count(self, batch: Batch) -> tf.Tensor:
        """Return what both losses are divided by: rows, or words."""

    @abc.abstractmethod
    def sums(
        self,
        model: TaskModel,
        batch: Batch,
        seed: modeling.Seed,
    ) -> Sums:
        """Return soft_loss, label_loss and metrics; see Objective.forward."""

    # --- For the run ---------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run is resumed."""
        return {
            FLAG: [teacher.digest for teacher in self.teachers],
            "distillation_temperature": self.options.temperature,
            "distillation_alpha": self.options.alpha,
        }

    def adjustable(self) -> dict[str, Any]:
        """Return the commits of the teachers."""
        return self.options.adjustable()

    def train_data(
        self, data: in_memory.ShortRecords, loaded: LoadedModel
    ) -> in_memory.ShortRecords:
        """Return the records of the training file with soft targets.

        The strategy of `loaded`, the student, runs the teachers too.
        """
        self.prepare(data)
        found = []
        for teacher in self.teachers:
            answers = self._answers(teacher, data, loaded.run.strategy)
            if teacher.order is not None:
                answers = answers[:, teacher.order]
            found.append(answers)
            logging.info(
                "Teacher %s: %s",
                teacher.source.prefix,
                self.fit(data, answers),
            )
        entropy = self.add_targets(data, found)
        _, temperature, alpha = self.options
        logging.info(
            "Distilling: loss = %g * soft_loss + %g * label_loss",
            alpha,
            1.0 - alpha,
        )
        if not self.learns_numbers:
            logging.info(
                "soft_loss is a cross entropy at temperature %g, times %g; a "
                "perfect student has %.4f, the entropy of the targets",
                temperature,
                temperature**2,
                temperature**2 * entropy,
            )
        return data

    def objective(self) -> Objective:
        """Return the objective of the module's loss.

        Both sums are divided by the number of all rows. If label losses were
        divided by the number of labelled rows, a label would count for more in
        a batch that has few.
        """
        alpha = self.options.alpha

        def loss_weights(batch: Mapping) -> dict[str, tf.Tensor]:
            rows = self.count(batch)
            return {"soft_loss": rows, "label_loss": rows}

        def total_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
            soft = sums["soft_loss"] / weights["soft_loss"]
            label = sums["label_loss"] / weights["label_loss"]
            return alpha * soft + (1.0 - alpha) * label

        return Objective(loss_weights, self.sums, total_loss, self.names)

    # --- Teachers ------------------------------------------------------------

    def _teacher(self, path: str) -> Teacher:
        """Return the teacher of a path.

        Raises:
            UserError: there is no model, it cannot teach this, or files are
                missing beside it.
        """
        teacher = open_teacher(path, self.job.source.max_seq_length)
        source = teacher.source
        reader = weight_files.Reader(source.prefix)
        name = registry.find(self.task_name).head
        head = reader.get_variable_to_shape_map().get(name)
        if head is None:
            raise teacher.error(
                f"has no fine-tuned head for this task ({name}): a model "
                "that was not fine-tuned teaches noise; fine-tune it with this "
                "script first"
            )
        wanted, found = self.job.trained_for().task, source.trained_for.task
        registry.check_task(found, wanted, source.prefix, f"--{FLAG}")
        if problem := self.problem(source, head):
            raise teacher.error(problem)
        if self.labels is None:
            return teacher
        names = source.trained_for.class_names(head[0])
        known = self.labels
        if set(names) == set(self.class_names):
            known = self.class_names
        if sorted(names) != sorted(known):
            raise teacher.error(
                f"was fine-tuned on the labels {', '.join(names[:8])}; those "
                f"of this task are {', '.join(self.labels[:8])}: use a teacher "
                "of the same labels, or correct id2label in its configuration"
            )
        order = np.array([names.index(label) for label in known])
        return teacher._replace(order=order)

    def _answers(
        self,
        teacher: Teacher,
        data: in_memory.ShortRecords,
        strategy: tf.distribute.Strategy,
    ) -> np.ndarray:
        """Return a teacher's logits for the texts, computed or kept before."""
        source, training = teacher.source, self.job.settings.training

        @functools.cache
        def run() -> Model:
            logging.info("Running the teacher %s", source.prefix)
            # In a cluster the chief alone runs it: others wait for the file.
            own = strategy
            if cluster.has_other_workers():
                own = tf.distribute.get_strategy()
            # The teacher reads texts as it was trained to, not as the student.
            labels = self.job.trained_for().id2label
            settings = self.job.task.settings._replace(
                checkpoint=source.trained(id2label=labels)
            )
            task = registry.create_task(settings)
            with own.scope():
                model = task.create_model(source.config, training.dtype)
            weight_files.restore_weights(
                model.variables, source.prefix, model.required
            )
            return prediction.on_devices(
                own, model.outputs, training.jit_compile
            )

        parts = [
            kept_outputs(
                self.job.cache,
                f"{name}_teacher_{teacher.digest}",
                teacher.path,
                {
                    **fingerprint,
                    "dtype": training.dtype,
                    "teacher": dict(teacher.fingerprint),
                },
                lambda name=name: self.answers(name, data, source, run()),
            )
            for name, fingerprint in self.texts()
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]


def kept_outputs(
    cache: record_cache.RecordCache,
    name: str,
    teacher: str,
    fingerprint: Mapping[str, Any],
    compute: Callable[[], np.ndarray],
) -> np.ndarray:
    """Return the outputs of a teacher, from an earlier run or computed now.

    Args:
        cache: the student's records, beside which the outputs are kept.
        name: name of their file, without its ending.
        teacher: the teacher as the flag names it, for messages.
        fingerprint: everything that the outputs depend on.
        compute: returns them, float32 [n, ...].

    Raises:
        UserError: they are not finite, or the file is damaged.
    """
    path = os.path.join(cache.directory, f"{name}.npy")

    def write(path: str) -> None:
        outputs = compute()
        bad = np.flatnonzero(~np.isfinite(outputs.reshape(len(outputs), -1)))
        if len(bad):
            raise UserError(
                f"--{FLAG}={teacher} computes {outputs.flat[bad[0]]} for row "
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

    cache.make(path, fingerprint, write)
    with file_system.open_for_reading(path) as file:
        data = file.read()
    try:
        return np.load(io.BytesIO(data))
    except Exception as error:  # numpy, tokenize and the memory raise some
        raise UserError(
            f"{path} is damaged ({error}): remove it, and it is made again"
        ) from error


# --- Targets -----------------------------------------------------------------


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
