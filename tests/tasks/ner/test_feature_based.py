"""ner/feature_based.py: the layers of table 7, and the BiLSTM on them."""

import numpy as np
import pytest
import tensorflow as tf
from ner_runs import CONFIG

import modeling
from modeling import BertConfig
from tasks import bilstm
from tasks.encoder import layers as features_layers
from tasks.ner import feature_based

DEEP = BertConfig.from_dict(CONFIG.to_dict() | {"num_hidden_layers": 4})


@pytest.mark.slow
@pytest.mark.parametrize("name", features_layers.table_7(4))
def test_every_row_of_table_7(name):
    """The input of the BiLSTM, computed by hand."""
    choice = features_layers.table_7(4)[name]
    tf.keras.utils.set_random_seed(1)
    model = feature_based.BertForFeatureTagging(DEEP, 5, choice, 3)
    batch = {"input_ids": tf.constant([[2, 6, 7, 3]])}
    output = model.encode(batch)
    layers = output.encoder_layers
    wanted = {
        "embeddings": output.embedding_output,
        "second_to_last": layers[-2],
        "last": layers[-1],
        "weighted_sum_last_four": sum(layers) / 4,
        "concat_last_four": tf.concat(layers, -1),
        "weighted_sum_all": sum(layers) / 4,
    }[name]
    mask = tf.ones([1, 4], tf.int32)
    activations = model.activations(batch)
    logits = model({"activations": activations, "input_mask": mask})
    x = model.bilstm(wanted, mask, None)
    x = modeling.project(x, model.output_weights, model.output_bias)
    np.testing.assert_allclose(logits, x, atol=1e-6)
    paths = [variable.path for variable in model.variables]
    assert len(set(paths)) == len(paths)


def test_padding_does_not_reach_the_words():
    """Neither direction of the BiLSTM reads the padding of a sentence."""
    tf.keras.utils.set_random_seed(1)
    lstm = bilstm.BiLstm(4, 3)
    lstm.build()
    x = np.random.default_rng(0).normal(size=[2, 5, 4]).astype(np.float32)
    mask = tf.constant([[1, 1, 1, 0, 0], [1] * 5])
    found = lstm(x, mask, None)
    alone = lstm(x[:1, :3], mask[:1, :3], None)
    np.testing.assert_allclose(found[:1, :3], alone, atol=1e-6)
    assert not found[0, 3:].numpy().any()
    seed = tf.constant(7, tf.uint32)
    np.testing.assert_array_equal(lstm(x, mask, seed), lstm(x, mask, seed))
    assert (lstm(x, mask, seed) != found).numpy().any()
