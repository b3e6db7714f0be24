"""Cross entropies as sums over the rows of a batch, with their gradients.

Sums and not means: the rows of a batch may be spread over several devices and
micro-batches, and the mean over all of them is not the mean of their means.
The training loop adds the sums and divides once.

Letters in shapes: R rows, K classes, H hidden size, V vocabulary.
"""

from typing import NamedTuple

import tensorflow as tf

from ops import elementwise
from ops.elementwise import shape_of


class Loss(NamedTuple):
    """Sums over the rows of a batch, three float32 scalars."""

    loss: tf.Tensor  # sum of weight * cross entropy
    weight: tf.Tensor  # sum of weights
    correct: tf.Tensor  # sum of weights of rows that are classified correctly


def classification_loss(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None = None
) -> Loss:
    """Return the weighted cross entropy of logits, summed over rows.

    Args:
        logits: float32 [..., K].
        labels: integers [...] or [..., 1], the class of each row.
        weights: like labels, 0 for rows that fill up a batch; default ones.
    """
    logits = tf.reshape(logits, [-1, shape_of(logits)[-1]])  # [R, K]
    labels, weights = flatten_labels(labels, weights)  # [R], [R]
    loss, correct = cross_entropy(logits, labels, weights)
    return Loss(loss, tf.reduce_sum(weights), correct)


def flatten_labels(
    labels: tf.Tensor, weights: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return labels as int32 [R] and weights as float32 [R], default ones."""
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    if weights is None:
        weights = tf.ones_like(labels)
    return labels, tf.cast(tf.reshape(weights, [-1]), tf.float32)


# --- Cross entropy -----------------------------------------------------------


def cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return sum(weights * cross entropy) and sum(weights * correct).

    A row is correct if no other class has a larger logit than its label.

    Args:
        logits: float32 [R, K].
        labels: int32 [R].
        weights: float32 [R].
    """
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    chosen = tf.gather(logits, labels, batch_dims=1)  # [R]
    correct = chosen >= tf.reduce_max(logits, axis=-1)  # [R]
    return (
        tf.reduce_sum(weights * losses),
        tf.reduce_sum(weights * tf.cast(correct, tf.float32)),
    )


# --- Cross entropy of a projection -------------------------------------------


@tf.custom_gradient
def projected_cross_entropy(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
):
    """Return cross_entropy(x table^T + bias, labels, weights).

    For the masked language model (section 3.1), whose logits [R, V] are the
    largest tensor of a step: with R = 640 and V = 30,522 they take 78 MB, and
    each pass over them as long as an encoder layer of a small model. This
    function passes over them less often than automatic differentiation.

    Let e = exp(logits - max of the row), [R, V], and s = the row sums of e,
    [R, 1]. The gradient of row r's loss with respect to its logits is

        weight * (e / s - one_hot(label))        e.g., for e = [1, 3, 0],
                                                 s = 4, label 0, weight 2:
                                                 2 * [-0.75, 0.75, 0]

    This matrix is never computed. The gradients of x, table and bias are
    products with it, and a product with weight * e / s is a product with e
    whose smaller factor is multiplied by weight / s. The one-hot part of the
    products is R rows, subtracted at the rows of the labels.

    Args:
        x: float32 or bfloat16 [R, H].
        table: float32 [V, H], the word embeddings.
        bias: float32 [V].
        labels: int32 [R].
        weights: float32 [R].
    """
    narrow_table = tf.cast(table, x.dtype)  # [V, H]
    logits = tf.matmul(x, narrow_table, transpose_b=True)  # [R, V]
    logits = tf.cast(logits, tf.float32) + bias
    loss, correct, exps, sums = elementwise.fused_forward(
        _entropy_parts, logits, labels, weights
    )

    def gradient(loss_gradient: tf.Tensor, _: tf.Tensor):
        row_weights = (weights * loss_gradient)[:, None]  # [R, 1]
        gradients = _projection_gradients(
            x, narrow_table, table, labels, row_weights, exps, sums
        )
        return *gradients, None, None  # labels and weights have none

    return (loss, correct), gradient


def _entropy_parts(logits, labels, weights):
    """Return loss, correct, exp(logits - max) [R, V], its row sums [R, 1]."""
    # Without the subtraction of the maximum, exp overflows from 89 on.
    top = tf.reduce_max(logits, axis=-1, keepdims=True)  # [R, 1]
    exps = tf.exp(logits - top)  # [R, V]
    sums = tf.reduce_sum(exps, axis=-1, keepdims=True)  # [R, 1]
    chosen = tf.gather(logits, labels, batch_dims=1)  # [R]
    losses = (tf.math.log(sums) + top)[:, 0] - chosen  # [R]
    correct = tf.cast(chosen >= top[:, 0], tf.float32)  # [R]
    return (
        tf.reduce_sum(weights * losses),
        tf.reduce_sum(weights * correct),
        exps,
        sums,
    )


def _projection_gradients(
    x: tf.Tensor,
    narrow_table: tf.Tensor,
    table: tf.Tensor,
    labels: tf.Tensor,
    row_weights: tf.Tensor,
    exps: tf.Tensor,
    sums: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the gradients of x, table and bias: products with the softmax.

    Args:
        x: [R, H].
        narrow_table: the table in the dtype of x, [V, H].
        table: float32 [V, H].
        labels: [R].
        row_weights: weight times gradient of the loss, [R, 1].
        exps: exp(logits - max), [R, V].
        sums: row sums of exps, [R, 1].
    """
    scale = row_weights / sums  # [R, 1]
    narrow_exps = tf.cast(exps, x.dtype)  # [R, V]
    wide_x = tf.cast(x, tf.float32)  # [R, H]
    label_rows = labels[:, None]  # [R, 1], indices for the scatters
    # The softmax part first, then minus the one-hot part: R rows of the table
    # for x; for the table and the bias, row r goes to the row of its label.
    dx = tf.cast(tf.matmul(narrow_exps, narrow_table), tf.float32) * scale
    dx -= tf.gather(table, labels) * row_weights  # [R, H]
    scaled_x = tf.cast(wide_x * scale, x.dtype)  # [R, H]
    dtable = tf.matmul(narrow_exps, scaled_x, transpose_a=True)  # [V, H]
    dtable = tf.tensor_scatter_nd_sub(
        tf.cast(dtable, tf.float32), label_rows, wide_x * row_weights
    )
    dbias = tf.matmul(scale, exps, transpose_a=True)[0]  # [V]
    dbias = tf.tensor_scatter_nd_sub(dbias, label_rows, row_weights[:, 0])
    return tf.cast(dx, x.dtype), dtable, dbias
