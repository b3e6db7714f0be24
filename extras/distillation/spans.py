"""Distillation on SQuAD: starts and ends as teachers see them.

Targets are probabilities over the tokens of a window, so teachers read the
windows of the student: they need its vocabulary and casing.
"""

from collections.abc import Sequence

from base import progress

import numpy as np
import tensorflow as tf

import modeling
from checkpoints.model import Checkpoint
from extras.distillation import teachers
from extras.distillation.teachers import RUNNING, SOFT_TARGETS, Texts
from ops import losses
from records import in_memory
from records.streaming import Batch
from tasks import predict
from tasks.rows import text_fingerprint
from tasks.squad import model as squad_model
from tasks.squad.job import SquadJob
from tasks.task import Model
from training.objective import Sums, example_weights
from training.task_model import TaskModel

_PART = 4096  # windows whose probabilities are computed at a time


class SpanDistillation(teachers.Distillation[SquadJob]):
    """Teachers of spans; their answers are logits [n, S, 2]."""

    task_name = "question_answering"
    names = (
        "soft_loss",
        "label_loss",
        "agreement",
        "start_accuracy",
        "end_accuracy",
        "tokens",
    )

    def problem(self, teacher: Checkpoint, head: Sequence[int]) -> str | None:
        """Compare the version of SQuAD, the vocabulary and the length."""
        length = self.job.source.max_seq_length
        is_version_2 = self.job.is_version_2
        taught = teacher.trained_for.version_2_with_negative
        if taught not in (None, is_version_2):
            return (
                f"was fine-tuned with version_2_with_negative={taught}, "
                f"this run has {is_version_2}"
            )
        theirs, own = (
            text_fingerprint(tokenizer, length)
            for tokenizer in (teacher.tokenizer, self.job.tokenizer)
        )
        for name in theirs | own:
            if theirs.get(name) != own.get(name):
                return (
                    f"has another {name} than the student: the teacher's "
                    "probabilities are of tokens, which have to be the same; "
                    "use models of one vocabulary and casing"
                )
        positions = teacher.config.max_position_embeddings
        if positions < length:
            return (
                f"has {positions} positions, fewer than "
                f"--max_seq_length={length}"
            )
        return None

    # --- Data ----------------------------------------------------------------

    def texts(self) -> list[Texts]:
        """Return the windows of the training files."""
        return [Texts("train", self.job.data_fingerprint())]

    def answers(
        self,
        name: str,
        data: in_memory.ShortRecords,
        teacher: Checkpoint,
        run: Model,
    ) -> np.ndarray:
        """Return a teacher's logits for the tokens of the windows."""
        size = self.job.settings.predict_batch_size
        with progress.Bar(data.num_records, "records", RUNNING) as bar:
            found = predict.run_records(run, data, size, bar.update)
        logits = np.stack([found["start_logits"], found["end_logits"]], -1)
        # The logits are only as long as the longest batch.
        missing = data.full_length - logits.shape[1]
        return np.pad(logits, [(0, 0), (0, missing), (0, 0)])

    def fit(self, data: in_memory.ShortRecords, logits: np.ndarray) -> str:
        """Return the accuracy of starts and ends."""
        is_padding = data.features["input_mask"] == 0  # [n, S]
        right = []
        for place, name in enumerate(("start_positions", "end_positions")):
            best = np.where(is_padding, -np.inf, logits[:, :, place]).argmax(1)
            right.append(np.mean(best == data.features[name]))
        return (
            f"accuracy of starts {right[0]:.4f}, of ends {right[1]:.4f} in the "
            f"{data.num_records:,} training windows"
        )

    def add_targets(
        self,
        data: in_memory.ShortRecords,
        logits: Sequence[np.ndarray],
    ) -> float:
        """Add the targets of starts and ends, [n, S, 2]."""
        mask = data.features["input_mask"]  # [n, S]
        targets = np.zeros([*mask.shape, 2], np.float32)
        entropy = 0.0
        for at in range(0, len(targets), _PART):
            part = slice(at, at + _PART)
            # Padding has the probability 0, as in the loss of the labels.
            is_padding = mask[part, None, :] == 0
            probs = teachers.mean_probabilities(
                [
                    np.where(is_padding, -np.inf, x[part].transpose(0, 2, 1))
                    for x in logits
                ],
                self.options.temperature,
            )  # [n, 2, S]
            targets[part] = probs.transpose(0, 2, 1)
            entropy += float(teachers.entropy(probs).sum())
        data.features[SOFT_TARGETS] = targets
        data.sequences.append(SOFT_TARGETS)
        return entropy / (2 * len(targets))  # the mean of starts and ends

    # --- Loss ----------------------------------------------------------------

    def count(self, batch: Batch) -> tf.Tensor:
        """Return the number of windows."""
        return tf.reduce_sum(example_weights(batch, "start_positions"))

    def sums(
        self,
        model: TaskModel,
        batch: Batch,
        seed: modeling.Seed,
    ) -> Sums:
        """Return losses, means of starts and ends, and metrics."""
        logits = model(batch, seed)  # [2, B, S]
        logits = squad_model.without_padding(logits, batch)
        start, end = squad_model.span_losses(logits, batch)
        weights = example_weights(batch, "start_positions")  # [B]
        soft = losses.soft_loss(
            logits,
            tf.transpose(batch[SOFT_TARGETS], [2, 0, 1]),  # [2, B, S]
            self.options.temperature,
            tf.stack([weights, weights]),
        )
        rows = start.weight
        tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
        return {
            "soft_loss": (soft.loss / 2.0, rows),
            "label_loss": ((start.loss + end.loss) / 2.0, rows),
            "agreement": (soft.correct, soft.weight),
            "start_accuracy": (start.correct, rows),
            "end_accuracy": (end.correct, rows),
            "tokens": (tokens, rows),
        }
