"""The recurrence of an LSTM (Hochreiter and Schmidhuber 1997), on any device.

What can be computed for all time steps at once is outside of the loop: the
products of the inputs before it, and in the backward pass the gradient of the
recurrent kernel after it. A step of either loop has one matrix product, with
[U, 4 * U] numbers. TensorFlow's own gradient of the loop would add a matrix of
that size in every step; this is why `lstm` has a gradient of its own.

Letters in shapes: those of modeling.py, and U, units of one direction. The
four gates are side by side in Keras' order: input, forget, candidate, output.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import NamedTuple

import tensorflow as tf

from ops.elementwise import shape_of

# Added to all gates at padding. The sigmoid of it is 0 in float32, so state
# and output of the step are 0, and so are their gradients.
_CLOSED = -10000.0

_HAS_ARRAYS = contextvars.ContextVar("has_arrays", default=True)


class Steps(NamedTuple):
    """What the forward pass leaves for the backward pass, float32."""

    hidden: tf.Tensor  # [S, B, U], h
    cell: tf.Tensor  # [S, B, U], c
    gates: tf.Tensor  # [S, B, 4 * U], after sigmoid and tanh


def close_padding(x: tf.Tensor, input_mask: tf.Tensor) -> tf.Tensor:
    """Return x [B, S, 4 * U], all gates closed where input_mask [B, S] is 0."""
    # Not [..., None]: see serving/litert/convert.py.
    is_real = tf.expand_dims(tf.cast(input_mask, tf.float32), -1)  # [B, S, 1]
    return x + (1.0 - is_real) * _CLOSED


@contextlib.contextmanager
def without_arrays() -> Iterator[None]:
    """Trace `lstm` without tf.TensorArray while the context lasts.

    LiteRT has arrays for one known batch size only. The numbers are the same.
    TensorFlow is slower without arrays, since each step copies the states.
    """
    token = _HAS_ARRAYS.set(False)
    try:
        yield
    finally:
        _HAS_ARRAYS.reset(token)


def lstm(
    x: tf.Tensor, kernel: tf.Tensor, dtype: tf.DType, training: bool
) -> tf.Tensor:
    """Return the hidden states h of an LSTM, float32 [S, B, U].

    With g = x[t] + h[t - 1] K, split into i, f, n and o:

        c[t] = sigmoid(f) * c[t - 1] + sigmoid(i) * tanh(n)
        h[t] = sigmoid(o) * tanh(c[t])

    State and gates are float32, matrix products are in `dtype`. Further steps
    at the end do not change the numbers of those before them. Unless
    `training`, nothing is kept for a gradient.

    Args:
        x: float32 [S, B, 4 * U], the inputs' part of the gates, with bias.
        kernel: K, float32 [U, 4 * U].
    """
    if not training:
        product = tf.cast(kernel, dtype)
        if not _HAS_ARRAYS.get():
            return _forward_without_arrays(x, product)
        return _forward(x, product, is_kept=False)[0]

    @tf.custom_gradient
    def run(x: tf.Tensor, kernel: tf.Tensor) -> tuple[tf.Tensor, Callable]:
        product = tf.cast(kernel, dtype)
        steps = Steps(*_forward(x, product, is_kept=True))

        def gradient(d_hidden: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            d_x = _backward(steps, product, d_hidden)
            before = tf.concat(
                [tf.zeros_like(steps.hidden[:1]), steps.hidden[:-1]], 0
            )  # [S, B, U], h[t - 1]
            units, width = kernel.shape
            d_kernel = tf.matmul(
                tf.reshape(tf.cast(before, dtype), [-1, units]),
                tf.reshape(tf.cast(d_x, dtype), [-1, width]),
                transpose_a=True,
            )  # [U, 4 * U]
            return d_x, tf.cast(d_kernel, kernel.dtype)

        return steps.hidden, gradient

    return run(x, tf.convert_to_tensor(kernel))


def _forward(x: tf.Tensor, kernel: tf.Tensor, is_kept: bool) -> list[tf.Tensor]:
    """Return h [S, B, U] and, if `is_kept`, the other fields of Steps.

    The kernel, here and below, is in the dtype of the products.
    """
    length = shape_of(x)[0]
    inputs = _to_array(x, length)
    zero = tf.zeros_like(x[0, :, : kernel.shape[0]])  # [B, U]

    def step(t, hidden, cell, kept):
        hidden, cell, gates = _next_state(inputs.read(t), hidden, cell, kernel)
        values = [hidden]
        if is_kept:
            values += [cell, tf.concat(gates, axis=-1)]
        kept = [a.write(t, v) for a, v in zip(kept, values, strict=True)]
        return t + 1, hidden, cell, kept

    like = [zero, zero, x[0]] if is_kept else [zero]
    start = (0, zero, zero, [_new_array(value, length) for value in like])
    *_, kept = tf.while_loop(
        lambda t, *_: t < length, step, start, maximum_iterations=length
    )
    return [array.stack() for array in kept]


def _forward_without_arrays(x: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Return the hidden states [S, B, U], kept in one tensor."""
    length = shape_of(x)[0]
    zero = tf.zeros_like(x[0, :, : kernel.shape[0]])  # [B, U]

    def step(t, hidden, cell, states):
        hidden, cell, _ = _next_state(tf.gather(x, t), hidden, cell, kernel)
        place = tf.reshape(t, [1, 1])
        states = tf.tensor_scatter_nd_update(
            states, place, tf.expand_dims(hidden, 0)
        )
        return t + 1, hidden, cell, states

    states = tf.zeros_like(x[:, :, : kernel.shape[0]])  # [S, B, U]
    *_, states = tf.while_loop(
        lambda t, *_: t < length, step, (0, zero, zero, states)
    )
    return states


