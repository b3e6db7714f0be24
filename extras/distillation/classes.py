"""Distillation of classifiers and regressions, also on texts without labels.

These are read as batch_predict.py reads its inputs (tasks/reading.py): lines
with a text or, separated by a tab, a pair; or JSON lines; maybe gzip. The files
may be larger than memory: they are read in windows, once for each teacher and
once for the records.
"""

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from base import file_system, progress
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints.model import Checkpoint
from extras.distillation import teachers
from extras.distillation.teachers import RUNNING, SOFT_TARGETS, Options, Texts
from ops import losses
from records import in_memory
from records.streaming import Batch
from tasks import predict, reading
from tasks.classifier import data as classifier_data
from tasks.classifier import model as classifier_model
from tasks.classifier.data import Example
from tasks.classifier.job import ClassifierJob
from tasks.job import DataSet
from tasks.task import Model, Task
from training.objective import Sums, example_weights
from training.task_model import TaskModel

_LABEL_WEIGHTS = "label_weights"  # float32 [n], 0 for rows without a label

_INPUTS = ("input_ids", "input_mask", "segment_ids")

_TRANSFER = "transfer_file"


class TransferTexts:
    """The texts, or pairs of texts, of --transfer_file.

    Args:
        patterns: globs of the files.
        task: the student's task, which parses a line.

    Raises:
        UserError: a pattern matches no file, or a file holds no text.
    """

    def __init__(self, patterns: str, task: Task):
        self.task = task
        self.files = [
            reading.inspect(path, flag=_TRANSFER)
            for path in file_system.find_files(patterns, _TRANSFER)
        ]
        for file in self.files:
            if file.kind == "tfrecord":
                raise UserError(
                    f"--{_TRANSFER}: {file.path} holds TFRecords, wanted texts"
                )

    def fingerprint(self) -> dict[str, Any]:
        """Return everything that the texts depend on."""
        return {"data": self._checksums, "texts": self.task.text_names}

    @functools.cached_property
    def _checksums(self) -> list[str]:
        """The checksums of the files, which may be large: read once."""
        return [file_system.sha256(file.path) for file in self.files]

    def check(self) -> None:
        """Read all files to find mistakes.

        Raises:
            UserError: there is no text, or a line is damaged; names it.
        """
        if not sum(1 for _ in self):
            names = ", ".join(file.path for file in self.files[:3])
            raise UserError(f"--{_TRANSFER}: {names} holds no text")

    def __iter__(self) -> Iterator[Example]:
        """Yield the texts in the order of the files."""
        number = 0
        for file in self.files:
            for window in reading.read_windows(file, self.task.parse):
                for place, reason, _ in window.problems:
                    raise UserError(
                        f"{place.path}, line {place.number}: {reason}"
                    )
                for item in window.inputs:
                    texts = item.texts.values()
                    yield Example(f"transfer-{number}", *texts)
                    number += 1


