"""Distillation of taggers: each word learns what teachers answer for it.

Teachers cut the sentences into pieces and windows of their own. Every word has
one answer, at its first piece, so vocabularies and lengths may differ.
"""

from collections.abc import Sequence

from base import file_system

import numpy as np
import tensorflow as tf

import modeling
from checkpoints.model import Checkpoint
from extras.distillation import teachers
from extras.distillation.teachers import RUNNING, SOFT_TARGETS, Texts
from ops import losses
from records import in_memory
from records.streaming import Batch
from tasks.classifier import model as classifier_model
from tasks.ner import model as ner_model
from tasks.ner import windows as ner_windows
from tasks.ner.job import NerJob, word_outputs
from tasks.task import Model
from training.objective import Sums
from training.task_model import TaskModel


class TaggerDistillation(teachers.Distillation[NerJob]):
    """Teachers of a tagger; their answers are logits [words, K]."""

    task_name = "token_classification"

    @property
    def labels(self) -> Sequence[str]:
        """The tags."""
        return self.job.labels

    # --- Data ----------------------------------------------------------------

    def texts(self) -> list[Texts]:
        """Return the training file."""
        fingerprint = {
            "data": file_system.sha256(self.job.train.source),
            "columns": self.job.columns._asdict(),
        }
        return [Texts("train", fingerprint)]

    def answers(
        self,
        name: str,
        data: in_memory.ShortRecords,
        teacher: Checkpoint,
        run: Model,
    ) -> np.ndarray:
        """Return a teacher's logits for the words."""
        converter = ner_windows.Converter(
            teacher.tokenizer,
            self.labels,
            teacher.max_seq_length,
            bool(teacher.trained_for.document_context),
        )
        sentences = self.job.examples(self.job.train).sentences
        parts = list(converter(sentences))
        examples = in_memory.ShortRecords(
            {key: np.concatenate([p[key] for p in parts]) for key in parts[0]}
        )
        size = self.job.settings.predict_batch_size
        return word_outputs(run, examples, size, RUNNING)

    def fit(self, data: in_memory.ShortRecords, logits: np.ndarray) -> str:
        """Return the accuracy."""
        label_ids = data.features["label_ids"]  # [n, S]
        right = np.mean(logits.argmax(-1) == label_ids[label_ids >= 0])
        return f"accuracy {right:.4f} on the {len(logits):,} training words"

    def add_targets(
        self,
        data: in_memory.ShortRecords,
        logits: Sequence[np.ndarray],
    ) -> float:
        """Add the targets of the words, [n, S, K], 0 where there is none."""
        targets = teachers.mean_probabilities(logits, self.options.temperature)
        is_word = data.features["label_ids"] >= 0  # [n, S]
        soft = np.zeros([*is_word.shape, len(self.labels)], np.float32)
        soft[is_word] = targets
        data.features[SOFT_TARGETS] = soft
        data.sequences.append(SOFT_TARGETS)
        return float(teachers.entropy(targets).mean())

    # --- Loss ----------------------------------------------------------------

    def count(self, batch: Batch) -> tf.Tensor:
        """Return the number of words."""
        return tf.reduce_sum(ner_model.word_weights(batch))

    def sums(
        self,
        model: TaskModel,
        batch: Batch,
        seed: modeling.Seed,
    ) -> Sums:
        """Return losses and metrics, sums over words."""
        logits = model(batch, seed)  # [B, S, K]
        label = ner_model.word_loss(logits, batch)
        soft = losses.soft_loss(
            logits,
            batch[SOFT_TARGETS],
            self.options.temperature,
            ner_model.word_weights(batch),
        )
        return {
            "soft_loss": (soft.loss, soft.weight),
            "label_loss": (label.loss, label.weight),
            "agreement": (soft.correct, soft.weight),
            "accuracy": (label.correct, label.weight),
            "tokens": classifier_model.num_tokens(batch),
        }
