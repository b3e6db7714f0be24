"""ops/recurrence.py: an LSTM against numpy, and its gradient."""

import numpy as np
import pytest
import tensorflow as tf

from ops import recurrence

LENGTH, BATCH, UNITS = 6, 3, 4
# Of the states, in the sum whose gradient is computed.
WEIGHTS = np.random.default_rng(2).normal(size=[LENGTH, BATCH, UNITS])


def by_hand(x: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """The equations of an LSTM, one number after the other, in float64."""

    def sigmoid(a: float) -> float:
        return 1 / (1 + np.exp(-a))

    length, batch, _ = x.shape
    units = len(kernel)
    states = np.zeros([length, batch, units])
    for row in range(batch):
        hidden, cell = np.zeros(units), np.zeros(units)
        for t in range(length):
            gates = x[t, row] + hidden @ kernel
            hidden = hidden.copy()
            for u in range(units):
                i, f, n, o = gates[u::units]
                cell[u] = sigmoid(f) * cell[u] + sigmoid(i) * np.tanh(n)
                hidden[u] = sigmoid(o) * np.tanh(cell[u])
            states[t, row] = hidden
    return states


def numbers(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=[LENGTH, BATCH, 4 * UNITS]).astype(np.float32)
    return x, rng.normal(size=[UNITS, 4 * UNITS]).astype(np.float32)


@pytest.mark.parametrize("training", [False, True])
def test_states_are_those_of_the_equations(training):
    x, kernel = numbers()
    found = recurrence.lstm(x, kernel, tf.float32, training)
    np.testing.assert_allclose(found, by_hand(x, kernel), rtol=0, atol=1e-6)


def test_without_arrays_the_states_are_the_same():
    """A LiteRT file computes them so: it has no arrays for any batch size."""
    x, kernel = numbers()

    @tf.function(autograph=False)
    def states(x: tf.Tensor) -> tf.Tensor:
        with recurrence.without_arrays():
            return recurrence.lstm(x, kernel, tf.float32, False)

    free = tf.TensorSpec([None, None, 4 * UNITS])
    graph = states.get_concrete_function(free).graph.as_graph_def()
    assert "TensorList" not in str(graph)
    np.testing.assert_array_equal(
        states(x), recurrence.lstm(x, kernel, tf.float32, False)
    )
    later = tf.function(recurrence.lstm, autograph=False)
    graph = later.get_concrete_function(free, kernel, tf.float32, False).graph
    assert "TensorList" in str(graph.as_graph_def())


def gradients(x, kernel, training: bool, dtype=tf.float32) -> list:
    x, kernel = tf.convert_to_tensor(x), tf.convert_to_tensor(kernel)
    with tf.GradientTape() as tape:
        tape.watch([x, kernel])
        states = recurrence.lstm(x, kernel, dtype, training)
        total = tf.reduce_sum(tf.cast(WEIGHTS, tf.float32) * states)
    return tape.gradient(total, [x, kernel])


def test_the_gradient_is_that_of_automatic_differentiation():
    for one, other in zip(
        gradients(*numbers(), True), gradients(*numbers(), False), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)


def test_the_gradient_is_that_of_finite_differences():
    """In float64 by numpy, for some numbers of the inputs and the kernel."""
    x, kernel = numbers()
    for which, gradient in enumerate(gradients(x, kernel, True)):
        rng = np.random.default_rng(1)
        for place in rng.integers(gradient.shape, size=[5, gradient.ndim]):
            total = []
            for step in (1e-5, -1e-5):
                moved = [x.astype(np.float64), kernel.astype(np.float64)]
                moved[which][tuple(place)] += step
                total.append(np.sum(WEIGHTS * by_hand(*moved)))
            slope = (total[0] - total[1]) / 2e-5
            np.testing.assert_allclose(gradient[tuple(place)], slope, atol=1e-5)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_16_bit_types_are_in_the_products_alone(dtype):
    x, kernel = numbers()
    states = recurrence.lstm(x, kernel, dtype, True)
    assert states.dtype == tf.float32
    np.testing.assert_allclose(states, by_hand(x, kernel), rtol=0, atol=0.03)
    for one, other in zip(
        gradients(x, kernel, True, dtype),
        gradients(x, kernel, True),
        strict=True,
    ):
        assert one.dtype == tf.float32
        np.testing.assert_allclose(one, other, rtol=0, atol=0.2)


@pytest.mark.nightly
def test_xla_gives_the_same():
    compiled = tf.function(
        lambda x, kernel: gradients(x, kernel, True),
        autograph=False,
        jit_compile=True,
    )
    for one, other in zip(
        compiled(*numbers()), gradients(*numbers(), True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=2e-6)


def test_one_trace_serves_all_lengths():
    spec = tf.TensorSpec([None, None, 4 * UNITS], tf.float32)

    @tf.function(input_signature=[spec], autograph=False)
    def run(x):
        return recurrence.lstm(x, kernel, tf.float32, True)

    x, kernel = numbers()
    whole = run(x)
    for length in (1, 4):
        np.testing.assert_array_equal(run(x[:length]), whole[:length])
    assert run.experimental_get_tracing_count() == 1


def test_padding_closes_all_gates():
    """States and gradients there are 0, and a later token starts anew."""
    x, kernel = numbers()
    mask = np.ones([BATCH, LENGTH], np.int32)
    mask[0, :2] = mask[1, 4:] = 0
    with tf.GradientTape() as tape:
        given = tf.constant(x.transpose(1, 0, 2))
        tape.watch(given)
        closed = recurrence.close_padding(given, mask)
        states = recurrence.lstm(
            tf.transpose(closed, [1, 0, 2]), kernel, tf.float32, True
        )
        total = tf.reduce_sum(states**2)
    gradient = tape.gradient(total, given).numpy()
    assert not states.numpy().transpose(1, 0, 2)[mask == 0].any()
    assert not gradient[mask == 0].any()
    assert gradient[mask == 1].any(axis=-1).all()
    np.testing.assert_allclose(
        states[2:, :1],
        recurrence.lstm(x[2:, :1], kernel, tf.float32, True),
        atol=1e-6,
    )
