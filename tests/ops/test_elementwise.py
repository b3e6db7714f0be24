"""Dropout by hashing, norms and activations, and the fusing of operations."""

import numpy as np
import pytest
import tensorflow as tf

import modeling
from ops import elementwise

# --- Dropout -----------------------------------------------------------------


def test_dropout_example_of_the_docstring():
    """Pins the random numbers: other bits are another training run."""
    seed = elementwise.fold_seed(7)
    assert elementwise.random_bits(2, 3, seed).numpy().tolist() == [
        [647167460, 2402736494, 1986807843],
        [929936661, 2164857364, 322263294],
    ]
    found = elementwise.dropout(tf.fill([2, 3], 3.0), seed, 0.25)
    assert found.numpy().tolist() == [[0.0, 4.0, 4.0], [0.0, 4.0, 0.0]]


def test_no_seed_or_a_rate_of_zero_drops_nothing():
    x = tf.ones([2, 3])
    assert elementwise.dropout(x, None, 0.5) is x
    assert elementwise.dropout(x, elementwise.fold_seed(1), 0.0) is x


def test_folding_in_depends_on_order_and_on_zeros():
    folded = [[3], [3, 0], [0, 3], [3, 4], [4, 3], [3, 0, 0]]
    seeds = {int(elementwise.fold_seed(*values)) for values in folded}
    assert len(seeds) == len(folded)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_rate_and_scale(rate):
    ones = tf.ones([64, 128, 256])
    y = elementwise.dropout(ones, elementwise.fold_seed(7), rate).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / (1 - rate))}
    dropped = y == 0
    sigma = np.sqrt(rate * (1 - rate))
    assert abs(dropped.mean() - rate) < 4 * sigma / np.sqrt(dropped.size)
    # By row, by column, by plane: as a fair coin would.
    for axes in ((0, 1), (2,), (1, 2), (0, 2)):
        share = dropped.mean(axes)
        count = dropped.size / share.size
        assert np.abs(share - rate).max() < 5.5 * sigma / np.sqrt(count)
        assert 0.7 < share.std() / (sigma / np.sqrt(count)) < 1.4


def correlation(a, b):
    return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def test_dropout_streams_are_independent():
    def bits(seed, rows=512, cols=128):
        x = elementwise.random_bits(rows, cols, elementwise.fold_seed(*seed))
        return x.numpy() / 2**32

    base = bits([3, 11])
    limit = 5 / np.sqrt(base.size)
    for other in ([4, 11], [3, 12], [3, 11, 0], [-3, 11], [11, 3]):
        assert correlation(base, bits(other)) < limit, other
    # Neighbours in every direction, and shifted rows.
    assert correlation(base[1:], base[:-1]) < limit
    assert correlation(base[:, 1:], base[:, :-1]) < limit
    assert correlation(base[1:, 1:], base[:-1, :-1]) < limit
    assert len(np.unique(base)) > base.size - 10
    # Products of corners of a rectangle: row and column keys do not show.
    centred = base - 0.5
    corners = centred[1:, 1:] * centred[1:, :-1]
    corners = corners * centred[:-1, 1:] * centred[:-1, :-1]
    assert abs(corners.mean()) < 5 * corners.std() / np.sqrt(corners.size)
    # Each of the 32 bits is a fair coin.
    words = elementwise.random_bits(512, 128, elementwise.fold_seed(5)).numpy()
    for bit in range(32):
        share = (words >> bit & 1).mean()
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(words.size), bit


def test_dropout_compiled_or_not_is_the_same_mask():
    def drop(x, seed):
        return elementwise.dropout(x, elementwise.fold_seed(seed, 5), 0.1)

    x = tf.ones([4, 8, 33])
    compiled = tf.function(drop, jit_compile=True)
    for seed in (0, 1, -1, 2**31 - 1):
        seed = tf.constant(seed, tf.int32)
        np.testing.assert_array_equal(drop(x, seed), compiled(x, seed))


# --- Norm and activations ----------------------------------------------------


def test_layer_norm_of_large_numbers_keeps_the_variance():
    """Where E[x^2] - E[x]^2 is 0 in float32."""
    x = np.float32([10_000, 10_001])
    assert np.mean(x * x) - np.square(np.mean(x)) == 0
    found = modeling.layer_norm(tf.constant([x]), tf.ones(2), tf.zeros(2))
    np.testing.assert_allclose(found, [[-1, 1]], rtol=1e-6)


def test_layer_norm_of_equal_numbers_is_beta():
    beta = tf.constant([1.0, 2.0, 3.0])
    found = modeling.layer_norm(tf.fill([1, 3], 7.0), tf.ones(3), beta)
    np.testing.assert_array_equal(found, [beta])


def test_the_two_forms_of_gelu_differ_by_up_to_0_0005():
    x = tf.linspace(-6.0, 6.0, 10_001)
    difference = tf.abs(elementwise.gelu(x) - elementwise.gelu_erf(x))
    assert 0.0004 < float(tf.reduce_max(difference)) < 0.0005


# --- 16-bit types ------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_gradient_of_a_bias_is_a_long_sum(dtype):
    """1,000 ones: a sum in bfloat16 would stop at 256."""
    bias = tf.Variable(tf.zeros([3]))
    x = tf.zeros([1000, 3], dtype)
    with tf.GradientTape() as tape:
        y = elementwise.add_bias(x, bias)
    assert y.dtype == dtype
    np.testing.assert_array_equal(tape.gradient(y, bias), [1000] * 3)


