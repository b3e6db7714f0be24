"""Cross entropies as sums over the rows of a batch, with their gradients.

Sums and not means: the rows of a batch may be spread over several devices and
micro-batches, and the mean over all of them is not the mean of their means.
The training loop adds the sums and divides once.

Letters in shapes: R rows, K classes, H hidden size, V vocabulary.
"""

import functools
from typing import NamedTuple

import tensorflow as tf

from ops import elementwise
from ops.elementwise import shape_of

VOCABULARY = "vocabulary"  # in names of operations, for profiles

_compiled = functools.cache(elementwise.compiled)

# Of x, table and bias of a projection: [R, H], [V, H] and [V].
Gradients = tuple[tf.Tensor, tf.Tensor, tf.Tensor]


class Loss(NamedTuple):
    """Sums over the rows of a batch, three float32 scalars."""

    loss: tf.Tensor  # sum of weight * cross entropy
    weight: tf.Tensor  # sum of weights
    correct: tf.Tensor  # sum of weights of rows that are classified correctly

    @classmethod
    def of_rows(
        cls, losses: tf.Tensor, weights: tf.Tensor, correct: tf.Tensor
    ) -> "Loss":
        """Return the sums over rows, whether bool or number they are right."""
        correct = tf.cast(correct, tf.float32)
        return cls(
            *map(tf.reduce_sum, (weights * losses, weights, weights * correct))
        )


def classification_loss(
    logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None = None
) -> Loss:
    """Return the weighted cross entropy of logits, summed over rows.

    Logits are [..., K], labels [...] or [..., 1], and weights like labels, 0
    for rows that fill up a batch. A row is correct if no other class has a
    larger logit than its label.
    """
    logits = tf.reshape(logits, [-1, shape_of(logits)[-1]])  # [R, K]
    labels, weights = flatten_labels(labels, weights)  # [R], [R]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    chosen = tf.gather(logits, labels, batch_dims=1)  # [R]
    correct = chosen >= tf.reduce_max(logits, axis=-1)  # [R]
    return Loss.of_rows(losses, weights, correct)


def soft_loss(
    logits: tf.Tensor,
    targets: tf.Tensor,
    temperature: float,
    weights: tf.Tensor,
) -> Loss:
    """Return the cross entropy of logits to soft targets, summed over rows.

    The loss of distillation (Hinton et al. 2015). With p the targets, which
    are [..., K] like the logits, and T the temperature, the loss of a row is

        -T^2 sum_k p_k log softmax(logits / T)_k

    The factor T^2 keeps the gradient, T (softmax(logits / T) - p), about as
    large for any T. This is the cross entropy, as in the paper, and not the
    KL divergence, which is less by T^2 times the entropy of p: a constant, so
    the gradients are the same. With p = [1/2, 1/2], T = 1 and equal logits the
    cross entropy is ln 2 = 0.69, which no logits can lower; the divergence
    is 0.

    `correct` counts the rows where logits and targets are largest for the same
    class.
    """
    classes = shape_of(logits)[-1]
    logits = tf.reshape(logits, [-1, classes])  # [R, K]
    targets = tf.reshape(targets, [-1, classes])  # [R, K]
    weights = tf.cast(tf.reshape(weights, [-1]), tf.float32)  # [R]
    losses = tf.nn.softmax_cross_entropy_with_logits(
        targets, logits / temperature
    )  # [R]
    agrees = tf.argmax(logits, -1) == tf.argmax(targets, -1)  # [R]
    found = Loss.of_rows(losses, weights, agrees)
    return found._replace(loss=temperature**2 * found.loss)


