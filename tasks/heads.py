"""An encoder with an output layer, and the objective of labels."""

from typing import Any

import keras
import tensorflow as tf

from modeling import LEFT_TO_RIGHT, BertConfig, BertOutput, Seed, class_vectors
from ops.elementwise import gelu_erf, shape_of
from records.streaming import Batch
from tasks.rows import INPUT_NAMES
from tasks.settings import NO_BILSTM, BiLstmSize, bilstm_in
from tasks.task import Task
from training.objective import Objective, Sums, example_weights
from training.task_model import TaskModel, head_dropout, project

# trained_for.Activation -> the function.
ACTIVATIONS = {
    None: tf.identity,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "gelu_erf": gelu_erf,
    "silu": tf.nn.silu,
}

# The original's classifier has this number in its code: initializer_range of
# the configuration is the encoder's alone.
_CLASSIFIER_STDDEV = 0.02


class HeadModel(TaskModel):
    """An encoder, maybe a BiLSTM, and a vector for each of K outputs.

    Args:
        config: the encoder's configuration.
        num_outputs: K.
        dtype: type of the matrix products.
        bilstm_size: of the BiLSTM on the encoder.
        inputs: width of what the BiLSTM reads; None: that of the encoder.
    """

    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        num_outputs: int = 1,
        dtype: str = "float32",
        bilstm_size: BiLstmSize = NO_BILSTM,
        inputs: int | None = None,
    ):
        super().__init__(config, dtype)
        width = inputs or config.hidden_size
        self.bilstm = None
        if bilstm_size.bilstm_layers:
            from tasks.bilstm import BiLstm

            self.bilstm = BiLstm(bilstm_size, width)
            self.bilstm.build()
            width = 2 * bilstm_size.bilstm_units
        self.create_head(num_outputs, width)

    @classmethod
    def for_task(cls, task: Task, dtype: str) -> "HeadModel":
        """Return a new model of a task without labels: with one output."""
        size = bilstm_in(task.checkpoint.trained_for)
        return cls(task.checkpoint.config, 1, dtype, size)

    def create_head(self, num_outputs: int, width: int) -> None:
        """Create output_weights [K, width] and output_bias [K].

        Variables of no layer: these names are their whole paths in a
        checkpoint.
        """
        self.output_weights = keras.Variable(
            keras.initializers.TruncatedNormal(stddev=_CLASSIFIER_STDDEV),
            shape=[num_outputs, width],
            dtype="float32",
            name="output_weights",
        )
        self.output_bias = keras.Variable(
            "zeros", shape=[num_outputs], dtype="float32", name="output_bias"
        )

    def project(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32 logits [..., K] of vectors [..., width]."""
        return project(x, self.output_weights, self.output_bias)

    def token_vectors(
        self, output: BertOutput, features: dict[str, tf.Tensor], seed: Seed
    ) -> tf.Tensor:
        """Return the vectors of tokens, [B, S, width], of an encoder's."""
        x = output.sequence_output
        if self.bilstm is None:
            return x
        return self.bilstm(
            x, features["input_mask"], seed, compute=self.compute
        )

    def text_vectors(
        self, output: BertOutput, features: dict[str, tf.Tensor], seed: Seed
    ) -> tf.Tensor:
        """Return the vectors of rows, [B, width], after dropout.

        With a BiLSTM they are its final states, else the pooled output.
        """
        if self.bilstm is None:
            return self.dropout(output.pooled_output, seed)
        x = self.token_vectors(output, features, seed)
        mask = features["input_mask"]
        # The forward direction ends at the last real token, the backward
        # direction at the first one.
        forward, backward = tf.split(x, 2, axis=-1)
        last = class_vectors(forward, mask, LEFT_TO_RIGHT)  # [B, U]
        is_real = tf.cast(mask != 0, tf.int32)
        place = tf.argmax(is_real, axis=1, output_type=tf.int32)  # [B]
        first = tf.gather(backward, place, batch_dims=1)  # [B, U]
        return tf.concat([last, first], axis=-1)

    def dropout(self, x: tf.Tensor, seed: Seed) -> tf.Tensor:
        """Return x after the dropout of a head; that of a BiLSTM is inside."""
        return head_dropout(x, seed, "classifier/dropout", self.compute)


def in_rows(
    features: dict[str, tf.Tensor],
) -> tuple[list, dict[str, tf.Tensor]]:
    """Return the shape [...] of sequences [..., S], and them as rows [R, S]."""
    *leading, length = shape_of(features["input_ids"])
    names = [name for name in INPUT_NAMES if name in features]
    rows = {name: tf.reshape(features[name], [-1, length]) for name in names}
    return leading, rows


# --- Objective: one mean loss over labels ------------------------------------
# Named entities and multiple choice have denominators of their own: words and
# questions.


def label_sums(
    model: TaskModel, batch: Batch, seed: Seed, **options: Any
) -> Sums:
    """Return loss, tokens and, for classes, accuracy of a batch, as sums.

    Options are those of the model's loss.
    """
    label = model.loss(model(batch, seed), batch, **options)
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
    forward=label_sums,
    total_loss=lambda sums, weights: sums["label_loss"] / weights["label_loss"],
    names=("label_loss", "accuracy", "tokens"),
)
