"""The model for sentences and pairs, its objective, and its graph.

As in section 4.1 of the paper, the final vector of [CLS] (see
modeling.class_vectors), passed through the pooler, represents the whole input.
One new layer, output_weights [K, H], turns it into K scores. With a BiLSTM
(table 5) the final states of its two directions represent the input. An input
has one of K classes, any number of K labels, or a number.
"""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

import modeling
from modeling import Seed
from ops import losses
from ops import windows as ops_windows
from records.streaming import Batch
from tasks.classifier.task import Classification
from tasks.graph import Outputs, TaskGraph
from tasks.heads import (
    ACTIVATIONS,
    CLASSIFICATION,
    HeadModel,
    label_sums,
    num_tokens,
)
from tasks.settings import bilstm_in
from training.objective import Objective, Sums, example_weights
from training.task_model import TaskModel


class BertForSequenceClassification(HeadModel):
    """An encoder and one output vector per class, on the pooled output.

    With a BiLSTM the output vectors are on its final states, [B, 2 * U] instead
    of [B, H].

    Args:
        config: the encoder's configuration.
        num_outputs: K; None: a regression, which has one output.
        *args: dtype and bilstm_size, see HeadModel.
        windows: how long rows are read; their outputs are pooled.
        activation: of a regression, a key of heads.ACTIVATIONS.
        multi_label: whether each label is a question of its own.
    """

    def __init__(
        self,
        config: modeling.BertConfig,
        num_outputs: int | None = 1,
        *args: Any,
        windows: ops_windows.Windowing | None = None,
        activation: str | None = None,
        multi_label: bool = False,
        **kwargs: Any,
    ):
        super().__init__(config, num_outputs or 1, *args, **kwargs)
        self.uses_pooler = self.bilstm is None
        self.is_regression = num_outputs is None
        self.activation = ACTIVATIONS[activation]
        self.windows, self.multi_label = windows, multi_label

    @classmethod
    def for_task(
        cls, task: Classification, dtype: str
    ) -> "BertForSequenceClassification":
        """Return a new model of a task, with a vector for each class."""
        trained_for = task.checkpoint.trained_for
        return cls(
            task.checkpoint.config,
            task.labels and len(task.labels),
            dtype,
            bilstm_in(trained_for),
            windows=task.checkpoint.windows,
            activation=trained_for.output_activation,
            multi_label=task.multi_label,
        )

    def __call__(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> tf.Tensor:
        """Return float32 logits [B, K]; the number [B, 1] of a regression."""
        rows, is_there = ops_windows.split(features, self.windows)
        output = self.bert(**self.encoder_inputs(rows, seed))
        logits = self.project(self.text_vectors(output, rows, seed))
        logits = ops_windows.pooled(logits, is_there, self.windows)
        return self.activation(logits) if self.is_regression else logits

    def outputs(self, features: dict[str, tf.Tensor]) -> Outputs:
        """Return logits and probabilities [B, K]; the value [B] of a number."""
        logits = self(features)
        if self.is_regression:
            return {"logits": logits, "value": logits[:, 0]}
        function = tf.sigmoid if self.multi_label else tf.nn.softmax
        return {"logits": logits, "probabilities": function(logits)}

    def loss(
        self,
        logits: tf.Tensor,
        features: dict[str, tf.Tensor],
        positive_weights: tf.Tensor | float = 1.0,
    ) -> losses.Loss:
        """Return the cross entropy, or the squared error of a regression.

        That of any number of labels is binary; `correct` counts the examples
        all of whose labels, 0 and 1, are right, where a label is predicted from
        a probability of 0.5 on. The entropy of a label that an example has is
        multiplied by its weight in positive_weights [K]. Features are as in the
        records, with label_ids [B]; `example_weights` [B] are 0 for rows that
        only fill a batch.
        """
        labels = features["label_ids"]
        weights = example_weights(features, "label_ids")  # [B]
        if self.multi_label:
            labels = tf.cast(labels, tf.float32)
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits)
            entropy *= tf.where(labels > 0, positive_weights, 1.0)  # [B, K]
            entropy = tf.reduce_mean(entropy, -1)  # [B], over the labels
            is_right = tf.reduce_all((logits >= 0) == (labels > 0), -1)  # [B]
            return losses.Loss.of_rows(entropy, weights, is_right)
        if self.is_regression:
            return squared_error(logits, labels, weights)
        return losses.classification_loss(logits, labels, weights)


def squared_error(
    outputs: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> losses.Loss:
    """Return the weighted squared error of [B, 1]; `correct` is 0."""
    errors = tf.square(outputs[:, 0] - labels)  # [B]
    return losses.Loss.of_rows(errors, weights, tf.zeros_like(weights))


# --- Objective ---------------------------------------------------------------


def label_objective(
    label_smoothing: float, class_weights: Sequence[float]
) -> Objective:
    """Return the objective of classes whose labels are smoothed or weighted.

    The target of a label is 1 - e + e / K, that of the K - 1 others e / K, with
    e the label_smoothing (Szegedy et al., arXiv:1512.00567, section 7). An
    example counts as much as the weight of its class, in the sum of the losses
    and in what it is divided by. The accuracy is of plain labels.
    """
    num_labels = len(class_weights)
    factors = tf.constant(class_weights, tf.float32)  # [K]

    def weights_of(batch: Batch) -> tf.Tensor:
        labels = tf.cast(batch["label_ids"], tf.int32)
        return example_weights(batch, "label_ids") * tf.gather(factors, labels)

    def forward(model: TaskModel, batch: Batch, seed: Seed) -> Sums:
        logits = model(batch, seed)  # [B, K]
        plain = model.loss(logits, batch)
        other = label_smoothing / num_labels
        targets = tf.one_hot(
            tf.cast(batch["label_ids"], tf.int32),
            num_labels,
            on_value=1.0 - label_smoothing + other,
            off_value=other,
        )  # [B, K]
        found = losses.soft_loss(logits, targets, 1.0, weights_of(batch))
        return {
            "label_loss": (found.loss, found.weight),
            "accuracy": (plain.correct, plain.weight),
            "tokens": num_tokens(batch),
        }

    return CLASSIFICATION._replace(
        loss_weights=lambda b: {"label_loss": tf.reduce_sum(weights_of(b))},
        forward=forward,
    )


def positives_objective(weights: Sequence[float]) -> Objective:
    """Return the objective of K labels, with a weight for positives of each."""
    forward = functools.partial(
        label_sums, positive_weights=tf.constant(weights, tf.float32)
    )
    return CLASSIFICATION._replace(forward=forward)


REGRESSION = CLASSIFICATION._replace(names=("label_loss", "tokens"))

# --- Graph -------------------------------------------------------------------


class ClassifierGraph(TaskGraph):
    """Outputs probabilities [n, K], label [n], score [n]; or value [n].

    `score` is the probability of the label; a regression has only `value`.
    """

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return also the likeliest label of n texts."""
        labels = self.task.labels
        if labels is None:
            return numbers
        probs = numbers["probabilities"]  # [n, K]
        return numbers | {
            "label": tf.gather(labels, tf.argmax(probs, -1)),
            "score": tf.reduce_max(probs, -1),
        }


class MultiLabelGraph(TaskGraph):
    """Outputs probabilities [n, K] and labels [n, K], "" if not predicted."""

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return also the predicted labels of n texts."""
        thresholds = self.task.thresholds.astype(np.float32)  # [K]
        is_predicted = numbers["probabilities"] >= thresholds  # [n, K]
        labels = tf.constant(self.task.labels)
        return numbers | {"labels": tf.where(is_predicted, labels, "")}
