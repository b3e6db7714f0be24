"""Cross entropies and their gradients against TensorFlow's in float64."""

import numpy as np
import pytest
import tensorflow as tf

from ops import losses


@pytest.mark.parametrize("is_fused", [False, True])
def test_projected_cross_entropy_and_its_gradients(is_fused):
    """Loss and gradients of every input are those of a float64 softmax."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=[12, 8]).astype(np.float32) * 3
    table = rng.normal(size=[50, 8]).astype(np.float32)
    bias = rng.normal(size=[50]).astype(np.float32)
    bias[7] += 300.0  # no overflow
    wide = (x.astype(np.float64) @ table.T) + bias
    labels = rng.integers(0, 50, [12])
    labels[4:8] = wide[4:8].argmax(-1)
    weights = rng.random([12]).astype(np.float32)
    weights[10:] = 0
    inputs = [tf.constant(value) for value in (x, table, bias)]

    @tf.function(autograph=False)
    def ours():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            loss, correct = losses.projected_cross_entropy(
                *inputs,
                tf.constant(labels, tf.int32),
                tf.constant(weights),
                is_fused,
            )
            scaled = loss * 0.25
        return loss, correct, tape.gradient(scaled, inputs)

    loss, correct, gradients = ours()
    wide_inputs = [tf.cast(value, tf.float64) for value in inputs]
    with tf.GradientTape() as tape:
        tape.watch(wide_inputs)
        logits = tf.matmul(wide_inputs[0], wide_inputs[1], transpose_b=True)
        row_losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, logits + wide_inputs[2]
        )
        expected = tf.reduce_sum(row_losses * weights)
        wide_scaled = expected * 0.25
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    hits = (wide.argmax(-1) == labels) * weights
    np.testing.assert_allclose(correct, hits.sum(), rtol=1e-6)
    for found, wanted in zip(
        gradients, tape.gradient(wide_scaled, wide_inputs), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=2e-5)


@pytest.mark.parametrize("loss_scale", [1.0, 65536.0])
@pytest.mark.parametrize("is_sliced", [False, True])
def test_float16_gradients_neither_overflow_nor_underflow(
    is_sliced, loss_scale
):
    """With 30,000 words of one probability, and sums of 60,000.

    In float16 alone, the sum of the exponentials times the table would be
    infinite, and x divided by the number of words nearly 0.
    """
    rng = np.random.default_rng(4)
    rows, hidden, words = 24, 8, 30_000
    x = rng.normal(size=[rows, hidden]).astype(np.float32)
    x[:4] *= 1e-3  # all words have nearly the same logit
    table = rng.normal(0.0, 0.1, [words, hidden]).astype(np.float32)
    table[:, 0] = 4.0
    x[:, 0] = 1e-3
    labels = tf.constant(rng.integers(0, words, [rows]), tf.int32)
    weights = tf.ones([rows])
    bias = tf.zeros([words])

    def gradients(dtype):
        # Rounded first: the same numbers in both types.
        inputs = [tf.cast(tf.cast(v, tf.float16), dtype) for v in (x, table)]
        inputs = [inputs[0], tf.cast(inputs[1], tf.float32), bias]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            if is_sliced:
                loss, _ = losses.sliced_cross_entropy(
                    *inputs, labels, weights, 10, True
                )
            else:
                loss, _ = losses.projected_cross_entropy(
                    *inputs, labels, weights
                )
            scaled = loss * (loss_scale / rows)
        return [tf.cast(g, tf.float32) for g in tape.gradient(scaled, inputs)]

    for found, wanted in zip(
        gradients(tf.float16), gradients(tf.float32), strict=True
    ):
        error = tf.norm(found - wanted) / tf.norm(wanted)
        assert float(error) < 2e-3
    # Words that are no label, whose gradients are the smallest.
    others = np.setdiff1d(np.arange(words), labels)
    found, wanted = (
        gradients(dtype)[1].numpy()[others] for dtype in ("float16", "float32")
    )
    difference = np.linalg.norm(found - wanted)
    assert difference < 0.02 * np.linalg.norm(wanted)


@pytest.mark.parametrize("way", ["plain", "fused", "sliced"])
def test_bfloat16_gradients_of_1200_rows_are_exact(way):
    """A sum in bfloat16, to which 1/16 is added, stops at 16.

    All 16 words have the probability 1/16, and all rows the label 0.
    """
    rows, words = 1200, 16
    inputs = [
        tf.ones([rows, 2], tf.bfloat16),
        tf.zeros([words, 2]),
        tf.zeros([words]),
    ]
    parts = tf.zeros([rows], tf.int32), tf.ones([rows])

    @tf.function(autograph=False)
    def gradients():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            if way == "sliced":
                loss, _ = losses.sliced_cross_entropy(
                    *inputs, *parts, 500, True
                )
            else:
                loss, _ = losses.projected_cross_entropy(
                    *inputs, *parts, way == "fused"
                )
        return tape.gradient(loss, inputs[1:])

    dtable, dbias = gradients()
    expected = np.full(words, 75.0)
    expected[0] -= rows
    np.testing.assert_array_equal(dbias, expected)
    np.testing.assert_array_equal(dtable, np.stack([expected] * 2, axis=1))


def test_classification_loss_is_a_sum_over_the_weighted_rows():
    logits = tf.constant([[2.0, -1.0], [0.5, 0.25], [1.0, 3.0]])
    labels = tf.constant([[0], [1], [1]])
    log_probs = tf.nn.log_softmax(logits).numpy()
    loss, count, correct = losses.classification_loss(logits, labels)
    wanted = -(log_probs[0, 0] + log_probs[1, 1] + log_probs[2, 1])
    np.testing.assert_allclose(loss, wanted, rtol=1e-6)
    assert (count, correct) == (3.0, 2.0)
    loss, count, correct = losses.classification_loss(
        logits, labels, tf.constant([1.0, 0.0, 0.0])
    )
    np.testing.assert_allclose(loss, -log_probs[0, 0], rtol=1e-6)
    assert (count, correct) == (1.0, 1.0)


def test_soft_loss_and_its_gradient_by_hand():
    """T = 2, three rows, the last one without weight."""
    logits = np.array([[2.0, -1.0], [0.0, 0.0], [5.0, 1.0]], np.float32)
    targets = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]], np.float32)
    weights = np.array([1.0, 2.0, 0.0], np.float32)
    probs = 1.0 / (1.0 + np.exp(-1.5))  # softmax([1, -1/2]) of the first row
    first = -(0.25 * np.log(probs) + 0.75 * np.log(1.0 - probs))
    wanted = 4.0 * (first + 2.0 * np.log(2.0))
    variable = tf.Variable(logits)
    with tf.GradientTape() as tape:
        found = losses.soft_loss(variable, targets, 2.0, weights)
    np.testing.assert_allclose(found.loss, wanted, rtol=1e-6)
    assert (found.weight, found.correct) == (3.0, 2.0)
    # T (softmax(logits / T) - p), times the weight.
    each = 2.0 * (probs - 0.25)
    np.testing.assert_allclose(
        tape.gradient(found.loss, variable),
        [[each, -each], [0.0, 0.0], [0.0, 0.0]],
        atol=1e-6,
    )


def test_soft_loss_of_certain_targets_is_that_of_labels():
    logits = tf.constant([[[2.0, -1.0, 0.3], [0.5, 0.25, -2.0]]])
    labels = tf.constant([[2, 1]])
    soft = losses.soft_loss(logits, tf.one_hot(labels, 3), 1.0, tf.ones([2]))
    hard = losses.classification_loss(logits, labels)
    np.testing.assert_allclose(soft, hard, rtol=1e-6)