class ClassifierDistillation(teachers.Distillation[ClassifierJob]):
    """Teachers of a classifier or regression; answers are logits [n, K].

    Raises:
        UserError: a text of transfer_file, which has no labels, is damaged.
    """

    task_name = "classifier"

    def __init__(
        self,
        job: ClassifierJob,
        options: Options,
        transfer_file: str | None = None,
    ):
        super().__init__(job, options)
        self.transfer: TransferTexts | None = None
        if transfer_file:
            self.transfer = TransferTexts(transfer_file, job.task)
            path = job.cache.path("transfer")
            if not job.cache.has(path, self._transfer_fingerprint()):
                self.transfer.check()
        if self.learns_numbers:
            self.names = ("soft_loss", "label_loss", "tokens")

    @property
    def labels(self) -> Sequence[str] | None:
        """The classes; None for a regression."""
        return self.job.files.labels

    @property
    def class_names(self) -> Sequence[str] | None:
        """What the model calls its classes: GLUE's names for labels 0, 1."""
        return self.job.files.names

    @property
    def learns_numbers(self) -> bool:
        """Whether the task is a regression."""
        return self.labels is None

    def fingerprint(self) -> dict[str, Any]:
        """Return the teachers, and the texts without labels."""
        transfer = self.transfer and self.transfer.fingerprint()
        return {**super().fingerprint(), "transfer_file": transfer}

    def problem(self, teacher: Checkpoint, head: Sequence[int]) -> str | None:
        """Compare the kind of output, and how many texts are read."""
        if self.learns_numbers and head[0] > 1:
            return (
                f"tells {head[0]} classes apart, this task is a regression: "
                "use a teacher that predicts numbers"
            )
        if not self.learns_numbers and head[0] == 1:
            return (
                "predicts numbers, this task has classes: use a classifier as "
                "a teacher"
            )
        is_pair = self.job.files.takes_pairs
        taught = teacher.trained_for.sentence_pairs
        if taught not in (None, is_pair):
            kinds = ("single texts", "pairs")
            return (
                f"was fine-tuned on {kinds[taught]}, this task has "
                f"{kinds[is_pair]}"
            )
        return None

    # --- Data ----------------------------------------------------------------

    def prepare(self, data: in_memory.ShortRecords) -> None:
        """Add the texts without labels behind those of the training file."""
        is_labeled = np.ones([data.num_records], np.float32)
        if self.transfer:
            transfer = self.job.cache.records(
                "transfer", self._transfer_fingerprint(), self._write_transfer
            )
            data.append(transfer)
        added = data.num_records - len(is_labeled)
        data.features[_LABEL_WEIGHTS] = np.pad(is_labeled, (0, added))
        logging.info(
            "Learning from %s rows with a label and %s without",
            f"{len(is_labeled):,}",
            f"{added:,}",
        )

    def texts(self) -> list[Texts]:
        """Return the training examples, and the texts without labels."""
        train = self.job.train
        found = [Texts(train.name, self.job.file_fingerprint(train))]
        if self.transfer:
            found.append(Texts("transfer", self.transfer.fingerprint()))
        return found

    def answers(
        self,
        name: str,
        data: in_memory.ShortRecords,
        teacher: Checkpoint,
        run: Model,
    ) -> np.ndarray:
        """Return a teacher's logits for the texts of a file."""
        num_labeled = int(data.features[_LABEL_WEIGHTS].sum())
        texts: Iterable[Example] = self.transfer
        total = data.num_records - num_labeled
        if name == self.job.train.name:
            texts = self.job.read(self.job.train)
            total = num_labeled
        parts = (
            in_memory.ShortRecords({key: features[key] for key in _INPUTS})
            for _, features, _ in classifier_data.converted(
                texts,
                lambda label: 0.0,
                teacher.row_length,
                teacher.tokenizer,
                teacher.long_texts.how,
            )
        )
        size = self.job.settings.predict_batch_size
        with progress.Bar(total, "rows", RUNNING) as bar:
            found = [
                predict.run_records(run, part, size, bar.update)["logits"]
                for part in parts
            ]
        return np.concatenate(found)

    def fit(self, data: in_memory.ShortRecords, logits: np.ndarray) -> str:
        """Return the accuracy on texts with labels, or the squared error."""
        is_labeled = data.features[_LABEL_WEIGHTS] > 0
        labels = data.features["label_ids"][is_labeled]
        found = logits[is_labeled]
        if self.learns_numbers:
            fit = f"squared error {np.mean((found[:, 0] - labels) ** 2):.4f}"
        else:
            fit = f"accuracy {np.mean(found.argmax(-1) == labels):.4f}"
        return f"{fit} on the {len(labels):,} training examples"

    def add_targets(
        self,
        data: in_memory.ShortRecords,
        logits: Sequence[np.ndarray],
    ) -> float:
        """Add the mean probabilities [n, K], or the mean numbers [n, 1]."""
        if self.learns_numbers:
            mean = np.mean(logits, axis=0, dtype=np.float32)
            data.features[SOFT_TARGETS] = mean
            return 0.0
        targets = teachers.mean_probabilities(logits, self.options.temperature)
        data.features[SOFT_TARGETS] = targets
        return float(teachers.entropy(targets).mean())

    # --- Texts without labels ------------------------------------------------

    def _transfer_fingerprint(self) -> dict[str, Any]:
        """Return everything that the records of the texts depend on."""
        return {
            **self.transfer.fingerprint(),
            **self.job.text_fingerprint(),
            "is_regression": self.learns_numbers,
        }

    def _write_transfer(self, path: str) -> None:
        """Write the record file of the texts; their label_ids are 0."""

        def texts() -> Iterator[Example]:
            with progress.Bar(None, "texts", "Converting texts") as bar:
                for text in self.transfer:
                    yield text
                    bar.update(1)

        data = DataSet("transfer", "transfer_file", self.transfer)
        self.job.write_records(path, data, texts())

    # --- Loss ----------------------------------------------------------------

    def count(self, batch: Batch) -> tf.Tensor:
        """Return the number of rows, with and without a label."""
        return tf.reduce_sum(example_weights(batch, "label_ids"))

    def sums(
        self,
        model: TaskModel,
        batch: Batch,
        seed: modeling.Seed,
    ) -> Sums:
        """Return losses and metrics; those of labels of the rows with one."""
        logits = model(batch, seed)  # [B, K]
        weights = example_weights(batch, "label_ids")  # [B]
        labeled = weights * batch[_LABEL_WEIGHTS]  # [B]
        targets, labels = batch[SOFT_TARGETS], batch["label_ids"]
        if self.learns_numbers:
            squared = classifier_model.squared_error
            soft = squared(logits, targets[:, 0], weights)
            label = squared(logits, labels, labeled)
        else:
            soft = losses.soft_loss(
                logits, targets, self.options.temperature, weights
            )
            label = losses.classification_loss(logits, labels, labeled)
        sums = {
            "soft_loss": (soft.loss, soft.weight),
            "label_loss": (label.loss, label.weight),
            "tokens": classifier_model.num_tokens(batch),
            "agreement": (soft.correct, soft.weight),
            "accuracy": (label.correct, label.weight),
        }
        return {name: sums[name] for name in self.names}
