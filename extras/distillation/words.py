"""Distillation of taggers: each word learns what teachers answer for it.

Teachers cut the sentences into pieces and windows of their own. Every word has
one answer, at its first piece, so vocabularies and lengths may differ.
"""

from collections.abc import Iterable, Iterator

from base import tables

import numpy as np
import tensorflow as tf

from extras.distillation import students
from extras.distillation.answers import Line, key_of, logits_of
from extras.distillation.students import SOFT_TARGETS
from ops import losses
from records.in_memory import ShortRecords
from records.streaming import Batch
from tasks.ner.job import NerJob
from tasks.ner.model import word_weights


class TaggerDistillation(students.Distillation[NerJob]):
    """What a tagger learns; the logits are [words, K]."""

    def entries(self, line: Line, at: str) -> Iterator[tuple[str, np.ndarray]]:
        """Yield a sentence and the logits of its words, [words, K]."""
        words = tables.require_strings(line, "words", at)
        labels = self.job.labels
        logits = logits_of(line, at, labels, labels, (len(words),))
        yield key_of(tokens=words), logits

    def keys(self, data: ShortRecords, answered: Iterable[str]) -> list[str]:
        """Return the sentences."""
        sentences = self.job.examples(self.job.train).sentences
        return [key_of(tokens=sentence.words) for sentence in sentences]

    def truths(self, data: ShortRecords) -> np.ndarray:
        """Return the tags of all words."""
        label_ids = data.features["label_ids"]  # [n, S]
        return label_ids[label_ids >= 0].astype(float)

    def add_targets(self, data: ShortRecords, targets: np.ndarray) -> None:
        """Add the targets of the words, [n, S, K], 0 where there is none."""
        is_word = data.features["label_ids"] >= 0  # [n, S]
        soft = np.zeros([*is_word.shape, targets.shape[-1]], np.float32)
        soft[is_word] = targets
        super().add_targets(data, soft)
        data.sequences.append(SOFT_TARGETS)

    def soft_loss(self, logits: tf.Tensor, batch: Batch) -> losses.Loss:
        """Return the loss of the words."""
        return losses.soft_loss(
            logits, batch[SOFT_TARGETS], self.temperature, word_weights(batch)
        )
