"""The encoder gives the original's numbers, compiled or not, in any batch."""

import doctest
import json

from base.errors import UserError

import numpy as np
import pytest
import small_models
import tensorflow as tf
from marks import nightly
from small_models import FEATURES, GOLDEN_MODEL, batch_of, tiny_config

import modeling
from modeling import BertModel
from pretraining.model import BertForPreTraining

# --- The original's numbers --------------------------------------------------


@pytest.fixture(scope="module")
def golden():
    return small_models.golden_arrays()


@pytest.fixture(scope="module")
def golden_model():
    return small_models.golden_model()


def test_paths_and_shapes_are_those_of_the_checkpoint(golden_model):
    shapes = json.loads((GOLDEN_MODEL / "variables.json").read_text())[
        "variables"
    ]
    wanted = {
        name: shape
        for name, shape in shapes.items()
        if not name.endswith(("adam_m", "adam_v", "global_step"))
    }
    found = {v.path: list(v.shape) for v in golden_model.variables}
    assert found == wanted


@pytest.mark.parametrize("jit_compile", [False, nightly(True)])
def test_outputs_and_losses_are_the_originals(
    golden, golden_model, jit_compile
):
    features = {name: tf.constant(golden[name]) for name in FEATURES}

    @tf.function(jit_compile=jit_compile, autograph=False)
    def forward():
        output = golden_model.bert(**golden_model.encoder_inputs(features))
        logits, next_logits = golden_model(features)
        masked, following = small_models.losses_of(golden_model, features)
        log_probs = tf.nn.log_softmax(logits)
        return {
            "embedding_output": output.embedding_output,
            "all_encoder_layers": tf.stack(output.encoder_layers),
            "pooled_output": output.pooled_output,
            "masked_lm_log_probs": tf.reshape(
                log_probs, [-1, log_probs.shape[-1]]
            ),
            "next_sentence_log_probs": tf.nn.log_softmax(next_logits),
            "masked_lm_loss": masked.loss / (masked.weight + 1e-5),
            "next_sentence_loss": following.loss / following.weight,
        }

    for name, value in forward().items():
        np.testing.assert_allclose(
            value, golden[name], rtol=0, atol=1e-5, err_msg=name
        )


def test_error_of_a_too_long_sequence_names_both_lengths():
    model = BertModel(tiny_config())
    with pytest.raises(UserError) as error:
        model(tf.zeros([1, 41], tf.int32))
    assert "41" in str(error.value) and "40" in str(error.value)
    assert "\n" not in str(error.value)


# --- Variables ---------------------------------------------------------------


def test_variables_are_float32_and_as_many_as_the_layers_need():
    model = BertForPreTraining(tiny_config(num_hidden_layers=3))
    assert len(model.bert.variables) == 5 + 16 * 3 + 2
    assert len(model.variables) == 5 + 16 * 3 + 2 + 7
    assert len({v.path for v in model.variables}) == len(model.variables)
    assert all(v.dtype == "float32" for v in model.variables)


def test_initial_values_are_truncated_normal_zeros_and_ones():
    model = BertForPreTraining(tiny_config(hidden_size=64, vocab_size=500))
    values = {v.path: v.numpy() for v in model.variables}
    for path, value in values.items():
        if path.endswith(("bias", "beta")):
            assert not value.any(), path
        elif path.endswith("gamma"):
            assert (value == 1).all(), path
        else:
            # A normal cut at two deviations has 0.88 of the deviation.
            assert np.abs(value).max() <= 0.4 + 1e-6, path
            if value.size > 1000:
                assert 0.85 * 0.2 < value.std() < 0.91 * 0.2, path
    query = "bert/encoder/layer_0/attention/self/query/kernel"
    key = "bert/encoder/layer_0/attention/self/key/kernel"
    assert not np.array_equal(values[query], values[key])


def test_sinusoidal_positions_begin_as_sines():
    """Position p has sin(p w) and cos(p w) of the frequencies w 1 and 0.01."""
    config = tiny_config(
        hidden_size=4, num_attention_heads=2, sinusoidal_positions=0.1
    )
    table = BertModel(config).embeddings.position_embeddings
    sines = [0.841471, 0.009999833, 0.540302, 0.99995]
    np.testing.assert_allclose(table[0], [0, 0, 0.1, 0.1])
    np.testing.assert_allclose(table[1], np.multiply(sines, 0.1), rtol=1e-5)
    # The next token is at the same angle from every position.
    pairs = np.sum(table[:-1] * table[1:], axis=1)
    np.testing.assert_allclose(pairs, pairs[0], rtol=1e-5)


# --- Padding and packed rows -------------------------------------------------


