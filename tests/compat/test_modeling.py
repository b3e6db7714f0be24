"""The original's modeling.py in graphs of TensorFlow 1, and eagerly."""

import subprocess
import sys

from base.errors import UserError

import numpy as np
import pytest
import small_models
import tensorflow as tf
from paths import ROOT

import modeling

v1 = tf.compat.v1

CHECKPOINT = str(small_models.GOLDEN_MODEL / "bert_model.ckpt")


def golden_bert(inputs, **more):
    """Return the original's model of the golden checkpoint."""
    return modeling.BertModel(
        config=small_models.golden_config(),
        is_training=False,
        input_ids=inputs["input_ids"],
        input_mask=inputs["input_mask"],
        token_type_ids=inputs["segment_ids"],
        use_one_hot_embeddings=False,
        **more,
    )


def load(checkpoint=CHECKPOINT):
    """Load the variables of the graph, as programs of 2018 do."""
    found, names = modeling.get_assignment_map_from_checkpoint(
        v1.trainable_variables(), checkpoint
    )
    v1.train.init_from_checkpoint(checkpoint, found)
    return found, names


def assert_golden(found, golden):
    for name, value in found.items():
        np.testing.assert_allclose(value, golden[name], atol=1e-5, err_msg=name)


def test_a_graph_gives_the_originals_numbers():
    """With placeholders of unknown size, variables by the original's names."""
    golden = small_models.golden_arrays()
    names = small_models.FEATURES[:3]
    with tf.Graph().as_default(), v1.Session() as session:
        inputs = {n: v1.placeholder(tf.int32, [None, None]) for n in names}
        model = golden_bert(inputs)
        outputs = {
            "embedding_output": model.get_embedding_output(),
            "all_encoder_layers": model.get_all_encoder_layers(),
            "pooled_output": model.get_pooled_output(),
        }
        found, initialized = load()
        reader = tf.train.load_checkpoint(CHECKPOINT)
        in_file = [
            name
            for name in reader.get_variable_to_shape_map()
            if name.startswith("bert/") and "/adam_" not in name
        ]
        assert sorted(v.name for v in v1.trainable_variables()) == sorted(
            f"{name}:0" for name in in_file
        )
        assert dict(found) == {name: name for name in in_file}
        assert initialized["bert/pooler/dense/bias:0"] == 1
        session.run(v1.global_variables_initializer())
        feed = {inputs[name]: golden[name] for name in names}
        assert_golden(session.run(outputs, feed), golden)
        table, last, layers = session.run(
            [
                model.get_embedding_table(),
                model.get_sequence_output(),
                model.get_all_encoder_layers(),
            ],
            feed,
        )
        word_embeddings = "bert/embeddings/word_embeddings"
        np.testing.assert_array_equal(table, reader.get_tensor(word_embeddings))
        np.testing.assert_array_equal(last, layers[-1])


@pytest.mark.slow
def test_scopes_name_and_share_the_weights():
    golden = small_models.golden_arrays()
    with tf.Graph().as_default(), v1.Session() as session:
        inputs = {n: tf.constant(golden[n]) for n in small_models.FEATURES[:3]}
        with v1.variable_scope("left"):
            first = golden_bert(inputs, scope="encoder")
        count = len(v1.trainable_variables())
        with v1.variable_scope("left", reuse=True):
            again = golden_bert(inputs, scope="encoder")
        assert len(v1.trainable_variables()) == count
        others = [golden_bert(inputs) for _ in range(2)]
        found = [v.name.split("/")[:2] for v in v1.trainable_variables()]
        assert found[0] == ["left", "encoder"]
        assert found[count][0] == "bert"
        assert found[2 * count][0] == "bert_1"
        session.run(v1.global_variables_initializer())
        models = [first, again, *others]
        one, same, *different = session.run(
            [model.get_pooled_output() for model in models]
        )
        np.testing.assert_array_equal(one, same)
        assert all(abs(one - other).max() > 0.1 for other in different)


@pytest.mark.slow
def test_dropout_is_new_in_every_run():
    config = small_models.tiny_config()
    with tf.Graph().as_default(), v1.Session() as session:
        model = modeling.BertModel(config, True, tf.ones([2, 5], tf.int32))
        session.run(v1.global_variables_initializer())
        one, two = (session.run(model.get_pooled_output()) for _ in range(2))
        assert abs(one - two).max() > 0.01


