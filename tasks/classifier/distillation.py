"""Distillation of classifiers and regressions; finetuning/distillation.py."""

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from finetuning import distillation, teachers
from finetuning.distillation import LABEL_WEIGHTS, SOFT_TARGETS
from finetuning.teachers import Teacher
from ops import losses
from records import in_memory
from records.streaming import Batch
from tasks.classifier import data as classifier_data
from tasks.classifier import model as classifier_model
from tasks.classifier import records as classifier_records
from tasks.classifier import tasks as classifier_tasks
from tasks.classifier.transfer import TransferTexts
from tasks.job import LoadedModel
from tasks.settings import RunSettings
from tasks.source import ModelSource
from training import prediction
from training.objective import Objective, Sums, example_weights

_INPUTS = ("input_ids", "input_mask", "segment_ids")


class ClassifierDistillation:
    """Adds what teachers answer to the training records of a classifier.

    Args:
        options: teachers and loss.
        texts: more texts, without labels; None without --transfer_file.
        task: files and labels.
        records: of the student.

    Attributes:
        objective: soft loss and label loss.

    Raises:
        UserError: a teacher cannot teach the task, or a text is damaged.
    """

    def __init__(
        self,
        options: distillation.Options,
        texts: TransferTexts | None,
        task: classifier_tasks.Task,
        records: classifier_records.ClassifierRecords,
    ):
        self.options, self.texts = options, texts
        self.task, self.records = task, records
        if task.labels is None and options.temperature != 1.0:
            raise UserError(
                f"--distillation_temperature={options.temperature:g} is for "
                "classes; this task is a regression: leave it out"
            )
        self.objective = objective(options, task.labels is None)
        # [K] of each teacher, see teachers.label_order.
        self._orders: list[np.ndarray] = []
        self.teachers = [
            self._find(path, records.max_seq_length)
            for path in options.teachers
        ]
        if texts:
            records.check_transfer(texts)

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run goes on."""
        return {
            "transfer_file": self.texts and self.texts.fingerprint(),
            **self.options.fingerprint([t.digest for t in self.teachers]),
        }

    def _find(self, path: str, max_seq_length: int) -> Teacher:
        """Return a teacher that fits the task; note its order of labels."""
        teacher = teachers.find(path, max_seq_length)
        count, _ = teachers.check_head(teacher, "output_weights", None)
        labels = self.task.labels
        if labels is None and count > 1:
            raise teacher.error(
                f"tells {count} classes apart, this task is a regression: use "
                "a teacher that predicts numbers"
            )
        if labels is not None and count == 1:
            raise teacher.error(
                "predicts numbers, this task has classes: use a classifier as "
                "a teacher"
            )
        is_pair = self.task.train.columns.text_b is not None
        taught = teacher.source.trained_for.sentence_pairs
        if taught not in (None, is_pair):
            kinds = ("single texts", "pairs")
            raise teacher.error(
                f"was fine-tuned on {kinds[taught]}, this task has "
                f"{kinds[is_pair]}"
            )
        order = np.zeros([1], np.int64)
        if labels is not None:
            order = teachers.label_order(teacher, labels, count)
        self._orders.append(order)
        return teacher

    # --- Data ----------------------------------------------------------------

    def train_data(
        self,
        data: in_memory.ShortRecords,
        loaded: LoadedModel,
        settings: RunSettings,
    ) -> in_memory.ShortRecords:
        """Return the training records with soft targets.

        The texts of --transfer_file come behind those of the training file.

        Args:
            data: the records of the training file.
            loaded: the student; its strategy runs the teachers too.
            settings: flags of the command.
        """
        num_labeled, names = data.num_records, ["train"]
        if self.texts:
            data.append(self.records.transfer(self.texts))
            names.append("transfer")
        sizes = [num_labeled, data.num_records - num_labeled]
        found = []
        for teacher, order in zip(self.teachers, self._orders, strict=True):
            predictor = functools.cache(
                functools.partial(self._predictor, teacher, loaded, settings)
            )
            parts = [
                self._outputs(teacher, predictor, name, size, settings)
                for name, size in zip(names, sizes, strict=False)
            ]
            found.append(np.concatenate(parts)[:, order])  # [n, K]
            self._log_fit(teacher, found[-1], data, num_labeled)
        is_labeled = np.arange(data.num_records) < num_labeled
        data.features[LABEL_WEIGHTS] = is_labeled.astype(np.float32)
        targets = data.features[SOFT_TARGETS] = self._targets(found)
        logging.info(
            "Learning from %s rows with a label and %s without",
            f"{num_labeled:,}",
            f"{data.num_records - num_labeled:,}",
        )
        is_regression = self.task.labels is None
        distillation.log_loss(
            self.options,
            None if is_regression else distillation.entropy(targets).mean(),
        )
        return data

    def _outputs(
        self,
        teacher: Teacher,
        predictor: Callable[[], prediction.Predictor],
        name: str,
        size: int,
        settings: RunSettings,
    ) -> np.ndarray:
        """Return a teacher's logits for the texts of a file, [n, K].

        Args:
            teacher: to ask.
            predictor: loads it, where its outputs have to be computed.
            name: train or transfer.
            size: n.
            settings: flags of the command.
        """
        split = self.task.train
        if name == "transfer":
            fingerprint = self.texts.fingerprint()
        else:
            fingerprint = self.records.file_fingerprint(split)

        def compute() -> np.ndarray:
            texts: Iterable[classifier_data.Example] = self.texts
            if name == "train":
                texts = self.records.examples(split)
            return teachers.predict(
                predictor(),
                _inputs(texts, teacher.source),
                settings.predict_batch_size,
                size,
            )

        fingerprint["dtype"] = settings.training.dtype
        return teachers.kept_outputs(
            self.records.cache, name, teacher, fingerprint, compute
        )

    def _predictor(
        self, teacher: Teacher, loaded: LoadedModel, settings: RunSettings
    ) -> prediction.Predictor:
        """Return a teacher as a function of records."""
        source, training = teacher.source, settings.training
        labels = self.task.labels

        def create_model() -> modeling.TaskModel:
            return classifier_model.BertForSequenceClassification(
                source.config,
                labels and len(labels),
                training.dtype,
                source.bilstm,
            )

        return teachers.create_predictor(
            teacher,
            loaded.predictor.strategy,
            create_model,
            "^(bert|bilstm|output_)",
            lambda model, batch: {"logits": model(batch)},
            training.jit_compile,
        )

    def _targets(self, logits: list[np.ndarray]) -> np.ndarray:
        """Return the mean of what teachers answer, [n, K]; numbers [n, 1]."""
        if self.task.labels is None:
            return np.mean(logits, axis=0, dtype=np.float32)
        return distillation.mean_probabilities(logits, self.options.temperature)

    # --- What is logged ------------------------------------------------------

    def _log_fit(
        self,
        teacher: Teacher,
        logits: np.ndarray,
        data: in_memory.ShortRecords,
        num_labeled: int,
    ) -> None:
        """Log how a teacher's answers fit the labels: a wrong one shows."""
        labels = data.features["label_ids"][:num_labeled]
        answers = logits[:num_labeled]
        if self.task.labels is None:
            error = float(np.mean((answers[:, 0] - labels) ** 2))
            fit = f"squared error {error:.4f}"
        else:
            fit = f"accuracy {np.mean(answers.argmax(-1) == labels):.4f}"
        logging.info(
            "Teacher %s: %s on the %s training examples",
            teacher.source.prefix,
            fit,
            f"{num_labeled:,}",
        )


