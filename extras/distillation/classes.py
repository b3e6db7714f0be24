"""Distillation of classifiers and regressions, also on texts without labels."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from base import logs, tables
from base.errors import UserError

import numpy as np
import tensorflow as tf

from extras.distillation import students
from extras.distillation.answers import Line, key_of, logits_of, numbers
from extras.distillation.students import LABEL_WEIGHTS, SOFT_TARGETS
from ops import losses
from records.in_memory import ShortRecords
from records.streaming import Batch
from tasks.classifier.job import ClassifierJob
from tasks.classifier.model import squared_error
from tasks.classifier.task_files import Example
from tasks.job import DataSet
from tasks.settings import DistillationFlags
from training.objective import example_weights


class ClassifierDistillation(students.Distillation[ClassifierJob]):
    """What a classifier or regression learns; the logits are [n, K].

    With `learn_all_answers`, texts of the answers that are not in the training
    file are learned, too.
    """

    def __init__(self, job: ClassifierJob, options: DistillationFlags):
        super().__init__(job, options)
        self.text_names = job.task.text_names
        self.learns_numbers = job.files.labels is None
        if self.learns_numbers and self.temperature != 1.0:
            raise UserError(
                f"--distillation_temperature={self.temperature:g} is for "
                "classes; this task is a regression: leave it out"
            )

    def fingerprint(self) -> dict[str, Any]:
        """Return the answers, and whether all are learned."""
        learns_all = self.options.learn_all_answers
        return {**super().fingerprint(), "learn_all_answers": learns_all}

    def entries(self, line: Line, at: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the text, or the pair, and its logits [1, K]."""
        texts = {n: tables.require(line, n, str, at) for n in self.text_names}
        if self.learns_numbers:
            value = tables.require(line, "value", (int, float), at)
            yield key_of(**texts), numbers([[value]], (1, 1), at)
        else:
            files = self.job.files
            logits = logits_of(line, at, files.labels, files.names)
            yield key_of(**texts), logits[None]

    def keys(self, data: ShortRecords, answered: Iterable[str]) -> list[str]:
        """Return the training examples, and the texts without labels.

        Their records are added. A fold that is held out is not among them.
        """
        keys = self._keys(self.job.read(self.job.train))
        others: list[str] = []
        if self.options.learn_all_answers:
            known = {*keys}
            for dev in self.job.dev:
                known.update(self._keys(dev.source.examples or ()))
            others = [key for key in answered if key not in known]
        if others:
            text = "\n".join(others).encode()
            fingerprint = {
                "texts": hashlib.sha256(text).hexdigest(),
                **self.job.text_fingerprint(),
                "is_regression": self.learns_numbers,
            }
            examples = [
                Example(f"unlabeled-{n}", *json.loads(key).values())
                for n, key in enumerate(others)
            ]
            unlabeled = DataSet("unlabeled", "unlabeled", None)
            data.append(
                self.job.cache.records(
                    unlabeled.name,
                    fingerprint,
                    lambda path: self.job.write_records(
                        path, unlabeled, examples
                    ),
                )
            )
        data.features[LABEL_WEIGHTS] = np.repeat(
            np.array([1, 0], np.float32), [len(keys), len(others)]
        )
        logs.say(
            "Learning from %s rows with a label and %s without",
            f"{len(keys):,}",
            f"{len(others):,}",
        )
        return keys + others

    def _keys(self, examples: Iterable[Example]) -> list[str]:
        names = self.text_names
        return [
            key_of(**dict(zip(names, (x.text_a, x.text_b or ""), strict=False)))
            for x in examples
        ]

    def truths(self, data: ShortRecords) -> np.ndarray:
        """Return the labels [n]."""
        is_labeled = data.features[LABEL_WEIGHTS] > 0
        return np.where(is_labeled, data.features["label_ids"], np.nan)

    def soft_loss(self, logits: tf.Tensor, batch: Batch) -> losses.Loss:
        """Return the loss of the rows, with and without a label."""
        targets = batch[SOFT_TARGETS]  # [B, K]
        weights = example_weights(batch, "label_ids")  # [B]
        if self.learns_numbers:
            return squared_error(logits, targets[:, 0], weights)
        return losses.soft_loss(logits, targets, self.temperature, weights)