def test_eagerly_a_wrapped_function_keeps_its_weights():
    golden = small_models.golden_arrays()

    def encode(input_ids, input_mask, segment_ids):
        inputs = dict(
            input_ids=input_ids, input_mask=input_mask, segment_ids=segment_ids
        )
        return golden_bert(inputs).get_pooled_output()

    spec = tf.TensorSpec([None, None], tf.int32)
    function = v1.wrap_function(encode, [spec] * 3)
    reader = tf.train.load_checkpoint(CHECKPOINT)
    for variable in function.graph.variables:
        variable.assign(reader.get_tensor(variable.name[:-2]))
    arrays = [
        tf.constant(golden[n], tf.int32) for n in small_models.FEATURES[:3]
    ]
    for _ in range(2):
        assert_golden({"pooled_output": function(*arrays)}, golden)


def test_eagerly_every_call_has_weights_of_its_own():
    ids = tf.ones([2, 5], tf.int32)
    one, two = (
        modeling.BertModel(
            config=small_models.tiny_config(), is_training=False, input_ids=ids
        ).get_pooled_output()
        for _ in range(2)
    )
    assert abs(one - two).numpy().max() > 0.01


@pytest.mark.nightly
def test_reference_variables_and_old_shapes_work_too():
    """tf.disable_v2_behavior(), the first line of most ported programs."""
    code = """
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
import modeling, optimization
tf.set_random_seed(1)
config = modeling.BertConfig(99, 32, 2, 4, 64, hidden_dropout_prob=0.0)
ids = tf.placeholder(tf.int32, [None, None])
model = modeling.BertModel(config=config, is_training=True, input_ids=ids)
loss = tf.reduce_mean((model.get_pooled_output() - 0.5) ** 2)
step = optimization.create_optimizer(loss, 1e-3, 40, 2, False)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    feed = {ids: [[1, 2, 3]]}
    losses = [session.run([loss, step], feed)[0] for _ in range(30)]
    assert losses[-1] < 0.1 * losses[0], losses
    assert session.run(tf.train.get_global_step()) == 30
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.slow
def test_parts_put_together_are_the_model():
    """embedding_lookup, _postprocessor and transformer_model, same names."""
    golden, config = small_models.golden_arrays(), small_models.golden_config()
    with tf.Graph().as_default(), v1.Session() as session:
        ids = tf.constant(golden["input_ids"], tf.int32)
        with v1.variable_scope("bert"):
            with v1.variable_scope("embeddings"):
                x, _ = modeling.embedding_lookup(
                    ids, config.vocab_size, config.hidden_size
                )
                embedded = modeling.embedding_postprocessor(
                    x,
                    True,
                    tf.constant(golden["segment_ids"]),
                    config.type_vocab_size,
                    max_position_embeddings=config.max_position_embeddings,
                    dropout_prob=0.0,
                )
            mask = modeling.create_attention_mask_from_input_mask(
                ids, tf.constant(golden["input_mask"])
            )
            with v1.variable_scope("encoder"):
                layers = modeling.transformer_model(
                    embedded,
                    mask,
                    config.hidden_size,
                    config.num_hidden_layers,
                    config.num_attention_heads,
                    config.intermediate_size,
                    modeling.get_activation(
                        activation_string=config.hidden_act
                    ),
                    0.0,
                    0.0,
                    do_return_all_layers=True,
                )
        load()
        session.run(v1.global_variables_initializer())
        found = dict(embedding_output=embedded, all_encoder_layers=layers)
        assert_golden(session.run(found), golden)


def test_attention_between_two_sequences():
    """Against NumPy: other widths, activations, a mask; matrices or not."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=[2, 3, 8]).astype(np.float32)
    y = rng.normal(size=[2, 5, 6]).astype(np.float32)
    mask = rng.integers(0, 2, [2, 3, 5])
    mask[:, :, 0] = 1
    sizes = dict(batch_size=2, from_seq_length=3, to_seq_length=5)
    common = dict(
        attention_mask=mask,
        num_attention_heads=2,
        size_per_head=4,
        query_act=tf.nn.relu,
        initializer_range=0.5,
    )
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("a"):
            cube = modeling.attention_layer(
                tf.constant(x), tf.constant(y), **common
            )
        with v1.variable_scope("a", reuse=True):
            matrix = modeling.attention_layer(
                tf.constant(x.reshape(-1, 8)),
                tf.constant(y.reshape(-1, 6)),
                do_return_2d_tensor=True,
                **common,
                **sizes,
            )
        names = {v.name[:-2]: v for v in v1.trainable_variables()}
        session.run(v1.global_variables_initializer())
        weights, cube, matrix = session.run([names, cube, matrix])
    assert sorted(weights) == sorted(
        f"a/{part}/{name}"
        for part in ("query", "key", "value")
        for name in ("kernel", "bias")
    )
    heads = [
        (z @ weights[f"a/{name}/kernel"]).reshape(2, -1, 2, 4)
        for z, name in ((x, "query"), (y, "key"), (y, "value"))
    ]
    scores = np.einsum("bfnd,btnd->bnft", np.maximum(heads[0], 0), heads[1])
    scores = scores / 2 - 10000.0 * (1 - mask[:, None])
    probs = np.exp(scores - scores.max(-1, keepdims=True))
    probs /= probs.sum(-1, keepdims=True)
    wanted = np.einsum("bnft,btnd->bfnd", probs, heads[2]).reshape(2, 3, 8)
    np.testing.assert_allclose(cube, wanted, atol=1e-5)
    np.testing.assert_allclose(matrix, wanted.reshape(6, 8), atol=1e-5)


