"""What each task is to the training loop: pure functions of model and batch.

Apart from the runners, since benchmark.py times the same functions.
"""

from collections.abc import Mapping

import tensorflow as tf

import heads
import modeling
import training
from input_pipeline import Batch


def _pretraining_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return what the two losses of this batch are divided by."""
    weights = _example_weights(batch, "next_sentence_labels")
    return {
        "masked_lm_loss": tf.reduce_sum(batch["masked_lm_weights"]),
        "next_sentence_loss": tf.reduce_sum(weights),
    }


def _example_weights(batch: Batch, labels: str) -> tf.Tensor:
    """1 for real examples, 0 for those that fill an evaluation batch. [B]"""
    ones = tf.ones(tf.shape(batch[labels]), tf.float32)
    return batch.get("example_weights", ones)


def _pretraining_sums(
    model: heads.BertForPreTraining,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> training.Sums:
    """Losses and metrics of a batch, as sums and counts."""
    masked, following = model.losses(batch, training, dropout_seed)
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    return {
        "masked_lm_loss": (masked.loss, masked.weight),
        "masked_lm_accuracy": (masked.correct, masked.weight),
        "next_sentence_loss": (following.loss, following.weight),
        "next_sentence_accuracy": (following.correct, following.weight),
        "tokens": (tokens, following.weight),
    }


def _pretraining_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """The mean masked LM loss plus the mean next sentence loss (A.2).

    The original adds 1e-5 to the count of masked positions, so that a batch
    without any has loss 0.
    """
    return (
        sums["masked_lm_loss"] / (weights["masked_lm_loss"] + 1e-5)
        + sums["next_sentence_loss"] / (weights["next_sentence_loss"])
    )


PRETRAINING = training.Task(
    loss_weights=_pretraining_weights,
    forward=_pretraining_sums,
    total_loss=_pretraining_loss,
    names=(
        "masked_lm_loss",
        "masked_lm_accuracy",
        "next_sentence_loss",
        "next_sentence_accuracy",
        "tokens",
    ),
)


# --- One loss: sentences and pairs, choices, words ---------------------------


def _sentence_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return how many examples the loss of this batch is a mean over."""
    weights = _example_weights(batch, "label_ids")
    return {"label_loss": tf.reduce_sum(weights)}


def _question_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return how many questions, whose choices are rows [B, C]."""
    rows = tf.shape(batch["label_ids"])[0]
    return {"label_loss": tf.cast(rows, tf.float32)}


def _word_weights(batch: Batch) -> dict[str, tf.Tensor]:
    """Return how many words; other positions have negative labels."""
    is_word = tf.cast(batch["label_ids"] >= 0, tf.float32)  # [B, S]
    return {"label_loss": tf.reduce_sum(is_word)}


def _label_sums(
    model: modeling.TaskModel,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> training.Sums:
    """The loss and, for classes, the accuracy of a batch."""
    label = model.loss(batch, training, dropout_seed)
    mask = tf.cast(batch["input_mask"], tf.float32)
    rows = tf.cast(tf.shape(mask)[0], tf.float32)
    sums = {
        "label_loss": (label.loss, label.weight),
        "tokens": (tf.reduce_sum(mask), rows),
    }
    if not getattr(model, "is_regression", False):
        sums["accuracy"] = (label.correct, label.weight)
    return sums


def _mean_label_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    return sums["label_loss"] / weights["label_loss"]


CLASSIFICATION = training.Task(
    loss_weights=_sentence_weights,
    forward=_label_sums,
    total_loss=_mean_label_loss,
    names=("label_loss", "accuracy", "tokens"),
)
REGRESSION = CLASSIFICATION._replace(names=("label_loss", "tokens"))
MULTIPLE_CHOICE = CLASSIFICATION._replace(loss_weights=_question_weights)
WORD_CLASSIFICATION = CLASSIFICATION._replace(loss_weights=_word_weights)


# --- Answers in a paragraph -------------------------------------------------


def _span_weights(batch: Batch) -> dict[str, tf.Tensor]:
    total = tf.reduce_sum(_example_weights(batch, "start_positions"))
    return {"start_loss": total, "end_loss": total}


def _span_sums(
    model: heads.BertForQuestionAnswering,
    batch: Batch,
    training: bool,
    dropout_seed: tf.Tensor | None,
) -> training.Sums:
    """Losses and accuracies of starts and ends."""
    start, end = model.losses(batch, training, dropout_seed)
    tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
    return {
        "start_loss": (start.loss, start.weight),
        "end_loss": (end.loss, end.weight),
        "start_accuracy": (start.correct, start.weight),
        "end_accuracy": (end.correct, end.weight),
        "tokens": (tokens, start.weight),
    }


def _span_loss(sums: Mapping, weights: Mapping) -> tf.Tensor:
    """The mean of the two means."""
    start = sums["start_loss"] / weights["start_loss"]
    return (start + sums["end_loss"] / weights["end_loss"]) / 2.0


QUESTION_ANSWERING = training.Task(
    loss_weights=_span_weights,
    forward=_span_sums,
    total_loss=_span_loss,
    names=(
        "start_loss",
        "end_loss",
        "start_accuracy",
        "end_accuracy",
        "tokens",
    ),
)