@pytest.mark.parametrize("name", ["gelu", "gelu_erf", "tanh"])
def test_activations_of_large_float16_numbers(name):
    """x^3 of GELU would be infinite from 41 on, and its gradient NaN."""
    x = tf.constant([[-1000.0, -300.0, 50.0, 300.0, 60_000.0]], tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = elementwise.activate(x, elementwise.ACTIVATIONS[name])
    assert y.dtype == tf.float16
    is_tanh = name == "tanh"
    wanted = [-1, -1, 1, 1, 1] if is_tanh else [0, 0, 50, 300, 60_000]
    np.testing.assert_array_equal(y, tf.constant([wanted], tf.float16))
    slope = [0] * 5 if is_tanh else [0, 0, 1, 1, 1]
    np.testing.assert_array_equal(tape.gradient(y, x), [slope])


def test_softmax_and_norm_of_float16_are_computed_in_float32():
    """The mask of -10,000 leaves 0; a norm of small numbers does not vanish."""
    scores = tf.constant([[[[300.0, 300.0, 300.0]]]], tf.float16)
    bias = tf.constant([[[[0.0, 0.0, -10_000.0]]]])
    found = modeling.attention_probs(scores, bias, scale=1.0, rate=0.0)
    assert found.dtype == tf.float16
    np.testing.assert_array_equal(found, [[[[0.5, 0.5, 0]]]])
    x = tf.constant([[1e-4, -1e-4], [7, 7]], tf.float16)
    found = modeling.layer_norm(x, tf.ones([2]), tf.zeros([2]))
    np.testing.assert_allclose(found, [[1, -1], [0, 0]], atol=1e-3)


# --- Fusing ------------------------------------------------------------------


@pytest.mark.slow
def test_fused_and_plain_give_the_same_values_and_gradients():
    rng = np.random.default_rng(0)
    x, residual = (
        tf.constant(rng.normal(size=[6, 8]), tf.float32) for _ in range(2)
    )
    bias, gamma, beta = (
        tf.constant(rng.normal(size=[8]), tf.float32) for _ in range(3)
    )
    inputs = [x, bias, residual, gamma, beta]

    def run(fuse, seed):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y = elementwise.apply(
                modeling.add_norm,
                *inputs,
                seed,
                fuse=fuse,
                rate=0.5,
            )
            loss = tf.reduce_sum(tf.square(y))
        return [y, *tape.gradient(loss, inputs)]

    for seed in (None, elementwise.fold_seed(1)):
        for plain, fused in zip(run(False, seed), run(True, seed), strict=True):
            np.testing.assert_allclose(fused, plain, rtol=1e-4, atol=1e-5)


def test_fused_16_bit_numbers_are_rounded_once():
    """The result in float32, rounded; step by step it is another number."""
    x = tf.cast(tf.linspace(-3.0, 3.0, 64)[None], tf.bfloat16)
    bias = tf.fill([64], 0.3)
    wanted = elementwise.gelu(tf.cast(x, tf.float32) + bias)
    found = elementwise.apply(
        elementwise.add_bias_activate,
        x,
        bias,
        fuse=True,
        activation=elementwise.gelu,
    )
    assert found.dtype == tf.bfloat16
    np.testing.assert_array_equal(found, tf.cast(wanted, tf.bfloat16))
    plain = elementwise.add_bias_activate(x, bias, elementwise.gelu)
    assert (plain != found).numpy().any()


def test_compiled_is_one_program():
    """XLA refuses what it cannot compile; TensorFlow alone runs it."""

    def length_of_words(text: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(text)

    assert int(length_of_words(tf.constant("word"))) == 4
    with pytest.raises(tf.errors.InvalidArgumentError):
        elementwise.compiled(length_of_words)(tf.constant("word"))


# --- Shapes ------------------------------------------------------------------


def test_bfloat16_by_bits_is_that_of_a_cast():
    """Of any numbers, of halves of the last place, and of what is not one."""
    bits = np.random.default_rng(0).integers(0, 2**32, 2**16, np.uint32)
    edges = [0, 1, 0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7F800000]
    not_numbers = [0x7F800001, 0x7FC00000, 0x7FFFFFFF]
    edges = np.array(edges + not_numbers, np.uint32)
    bits = np.concatenate([bits, edges, edges | 2**31])
    x = tf.constant(bits.view(np.float32))
    found = elementwise.compiled(elementwise._rounded)(x)
    wanted = tf.cast(x, tf.bfloat16)
    is_nan = np.isnan(x)
    np.testing.assert_array_equal(np.isnan(tf.cast(found, "float32")), is_nan)
    found, wanted = (tf.bitcast(y, tf.uint16) for y in (found, wanted))
    np.testing.assert_array_equal(found[~is_nan], wanted[~is_nan])


def test_known_sizes_are_ints_and_unknown_ones_tensors():
    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def trace(x):
        rows, columns = elementwise.shape_of(x)
        assert isinstance(rows, tf.Tensor) and columns == 3
        return rows

    assert trace(tf.zeros([5, 3])) == 5