def test_a_row_depends_on_neither_padding_nor_neighbours():
    config = tiny_config()
    model = BertModel(config)
    features = batch_of(config)
    ids, segments = features["input_ids"], features["segment_ids"]
    alone = model(ids[:1], segment_ids=segments[:1])

    def pad(x):
        return tf.pad(x, [[0, 0], [0, 6]], constant_values=1)

    mask = tf.pad(features["input_mask"], [[0, 0], [0, 6]])
    padded = model(pad(ids), input_mask=mask, segment_ids=pad(segments))
    np.testing.assert_allclose(
        padded.sequence_output[:1, :10], alone.sequence_output, atol=1e-5
    )
    np.testing.assert_allclose(
        padded.pooled_output[:1], alone.pooled_output, atol=1e-5
    )


def test_a_row_of_padding_is_finite():
    model = BertModel(tiny_config())
    ids = tf.zeros([2, 5], tf.int32)
    output = model(ids, input_mask=tf.zeros_like(ids))
    assert np.isfinite(output.sequence_output).all()


def test_attention_bias_of_packed_examples():
    """The example of the docstring, and the same row without packing."""
    ids = tf.zeros([1, 4], tf.int32)
    mask = tf.constant([[1, 1, 1, 0]])
    off = -10000.0
    packed = modeling.attention_bias(ids, mask, tf.constant([[1, 1, 2, 0]]))
    rows = [*[[0, 0, off, off]] * 2, [off, off, 0, off], [off] * 4]
    assert packed.numpy().tolist() == [[rows]]
    plain = modeling.attention_bias(ids, mask, None)
    assert plain.numpy().tolist() == [[[[0, 0, 0, off]]]]
    default = modeling.attention_bias(ids, None, None)
    assert default.numpy().tolist() == [[[[0, 0, 0, 0]]]]


def test_defaults_are_ones_zeros_and_counting():
    config = tiny_config()
    model = BertModel(config)
    ids = batch_of(config)["input_ids"]
    output = model(ids)
    spelled_out = model(
        ids,
        input_mask=tf.ones_like(ids),
        segment_ids=tf.zeros_like(ids),
        position_ids=tf.tile(tf.range(10)[None], [3, 1]),
    )
    np.testing.assert_allclose(
        output.sequence_output, spelled_out.sequence_output, atol=1e-6
    )
    assert len(output.encoder_layers) == config.num_hidden_layers
    assert output.sequence_output.shape == [3, 10, 32]
    assert output.pooled_output.shape == [3, 32]
    assert output.embedding_output.shape == [3, 10, 32]


@pytest.mark.parametrize("skip_padding", [False, True])
def test_word_vectors_stand_for_those_of_the_ids(skip_padding):
    model = BertModel(tiny_config())
    ids = tf.constant([[1, 2, 3, 4], [5, 6, 0, 0]])
    mask = tf.constant([[1, 1, 1, 1], [1, 1, 0, 0]])
    found, wanted = (
        model(
            given,
            input_mask=mask,
            word_vectors=vectors,
            compute=modeling.Compute(skip_padding=skip_padding),
        ).pooled_output
        for given, vectors in (
            (ids * 0, tf.gather(model.embeddings.word_embeddings, ids)),
            (ids, None),
        )
    )
    np.testing.assert_allclose(found, wanted, atol=1e-6)


def test_sizes_may_be_unknown_while_tracing():
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    signature = {
        name: tf.TensorSpec([None] * len(value.shape), value.dtype)
        for name, value in features.items()
    }
    forward = tf.function(model, input_signature=[signature])
    for dynamic, static in zip(forward(features), model(features), strict=True):
        np.testing.assert_allclose(dynamic, static, atol=1e-5)
    ids = tf.TensorSpec([None, None], tf.int32)
    compiled = tf.function(  # XLA drops assertions
        lambda ids: model.bert(ids, position_ids=ids).pooled_output,
        input_signature=[ids],
        jit_compile=True,
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="40"):
        compiled(tf.zeros([1, 41], tf.int32))


# --- Dropout -----------------------------------------------------------------


def test_dropout_is_a_function_of_the_seed():
    config = tiny_config()
    model = BertModel(config)
    ids = batch_of(config)["input_ids"]

    def run(seed, training=True):
        output = model(ids, training=training, dropout_seed=seed)
        return output.sequence_output.numpy()

    np.testing.assert_array_equal(run(3), run(tf.constant(3)))
    assert np.abs(run(3) - run(4)).max() > 0.1
    assert np.abs(run(None) - run(None)).max() > 0.1
    np.testing.assert_array_equal(run(3, False), run(None, False))


def test_each_dropout_rate_acts_on_its_own_places():
    ids = tf.ones([2, 6], tf.int32)
    for rates, changes in (((0.0, 0.0), False), ((0.5, 0.0), True)):
        config = tiny_config(
            hidden_dropout_prob=rates[0], attention_probs_dropout_prob=rates[1]
        )
        model = BertModel(config)
        trained = model(ids, training=True, dropout_seed=1)
        changed = trained.embedding_output != model(ids).embedding_output
        assert np.any(changed) == changes
    config = tiny_config(
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5
    )
    model = BertModel(config)
    ids = batch_of(config)["input_ids"]
    trained = model(ids, training=True, dropout_seed=1)
    plain = model(ids)
    np.testing.assert_array_equal(
        trained.embedding_output, plain.embedding_output
    )
    assert np.any(trained.sequence_output != plain.sequence_output)