def test_small_functions():
    x = tf.reshape(tf.range(24.0), [2, 3, 4])
    assert modeling.get_shape_list(x, expected_rank=[2, 3]) == [2, 3, 4]
    flat = modeling.reshape_to_matrix(x)
    assert flat.shape == [6, 4]
    np.testing.assert_array_equal(
        modeling.reshape_from_matrix(flat, [2, 3, 4]), x
    )
    with pytest.raises(ValueError, match="rank 3.*wanted 2"):
        modeling.assert_rank(x, 2)
    assert modeling.dropout(x, None) is modeling.dropout(x, 0.0) is x
    dropped = modeling.dropout(tf.ones([100, 100]), 0.25).numpy()
    assert set(np.unique(dropped)) == {0.0, np.float32(4 / 3)}
    assert abs(dropped.mean() - 1) < 0.05
    normed = modeling.layer_norm_and_dropout(x, 0.0).numpy()
    np.testing.assert_allclose(normed.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(normed.std(-1), 1, atol=1e-5)
    np.testing.assert_allclose(modeling.gelu(1.0), 0.841192, atol=1e-6)
    drawn = modeling.create_initializer(0.5)([1000])
    assert 0.8 < np.abs(drawn).max() <= 1
    pair, table = modeling.embedding_lookup(tf.zeros([2, 3, 2], tf.int32), 9, 4)
    assert pair.shape == [2, 3, 8] and table.shape == [9, 4]


def test_a_checkpoint_without_any_of_the_variables_is_warned_of(caplog):
    with tf.Graph().as_default():
        v1.get_variable("other/kernel", [2])
        found, _ = load()
    assert not found
    assert "none of the 1 variables" in caplog.text


def test_a_graph_neither_looks_at_devices_nor_at_memory(monkeypatch):
    """It may run elsewhere, and its session configures the GPUs."""
    monkeypatch.setattr(tf.config, "list_logical_devices", None)
    config = small_models.tiny_config()
    with tf.Graph().as_default():
        ids = v1.placeholder(tf.int32, [10**9, 40])
        model = modeling.BertModel(config, False, ids)
    assert model.get_pooled_output().shape == [10**9, 32]


def test_names_that_neither_has():
    with pytest.raises(AttributeError, match="'modeling' has no attribute 'x'"):
        modeling.x  # noqa: B018
    with pytest.raises(ImportError):
        from modeling import nothing_such  # noqa: F401


def test_too_long_a_batch_is_one_line():
    config = small_models.tiny_config()
    with tf.Graph().as_default(), pytest.raises(UserError, match="length 41"):
        modeling.BertModel(config, False, tf.ones([1, 41], tf.int32))
    with tf.Graph().as_default(), v1.Session() as session:
        ids = v1.placeholder(tf.int32, [None, None])
        model = modeling.BertModel(config, False, ids)
        session.run(v1.global_variables_initializer())
        output = model.get_pooled_output()
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="embeddings 40"
        ):
            session.run(output, {ids: np.ones([1, 41])})
