"""swag/model.py: scores and loss of whole questions against single choices."""

import numpy as np
import pytest
import tensorflow as tf
import tiny

from tasks.swag import model as swag_model

VOCAB = [*tiny.SPECIAL, *"abcdefghij"]
CONFIG = tiny.config_of(VOCAB)


@pytest.mark.slow
def test_the_loss_is_the_mean_over_questions_by_hand():
    """And the score of a choice does not depend on the others."""
    tf.keras.utils.set_random_seed(5)
    model = swag_model.BertForMultipleChoice(CONFIG)
    model.output_weights.assign(model.output_weights * 50)
    assert [v.path for v in model.variables[-2:]] == [
        "output_weights",
        "output_bias",
    ]
    rng = np.random.default_rng(5)
    ids = rng.integers(5, len(VOCAB), [3, 4, 7])
    batch = {
        "input_ids": tf.constant(ids, tf.int32),
        "input_mask": tf.ones([3, 4, 7], tf.int32),
        "segment_ids": tf.constant(rng.integers(0, 2, ids.shape), tf.int32),
        "label_ids": tf.constant([[2] * 4, [0] * 4, [3] * 4]),
    }
    scores = np.array(
        [
            [
                model({n: batch[n][q, c][None] for n in list(batch)[:3]})[0]
                for c in range(4)
            ]
            for q in range(3)
        ],
        np.float64,
    )
    np.testing.assert_allclose(model(batch), scores, atol=1e-5)
    log_probs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    picked = log_probs[range(3), [2, 0, 3]]
    sums = swag_model.MULTIPLE_CHOICE.forward(model, batch, None)
    weights = swag_model.MULTIPLE_CHOICE.loss_weights(batch)
    loss = swag_model.MULTIPLE_CHOICE.total_loss(
        {"label_loss": sums["label_loss"][0]}, weights
    )
    np.testing.assert_allclose(loss, -picked.mean(), rtol=1e-5)
    right = (scores.argmax(axis=1) == [2, 0, 3]).sum()
    assert [float(x) for x in sums["accuracy"]] == [right, 3]
    assert [float(x) for x in sums["tokens"]] == [84, 3]
