"""Activations that the backward pass computes again instead of keeping them.

For less memory (Chen et al. 2016, arXiv:1604.06174). The choices of
--recompute:

    none       nothing: least time
    layers     each Transformer layer up to its last product: it keeps three
               matrices [B * S, H], its input, that product and its residual
    attention  scores and probabilities of attention, B * N * S * S numbers of
               each layer: most of the memory of long sequences, little time
               ("selective", Korthikanti et al. 2022, arXiv:2205.05198)

The numbers are the same: dropout follows from a seed (ops/elementwise.py), so
the second time drops the same elements. modeling.py recomputes by
tf.recompute_grad. In a graph it adds a zero to the inputs of the second call,
which it computes from the incoming gradient. So no compiler merges both calls,
and no executor makes the second one before the gradient is there. Here is the
attention of programs that XLA compiles as a whole. Letters in shapes are those
of modeling.py.
"""

import tensorflow as tf
from tensorflow.compiler.tf2xla.ops import gen_xla_ops

from ops import elementwise


def attention(
    query: tf.Tensor,
    key: tf.Tensor,
    value: tf.Tensor,
    bias: tf.Tensor,
    seed: tf.Tensor | None,
    scale: float,
    rate: float,
) -> tf.Tensor:
    """Return dropout(softmax(query key^T * scale + bias)) value, [B, N, F, D].

    For programs of XLA that have the backward pass too, as on GPUs and TPUs. Of
    each row of scores, the logarithm of the sum of exponentials is kept, L: a
    probability is exp(score - L). The gradient is that of Dao et al. 2022
    (arXiv:2205.14135), section B.2: with the result O, and P the probabilities
    after dropout,

        sum_t P_t dP_t = sum_t P_t (dO value_t) = dO O

    so that neither pass needs a sum over a row of probabilities. recompute_grad
    on the plain operations moves more memory (docs/accelerators.md).
    """

    def biased(scores: tf.Tensor) -> tf.Tensor:
        return tf.cast(scores, tf.float32) * scale + bias

    @tf.custom_gradient
    def attend(query, key, value):
        scores = biased(tf.matmul(query, key, transpose_b=True))  # [B, N, F, T]
        log_sum = tf.reduce_logsumexp(scores, -1, keepdims=True)  # [B, N, F, 1]
        probs = tf.cast(tf.exp(scores - log_sum), value.dtype)
        result = tf.matmul(elementwise.dropout(probs, seed, rate), value)

        def gradient(d_result: tf.Tensor) -> tuple[tf.Tensor, ...]:
            # A barrier, so that XLA does not merge what follows with the
            # forward pass. The seed too: random bits are computed again.
            seeds = [] if seed is None else [seed]
            d_out, q, k, v, *seeds = gen_xla_ops.xla_optimization_barrier(
                [d_result, query, key, value, *seeds]
            )

            def drop(x: tf.Tensor) -> tf.Tensor:
                return elementwise.dropout(x, seeds[0] if seeds else None, rate)

            probs = tf.exp(biased(tf.matmul(q, k, transpose_b=True)) - log_sum)
            dropped = drop(tf.cast(probs, v.dtype))
            # Dropout is linear: the gradient is dropped as the value was.
            d_probs = drop(tf.matmul(d_out, v, transpose_b=True))
            total = tf.reduce_sum(
                tf.cast(d_out, tf.float32) * tf.cast(result, tf.float32),
                axis=-1,
                keepdims=True,
            )  # [B, N, F, 1]
            d_scores = probs * (tf.cast(d_probs, tf.float32) - total) * scale
            d_scores = tf.cast(d_scores, q.dtype)
            return (
                tf.matmul(d_scores, k),
                tf.matmul(d_scores, q, transpose_a=True),
                tf.matmul(dropped, d_out, transpose_a=True),
            )

        return result, gradient

    return attend(query, key, value)
