"""The objective: sums and denominators of both tasks.

The model itself is compared with the original's in tests/test_modeling.py.
"""

import numpy as np
import pytest
import small_models
import tensorflow as tf

from pretraining import model as pretraining_model

OBJECTIVE = pretraining_model.PRETRAINING


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
