"""The training step as one program, as GPUs and TPUs run it."""

import numpy as np
import pytest
import tensorflow as tf
from pretraining_runs import CONFIG, make_features

import modeling
from ops import elementwise
from pretraining import model as pretraining_model
from pretraining import objectives
from tasks.classifier import model as classifier_model
from training import train_step
from training.compilation import Compilation
from training.settings import TrainingSettings


@pytest.mark.nightly
@pytest.mark.parametrize("parts, choice", [(1, "none"), (2, "attention")])
def test_whole_step_is_one_program(parts, choice):
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
        step = train_step.Step(
            tf.distribute.get_strategy(),
            model,
            objectives.OBJECTIVES["mlm_nsp"].objective,
            TrainingSettings(
                "",
                8,
                num_train_steps=10,
                learning_rate=1e-3,
                gradient_accumulation_steps=parts,
                recompute=choice,
            ),
            Compilation(step=compiles),
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


@pytest.mark.slow
def test_elementwise_programs_serve_lengths_that_the_trace_does_not_know():
    """One trace for all lengths; the numbers are those of TensorFlow alone."""
    config = modeling.BertConfig.from_dict(CONFIG)

    def batches():
        rng = np.random.default_rng(0)
        for length in (8, 16, 8, 12):
            ids = rng.integers(1, config.vocab_size, [4, length])
            yield {
                "input_ids": ids,
                "input_mask": np.arange(length) < rng.integers(3, 9, [4, 1]),
                "segment_ids": ids % 2,
                "label_ids": ids[:, 0] % 3,
            }

    spec = tf.TensorSpec([4, None], tf.int32)
    signature = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), spec)
    signature["label_ids"] = tf.TensorSpec([4], tf.int32)
    results = []
    for fuses in (False, True):
        elementwise._with_gradient.cache_clear()
        tf.keras.utils.set_random_seed(1)
        model = classifier_model.BertForSequenceClassification(config, 3)
        step = train_step.Step(
            tf.distribute.get_strategy(),
            model,
            classifier_model.CLASSIFICATION,
            TrainingSettings("", 4, num_train_steps=10, learning_rate=1e-3),
            Compilation(elementwise=fuses, update=True),
        )
        data = tf.data.Dataset.from_generator(
            batches, output_signature=signature
        )
        count = tf.constant(4, tf.int64)
        done, sums = step.repeat(iter(data), tf.constant(0, tf.int64), count)
        assert int(done) == 4
        results.append((sums, [v.numpy() for v in model.variables]))
        assert bool(elementwise._with_gradient.cache_info().misses) == fuses
    for one, other in zip(
        tf.nest.flatten(results[0]), tf.nest.flatten(results[1]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)