def _next_state(
    x: tf.Tensor, hidden: tf.Tensor, cell: tf.Tensor, kernel: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Return h[t], c[t] and the four gates, [B, U] each, from those before."""
    product = tf.matmul(tf.cast(hidden, kernel.dtype), kernel)
    gates = x + tf.cast(product, tf.float32)  # [B, 4 * U]
    i, f, n, o = tf.split(gates, 4, axis=-1)  # [B, U] each
    i, f, n, o = tf.sigmoid(i), tf.sigmoid(f), tf.tanh(n), tf.sigmoid(o)
    cell = f * cell + i * n
    return o * tf.tanh(cell), cell, [i, f, n, o]


def _backward(
    steps: Steps, kernel: tf.Tensor, d_hidden: tf.Tensor
) -> tf.Tensor:
    """Return the gradient of x, [S, B, 4 * U], from that of h, [S, B, U]."""
    length = shape_of(d_hidden)[0]
    # A product with a matrix transposed in memory is faster than one that
    # transposes it in every step.
    transposed = tf.transpose(kernel)  # [4 * U, U]
    zero = tf.zeros_like(steps.cell[0])  # [B, U]
    before = tf.concat([zero[None], steps.cell[:-1]], 0)  # [S, B, U], c[t - 1]
    given = (d_hidden, steps.gates, steps.cell, before)
    arrays = [_to_array(value, length) for value in given]

    def step(t, d_hidden, d_cell, kept):
        more, gates, cell, cell_before = [array.read(t) for array in arrays]
        d_hidden += more
        i, f, n, o = tf.split(gates, 4, axis=-1)  # [B, U] each
        tanh = tf.tanh(cell)
        d_cell += d_hidden * o * (1.0 - tanh * tanh)
        # sigmoid'(x) = s (1 - s) and tanh'(x) = 1 - t t.
        d_gates = tf.concat(
            [
                d_cell * n * i * (1.0 - i),
                d_cell * cell_before * f * (1.0 - f),
                d_cell * i * (1.0 - n * n),
                d_hidden * tanh * o * (1.0 - o),
            ],
            axis=-1,
        )  # [B, 4 * U]
        product = tf.matmul(tf.cast(d_gates, kernel.dtype), transposed)
        product = tf.cast(product, tf.float32)  # [B, U]
        return t - 1, product, d_cell * f, kept.write(t, d_gates)

    array = _new_array(steps.gates[0], length)
    *_, kept = tf.while_loop(
        lambda t, *_: t >= 0,
        step,
        (length - 1, zero, zero, array),
        maximum_iterations=length,
    )
    return kept.stack()


def _to_array(x: tf.Tensor, length: int | tf.Tensor) -> tf.TensorArray:
    """Return the time steps of x [S, ...] as an array."""
    return tf.TensorArray(x.dtype, length, element_shape=x.shape[1:]).unstack(x)


def _new_array(like: tf.Tensor, length: int | tf.Tensor) -> tf.TensorArray:
    """Return an array of `length` tensors of the shape and dtype of `like`."""
    return tf.TensorArray(like.dtype, length, element_shape=like.shape)
