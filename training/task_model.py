"""What training knows of a model: an encoder and the head of one task.

modeling.py explains the letters in shapes.
"""

import copy
import zlib
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from modeling import PLAIN, BertConfig, BertModel, Compute, Layer, Seed
from ops import elementwise
from ops.windows import Windowing


class RowCost(NamedTuple):
    """What a row of the batch costs the model.

    Attributes:
        encoded: sequences that the encoder trains on: 4 for the choices of a
            question, 0 where the encoder is frozen.
        logits: numbers of the largest matrix of logits, where they matter.
        head_numbers: float32 numbers that the head keeps for each token.
        windows: how the encoder reads a sequence; None: at once.
    """

    encoded: int = 1
    logits: int = 0
    head_numbers: int = 0
    windows: Windowing | None = None


class TaskModel(tf.Module):
    """An encoder and the head of one task; subclasses add the head.

    A head is any `Layer` or `keras.Variable` kept as an attribute. The class
    is not a Keras layer, whose name would be the first part of every path:
    paths have to start with `bert/` or with the name of the head.

    Attributes:
        uses_pooler: whether the head reads pooled_output. If not (SQuAD,
            NER), the pooler is not trained, and a checkpoint may lack it.
        of_pooler: beginnings of the paths of the pooler's variables, and of
            what reads it beside the head.
        compute: how encoder and head compute.
    """

    uses_pooler = True
    of_pooler: tuple[str, ...] = ("bert/pooler/",)
    compute = PLAIN

    def __init__(self, config: BertConfig, dtype: str = "float32"):
        super().__init__()
        self.config = config
        self.bert = BertModel(config, dtype=dtype)

    @classmethod
    def for_task(cls, task: Any, dtype: str) -> "TaskModel":
        """Return a new model of a task (tasks/task.py)."""
        return cls(task, dtype)

    def computing(self, compute: Compute) -> "TaskModel":
        """Return a model of the same variables that computes in this way."""
        model = copy.copy(self)
        model.compute = compute
        return model

    @property
    def variables(self) -> list[keras.Variable]:
        """All variables, in the order in which the parts were assigned."""
        variables = []
        for part in vars(self).values():
            if isinstance(part, keras.layers.Layer):
                # `weights` leaves out the seeds that Keras counts as variables.
                variables += part.weights
            elif isinstance(part, keras.Variable):
                variables.append(part)
        return variables

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The variables that training changes."""
        return [
            v
            for v in self.variables
            if v.trainable
            and (self.uses_pooler or not v.path.startswith(self.of_pooler))
        ]

    @property
    def required(self) -> str:
        """Pattern of the variables that a model which is used must have."""
        return "^" if self.uses_pooler else f"^(?!{'|'.join(self.of_pooler)})"

    def outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return what the head says of a batch, {name: float32 [B, ...]}.

        Scores, predictions and exports are made of it. `logits` beside
        probabilities made of them are for scores alone.
        """
        return {"logits": self(features)}

    def encoder_inputs(
        self, features: dict[str, tf.Tensor], seed: Seed = None
    ) -> dict[str, Any]:
        """Return the arguments of `bert` for a batch; labels are left out."""
        names = "input_ids input_mask segment_ids position_ids sequence_ids"
        return {
            **{name: features.get(name) for name in names.split()},
            "word_vectors": features.get("word_vectors"),
            "training": seed is not None,
            "dropout_seed": seed,
            "compute": self.compute,
        }


def project(x: tf.Tensor, weights: Any, bias: Any) -> tf.Tensor:
    """Return the logits x W^T + b of a head in float32.

    x is [..., H], the result [..., K]. All heads store W as [K, H], the shape
    that the paper's W has in section 4.1.
    """
    logits = tf.matmul(x, tf.cast(weights, x.dtype), transpose_b=True)
    # The softmax needs more digits than a 16-bit type has.
    return tf.cast(logits, tf.float32) + bias  # [..., K]


# The original's classifier has this number in its code: hidden_dropout_prob of
# the configuration is the encoder's alone.
HEAD_DROPOUT = 0.1


def head_dropout(
    x: tf.Tensor, seed: Seed, name: str, compute: Compute = PLAIN
) -> tf.Tensor:
    """Return x with a classifier's dropout; `name` names its random stream."""
    if seed is None:
        return x
    seed = elementwise.fold_seed(seed, zlib.crc32(name.encode()))
    return elementwise.apply(
        elementwise.dropout, x, seed, fuse=compute.fuse, rate=HEAD_DROPOUT
    )


class OutputLayer(Layer):
    """A head of one projection: variables output_weights, output_bias."""

    def __init__(
        self, inputs: int, outputs: int, name: str, stddev: float = 0.02
    ):
        super().__init__(name)
        self.shape, self.stddev = [outputs, inputs], stddev

    def build(self) -> None:
        self.output_weights = self.weight(
            "output_weights", self.shape, self.stddev
        )
        self.output_bias = self.weight("output_bias", self.shape[:1], 0)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32 logits [..., K]."""
        return project(x, self.output_weights, self.output_bias)
