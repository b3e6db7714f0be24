"""The model for sentences and pairs, its objective, and its graph.

As in section 4.1 of the paper, the final vector of [CLS] (see
modeling.class_vectors), passed through the pooler, represents the whole input.
One new layer, output_weights [K, H], turns it into K scores. With a BiLSTM
(table 5) the final states of its two directions represent the input.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import modeling
from modeling import BertConfig, Seed, TaskModel
from ops import losses
from ops import windows as ops_windows
from records.streaming import Batch
from tasks import bilstm, heads, saved_model
from tasks.bilstm import NO_BILSTM, BiLstmSize
from tasks.task import Task
from training.objective import Objective, Sums, example_weights

# TrainedFor.output_activation -> the function.
_ACTIVATIONS = {None: tf.identity, "sigmoid": tf.sigmoid, "tanh": tf.tanh}


class BertForSequenceClassification(TaskModel):
    """An encoder and one output vector per class, on the pooled output.

    With a BiLSTM the output vectors are on its final states, [B, 2 * U] instead
    of [B, H]. A regression, whose num_labels is None, has a single output,
    which goes through `activation`, a key of _ACTIVATIONS. The outputs of the
    windows of a text are pooled to its own.
    """

    def __init__(
        self,
        config: BertConfig,
        num_labels: int | None,
        dtype: str = "float32",
        bilstm_size: BiLstmSize = NO_BILSTM,
        windows: ops_windows.Windows | None = None,
        activation: str | None = None,
    ):
        super().__init__(config, dtype)
        self.windows = windows
        self.activation = _ACTIVATIONS[activation]
        self.is_regression = num_labels is None
        self.bilstm = bilstm.create(bilstm_size, config.hidden_size)
        self.uses_pooler = self.bilstm is None
        self.output_weights, self.output_bias = heads.output_variables(
            num_labels or 1,
            bilstm.output_width(bilstm_size, config.hidden_size),
        )

    def __call__(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> tf.Tensor:
        """Return float32 logits [B, K]; the number [B, 1] of a regression."""
        logits = ops_windows.pooled(
            lambda rows: self._logits(rows, seed), features, self.windows
        )
        return self.activation(logits) if self.is_regression else logits

    def _logits(self, features: dict[str, tf.Tensor], seed: Seed) -> tf.Tensor:
        """Return the logits of rows that the encoder reads at once."""
        output = self.encode(features, seed)
        if self.bilstm is None:
            x = heads.head_dropout(
                output.pooled_output, seed, "classifier/dropout", self.compute
            )  # [B, H]
        else:
            mask = bilstm.mask_of(features)  # [B, S]
            x = self.bilstm(
                output.sequence_output, mask, seed=seed, compute=self.compute
            )  # [B, S, 2 * U]
            x = bilstm.final_states(x, mask)  # [B, 2 * U]
        return modeling.project(x, self.output_weights, self.output_bias)

    def loss(
        self, logits: tf.Tensor, features: dict[str, tf.Tensor]
    ) -> losses.Loss:
        """Return the cross entropy, or the squared error of a regression.

        Features are as in the records, with label_ids [B]; `example_weights`
        [B] are 0 for rows that only fill a batch.
        """
        labels = features["label_ids"]
        weights = example_weights(features, "label_ids")  # [B]
        if self.is_regression:
            return squared_error(logits, labels, weights)
        return losses.classification_loss(logits, labels, weights)


def squared_error(
    outputs: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> losses.Loss:
    """Return the weighted squared error of [B, 1]; `correct` is 0."""
    errors = tf.square(outputs[:, 0] - labels)  # [B]
    return losses.Loss(
        tf.reduce_sum(errors * weights), tf.reduce_sum(weights), tf.zeros([])
    )


# --- Objective: one mean loss over labels ------------------------------------
# Named entities and multiple choice use it too, with denominators of their
# own: words and questions.


def _label_sums(model: modeling.TaskModel, batch: Batch, seed: Seed) -> Sums:
    """Return loss, tokens and, for classes, accuracy of a batch, as sums."""
    label = model.loss(model(batch, seed), batch)
    sums = {
        "label_loss": (label.loss, label.weight),
        "tokens": num_tokens(batch),
    }
    if not getattr(model, "is_regression", False):
        sums["accuracy"] = (label.correct, label.weight)
    return sums


def num_tokens(batch: Batch) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the tokens of a batch without padding, and its rows."""
    mask = tf.cast(batch["input_mask"], tf.float32)
    return tf.reduce_sum(mask), tf.cast(tf.shape(mask)[0], tf.float32)


CLASSIFICATION = Objective(
    loss_weights=lambda batch: {
        "label_loss": tf.reduce_sum(example_weights(batch, "label_ids"))
    },
    forward=_label_sums,
    total_loss=lambda sums, weights: sums["label_loss"] / weights["label_loss"],
    names=("label_loss", "accuracy", "tokens"),
)


def label_objective(
    num_labels: int, label_smoothing: float, class_weights: Sequence[float]
) -> Objective:
    """Return the objective of classes whose labels are smoothed or weighted.

    The target of a label is 1 - e + e / K, that of the K - 1 others e / K, with
    e the label_smoothing (Szegedy et al., arXiv:1512.00567, section 7). An
    example counts as much as the weight of its class, in the sum of the losses
    and in what it is divided by. The accuracy is of plain labels.
    """
    factors = tf.constant(class_weights, tf.float32)  # [K]

    def weights_of(batch: Batch) -> tf.Tensor:
        labels = tf.cast(batch["label_ids"], tf.int32)
        return example_weights(batch, "label_ids") * tf.gather(factors, labels)

    def forward(model: modeling.TaskModel, batch: Batch, seed: Seed) -> Sums:
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


REGRESSION = CLASSIFICATION._replace(names=("label_loss", "tokens"))

# --- Graph -------------------------------------------------------------------


class ClassifierGraph(saved_model.TaskGraph):
    """Outputs probabilities [n, K], label [n], score [n]; or value [n].

    `score` is the probability of the label; a regression has only `value`.
    """

    def __init__(self, task: Task, *args: Any):
        super().__init__(task, *args)
        labels = task.settings.labels
        self.labels = None if labels is None else tf.constant(labels)

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the probabilities [n, K]; a number [n] of a regression."""
        logits = self.model(features)  # [n, K]
        if self.labels is None:
            return {"value": logits[:, 0]}
        return {"probabilities": tf.nn.softmax(logits)}

    def answers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return also the likeliest label of n texts."""
        outputs = self.numbers(features)
        if self.labels is None:
            return outputs
        probs = outputs["probabilities"]  # [n, K]
        return outputs | {
            "label": tf.gather(self.labels, tf.argmax(probs, -1)),
            "score": tf.reduce_max(probs, -1),
        }
