"""The model against the original's own numbers, and against itself."""

import json

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from paths import GOLDEN

from modeling import BertConfig, BertModel
from ops import elementwise, losses
from pretraining.model import BertForPreTraining
from training import reporting

GOLDEN_MODEL = GOLDEN / "model"
FEATURES = (
    "input_ids",
    "input_mask",
    "segment_ids",
    "masked_lm_positions",
    "masked_lm_ids",
    "masked_lm_weights",
    "next_sentence_labels",
)


def tiny_config(**changes) -> BertConfig:
    settings = dict(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        type_vocab_size=2,
        initializer_range=0.2,
    )
    return BertConfig(**(settings | changes))


def batch_of(config, batch=3, seq=10, predictions=4, seed=0):
    rng = np.random.default_rng(seed)

    def draw(high, shape):
        return tf.constant(rng.integers(0, high, shape), tf.int32)

    return {
        "input_ids": draw(config.vocab_size, [batch, seq]),
        "input_mask": tf.ones([batch, seq], tf.int32),
        "segment_ids": draw(2, [batch, seq]),
        "masked_lm_positions": draw(seq, [batch, predictions]),
        "masked_lm_ids": draw(config.vocab_size, [batch, predictions]),
        "masked_lm_weights": tf.ones([batch, predictions]),
        "next_sentence_labels": draw(2, [batch, 1]),
    }


def total_loss(losses):
    masked, following = losses
    return masked.loss / (masked.weight + 1e-5) + (
        following.loss / following.weight
    )


# --- Golden -----------------------------------------------------------------


@pytest.fixture(scope="module")
def golden():
    with np.load(GOLDEN_MODEL / "golden.npz") as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def golden_model():
    config = BertConfig.from_json_file(str(GOLDEN_MODEL / "bert_config.json"))
    model = BertForPreTraining(config)
    reader = tf.train.load_checkpoint(str(GOLDEN_MODEL / "bert_model.ckpt"))
    for variable in model.variables:
        variable.assign(reader.get_tensor(variable.path))
    return model


def test_paths_and_shapes_are_the_checkpoints(golden_model):
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


@pytest.mark.parametrize("jit_compile", [False, True])
def test_forward_is_the_originals(golden, golden_model, jit_compile):
    features = {name: tf.constant(golden[name]) for name in FEATURES}

    @tf.function(jit_compile=jit_compile)
    def forward():
        output = golden_model.encode(features)
        logits, next_logits = golden_model(features)
        masked, following = golden_model.losses(features)
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


def test_too_long_sequence_names_both_lengths():
    model = BertModel(tiny_config())
    with pytest.raises(UserError) as error:
        model(tf.zeros([1, 41], tf.int32))
    assert "41" in str(error.value) and "40" in str(error.value)
    assert "\n" not in str(error.value)


# --- Variables --------------------------------------------------------------


def test_number_of_variables():
    model = BertForPreTraining(tiny_config(num_hidden_layers=3))
    assert len(model.bert.variables) == 5 + 16 * 3 + 2
    assert len(model.variables) == 5 + 16 * 3 + 2 + 7
    assert len({v.path for v in model.variables}) == len(model.variables)
    assert all(v.dtype == "float32" for v in model.variables)


def test_initial_values():
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


# --- What a row depends on --------------------------------------------------


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


def test_two_examples_in_one_row_give_what_two_rows_give():
    config = tiny_config()
    model = BertModel(config)
    features = batch_of(config, batch=2, seq=7)
    ids, segments = features["input_ids"], features["segment_ids"]
    apart = model(ids, segment_ids=segments)

    def row(x, padding=0):  # 5 tokens of the first, 7 of the second, 3 pads
        return tf.concat([x[:1, :5], x[1:], [[padding] * 3]], axis=1)

    short = model(ids[:1, :5], segment_ids=segments[:1, :5])
    packed = model(
        row(ids, padding=3),
        segment_ids=row(segments),
        position_ids=row(tf.tile(tf.range(7)[None], [2, 1])),
        sequence_ids=row(tf.tile([[1], [2]], [1, 7])),
    )
    np.testing.assert_allclose(
        packed.sequence_output[0, :5], short.sequence_output[0], atol=1e-5
    )
    np.testing.assert_allclose(
        packed.sequence_output[0, 5:12], apart.sequence_output[1], atol=1e-5
    )


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


def test_unknown_dimensions():
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


