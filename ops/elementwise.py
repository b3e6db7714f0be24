"""Elementwise operations, fused into few passes over memory.

Between two matrix products a Transformer adds biases, drops out, normalizes
and applies activations. Each of these does little arithmetic per number, so
its time goes into reading and writing memory. modeling.py has a function for
each such group, for instance `add_norm`: bias, dropout, residual and norm.
`apply` can have XLA compile the group into one or two passes. That is for
training with static shapes on a CPU (modeling.Compute).

What the groups are made of is here; modeling.py explains the letters in shapes.
"""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# --- Fusing ------------------------------------------------------------------


def apply(function: Callable, *inputs: Any, fuse: bool, **options: Any) -> Any:
    """Return function(*inputs, **options), with `fuse` compiled by XLA.

    The backward pass is then a second compiled program. It computes the
    function again from its inputs: that is faster than writing the values in
    between to memory in the forward pass and reading them in the backward pass.

    Both read 16-bit inputs as float32 and store the results in the type of the
    first input. CPUs have no 16-bit arithmetic: every operation would convert
    its numbers to float32 and back.

    Inputs may be None at the end, options have to be hashable.
    """
    inputs = [tf.convert_to_tensor(x) for x in inputs if x is not None]
    if not fuse:
        return function(*inputs, **options)
    return _with_gradient(function, tuple(sorted(options.items())))(*inputs)


@functools.cache
def _with_gradient(function: Callable, options: tuple) -> Callable:
    """Return the function in two programs, which all layers share."""
    # Profilers show the names of compiled programs.
    name = function.__name__.strip("_")
    cast = _cast_bits if function is add_bias_activate else tf.cast
    function = _in_float32(functools.partial(function, **dict(options)), cast)
    function.__name__ = name
    forward = compiled(function)

    def backward(inputs, output_gradients):
        with tf.GradientTape() as tape:
            tape.watch([x for x in inputs if x.dtype.is_floating])
            outputs = tf.nest.flatten(function(*inputs))
        return tape.gradient(outputs, inputs, list(output_gradients))

    backward.__name__ = f"{name}_gradient"
    backward = compiled(backward)

    # Automatic differentiation of `forward` would keep all values in between
    # as outputs of the compiled program: it could not fuse them away.
    @tf.custom_gradient
    def recompute(*inputs):
        def gradient(*output_gradients):
            return backward(inputs, output_gradients)

        return forward(*inputs), gradient

    return recompute


def _in_float32(function: Callable, cast: Callable = tf.cast) -> Callable:
    """Return the function with float32 arithmetic on 16-bit inputs.

    `cast` makes the results 16-bit again.
    """

    def in_float32(*inputs):
        stored = inputs[0].dtype
        if stored not in (tf.bfloat16, tf.float16):
            return function(*inputs)
        wide = [
            tf.cast(x, tf.float32) if x.dtype.is_floating else x for x in inputs
        ]
        return tf.nest.map_structure(lambda x: cast(x, stored), function(*wide))

    return in_float32