# --- Losses and gradients ----------------------------------------------------


def gradients_of(model, features, pieces=False):
    values = [v.value for v in model.trainable_variables]

    @tf.function(autograph=False)
    def run():
        with tf.GradientTape() as tape:
            loss = small_models.total_loss(
                small_models.losses_of(
                    model.computing(modeling.Compute(fuse=pieces)),
                    features,
                    seed=5,
                )
            )
        return loss, [
            tf.convert_to_tensor(g) for g in tape.gradient(loss, values)
        ]

    return run()


@pytest.mark.slow
def test_gradients_are_the_slopes_of_the_loss():
    """Move every variable a little along its gradient: the loss follows."""
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    _, gradients = gradients_of(model, features)

    @tf.function(autograph=False)
    def loss():
        return small_models.total_loss(
            small_models.losses_of(model, features, seed=5)
        )

    for variable, gradient in zip(
        model.trainable_variables, gradients, strict=True
    ):
        norm = float(tf.norm(gradient))
        if norm < 1e-3:  # a key's bias cancels in the softmax
            continue
        start = tf.identity(variable.value)
        step = 2e-2 / max(norm, 1.0)
        variable.assign(start + step * gradient / norm)
        above = float(loss())
        variable.assign(start - step * gradient / norm)
        below = float(loss())
        variable.assign(start)
        slope = (above - below) / (2 * step)
        np.testing.assert_allclose(
            slope, norm, rtol=0.03, atol=2e-3, err_msg=variable.path
        )


@pytest.mark.slow
def test_fused_and_plain_losses_and_gradients_agree():
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    loss, gradients = gradients_of(model, features)
    fused_loss, fused_gradients = gradients_of(model, features, pieces=True)
    np.testing.assert_allclose(loss, fused_loss, rtol=1e-5)
    for variable, a, b in zip(
        model.trainable_variables, gradients, fused_gradients, strict=True
    ):
        assert isinstance(a, tf.Tensor)
        np.testing.assert_allclose(a, b, atol=2e-5, err_msg=variable.path)


def test_only_masked_positions_reach_the_vocabulary():
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    logits = model(features).masked_lm_logits
    assert logits.shape == [3, 4, 99]
    everywhere = features | {
        "masked_lm_positions": tf.tile(tf.range(10)[None], [3, 1])
    }
    all_logits = model(everywhere).masked_lm_logits
    picked = tf.gather(
        all_logits, features["masked_lm_positions"], batch_dims=1
    )
    np.testing.assert_allclose(logits, picked, atol=1e-5)


# --- 16-bit types ------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", nightly("float16")])
def test_16_bit_types_are_near_float32(dtype):
    config = tiny_config(initializer_range=0.05)
    wide = BertForPreTraining(config)
    narrow = BertForPreTraining(config, dtype=dtype)
    for a, b in zip(wide.variables, narrow.variables, strict=True):
        b.assign(a.value)
    assert all(v.dtype == "float32" for v in narrow.variables)
    features = batch_of(config)
    output = narrow.bert(**narrow.encoder_inputs(features))
    assert output.sequence_output.dtype == dtype
    a, b = wide(features), narrow(features)
    assert b.masked_lm_logits.dtype == tf.float32
    assert b.next_sentence_logits.dtype == tf.float32
    np.testing.assert_allclose(a[0], b[0], atol=0.1)
    loss, gradients = gradients_of(wide, features)
    narrow_loss, narrow_gradients = gradients_of(narrow, features)
    np.testing.assert_allclose(loss, narrow_loss, rtol=0.03)
    a = tf.concat([tf.reshape(g, [-1]) for g in gradients], 0)
    b = tf.concat([tf.reshape(g, [-1]) for g in narrow_gradients], 0)
    assert b.dtype == tf.float32
    assert float(tf.norm(a - b) / tf.norm(a)) < 0.1


def test_unknown_dtype_names_the_choices():
    with pytest.raises(UserError, match="float32, bfloat16, float16"):
        BertModel(tiny_config(), dtype="float64")


def test_docstring_example():
    result = doctest.testmod(modeling)
    assert result.attempted == 3 and result.failed == 0


def test_variables_that_are_read_next_are_not_drawn():
    """Those that the checkpoint lacks, or has of another shape, are."""
    shapes = {v.path: list(v.shape) for v in BertModel(tiny_config()).weights}
    lacking = "bert/pooler/dense/kernel"
    other = "bert/embeddings/position_embeddings"
    shapes[other] = shapes.pop(lacking)
    with modeling.to_be_read(shapes):
        model = BertModel(tiny_config())
    usual = ("bias", "beta", "gamma")
    weights = [v for v in model.weights if not v.path.endswith(usual)]
    assert len(weights) > 5
    assert {v.path for v in weights if np.any(v)} == {lacking, other}
