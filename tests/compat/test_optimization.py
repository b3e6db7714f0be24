"""The original's optimizer in a graph of TensorFlow 1."""

from base.errors import UserError

import numpy as np
import pytest
import small_models
import tensorflow as tf

import modeling
import optimization
from compat import run_pretraining

v1 = tf.compat.v1


@pytest.mark.slow
def test_thirty_steps_are_the_originals():
    """Model, losses and optimizer as the original's model_fn joins them."""
    golden, folder = small_models.golden_arrays(), small_models.GOLDEN_MODEL
    config = small_models.golden_config()
    with tf.Graph().as_default(), v1.Session() as session:
        batch = {name: golden[name] for name in small_models.FEATURES}
        model = modeling.BertModel(
            config=config,
            is_training=True,
            input_ids=tf.constant(batch["input_ids"]),
            input_mask=tf.constant(batch["input_mask"]),
            token_type_ids=tf.constant(batch["segment_ids"]),
        )
        masked, _, masked_log_probs = run_pretraining.get_masked_lm_output(
            config,
            model.get_sequence_output(),
            model.get_embedding_table(),
            tf.constant(batch["masked_lm_positions"]),
            tf.constant(batch["masked_lm_ids"]),
            tf.constant(batch["masked_lm_weights"]),
        )
        following, _, next_log_probs = run_pretraining.get_next_sentence_output(
            config,
            model.get_pooled_output(),
            tf.constant(batch["next_sentence_labels"]),
        )
        loss = masked + following
        train_op = optimization.create_optimizer(
            loss,
            float(golden["learning_rate"]),
            int(golden["num_train_steps"]),
            int(golden["num_warmup_steps"]),
            use_tpu=False,
        )
        found, _ = modeling.get_assignment_map_from_checkpoint(
            v1.trainable_variables(), str(folder / "bert_model.ckpt")
        )
        assert len(found) == len(v1.trainable_variables())
        v1.train.init_from_checkpoint(str(folder / "bert_model.ckpt"), found)
        session.run(v1.global_variables_initializer())
        first = session.run([masked_log_probs, next_log_probs])
        losses = [
            session.run([loss, train_op])[0]
            for _ in range(int(golden["steps"]))
        ]
        values = session.run({v.name[:-2]: v for v in v1.global_variables()})
    np.testing.assert_allclose(
        first[0].reshape(golden["masked_lm_log_probs"].shape),
        golden["masked_lm_log_probs"],
        atol=1e-5,
    )
    np.testing.assert_allclose(
        first[1], golden["next_sentence_log_probs"], atol=1e-5
    )
    np.testing.assert_allclose(losses, golden["train_losses"], atol=1e-4)
    trained = tf.train.load_checkpoint(str(folder / "trained/model.ckpt-30"))
    names = trained.get_variable_to_shape_map()
    assert sorted(values) == sorted(names)
    assert values["global_step"] == 30
    for name in names:
        np.testing.assert_allclose(
            values[name], trained.get_tensor(name), atol=1e-4, err_msg=name
        )


def test_gradients_of_none_and_sparse_ones():
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable(
            "table", [3, 2], initializer=tf.ones_initializer()
        )
        v1.get_variable("unused", [2])
        loss = tf.reduce_sum(tf.gather(table, [1, 1]))
        optimizer = optimization.AdamWeightDecayOptimizer(
            0.1, weight_decay_rate=0.5
        )
        train_op = optimizer.minimize(loss)
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        names = [v.name for v in v1.global_variables()]
        found = session.run(table)
    assert names == ["table:0", "unused:0", "table/adam_m:0", "table/adam_v:0"]
    # Every weight decays by 0.1 * 0.5; m / sqrt(v) of a first step is 3.162.
    np.testing.assert_allclose(found[0], 0.95, atol=1e-6)
    np.testing.assert_allclose(found[1], 0.95 - 0.3162, atol=1e-4)


def test_tpus_are_refused():
    with tf.Graph().as_default(), pytest.raises(UserError, match="tf.contrib"):
        optimization.create_optimizer(tf.constant(1.0), 1e-3, 10, 1, True)