def flatten_labels(
    labels: tf.Tensor, weights: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return labels as int32 [R] and weights as float32 [R], default ones."""
    labels = tf.cast(tf.reshape(labels, [-1]), tf.int32)
    if weights is None:
        weights = tf.ones_like(labels)
    return labels, tf.cast(tf.reshape(weights, [-1]), tf.float32)


# --- Cross entropy of a projection -------------------------------------------


def projected_cross_entropy(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    fuse: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the loss of logits x table^T + bias, and its sum of correct rows.

    The same as `classification_loss` of the logits.

    For the masked language model (section 3.1), whose logits [R, V] are the
    largest tensor of a step: with R = 640 and V = 30,522 they take 78 MB, and
    each pass over them as long as an encoder layer of a small model. This
    function passes over them less often than automatic differentiation.

    Let e = exp(logits - max of the row), [R, V], and s = the row sums of e,
    [R, 1]. The gradient of row r's loss with respect to its logits is

        weight * (e / s - one_hot(label))        e.g., for e = [1, 3, 0],
                                                 s = 4, label 0, weight 2:
                                                 2 * [-0.75, 0.75, 0]

    This matrix is never computed. The gradients are products with it, and a
    product with weight * e / s is one with e whose smaller factor is multiplied
    by weight / s. The one-hot part is R rows, subtracted at the labels' rows.

    Args:
        x: [R, H], float32 or a 16-bit type.
        table: float32 [V, H], the word embeddings.
        bias: float32 [V].
        labels: int32 [R].
        weights: float32 [R].
        fuse: whether XLA compiles the elementwise operations.
    """

    # labels and weights have no gradient.
    @tf.custom_gradient
    def entropy(x: tf.Tensor, table: tf.Tensor, bias: tf.Tensor):
        narrow_table = tf.cast(table, x.dtype)  # [V, H]
        loss, correct, exps, sums = _projected_parts(
            x, narrow_table, bias, labels, weights, fuse
        )

        def gradient(loss_gradient: tf.Tensor, _: tf.Tensor):
            row_weights = (weights * loss_gradient)[:, None]  # [R, 1]
            dx, dtable, dbias = _minus_one_hot(
                _softmax_gradients(x, narrow_table, row_weights, exps, sums),
                x,
                table,
                labels,
                row_weights,
                fuse,
            )
            return tf.cast(dx, x.dtype), dtable, dbias

        return (loss, correct), gradient

    return entropy(x, table, bias)


def _projected_parts(
    x: tf.Tensor,
    narrow_table: tf.Tensor,
    bias: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    fuse: bool,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return _entropy_parts of the logits x narrow_table^T + bias."""
    with tf.name_scope(VOCABULARY):
        products = tf.matmul(x, narrow_table, transpose_b=True)  # [R, V]
    parts = _compiled(_entropy_parts) if fuse else _entropy_parts
    return parts(products, bias, labels, weights)


def _entropy_parts(products, bias, labels, weights):
    """Return loss, correct, exp(logits - max) [R, V], its row sums [R, 1].

    The logits are products + bias. The exponentials are stored in bfloat16 if
    the products are: they are factors of such products in the backward pass.
    """
    stored = tf.bfloat16 if products.dtype == tf.bfloat16 else tf.float32
    logits = tf.cast(products, tf.float32) + bias
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
        tf.cast(exps, stored),
        sums,
    )


def _softmax_gradients(
    x: tf.Tensor,
    narrow_table: tf.Tensor,
    row_weights: tf.Tensor,
    exps: tf.Tensor,
    sums: tf.Tensor,
) -> Gradients:
    """Return the softmax part of the gradients of x, table and bias.

    dx is float32; dtable and dbias are bfloat16 if x is. `row_weights`, [R, 1],
    are weight times gradient of the loss; for exps and sums see _entropy_parts.
    """
    scale = row_weights / sums  # [R, 1]
    narrow_scale = tf.cast(scale, exps.dtype)
    with tf.name_scope(VOCABULARY):
        dbias = tf.matmul(narrow_scale, exps, transpose_a=True)[0]  # [V]
    if x.dtype == tf.float16:
        probs = exps / sums  # [R, V]
        return *_half_products(x, narrow_table, row_weights, probs), dbias
    scaled_x = tf.cast(tf.cast(x, tf.float32) * scale, x.dtype)  # [R, H]
    with tf.name_scope(VOCABULARY):
        dx = tf.matmul(exps, narrow_table)  # [R, H]
        dtable = tf.matmul(exps, scaled_x, transpose_a=True)  # [V, H]
    return tf.cast(dx, tf.float32) * scale, dtable, dbias


# The largest float16 is 65,504, the smallest of full precision 0.00006.
_HALF_SUM = 32768.0  # what sums of products may come to
_HALF_PROBABILITY = 64.0  # a probability of 1; 1 / 30,522 is then 0.002


def _half_products(
    x: tf.Tensor,
    narrow_table: tf.Tensor,
    row_weights: tf.Tensor,
    probs: tf.Tensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return dx and dtable of `_softmax_gradients` by float16 products.

    Factors are scaled so that nothing overflows and little underflows,
    whatever the loss scale: here the sum over all V words of exponentials
    times table could exceed 65,504, and x / V would be 0 or nearly.
    """
    narrow = tf.cast(probs * _HALF_PROBABILITY, tf.float16)  # [R, V]
    dx = tf.cast(tf.matmul(narrow, narrow_table), tf.float32)  # [R, H]
    dx *= row_weights / _HALF_PROBABILITY
    weighted = tf.cast(x, tf.float32) * row_weights  # [R, H]
    # No sum over R rows is larger than R times the largest term.
    rows = tf.cast(shape_of(x)[0], tf.float32)
    bound = tf.reduce_max(tf.abs(weighted)) * rows * _HALF_PROBABILITY
    gain = _HALF_SUM / tf.maximum(bound, 1e-30)
    dtable = tf.matmul(
        narrow, tf.cast(weighted * gain, tf.float16), transpose_a=True
    )  # [V, H]
    return dx, tf.cast(dtable, tf.float32) / (gain * _HALF_PROBABILITY)


def _minus_one_hot(
    gradients: Gradients,
    x: tf.Tensor,
    table: tf.Tensor,
    labels: tf.Tensor,
    row_weights: tf.Tensor,
    fuse: bool,
) -> Gradients:
    """Return gradients of `_softmax_gradients` minus their one-hot part.

    For x that part is R rows of the table. For the table and the bias, row r is
    subtracted at the row of its label.
    """
    dx, dtable, dbias = gradients
    minus = _minus_rows
    if fuse and dtable.dtype == tf.bfloat16:  # One pass over it, not two.
        minus = _compiled(_minus_rows)
    return (
        dx - tf.gather(table, labels) * row_weights,
        minus(dtable, labels, tf.cast(x, tf.float32) * row_weights),
        _minus_rows(dbias, labels, row_weights[:, 0]),
    )


def _minus_rows(values, labels, rows):
    """Return values [V, ...] in float32, less row r [...] at label r."""
    wide = tf.cast(values, tf.float32)
    return tf.tensor_scatter_nd_sub(wide, labels[:, None], rows)


# --- Cross entropy of a projection of many rows ------------------------------


def sliced_cross_entropy(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    max_rows: tf.Tensor | int,
    has_gradient: bool,
    fuse: bool = False,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return projected_cross_entropy, with the logits of some rows at a time.

    For a left-to-right language model, all of whose positions are predicted:
    the logits of R = 4,096 rows would take 500 MB. The rows are cut into equal
    slices, filled up with weight 0: 10 rows of at most 4 into 3 slices of 4.

    The gradient of the loss, a sum, is what is computed here times the
    gradient that comes from outside. So the loop over slices computes the
    gradients from the same logits as the loss, and keeps nothing else.

    Args:
        x, table, bias, labels, weights, fuse: as for projected_cross_entropy.
        max_rows: rows of a slice at most; fewer than H count as H.
        has_gradient: False computes the loss alone; it then has no gradient.
    """
    rows, hidden = shape_of(x)
    # The logits of H rows are as large as dtable, [V, H], to which each slice
    # adds its part: smaller slices would take time and save little memory.
    known = isinstance(max_rows, int)
    max_rows = (max if known else tf.maximum)(max_rows, hidden)
    count = -(-rows // max_rows)  # rounded up
    shape = count, -(-rows // count)
    parts = _cut(labels, shape), _cut(weights, shape)
    if not has_gradient:
        fixed = map(tf.stop_gradient, (_cut(x, shape), table, bias))
        sums, _ = _sum_of_slices(*fixed, *parts, False, fuse)
        return sums[0], sums[1]

    @tf.custom_gradient
    def with_gradient(x, table, bias):
        (loss, correct, dtable, dbias), dx = _sum_of_slices(
            _cut(x, shape), table, bias, *parts, True, fuse
        )
        some = tf.reshape(dx, [-1, hidden])[:rows], dtable, dbias
        gradients = _minus_one_hot(
            some, x, table, labels, weights[:, None], fuse
        )

        def gradient(loss_gradient: tf.Tensor, _: tf.Tensor):
            dx, dtable, dbias = (g * loss_gradient for g in gradients)
            return tf.cast(dx, x.dtype), dtable, dbias

        return (loss, correct), gradient

    return with_gradient(x, table, bias)


def _cut(values: tf.Tensor, shape: tuple) -> tf.Tensor:
    """Return values [R, ...] as slices [C, Q, ...], filled up with zeros."""
    count, size = shape
    padding = [[0, count * size - shape_of(values)[0]]]
    padding += [[0, 0]] * (len(values.shape) - 1)
    return tf.reshape(tf.pad(values, padding), [*shape, *values.shape[1:]])


def _sum_of_slices(
    x: tf.Tensor,
    table: tf.Tensor,
    bias: tf.Tensor,
    labels: tf.Tensor,
    weights: tf.Tensor,
    has_gradient: bool,
    fuse: bool,
) -> tuple[list[tf.Tensor], tf.Tensor | None]:
    """Return sums over C slices of Q rows, x [C, Q, H] and labels [C, Q].

    They are [loss, correct] and None. With has_gradient [loss, correct, dtable,
    dbias] and dx, float32 [C, Q, H]; see _softmax_gradients.
    """
    narrow_table, count = tf.cast(table, x.dtype), shape_of(x)[0]
    sums, rows = [tf.zeros([]), tf.zeros([])], []
    if has_gradient:
        sums += [tf.zeros_like(table), tf.zeros_like(bias)]
        rows = [tf.TensorArray(tf.float32, count, element_shape=x.shape[1:])]

    def add_one(index, sums, rows):
        part = x[index]  # [Q, H]
        loss, correct, exps, exp_sums = _projected_parts(
            part, narrow_table, bias, labels[index], weights[index], fuse
        )
        more = [loss, correct]
        if has_gradient:
            dx, *others = _softmax_gradients(
                part, narrow_table, weights[index][:, None], exps, exp_sums
            )
            others = [tf.cast(other, tf.float32) for other in others]
            rows, more = [rows[0].write(index, dx)], [*more, *others]
        return index + 1, list(map(tf.add, sums, more)), rows

    # One after the other: in parallel they would need the memory of all.
    _, sums, rows = tf.while_loop(
        lambda index, *_: index < count,
        add_one,
        (tf.constant(0), sums, rows),
        parallel_iterations=1,
    )
    return sums, rows[0].stack() if has_gradient else None
