"""Cross entropies and their gradients against TensorFlow's in float64."""

import numpy as np
import pytest
import tensorflow as tf

from ops import elementwise, losses


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

    @tf.function
    def ours():
        with tf.GradientTape() as tape, elementwise.fusing(is_fused):
            tape.watch(inputs)
            loss, correct = losses.projected_cross_entropy(
                *inputs, tf.constant(labels, tf.int32), tf.constant(weights)
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
