"""The objective: sums and denominators of both tasks.

The model itself is compared with the original's in tests/test_modeling.py.
"""

import numpy as np
import packed_batches
import pytest
import small_models
import tensorflow as tf

from pretraining import model as pretraining_model
from pretraining import objectives

OBJECTIVE = objectives.OBJECTIVES["mlm_nsp"].objective


@pytest.fixture(scope="module")
def model() -> pretraining_model.BertForPreTraining:
    return pretraining_model.BertForPreTraining(small_models.tiny_config())


def batch_of(model) -> dict[str, tf.Tensor]:
    batch = small_models.batch_of(model.config)
    rows = batch["next_sentence_labels"].shape[0]
    weights = np.ones(batch["masked_lm_weights"].shape, np.float32)
    weights[-1] = 0
    batch["masked_lm_weights"] = tf.constant(weights)
    batch["example_weights"] = tf.constant([1.0] * (rows - 1) + [0.0])
    return batch


def test_denominators_are_the_counts_of_the_sums(model):
    """They are computed before the step, from the records alone."""
    batch = batch_of(model)
    sums = OBJECTIVE.forward(model, batch, training=False, dropout_seed=None)
    assert sums.keys() == set(OBJECTIVE.names)
    weights = OBJECTIVE.loss_weights(batch)
    assert weights.keys() == {"masked_lm_loss", "next_sentence_loss"}
    for name, weight in weights.items():
        assert float(weight) == float(sums[name][1]) > 1


def test_total_loss_is_the_sum_of_two_means(model):
    batch = batch_of(model)
    sums = OBJECTIVE.forward(model, batch, training=False, dropout_seed=None)
    weights = OBJECTIVE.loss_weights(batch)
    total = OBJECTIVE.total_loss(
        {name: sums[name][0] for name in weights}, weights
    )
    wanted = sum(float(sums[name][0] / sums[name][1]) for name in weights)
    np.testing.assert_allclose(total, wanted, rtol=1e-5)


def test_a_batch_without_predictions_has_a_finite_loss(model):
    batch = batch_of(model)
    batch["masked_lm_weights"] = tf.zeros_like(batch["masked_lm_weights"])
    sums = OBJECTIVE.forward(model, batch, training=False, dropout_seed=None)
    weights = OBJECTIVE.loss_weights(batch)
    total = OBJECTIVE.total_loss(
        {name: sums[name][0] for name in weights}, weights
    )
    following, count = sums["next_sentence_loss"]
    np.testing.assert_allclose(total, following / count, rtol=1e-6)


# --- Packed rows -------------------------------------------------------------


def losses_and_gradients(model, batch: dict, compiles: bool) -> tuple:
    """Return the sums, the loss and the gradient of every variable."""

    def run(batch):
        weights = OBJECTIVE.loss_weights(batch)
        with tf.GradientTape() as tape:
            sums = OBJECTIVE.forward(
                model, batch, training=True, dropout_seed=1
            )
            loss = OBJECTIVE.total_loss(
                {name: sums[name][0] for name in weights}, weights
            )
        gradients = tape.gradient(
            loss, [v.value for v in model.trainable_variables]
        )
        return sums, loss, [tf.convert_to_tensor(g) for g in gradients]

    if compiles:
        run = tf.function(run, jit_compile=True, autograph=False)
    return run(batch)


@pytest.fixture(scope="module")
def plain_model() -> pretraining_model.BertForPreTraining:
    """A model without dropout."""
    return pretraining_model.BertForPreTraining(
        small_models.tiny_config(
            hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
    )


@pytest.mark.parametrize(
    "compiles", [False, pytest.param(True, marks=pytest.mark.slow)]
)
def test_packed_rows_have_loss_and_gradient_of_their_sequences(
    plain_model, compiles
):
    """Every metric, the loss, and the gradient of each variable."""
    single, packed = map(packed_batches.batch_of, packed_batches.both(48))
    assert len(packed["input_ids"]) < 0.7 * len(single["input_ids"])
    expected = losses_and_gradients(plain_model, single, compiles)
    found = losses_and_gradients(plain_model, packed, compiles)
    largest = max(float(tf.reduce_max(tf.abs(g))) for g in expected[2])
    assert largest > 0.1
    for one, other in zip(
        tf.nest.flatten(found[:2]), tf.nest.flatten(expected[:2]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    pairs = list(zip(found[2], expected[2], strict=True))
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * largest)
    # pytest -s shows it.
    worst = max(float(tf.reduce_max(tf.abs(a - b))) for a, b in pairs)
    print(f"gradients up to {largest:.2f} differ by {worst:.1e} at most")


@pytest.mark.parametrize("name", ["sequence_ids", "position_ids"])
def test_packed_rows_need_each_of_their_features(plain_model, name):
    """Attention across sequences or positions of the row: other logits."""
    single, packed = packed_batches.both(48)
    used = packed["masked_lm_weights"] > 0
    batch = packed_batches.batch_of(packed)
    found = plain_model({**batch, name: None}).masked_lm_logits[used]
    expected = plain_model(packed_batches.batch_of(single)).masked_lm_logits
    expected = expected[single["masked_lm_weights"] > 0]
    assert np.abs(found - expected).max() > 0.1


def test_rows_that_fill_a_packed_batch_change_nothing(plain_model):
    """They are zeros: no sequence, no key that any of their tokens may see."""
    _, packed = packed_batches.both(48)
    filled = {
        name: np.concatenate([value, np.zeros_like(value[:3])])
        for name, value in packed.items()
    }
    results = [
        losses_and_gradients(
            plain_model, packed_batches.batch_of(features), False
        )
        for features in (packed, filled)
    ]
    for one, other in zip(*map(tf.nest.flatten, results), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_logits_of_packed_rows_are_those_of_their_sequences(plain_model):
    single, packed = packed_batches.both(48)
    expected, found = (
        plain_model(packed_batches.batch_of(features))
        for features in (single, packed)
    )
    assert found.next_sentence_logits.shape == (
        *packed["next_sentence_labels"].shape,
        2,
    )
    np.testing.assert_allclose(
        found.next_sentence_logits[packed["next_sentence_weights"] > 0],
        expected.next_sentence_logits,
        atol=1e-5,
    )
    np.testing.assert_allclose(
        found.masked_lm_logits[packed["masked_lm_weights"] > 0],
        expected.masked_lm_logits[single["masked_lm_weights"] > 0],
        atol=1e-4,
    )
