"""Distillation of taggers: each word learns what teachers answer for it.

Teachers cut the sentences into pieces and windows of their own. Every word has
one answer, at its first piece, so vocabularies and lengths may differ.
"""

from collections.abc import Sequence
from typing import Any

from base import file_system

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import weight_files
from finetuning import distillation, teachers
from finetuning.distillation import SOFT_TARGETS
from finetuning.teachers import Teacher
from ops import losses
from records import in_memory
from records.streaming import Batch
from tasks.classifier import model as classifier_model
from tasks.job import LoadedModel
from tasks.ner import data as ner_data
from tasks.ner import model as ner_model
from tasks.ner import records as ner_records
from tasks.ner import windows as ner_windows
from tasks.settings import RunSettings
from training.objective import Objective, Sums


class TaggerDistillation:
    """Adds what teachers answer to the training records of a tagger.

    Args:
        options: teachers and loss.
        labels: names of the classes, K.
        records: of the student.

    Attributes:
        objective: soft loss and label loss of words.

    Raises:
        UserError: a teacher cannot teach the task.
    """

    def __init__(
        self,
        options: distillation.Options,
        labels: Sequence[str],
        records: ner_records.NerRecords,
    ):
        self.options, self.labels, self.records = options, labels, records
        self.objective = objective(options)
        self.teachers = []
        self._orders = []  # [K] of each teacher, see teachers.label_order
        for path in options.teachers:
            teacher = teachers.find(path, records.max_seq_length)
            count, _ = teachers.check_head(
                teacher, "output_weights", "token_classification"
            )
            self._orders.append(teachers.label_order(teacher, labels, count))
            self.teachers.append(teacher)

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run goes on."""
        return self.options.fingerprint([t.digest for t in self.teachers])

    # --- Data ----------------------------------------------------------------

    def train_data(
        self,
        data: in_memory.ShortRecords,
        file: ner_data.File,
        loaded: LoadedModel,
        settings: RunSettings,
    ) -> in_memory.ShortRecords:
        """Return the training records with soft targets [n, S, K].

        Args:
            data: the records of the training file.
            file: its sentences.
            loaded: the student; its strategy runs the teachers too.
            settings: flags of the command.
        """
        label_ids = data.features["label_ids"]  # [n, S]
        is_word = label_ids >= 0
        found = []
        for teacher, order in zip(self.teachers, self._orders, strict=True):
            logits = self._outputs(teacher, file, loaded, settings)[:, order]
            found.append(logits)  # [words, K]
            right = np.mean(logits.argmax(-1) == label_ids[is_word])
            logging.info(
                "Teacher %s: accuracy %.4f on the %s training words",
                teacher.source.prefix,
                right,
                f"{len(logits):,}",
            )
        targets = distillation.mean_probabilities(
            found, self.options.temperature
        )
        entropy = distillation.entropy(targets).mean()
        distillation.log_loss(self.options, entropy)
        soft = np.zeros([*is_word.shape, len(self.labels)], np.float32)
        soft[is_word] = targets
        data.features[SOFT_TARGETS] = soft
        data.sequences.append(SOFT_TARGETS)
        return data

    def _outputs(
        self,
        teacher: Teacher,
        file: ner_data.File,
        loaded: LoadedModel,
        settings: RunSettings,
    ) -> np.ndarray:
        """Return a teacher's logits for the words of a file, [words, K]."""
        source, training = teacher.source, settings.training

        def create_model() -> modeling.TaskModel:
            return ner_model.BertForTokenClassification(
                source.config, len(self.labels), training.dtype, source.bilstm
            )

        def compute() -> np.ndarray:
            predictor = teachers.create_predictor(
                teacher,
                loaded.predictor.strategy,
                create_model,
                f"{weight_files.ENCODER}|^(bilstm|output_)",
                lambda model, batch: {"words": model(batch)},
                training.jit_compile,
            )
            converter = ner_windows.Converter(
                source.tokenizer,
                self.labels,
                source.max_seq_length,
                bool(source.trained_for.document_context),
            )
            parts = list(converter(file.sentences))
            features = {
                n: np.concatenate([p[n] for p in parts]) for n in parts[0]
            }
            return ner_records.word_outputs(
                predictor,
                in_memory.Examples(features),
                settings.predict_batch_size,
                "Running the teacher",
            )

        fingerprint = {
            "data": file_system.sha256(file.path),
            "columns": self.records.columns._asdict(),
            "dtype": training.dtype,
        }
        return teachers.kept_outputs(
            self.records.cache, "train", teacher, fingerprint, compute
        )


# --- Objective ---------------------------------------------------------------


def objective(options: distillation.Options) -> Objective:
    """Return the objective of distillation; a mean over words."""

    def num_words(batch: Batch) -> tf.Tensor:
        return tf.reduce_sum(ner_model.word_weights(batch))

    def forward(
        model: ner_model.BertForTokenClassification,
        batch: Batch,
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> Sums:
        logits = model(batch, training, dropout_seed)  # [B, S, K]
        label = ner_model.word_loss(logits, batch)
        soft = losses.soft_loss(
            logits,
            batch[SOFT_TARGETS],
            options.temperature,
            ner_model.word_weights(batch),
        )
        return {
            "soft_loss": (soft.loss, soft.weight),
            "label_loss": (label.loss, label.weight),
            "agreement": (soft.correct, soft.weight),
            "accuracy": (label.correct, label.weight),
            "tokens": classifier_model.num_tokens(batch),
        }

    names = ("soft_loss", "label_loss", "agreement", "accuracy", "tokens")
    return distillation.objective(forward, num_words, options, names)
