"""Elementwise operations, fused into few passes over memory."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

_is_fusing = False


@contextlib.contextmanager
def fusing(enabled: bool = True) -> Iterator[None]:
    """Make `fused` compile what is traced inside; off everywhere else.

    For training with static shapes on a CPU. Elsewhere a piece is made of
    plain operations: they export, take unknown sizes and need no compiler.
    """
    global _is_fusing
    before, _is_fusing = _is_fusing, enabled
    try:
        yield
    finally:
        _is_fusing = before


def fused(function: Callable, *inputs: Any, **options: Any) -> Any:
    """Return function(*inputs, **options), one compiled program under `fusing`.

    The backward pass is a second program, which computes the function anew
    from its inputs instead of keeping anything from the forward pass.

    Args:
        function: of tensors, pure, with one tensor or a tuple as its result.
        *inputs: tensors or variables; None only at the end.
        **options: hashable constants.
    """
    inputs = [tf.convert_to_tensor(x) for x in inputs if x is not None]
    if not _is_fusing:
        return function(*inputs, **options)
    return _compiled(function, tuple(sorted(options.items())))(*inputs)


@functools.cache
def _compiled(function: Callable, options: tuple) -> Callable:
    """Compile a function once for all layers that use it."""
    function = functools.partial(function, **dict(options))
    forward = _compile(function)

    @_compile
    def backward(inputs, output_gradients):
        with tf.GradientTape() as tape:
            tape.watch([x for x in inputs if x.dtype.is_floating])
            outputs = tf.nest.flatten(function(*inputs))
        return tape.gradient(outputs, inputs, list(output_gradients))

    @tf.custom_gradient
    def recompute(*inputs):
        def gradient(*output_gradients):
            return backward(inputs, output_gradients)

        return forward(*inputs), gradient

    return recompute


def fused_forward(function: Callable, *inputs: tf.Tensor) -> Any:
    """Return function(*inputs), compiled like `fused`, without a gradient."""
    return (_compile(function) if _is_fusing else function)(*inputs)


@functools.cache
def _compile(function: Callable) -> Callable:
    return tf.function(function, jit_compile=True, autograph=False)


# --- Random numbers and dropout ---------------------------------------------


def _mix(x: tf.Tensor) -> tf.Tensor:
    """Scramble uint32 numbers one to one so that every bit hangs on all."""

    def fold(x: tf.Tensor, bits: int) -> tf.Tensor:
        shift = tf.constant(bits, tf.uint32)
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, shift))

    # Multipliers found by exhaustive search ("lowbias32", C. Wellons).
    x = fold(x, 16) * tf.constant(0x7FEB352D, tf.uint32)
    x = fold(x, 15) * tf.constant(0x846CA68B, tf.uint32)
    return fold(x, 16)


def fold_seed(seed: tf.Tensor | int, *values: tf.Tensor | int) -> tf.Tensor:
    """Return a uint32 seed that depends on a seed and on every value.

    Whoever needs one more independent stream (a step, a replica, a layer)
    folds its number in instead of adding it.
    """
    seed = _mix(tf.cast(seed, tf.uint32))
    for value in values:
        value = tf.cast(value, tf.uint32) + tf.constant(0x9E3779B9, tf.uint32)
        seed = _mix(tf.bitwise.bitwise_xor(seed, _mix(value)))
    return seed


def random_bits(rows: tf.Tensor | int, cols: int, seed: tf.Tensor) -> tf.Tensor:
    """Return 32 random bits per element of a matrix, from its indices alone.

    A counter-based generator: each element hashes (row, column, seed), so
    XLA computes it inside whatever consumes it, forward and backward, and no
    mask is ever stored. Rows and columns have keys of their own drawn from
    two seeds, so no two rows (or calls) are shifted copies of each other.
    """
    row_seed, col_seed = fold_seed(seed, 1), fold_seed(seed, 2)
    row_keys = _mix(tf.cast(tf.range(rows), tf.uint32) + row_seed)  # [rows]
    col_keys = _mix(tf.cast(tf.range(cols), tf.uint32) + col_seed)  # [cols]
    return _mix(tf.bitwise.bitwise_xor(row_keys[:, None], col_keys))


def dropout(x: tf.Tensor, seed: tf.Tensor | None, rate: float) -> tf.Tensor:
    """Zero a share `rate` of x, scale the rest; nothing if seed is None."""
    if seed is None or not rate:
        return x
    cols = x.shape[-1] or tf.shape(x)[-1]
    rows = (x.shape.num_elements() or tf.size(x)) // cols
    bits = random_bits(rows, cols, seed)  # [rows, cols]
    keep = bits >= tf.constant(int(rate * 2**32), tf.uint32)
    keep = tf.reshape(keep, tf.shape(x))
    return tf.where(keep, x * (1.0 / (1.0 - rate)), tf.zeros([], x.dtype))


# --- Activation and norm ----------------------------------------------------


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Return the tanh form of GELU, which the published models trained with."""
    return tf.nn.gelu(x, approximate=True)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Return the exact form of GELU, as in Hugging Face's "gelu"."""
    return tf.nn.gelu(x, approximate=False)


