"""Hidden layers of an encoder as features, and its vectors for texts.

The feature-based approach of the paper (section 5.3): the weights of BERT stay
fixed, and its hidden layers are the input of another model. Table 7 compares
choices of layers on CoNLL-2003 NER; run_ner.py --feature_based repeats it.
"""

from collections.abc import Sequence

import tensorflow as tf

import modeling
from ops import windows as ops_windows
from tasks.encoder.layers import EMBEDDINGS, Index
from tasks.task import Task
from training.task_model import TaskModel


def layer_features(
    output: modeling.BertOutput, indices: Sequence[Index]
) -> tf.Tensor:
    """Return K layers of an encoder, float32 [B, S, K, H]."""
    chosen = [
        output.embedding_output
        if index == EMBEDDINGS
        else output.encoder_layers[index]
        for index in indices
    ]
    return tf.stack([tf.cast(x, tf.float32) for x in chosen], axis=2)


def encode_layers(
    model: TaskModel,
    features: dict[str, tf.Tensor],
    layers: Sequence[int],
    pooling: str,
    windows: ops_windows.Windowing | None = None,
) -> tf.Tensor:
    """Return K layers of a batch, float32 [B, S, K, H]; pooled [B, K, H].

    Pooling is "none", "cls" for the token that represents the line (see
    modeling.class_vectors), or "mean" over all tokens that are not padding.
    With windows S is the length of the rows (ops/windows.py), and [CLS] that of
    the first window.
    """
    rows, _ = ops_windows.split(features, windows)
    values = layer_features(model.bert(**model.encoder_inputs(rows)), layers)
    values = ops_windows.join(values, features, windows)
    if pooling == "cls":
        return modeling.class_vectors(
            values, features["input_mask"], model.config.attention_direction
        )
    if pooling == "mean":
        mask = tf.cast(features["input_mask"], tf.float32)
        count = tf.maximum(tf.reduce_sum(mask, axis=1, keepdims=True), 1.0)
        return tf.einsum("bskh,bs->bkh", values, mask / count)
    return values


# --- Vectors of texts --------------------------------------------------------


class TextEncoder(TaskModel):
    """An encoder whose outputs are three kinds of vectors of each of n texts.

    mean_output [n, H] (over the real tokens), pooled_output [n, H] (see
    modeling.class_vectors) and sequence_output [n, S, H], all float32. For a
    text that is read in windows, pooled_output is the mean or maximum over its
    windows.
    """

    windows: ops_windows.Windowing | None = None

    @classmethod
    def for_task(cls, task: Task, dtype: str) -> "TextEncoder":
        """Return a new encoder; a vector of the pooler needs its weights."""
        found = cls(task.checkpoint.config, dtype)
        found.uses_pooler = "pooled_output" in task.options.vectors
        found.windows = task.checkpoint.windows
        return found

    @classmethod
    def of(cls, model: TaskModel) -> "TextEncoder":
        """Return the encoder of another model; they share its variables."""
        found = cls.__new__(cls)
        tf.Module.__init__(found)
        found.config, found.bert = model.config, model.bert
        return found

    def outputs(self, features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return the three outputs of a batch."""
        rows, is_there = ops_windows.split(features, self.windows)
        output = self.bert(**self.encoder_inputs(rows))
        pooled = tf.cast(output.pooled_output, tf.float32)
        sequence = ops_windows.join(
            tf.cast(output.sequence_output, tf.float32), features, self.windows
        )
        mask = tf.cast(features["input_mask"], tf.float32)
        mask = tf.expand_dims(mask, -1)  # [n, S, 1]
        total = tf.reduce_sum(sequence * mask, axis=1)  # [n, H]
        # The first one is that of the sentence for programs that read one.
        return {
            "mean_output": total / tf.maximum(tf.reduce_sum(mask, axis=1), 1.0),
            "pooled_output": ops_windows.pooled(pooled, is_there, self.windows),
            "sequence_output": sequence,
        }
