"""Skipping the padding changes no output at real tokens, to 1e-5."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example, given, settings
from hypothesis import strategies as st

import modeling
from modeling import Compute
from ops import unpadding

CONFIG = modeling.BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    max_position_embeddings=24,
    type_vocab_size=2,
    initializer_range=0.5,
)

SKIPPING = Compute(skip_padding=True)


@functools.cache
def bert():
    tf.keras.utils.set_random_seed(1)
    return modeling.BertModel(CONFIG)


@functools.cache
def traced(skips):
    """The model as an export sees it: any shape."""
    ids = tf.TensorSpec([None, None], tf.int32)
    optional = dict.fromkeys(("input_mask", "segment_ids", "position_ids"), ids)

    @tf.function(
        input_signature=[{"input_ids": ids} | optional], autograph=False
    )
    def run(features):
        return bert()(**features, compute=Compute(skip_padding=skips))

    return run.get_concrete_function()


def compare(mask):
    """Run both ways on random ids; they agree where a token is real."""
    mask = np.asarray(mask, np.int32)
    rng = np.random.default_rng(int(mask.sum()))
    features = {
        "input_ids": rng.integers(0, CONFIG.vocab_size, mask.shape),
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, mask.shape),
        "position_ids": rng.permuted(
            np.tile(np.arange(mask.shape[1]), (len(mask), 1)), axis=1
        ),
    }
    features = {k: tf.constant(v, tf.int32) for k, v in features.items()}
    padded, packed = traced(False)(features), traced(True)(features)
    # In a row without tokens -10,000 is added to all scores, which leaves them
    # three decimals: their order of summation is seen in the fifth digit.
    close = functools.partial(np.testing.assert_allclose, atol=5e-5)
    close(packed.pooled_output, padded.pooled_output)
    real = mask != 0
    real[~real.any(axis=1)] = True
    for name in ("sequence_output", "embedding_output"):
        one, other = getattr(packed, name), getattr(padded, name)
        close(one.numpy()[real], other.numpy()[real])
    for one, other in zip(
        packed.encoder_layers, padded.encoder_layers, strict=True
    ):
        close(one.numpy()[real], other.numpy()[real])
    real[:, 0] = True
    assert not packed.sequence_output.numpy()[~real].any()
    assert packed.sequence_output.numpy()[real].any(axis=-1).all()


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 24), min_size=1, max_size=9))
@example([7])  # a batch of one
@example([1])
@example([5, 5, 5])  # no padding at all
@example([1, 1, 24])
@example([24, 1, 1])
def test_outputs_for_rows_of_any_length(lengths):
    compare(np.arange(max(lengths)) < np.array(lengths)[:, None])


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 12).flatmap(
        lambda length: st.lists(
            st.lists(st.integers(0, 1), min_size=length, max_size=length),
            min_size=1,
            max_size=5,
        )
    )
)
@example([[0, 0, 0], [1, 1, 0]])  # a row of padding alone
@example([[0, 1, 1], [1, 0, 1]])  # a masked [CLS], a hole
def test_outputs_for_any_mask(mask):
    compare(mask)


def test_indices_of_the_docstring_example():
    tokens = unpadding.real_tokens(tf.constant([[1, 1, 0], [1, 0, 0]]), 2)
    assert tokens.places.numpy().tolist() == [0, 1, 3]
    assert tokens.split_at.numpy().tolist() == [
        [[0, 2, 2], [1, 3, 3]],
        [[4, 4, 4], [5, 5, 5]],
    ]
    # Of [B, N, S]: token 0 at (0, ., 0), 1 at (0, ., 1), 2 at (1, ., 0).
    assert tokens.merge_at.numpy().tolist() == [[0, 3], [1, 4], [6, 9]]
    assert tokens.pick(
        tf.constant([[5, 6, 7], [8, 9, 9]])
    ).numpy().tolist() == [[5, 6, 8]]
    assert tokens.positions(None).numpy().tolist() == [[0, 1, 0]]
    restored = tokens.restore(tf.constant([[1.0], [2.0], [3.0]]))
    assert restored.numpy().tolist() == [[[1], [2], [0]], [[3], [0], [0]]]


def test_dense_layers_multiply_real_tokens_only(monkeypatch):
    """Every matrix product has R rows, not B * S."""
    rows = []
    original = modeling.Dense.product

    def product(self, x):
        rows.append(x.shape[0])
        return original(self, x)

    monkeypatch.setattr(modeling.Dense, "product", product)
    mask = tf.constant([[1, 1, 1, 1], [1, 0, 0, 0]])
    ids = tf.ones_like(mask)
    bert()(ids, input_mask=mask, compute=SKIPPING)
    assert rows == [5] * 12 + [2]  # six a layer; the pooler
    rows.clear()
    bert()(ids, input_mask=mask)
    assert rows == [8] * 12 + [2]


@pytest.mark.parametrize("training, has_mask", [(True, True), (False, False)])
def test_training_and_batches_without_mask_skip_nothing(training, has_mask):
    """So the shapes of the output are known while a graph is traced."""

    @tf.function(autograph=False)
    def run():
        mask = tf.constant([[1, 0]]) if has_mask else None
        output = bert()(
            tf.constant([[3, 4]]), mask, training=training, compute=SKIPPING
        )
        assert output.sequence_output.shape == [1, 2, CONFIG.hidden_size]

    run.get_concrete_function()
