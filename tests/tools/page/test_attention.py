"""The probabilities are those the model attends with."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tiny

import modeling
from tools.page import attention, models
from training.task_model import TaskModel

VOCAB = [*tiny.SPECIAL, "good", "bad", "film", "the"]


def config_of(**changes) -> modeling.BertConfig:
    config = tiny.config_of(VOCAB, num_hidden_layers=3)
    return modeling.BertConfig.from_dict(config.to_dict() | changes)


def features_of(ids: list[int]) -> dict[str, np.ndarray]:
    ids = np.array([ids], np.int32)
    return {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.array([[0, 0, 0, 1, 1, 1]], np.int32)[
            :, : ids.shape[1]
        ],
    }


@pytest.fixture(params=["bidirectional", "left_to_right"])
def model(request):
    tf.keras.utils.set_random_seed(3)
    config = config_of(attention_direction=request.param)
    return TaskModel(config)


def test_they_weigh_the_values_as_each_layer_does(model):
    """Probabilities times values are the context that the layer computes."""
    features = features_of([2, 5, 8, 3, 6, 3])
    ids, mask = features["input_ids"], features["input_mask"]
    direction = model.config.attention_direction
    shared = modeling.Shared(
        modeling.attention_bias(ids, mask, None, direction)
    )
    output = model.bert(**model.encoder_inputs(features))
    x = output.embedding_output[0]
    found = list(attention.attention_heads(model, features))
    assert [probs.shape for probs in found] == [(2, 6, 6)] * 3
    for layer, probs in zip(model.bert.encoder.layers, found, strict=True):
        own = layer.attention.self_attention
        value = own.value(x).numpy().reshape(6, 2, 8)  # [S, N, D]
        context = np.einsum("nft,tnd->fnd", probs, value).reshape(6, 16)
        np.testing.assert_allclose(
            context, own(x, shared=shared), rtol=0, atol=1e-6
        )
        x = layer(x, shared=shared)
    np.testing.assert_allclose(x, output.sequence_output[0], atol=1e-6)


def test_they_are_the_softmax_of_the_paper(model):
    """By hand, with numpy: softmax(Q K^T / sqrt(D)), -inf at what is hidden."""
    features = features_of([2, 7, 3])
    output = model.bert(**model.encoder_inputs(features))
    x = output.embedding_output[0].numpy().astype(float)
    own = model.bert.encoder.layers[0].attention.self_attention
    found = next(attention.attention_heads(model, features))
    for head in range(2):
        part = slice(8 * head, 8 * head + 8)
        query, key = (
            x @ dense.kernel.numpy()[:, part] + dense.bias.numpy()[part]
            for dense in (own.query, own.key)
        )
        scores = query @ key.T / np.sqrt(8)
        if model.config.attention_direction == modeling.LEFT_TO_RIGHT:
            scores[np.triu_indices(3, 1)] = -np.inf
        shares = np.exp(scores)
        shares /= shares.sum(1, keepdims=True)
        np.testing.assert_allclose(found[head], shares, atol=1e-6)


def test_a_row_of_a_fine_tuned_model(model_of):
    model = model_of("pairs")
    row = model.row("good film", "bad")
    features = models.features_of(row)
    (probs,) = attention.attention_heads(model.model, features)
    assert probs.shape == (2, 6, 6)  # [CLS] good film [SEP] bad [SEP]
    np.testing.assert_allclose(probs.sum(-1), 1, atol=1e-6)


PROBS = np.array([[0.5, 0.5], [0.01, 0.99]], np.float32)


def test_a_heat_map_has_the_weights_and_names_every_token_once():
    figure = attention.heat_map(["a", "a"], PROBS)
    trace = figure["data"][0]
    np.testing.assert_allclose(trace["z"], PROBS, atol=1e-4)
    assert trace["x"] == trace["y"] == ["a 0", "a 1"]
    # The opacity of a weight is its square root.
    assert [0.25, "rgba(37, 99, 235, 0.5)"] in trace["colorscale"]


def test_tokens_are_no_tags_for_plotly():
    names = attention.heat_map(["<b>", "x"], PROBS)["data"][0]["x"]
    assert names == ["&lt;b&gt; 0", "x 1"]


def test_a_long_row_is_small_enough_to_send():
    probs = np.random.default_rng(0).random((512, 512), np.float32)
    figure = attention.heat_map(["token"] * 512, probs)
    assert len(json.dumps(figure)) < 3_000_000