def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Return x + bias in the type of x."""
    return tf.nn.bias_add(x, tf.cast(bias, x.dtype))


def bias_activation(
    x: tf.Tensor, bias: tf.Tensor, activation: Callable | None
) -> tf.Tensor:
    """Return activation(x + bias)."""
    x = add_bias(x, bias)
    return x if activation is None else activation(x)


def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """Return x with mean beta and deviation gamma along the last axis."""
    wide = tf.cast(x, tf.float32)
    # Two passes: E[x^2] - E[x]^2 cancels where the mean is large.
    wide -= tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.square(wide), axis=-1, keepdims=True)
    # 1e-12 as in the original; it would vanish in 16 bits.
    wide *= tf.math.rsqrt(variance + 1e-12)
    return tf.cast(wide * gamma + beta, x.dtype)


def norm_dropout(
    x: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    seed: tf.Tensor | None = None,
    *,
    rate: float,
) -> tf.Tensor:
    """Return dropout(layer_norm(x)): where the embeddings end."""
    return dropout(layer_norm(x, gamma, beta), seed, rate)


def add_norm(
    x: tf.Tensor,
    bias: tf.Tensor,
    residual: tf.Tensor,
    gamma: tf.Tensor,
    beta: tf.Tensor,
    seed: tf.Tensor | None = None,
    *,
    rate: float,
) -> tf.Tensor:
    """Return layer_norm(residual + dropout(x + bias)): each sublayer's end."""
    x = dropout(add_bias(x, bias), seed, rate)
    return layer_norm(residual + x, gamma, beta)


# --- Attention --------------------------------------------------------------


def split_heads(
    x: tf.Tensor, bias: tf.Tensor, *, length: int, heads: int
) -> tf.Tensor:
    """Return [B * S, H] plus bias as [B, N, S, D]."""
    x = add_bias(x, bias)
    x = tf.reshape(x, [-1, length, heads, x.shape[-1] // heads])
    return tf.transpose(x, [0, 2, 1, 3])  # [B, N, S, D]


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Return [B, N, S, D] as [B * S, H]."""
    _, heads, _, size = x.shape
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [-1, heads * size])


def attention_probs(
    scores: tf.Tensor,
    bias: tf.Tensor,
    seed: tf.Tensor | None = None,
    *,
    scale: float,
    rate: float,
) -> tf.Tensor:
    """Return dropout(softmax(scores * scale + bias)): [B, N, F, T]."""
    wide = tf.cast(scores, tf.float32) * scale + bias
    return dropout(tf.cast(tf.nn.softmax(wide), scores.dtype), seed, rate)


def shape_of(x: tf.Tensor) -> list[Any]:
    """Return the shape, known dimensions as Python ints."""
    dynamic = tf.shape(x)
    return [
        dynamic[axis] if size is None else size
        for axis, size in enumerate(x.shape)
    ]