# --- Dropout ----------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_rate_and_scale(rate):
    ones = tf.ones([64, 128, 256])
    y = elementwise.dropout(ones, elementwise.fold_seed(7), rate).numpy()
    assert set(np.unique(y)) == {0.0, np.float32(1 / (1 - rate))}
    dropped = y == 0
    sigma = np.sqrt(rate * (1 - rate))
    assert abs(dropped.mean() - rate) < 4 * sigma / np.sqrt(dropped.size)
    # By row, by column, by plane: as a fair coin would.
    for axes in ((0, 1), (2,), (1, 2), (0, 2)):
        share = dropped.mean(axes)
        count = dropped.size / share.size
        assert np.abs(share - rate).max() < 5.5 * sigma / np.sqrt(count)
        assert 0.7 < share.std() / (sigma / np.sqrt(count)) < 1.4


def correlation(a, b):
    return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1])


def test_dropout_streams_are_independent():
    def bits(seed, rows=512, cols=128):
        x = elementwise.random_bits(rows, cols, elementwise.fold_seed(*seed))
        return x.numpy() / 2**32

    base = bits([3, 11])
    limit = 5 / np.sqrt(base.size)
    for other in ([4, 11], [3, 12], [3, 11, 0], [-3, 11], [11, 3]):
        assert correlation(base, bits(other)) < limit, other
    # Neighbours in every direction, and shifted rows.
    assert correlation(base[1:], base[:-1]) < limit
    assert correlation(base[:, 1:], base[:, :-1]) < limit
    assert correlation(base[1:, 1:], base[:-1, :-1]) < limit
    assert len(np.unique(base)) > base.size - 10
    # Products of corners of a rectangle: row and column keys do not show.
    centred = base - 0.5
    corners = centred[1:, 1:] * centred[1:, :-1]
    corners = corners * centred[:-1, 1:] * centred[:-1, :-1]
    assert abs(corners.mean()) < 5 * corners.std() / np.sqrt(corners.size)
    # Each of the 32 bits is a fair coin.
    words = elementwise.random_bits(512, 128, elementwise.fold_seed(5)).numpy()
    for bit in range(32):
        share = (words >> bit & 1).mean()
        assert abs(share - 0.5) < 5 * 0.5 / np.sqrt(words.size), bit


def test_dropout_compiled_or_not_is_the_same_mask():
    def drop(x, seed):
        return elementwise.dropout(x, elementwise.fold_seed(seed, 5), 0.1)

    x = tf.ones([4, 8, 33])
    compiled = tf.function(drop, jit_compile=True)
    for seed in (0, 1, -1, 2**31 - 1):
        seed = tf.constant(seed, tf.int32)
        np.testing.assert_array_equal(drop(x, seed), compiled(x, seed))


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


def test_dropout_rates_act_where_they_should():
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


# --- Losses and gradients ---------------------------------------------------