def _cast_bits(x: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return tf.cast(x, dtype) of float32 numbers, by their bits if bfloat16.

    The program that XLA makes of a GELU for AVX-512 has vectors of 8 numbers if
    it ends with a cast, and takes twice as long as with 16, which it has here.
    """
    return _rounded(x) if dtype == tf.bfloat16 else tf.cast(x, dtype)


@tf.custom_gradient
def _rounded(x: tf.Tensor) -> tuple[tf.Tensor, Callable]:
    """Return float32 numbers as the nearest bfloat16, of two the even one."""
    # bfloat16 is the upper half of a float32. Half of its last place, less one
    # if it is even, carries exactly where the number has to be rounded up.
    bits = tf.bitcast(x, tf.uint32)
    nearest = bits + 0x7FFF + (tf.bitwise.right_shift(bits, 16) & 1)
    # A NaN has to stay one: it would be infinite if its lower half alone had
    # bits, and 0 if they carried as far as the sign.
    nearest = tf.where(tf.math.is_nan(x), bits | 0x400000, nearest)
    upper = tf.cast(tf.bitwise.right_shift(nearest, 16), tf.uint16)
    return tf.bitcast(upper, tf.bfloat16), lambda dy: tf.cast(dy, tf.float32)


def compiled(function: Callable) -> Callable:
    """Return the function as one program of XLA for each shape.

    Its gradient is another program, which gets all values in between.
    """
    # Autograph rewrites `if` and `for` over tensors; functions here have none,
    # and the rewriting doubles the time of tracing.
    return tf.function(function, jit_compile=True, autograph=False)


# --- Random numbers and dropout ----------------------------------------------

# Dropout needs a random number per element. Here it is a hash of the element's
# row and column and of a seed, a few integer operations. XLA computes it inside
# the operation that uses it, forward and again backward, so no mask is written
# to memory, and the numbers do not depend on devices or on the order of work.


def _hash(x: tf.Tensor) -> tf.Tensor:
    """Return a bijective hash of uint32 numbers."""

    def xor_shift(x: tf.Tensor, bits: int) -> tf.Tensor:
        shift = tf.constant(bits, tf.uint32)
        return tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, shift))

    # "lowbias32" of C. Wellons. A product spreads a bit to higher bits only,
    # so shifts to the right alternate with products. The constants come from an
    # exhaustive search for the least bias.
    # uint32 products wrap around modulo 2**32, as the hash needs it.
    x = xor_shift(x, 16) * tf.constant(0x7FEB352D, tf.uint32)
    x = xor_shift(x, 15) * tf.constant(0x846CA68B, tf.uint32)
    return xor_shift(x, 16)


def fold_seed(seed: tf.Tensor | int, *values: tf.Tensor | int) -> tf.Tensor:
    """Return a uint32 seed that depends on a seed and on every value.

    For an independent stream of random numbers per step, replica or layer:
    fold its number in. Adding the numbers would not do, since step 3 of
    replica 4 and step 4 of replica 3 would have the same stream.
    """
    seed = _hash(tf.cast(seed, tf.uint32))
    for value in values:
        # _hash(0) is 0: without the constant, folding in 0 would add nothing.
        value = tf.cast(value, tf.uint32) + tf.constant(0x9E3779B9, tf.uint32)
        seed = _hash(tf.bitwise.bitwise_xor(seed, _hash(value)))
    return seed


def random_bits(rows: tf.Tensor | int, cols: int, seed: tf.Tensor) -> tf.Tensor:
    """Return 32 random bits per element of a matrix, uint32 [rows, cols].

    Element (i, j) is hash(hash(i + a) xor hash(j + b)), with a and b made of
    the seed. Two seeds, since with a = b the matrix would be symmetric; and
    hashed before the xor, so that no row or call is a shifted copy of another.
    """
    row_seed, col_seed = fold_seed(seed, 1), fold_seed(seed, 2)
    row_keys = _hash(tf.cast(tf.range(rows), tf.uint32) + row_seed)  # [rows]
    col_keys = _hash(tf.cast(tf.range(cols), tf.uint32) + col_seed)  # [cols]
    return _hash(tf.bitwise.bitwise_xor(row_keys[:, None], col_keys))


def dropout(x: tf.Tensor, seed: tf.Tensor | None, rate: float) -> tf.Tensor:
    """Return x with a share `rate` of zeros, the rest divided by 1 - rate.

    An element is dropped if its random bits, as a number, are below
    rate * 2**32. With the seed fold_seed(7) and rate 0.25, so that the limit
    is 1,073,741,824:

        bits   647,167,460  2,402,736,494  1,986,807,843
               929,936,661  2,164,857,364    322,263,294
        x      3.0  3.0  3.0    result  0.0  4.0  4.0
               3.0  3.0  3.0            0.0  4.0  0.0

    Args:
        x: [..., columns]; the axes before the last one count as rows.
        seed: a uint32 scalar; None returns x.
        rate: in [0, 1).
    """
    if seed is None or not rate:
        return x
    cols = x.shape[-1] or tf.shape(x)[-1]
    rows = (x.shape.num_elements() or tf.size(x)) // cols
    bits = random_bits(rows, cols, seed)  # [rows, cols]
    keep = bits >= tf.constant(int(rate * 2**32), tf.uint32)  # [rows, cols]
    keep = tf.reshape(keep, tf.shape(x))
    return tf.where(keep, x * (1.0 / (1.0 - rate)), tf.zeros([], x.dtype))


# --- Bias and activation -----------------------------------------------------


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Return GELU by its tanh approximation, as the published models use it."""
    return tf.nn.gelu(x, approximate=True)


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Return the exact GELU, which Hugging Face's "gelu" is."""
    return tf.nn.gelu(x, approximate=False)


# hidden_act -> function; None is the identity. The published models were
# trained with the tanh approximation. Keras and Hugging Face call the exact
# form, x * Phi(x), "gelu". They differ by up to 0.0005, so a model trained with
# one is run with that one.
ACTIVATIONS: dict[str, Callable | None] = {
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": None,
    "": None,
}


def add_bias(x: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """Return x [..., H] + bias [H] in the dtype of x."""
    bias = tf.cast(bias, x.dtype)
    if x.dtype == tf.bfloat16:
        return _add_bfloat16_bias(x, bias)
    return tf.nn.bias_add(x, bias)


@tf.custom_gradient
def _add_bfloat16_bias(x: tf.Tensor, bias: tf.Tensor) -> tuple:
    """Return x + bias, whose gradient of bias is summed in float32.

    On CPUs bias_add sums that gradient in bfloat16. A sum of ones stops at 256
    there, since 257 rounds to 256. x + bias sums it as here, but is slower
    where no gradient is needed.
    """

    def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return dy, tf.reduce_sum(dy, list(range(dy.shape.rank - 1)))

    return tf.nn.bias_add(x, bias), gradient


def activate(x: tf.Tensor, activation: Callable | None) -> tf.Tensor:
    """Return activation(x); None is the identity."""
    if activation is None:
        return x
    if x.dtype == tf.float16:
        # GELU has x^3, which float16 cannot hold from 41 on; beyond 256 the
        # gradient, 0 times infinity, would be NaN.
        activation = _in_float32(activation)
    return activation(x)


def add_bias_activate(
    x: tf.Tensor, bias: tf.Tensor, activation: Callable | None
) -> tf.Tensor:
    """Return activation(x + bias)."""
    return activate(add_bias(x, bias), activation)


# --- Attention ---------------------------------------------------------------


def split_heads(x: tf.Tensor, length: int, heads: int) -> tf.Tensor:
    """Return x split into heads: [B * S, H] to [B, N, S, D].

    Head n has the columns n * D to (n + 1) * D - 1 of x.
    """
    x = tf.reshape(x, [-1, length, heads, x.shape[-1] // heads])  # [B, S, N, D]
    return tf.transpose(x, [0, 2, 1, 3])  # [B, N, S, D]


def add_bias_split_heads(
    x: tf.Tensor, bias: tf.Tensor, *, length: int, heads: int
) -> tf.Tensor:
    """Return x + bias split into heads: [B * S, H] to [B, N, S, D]."""
    return split_heads(add_bias(x, bias), length, heads)


def merge_heads(x: tf.Tensor) -> tf.Tensor:
    """Return the heads side by side: [B, N, S, D] to [B * S, H]."""
    _, heads, _, size = x.shape
    return tf.reshape(tf.transpose(x, [0, 2, 1, 3]), [-1, heads * size])


# --- Shapes ------------------------------------------------------------------


def shape_of(x: tf.Tensor) -> list[Any]:
    """Return the shape of x: an int for each known size, else a scalar tensor.

    x.shape has None for sizes that are unknown while a graph is traced, and
    tf.shape(x) hides the known ones, which reshapes and XLA need.
    """
    # As a list: with TensorFlow 1's behaviour a shape holds Dimensions.
    sizes = tf.TensorShape(x.shape).as_list()
    return [
        tf.shape(x)[axis] if size is None else size
        for axis, size in enumerate(sizes)
    ]
