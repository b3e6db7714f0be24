"""The training step as one program, as GPUs and TPUs run it."""

import numpy as np
import pytest
import tensorflow as tf
from pretraining_runs import CONFIG, make_features

import modeling
import optimization
from pretraining import model as pretraining_model
from pretraining import objectives
from training import train_step
from training.compilation import Compilation
from training.settings import Settings


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_whole_step_is_one_program(parts):
    """As a GPU or TPU runs it: static shapes, dropout, update and all."""
    config = modeling.BertConfig.from_dict(CONFIG)
    features = make_features(np.random.default_rng(0), 8)
    features["next_sentence_labels"] = features["next_sentence_labels"][:, 0]
    batch = {
        name: tf.constant(
            value, tf.float32 if name.endswith("weights") else tf.int32
        )
        for name, value in features.items()
    }
    results = []
    for compiles in (False, True):
        tf.keras.utils.set_random_seed(1)
        model = pretraining_model.BertForPreTraining(config)
        optimizer = optimization.create_optimizer()
        optimizer.create_slots(model.trainable_variables)
        step = train_step.Step(
            tf.distribute.get_strategy(),
            model,
            objectives.OBJECTIVES["mlm_nsp"].objective,
            optimizer,
            optimization.create_schedule(1e-3, 10, 0),
            Settings(
                "", 10, 8, gradient_accumulation_steps=parts, jit_compile=False
            ),
            Compilation(),
        )
        run = tf.function(
            step.replica_step, jit_compile=compiles, autograph=False
        )
        sums = run(batch, tf.constant(3, tf.int64))
        results.append((sums, [v.numpy() for v in model.variables]))
    for one, other in zip(
        tf.nest.flatten(results[0]), tf.nest.flatten(results[1]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)
