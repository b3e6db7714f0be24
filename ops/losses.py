"""Cross entropies as sums over the rows of a batch, with their gradients.

Losses and counts are sums: the mean is formed once, where the whole batch is
known.
"""

from typing import NamedTuple

import tensorflow as tf

from ops import elementwise
from ops.elementwise import shape_of


class Loss(NamedTuple):
    """Sums over the rows of a batch, three float32 scalars."""

    loss: tf.Tensor  # sum of weight * cross entropy
    weight: tf.Tensor  # sum of weights
    correct: tf.Tensor  # sum of weights of rows whose best class is right


def classification_loss(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None = None
) -> Loss:
    """Return the cross entropy of logits.

    Args:
        logits: float32 [..., K].
        labels: [...] or [..., 1], the right class of each row.
        weights: like labels, 0 for rows that do not count; default ones.
    """
    logits = tf.reshape(logits, [-1, shape_of(logits)[-1]])  # [R, K]
    labels, weights = flatten_labels(labels, weights)  # [R], [R]
    loss, correct = cross_entropy(logits, labels, weights)
    return Loss(loss, tf.reduce_sum(weights), correct)


def flatten_labels(
    labels: tf.Tensor, weights: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    if weights is None:
        weights = tf.ones_like(labels)
    return labels, tf.cast(tf.reshape(weights, [-1]), tf.float32)


# --- Cross entropy ----------------------------------------------------------


def cross_entropy(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return sum(weights * cross entropy) and sum(weights * correct).

    A row counts as correct when no other class has a larger logit.

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


@tf.custom_gradient
def projected_cross_entropy(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
):
    """Return cross_entropy(x table^T + bias, labels, weights).

    Projection and loss in one, since the logits are the largest tensor of a
    step and each pass over them takes as long as an encoder layer of a small
    model. With e = exp(logits - max) and its row sums s, the gradient of the
    logits is (e / s - one-hot) * weight. It is never formed: the products
    with e / s * weight are products with e whose small side is scaled, and
    those with the one-hot part touch R rows of the table.

    Args:
        x: float32 or bfloat16 [R, H].
        table: float32 [V, H].
        bias: float32 [V].
        labels: int32 [R].
        weights: float32 [R].
    """
    wide = tf.cast(table, x.dtype)
    logits = tf.cast(tf.matmul(x, wide, transpose_b=True), tf.float32) + bias
    loss, correct, powers, sums = elementwise.fused_forward(
        _entropy_parts, logits, labels, weights
    )

    def gradient(loss_gradient: tf.Tensor, _: tf.Tensor):
        pull = (weights * loss_gradient)[:, None]  # [R, 1]
        scale = pull / sums  # [R, 1]
        narrow = tf.cast(powers, x.dtype)  # [R, V]
        dx = tf.cast(tf.matmul(narrow, wide), tf.float32) * scale  # [R, H]
        dx -= tf.gather(table, labels) * pull
        rows = tf.cast(x, tf.float32)
        scaled = tf.cast(rows * scale, x.dtype)  # [R, H]
        dtable = tf.matmul(narrow, scaled, transpose_a=True)  # [V, H]
        dbias = tf.matmul(scale, powers, transpose_a=True)[0]  # [V]
        at = labels[:, None]
        return (
            tf.cast(dx, x.dtype),
            tf.tensor_scatter_nd_sub(
                tf.cast(dtable, tf.float32), at, rows * pull
            ),
            tf.tensor_scatter_nd_sub(dbias, at, pull[:, 0]),
            None,
            None,
        )

    return (loss, correct), gradient


def _entropy_parts(logits, labels, weights):
    """Loss, correct, exp(logits - max) [R, V] and its row sums [R, 1]."""
    top = tf.reduce_max(logits, axis=-1, keepdims=True)  # [R, 1]
    powers = tf.exp(logits - top)  # [R, V]
    sums = tf.reduce_sum(powers, axis=-1, keepdims=True)  # [R, 1]
    chosen = tf.gather(logits, labels, batch_dims=1)  # [R]
    losses = (tf.math.log(sums) + top)[:, 0] - chosen  # [R]
    correct = tf.cast(chosen >= top[:, 0], tf.float32)  # [R]
    return (
        tf.reduce_sum(weights * losses),
        tf.reduce_sum(weights * correct),
        powers,
        sums,
    )