def _inputs(
    texts: Iterable[classifier_data.Example], source: ModelSource
) -> Iterator[in_memory.Examples]:
    """Yield the texts as a teacher reads them, a part at a time."""
    for part in classifier_records.in_parts(texts):
        features, _ = classifier_data.convert_examples(
            part, lambda label: 0.0, source.max_seq_length, source.tokenizer
        )
        yield in_memory.Examples({name: features[name] for name in _INPUTS})


# --- Objective ---------------------------------------------------------------


def objective(options: distillation.Options, is_regression: bool) -> Objective:
    """Return the objective of distillation; batches have its two features.

    Args:
        options: temperature and alpha.
        is_regression: whether targets and labels are numbers.
    """

    def num_rows(batch: Batch) -> tf.Tensor:
        return tf.reduce_sum(example_weights(batch, "label_ids"))

    def forward(
        model: classifier_model.BertForSequenceClassification,
        batch: Batch,
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> Sums:
        logits = model(batch, training, dropout_seed)  # [B, K]
        weights = example_weights(batch, "label_ids")  # [B]
        labeled = weights * batch[LABEL_WEIGHTS]  # [B]
        targets, labels = batch[SOFT_TARGETS], batch["label_ids"]
        if is_regression:
            squared = classifier_model.squared_error
            soft = squared(logits, targets[:, 0], weights)
            label = squared(logits, labels, labeled)
        else:
            soft = losses.soft_loss(
                logits, targets, options.temperature, weights
            )
            label = losses.classification_loss(logits, labels, labeled)
        sums = {
            "soft_loss": (soft.loss, soft.weight),
            "label_loss": (label.loss, label.weight),
            "tokens": classifier_model.num_tokens(batch),
        }
        if not is_regression:
            sums["agreement"] = (soft.correct, soft.weight)
            sums["accuracy"] = (label.correct, label.weight)
        return sums

    names = ["soft_loss", "label_loss", "tokens"]
    if not is_regression:
        names += ["agreement", "accuracy"]
    return distillation.objective(forward, num_rows, options, names)
