"""Distillation on SQuAD: starts and ends as teachers see them.

Targets are probabilities over the tokens of a window, so teachers read the
windows of the student: they need its vocabulary and casing.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import weight_files
from finetuning import distillation, teachers
from finetuning.distillation import SOFT_TARGETS
from finetuning.teachers import Teacher
from ops import losses
from records import cache as record_cache
from records import in_memory
from records.streaming import Batch
from tasks.job import LoadedModel
from tasks.settings import RunSettings
from tasks.source import ModelSource
from tasks.squad import model as squad_model
from training.objective import Objective, Sums, example_weights

_PART = 4096  # windows whose probabilities are computed at a time

_OF_TEXTS = ("vocabulary", "do_lower_case")  # of the fingerprint of a model


class SpanDistillation:
    """Adds what teachers answer to the training records of a student.

    Args:
        options: teachers and loss.
        source: of the student.
        is_version_2: whether questions may have no answer.
        cache: of the student's records.

    Attributes:
        objective: soft loss and label loss of starts and ends.

    Raises:
        UserError: a teacher cannot teach the task, or reads other tokens.
    """

    def __init__(
        self,
        options: distillation.Options,
        source: ModelSource,
        is_version_2: bool,
        cache: record_cache.RecordCache,
    ):
        self.options, self.source, self.cache = options, source, cache
        self.objective = objective(options)
        self.teachers = [
            self._find(path, is_version_2) for path in options.teachers
        ]

    def _find(self, path: str, is_version_2: bool) -> Teacher:
        """Return a teacher that fits the task and the student."""
        length = self.source.max_seq_length
        teacher = teachers.find(path, length)
        teachers.check_head(teacher, "cls/squad/output_weights", None)
        taught = teacher.source.trained_for.version_2_with_negative
        if taught not in (None, is_version_2):
            raise teacher.error(
                f"was fine-tuned with version_2_with_negative={taught}, "
                f"this run has {is_version_2}"
            )
        own = record_cache.text_fingerprint(self.source.tokenizer, length)
        for name in _OF_TEXTS:
            if teacher.fingerprint[name] != own[name]:
                raise teacher.error(
                    f"has another {name} than the student: the teacher's "
                    "probabilities are of tokens, which have to be the same; "
                    "use models of one vocabulary and casing"
                )
        config = teacher.source.config
        if config.max_position_embeddings < length:
            raise teacher.error(
                f"has {config.max_position_embeddings} positions, fewer than "
                f"--max_seq_length={length}"
            )
        return teacher

    def fingerprint(self) -> dict[str, Any]:
        """Return what must not change when a run goes on."""
        return self.options.fingerprint([t.digest for t in self.teachers])

    # --- Data ----------------------------------------------------------------

    def train_data(
        self,
        data: in_memory.ShortRecords,
        fingerprint: dict[str, Any],
        loaded: LoadedModel,
        settings: RunSettings,
    ) -> in_memory.ShortRecords:
        """Return the training records with soft targets [n, S, 2].

        Args:
            data: the records of the training files.
            fingerprint: everything that they depend on.
            loaded: the student; its strategy runs the teachers too.
            settings: flags of the command.
        """
        found = []
        for teacher in self.teachers:
            found.append(
                teachers.kept_outputs(
                    self.cache,
                    "train",
                    teacher,
                    {**fingerprint, "dtype": settings.training.dtype},
                    lambda t=teacher: _outputs(t, data, loaded, settings),
                )
            )
            _log_fit(teacher, found[-1], data)
        targets = np.zeros([*data.features["input_mask"].shape, 2], np.float32)
        entropy = 0.0
        for at in range(0, len(targets), _PART):
            part = slice(at, at + _PART)
            # Padding has the probability 0, as in the loss of the labels.
            padding = data.features["input_mask"][part, :, None] == 0
            logits = [np.where(padding, -np.inf, x[part]) for x in found]
            probs = distillation.mean_probabilities(
                [x.transpose(0, 2, 1) for x in logits],  # [n, 2, S]
                self.options.temperature,
            )
            targets[part] = probs.transpose(0, 2, 1)
            entropy += distillation.entropy(probs).sum()
        data.features[SOFT_TARGETS] = targets
        data.sequences.append(SOFT_TARGETS)
        # The loss is the mean of start and end.
        distillation.log_loss(self.options, entropy / (2 * len(targets)))
        return data


def _outputs(
    teacher: Teacher,
    data: in_memory.ShortRecords,
    loaded: LoadedModel,
    settings: RunSettings,
) -> np.ndarray:
    """Return a teacher's logits for the tokens of windows, [n, S, 2]."""
    source, training = teacher.source, settings.training

    def create_model() -> modeling.TaskModel:
        return squad_model.BertForQuestionAnswering(
            source.config, training.dtype, source.bilstm
        )

    predictor = teachers.create_predictor(
        teacher,
        loaded.predictor.strategy,
        create_model,
        f"{weight_files.ENCODER}|^(bilstm|cls/squad)/",
        lambda model, batch: {"logits": tf.stack(tf.unstack(model(batch)), -1)},
        training.jit_compile,
    )
    size = settings.predict_batch_size
    logits = predictor(data, size, "Running the teacher")["logits"]
    # As long as the longest batch.
    missing = data.full_length - logits.shape[1]
    return np.pad(logits, [(0, 0), (0, missing), (0, 0)])


def _log_fit(
    teacher: Teacher, logits: np.ndarray, data: in_memory.ShortRecords
) -> None:
    """Log how a teacher's answers fit the labels: a wrong one shows."""
    is_padding = data.features["input_mask"] == 0  # [n, S]
    right = []
    for place, name in enumerate(("start_positions", "end_positions")):
        best = np.where(is_padding, -np.inf, logits[:, :, place]).argmax(1)
        right.append(np.mean(best == data.features[name]))
    logging.info(
        "Teacher %s: accuracy of starts %.4f, of ends %.4f in the %s training "
        "windows",
        teacher.source.prefix,
        *right,
        f"{data.num_records:,}",
    )


# --- Objective ---------------------------------------------------------------


def objective(options: distillation.Options) -> Objective:
    """Return the objective of distillation; means of starts and ends."""

    def num_rows(batch: Batch) -> tf.Tensor:
        return tf.reduce_sum(example_weights(batch, "start_positions"))

    def forward(
        model: squad_model.BertForQuestionAnswering,
        batch: Batch,
        training: bool,
        dropout_seed: tf.Tensor | None,
    ) -> Sums:
        logits = model(batch, training, dropout_seed)  # [2, B, S]
        logits = squad_model.without_padding(logits, batch)
        start, end = squad_model.span_losses(logits, batch)
        weights = example_weights(batch, "start_positions")  # [B]
        soft = losses.soft_loss(
            logits,
            tf.transpose(batch[SOFT_TARGETS], [2, 0, 1]),  # [2, B, S]
            options.temperature,
            tf.stack([weights, weights]),
        )
        rows = start.weight
        return {
            "soft_loss": (soft.loss / 2.0, rows),
            "label_loss": ((start.loss + end.loss) / 2.0, rows),
            "agreement": (soft.correct, soft.weight),
            "start_accuracy": (start.correct, rows),
            "end_accuracy": (end.correct, rows),
            "tokens": (
                tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32)),
                rows,
            ),
        }

    names = ("soft_loss", "label_loss", "agreement")
    names += ("start_accuracy", "end_accuracy", "tokens")
    return distillation.objective(forward, num_rows, options, names)