@pytest.mark.parametrize("pieces", [False, True])
def test_masked_lm_loss_and_its_gradients(pieces):
    """Loss and gradients of every input against float64 softmax."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=[12, 8]).astype(np.float32) * 3
    table = rng.normal(size=[50, 8]).astype(np.float32)
    bias = rng.normal(size=[50]).astype(np.float32)
    bias[7] += 300.0  # no overflow
    wide = (x.astype(np.float64) @ table.T) + bias
    labels = rng.integers(0, 50, [12])
    labels[4:8] = wide[4:8].argmax(-1)
    weights = rng.random([12]).astype(np.float32)
    weights[10:] = 0
    inputs = [tf.constant(value) for value in (x, table, bias)]

    @tf.function
    def ours():
        with tf.GradientTape() as tape, elementwise.fusing(pieces):
            tape.watch(inputs)
            loss, correct = losses.projected_cross_entropy(
                *inputs, tf.constant(labels, tf.int32), tf.constant(weights)
            )
            scaled = loss * 0.25
        return loss, correct, tape.gradient(scaled, inputs)

    loss, correct, gradients = ours()
    wide_inputs = [tf.cast(value, tf.float64) for value in inputs]
    with tf.GradientTape() as tape:
        tape.watch(wide_inputs)
        logits = tf.matmul(wide_inputs[0], wide_inputs[1], transpose_b=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, logits + wide_inputs[2]
        )
        expected = tf.reduce_sum(losses * weights)
        wide_scaled = expected * 0.25
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    hits = (wide.argmax(-1) == labels) * weights
    np.testing.assert_allclose(correct, hits.sum(), rtol=1e-6)
    for found, wanted in zip(
        gradients, tape.gradient(wide_scaled, wide_inputs), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_logits_and_losses_are_those_of_one_model():
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    features["masked_lm_weights"] = tf.constant(
        [[1.0, 1.0, 0.0, 1.0]] * 2 + [[0.0] * 4]
    )
    features["example_weights"] = tf.constant([1.0, 1.0, 0.0])
    logits, next_logits = model(features)
    wanted = (
        losses.classification_loss(
            logits, features["masked_lm_ids"], features["masked_lm_weights"]
        ),
        losses.classification_loss(
            next_logits,
            features["next_sentence_labels"],
            features["example_weights"],
        ),
    )
    found = model.losses(features)
    assert float(found.masked_lm.weight) == 6.0
    assert float(found.next_sentence.weight) == 2.0
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_classification_loss():
    logits = tf.constant([[2.0, -1.0], [0.5, 0.25], [1.0, 3.0]])
    labels = tf.constant([[0], [1], [1]])
    log_probs = tf.nn.log_softmax(logits).numpy()
    loss, count, correct = losses.classification_loss(logits, labels)
    wanted = -(log_probs[0, 0] + log_probs[1, 1] + log_probs[2, 1])
    np.testing.assert_allclose(loss, wanted, rtol=1e-6)
    assert (count, correct) == (3.0, 2.0)
    loss, count, correct = losses.classification_loss(
        logits, labels, tf.constant([1.0, 0.0, 0.0])
    )
    np.testing.assert_allclose(loss, -log_probs[0, 0], rtol=1e-6)
    assert (count, correct) == (1.0, 1.0)


def gradients_of(model, features, jit_compile=False, pieces=False):
    values = [v.value for v in model.trainable_variables]

    @tf.function(jit_compile=jit_compile)
    def run():
        with tf.GradientTape() as tape, elementwise.fusing(pieces):
            loss = total_loss(
                model.losses(features, training=True, dropout_seed=5)
            )
        return loss, [
            tf.convert_to_tensor(g) for g in tape.gradient(loss, values)
        ]

    return run()


def test_gradients_are_slopes():
    """Move every variable a little along its gradient: the loss follows."""
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    _, gradients = gradients_of(model, features)

    @tf.function
    def loss():
        return total_loss(model.losses(features, training=True, dropout_seed=5))

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


@pytest.mark.parametrize(
    "compiled", [{"jit_compile": True}, {"pieces": True}], ids=str
)
def test_compiled_and_not_agree(compiled):
    config = tiny_config()
    model = BertForPreTraining(config)
    features = batch_of(config)
    loss, gradients = gradients_of(model, features)
    compiled_loss, compiled_gradients = gradients_of(
        model, features, **compiled
    )
    np.testing.assert_allclose(loss, compiled_loss, rtol=1e-5)
    for variable, a, b in zip(
        model.trainable_variables, gradients, compiled_gradients, strict=True
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


# --- bfloat16 ---------------------------------------------------------------


def test_bfloat16_is_near_float32():
    config = tiny_config(initializer_range=0.05)
    wide = BertForPreTraining(config)
    narrow = BertForPreTraining(config, dtype="bfloat16")
    for a, b in zip(wide.variables, narrow.variables, strict=True):
        b.assign(a.value)
    assert all(v.dtype == "float32" for v in narrow.variables)
    features = batch_of(config)
    output = narrow.encode(features)
    assert output.sequence_output.dtype == tf.bfloat16
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
    with pytest.raises(UserError, match="float32 or bfloat16"):
        BertModel(tiny_config(), dtype="float16")


# --- Work -------------------------------------------------------------------


def test_training_flops_counts_matrix_products():
    config = BertConfig.from_size("tiny", vocab_size=30522)
    batch, seq, predictions, hidden, layers = 32, 128, 20, 128, 2
    tokens = batch * seq
    dense = layers * tokens * 12 * hidden**2
    attention = layers * 2 * tokens * seq * hidden
    masked = batch * predictions * hidden * (hidden + 30522)
    pooled = batch * hidden * (hidden + 2)
    wanted = 6 * (dense + attention + masked + pooled)
    found = reporting.training_flops(config, batch, seq, predictions)
    assert found == wanted


def test_saved_model_keeps_the_variables(tmp_path):
    config = tiny_config()
    model = BertForPreTraining(config)
    ids = batch_of(config)["input_ids"]
    signature = tf.function(
        lambda input_ids: {"pooled": model.bert(input_ids).pooled_output},
        input_signature=[tf.TensorSpec([None, None], tf.int32, "input_ids")],
    )
    tf.saved_model.save(model, str(tmp_path), signatures=signature)
    loaded = tf.saved_model.load(str(tmp_path))
    again = loaded.signatures["serving_default"](input_ids=ids)["pooled"]
    np.testing.assert_allclose(again, model.bert(ids).pooled_output, atol=1e-6)
