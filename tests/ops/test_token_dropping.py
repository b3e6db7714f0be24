"""Tokens that skip the middle layers."""

import numpy as np
import pytest
import tensorflow as tf
from small_models import batch_of, tiny_config

import modeling
from modeling import BertModel
from ops import token_dropping


def test_middle_layers_by_hand():
    found = {n: list(token_dropping.middle_layers(n)) for n in (1, 2, 3, 4, 6)}
    assert found == {1: [], 2: [], 3: [1], 4: [1, 2], 6: [2, 3, 4]}
    assert len(token_dropping.middle_layers(12)) == 6


def test_rows_are_picked_and_restored_by_hand():
    kept = token_dropping.kept_tokens(tf.constant([[0, 2], [1, 2]]), 3)
    x = tf.constant([[0.0], [1], [2], [3], [4], [5]])
    assert kept.pick(x)[:, 0].numpy().tolist() == [0, 2, 4, 5]
    y = kept.restore(-kept.pick(x), x)
    assert y[:, 0].numpy().tolist() == [0, 1, -2, 3, -4, -5]
    wide = tf.reshape(tf.range(18.0), [2, 1, 3, 3])
    expected = [[[[0, 2], [6, 8]]], [[[13, 14], [16, 17]]]]
    assert kept.pick_bias(wide).numpy().tolist() == expected
    assert kept.pick_bias(wide[:, :, :1]).numpy().tolist() == [
        [[[0, 2]]],
        [[[10, 11]]],
    ]


KEPT = tf.constant([[0, 1, 4, 7, 9], [0, 2, 3, 8, 9], [0, 5, 6, 7, 8]])


def dropping_model() -> tuple[BertModel, dict[str, tf.Tensor]]:
    model = BertModel(tiny_config(num_hidden_layers=4))
    features = batch_of(model.config)
    names = ("input_ids", "segment_ids")
    mask = np.ones([3, 10], np.int32)
    mask[1, 9:] = 0
    rest = {"input_mask": tf.constant(mask)}
    return model, {name: features[name] for name in names} | rest


@pytest.mark.parametrize("is_packed", [False, True])
def test_kept_tokens_see_kept_tokens_alone(is_packed):
    """As all tokens of a model whose middle layers are masked, and restored."""
    model, features = dropping_model()
    ids = None
    if is_packed:
        ids = features["sequence_ids"] = tf.constant(
            [[1] * 5 + [2] * 5, [1] * 9 + [0], [1, 1, 2, 2, 2, 3, 3, 3, 3, 3]]
        )
    output = model(**features, kept_positions=KEPT)
    mask = features["input_mask"]
    is_kept = np.zeros([3, 10], bool)
    np.put_along_axis(is_kept, KEPT.numpy(), True, axis=1)
    full, middle = (
        modeling.attention_bias(features["input_ids"], m, ids)
        for m in (mask, mask * is_kept)
    )
    is_real = mask.numpy().reshape(-1) > 0  # padding has arbitrary vectors
    x = tf.reshape(output.embedding_output, [30, -1])
    for number, layer in enumerate(model.encoder.layers):
        if number in (1, 2):
            y = layer(x, middle, None)
            x = tf.where(is_kept.reshape(-1, 1), y, x)
        else:
            x = layer(x, full, None)
        found = tf.reshape(output.encoder_layers[number], [30, -1])
        np.testing.assert_allclose(found[is_real], x[is_real], atol=2e-5)
    # A token that was dropped has the vector of the layer before.
    first, second = (output.encoder_layers[n].numpy() for n in (0, 2))
    np.testing.assert_array_equal(first[~is_kept], second[~is_kept])


def test_all_tokens_kept_is_an_ordinary_model():
    """The same numbers; without positions the same bits as ever."""
    model, features = dropping_model()
    positions = tf.tile(tf.range(10)[None], [3, 1])
    whole = model(**features).sequence_output
    kept = model(**features, kept_positions=positions).sequence_output
    np.testing.assert_allclose(kept, whole, atol=1e-5)


def test_gradients_reach_dropped_tokens():
    """Through the first and the last layer."""
    model, features = dropping_model()
    vectors = tf.ones([3, 10, 32])
    with tf.GradientTape() as tape:
        tape.watch(vectors)
        output = model(**features, word_vectors=vectors, kept_positions=KEPT)
        loss = tf.reduce_sum(output.sequence_output[:, 0] ** 3)
    gradient = tape.gradient(loss, vectors).numpy()
    assert (np.abs(gradient[0]).sum(axis=-1) > 0).all()
