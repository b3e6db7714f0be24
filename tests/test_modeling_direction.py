"""attention_direction: what left-to-right models see, in every form."""

import json

from base.errors import UserError

import numpy as np
import pytest
import small_models
import tensorflow as tf
from marks import nightly

import modeling
from modeling import BIDIRECTIONAL, LEFT_TO_RIGHT, RIGHT_TO_LEFT, BertConfig
from ops import elementwise

LENGTHS = (9, 4, 6)  # of the rows of a batch
LONGEST = max(LENGTHS)


@pytest.fixture(scope="module")
def bert() -> modeling.BertModel:
    tf.keras.utils.set_random_seed(1)
    return modeling.BertModel(
        small_models.tiny_config(attention_direction=LEFT_TO_RIGHT)
    )


def arrays_of(layers) -> list[np.ndarray]:
    """Return embeddings and all layers of an output."""
    return [
        layer.numpy()
        for layer in (layers.embedding_output, *layers.encoder_layers)
    ]


# --- Configuration -----------------------------------------------------------


def test_the_default_is_not_written(tmp_path):
    """Files and fingerprints of ordinary models stay as the original's."""
    config = BertConfig(vocab_size=9)
    assert config.attention_direction == BIDIRECTIONAL
    assert "attention_direction" not in config.to_json_string()
    given = BertConfig.from_dict(config.to_dict())
    assert given == config
    causal = BertConfig(vocab_size=9, attention_direction=LEFT_TO_RIGHT)
    path = tmp_path / "bert_config.json"
    path.write_text(causal.to_json_string())
    assert json.loads(path.read_text())["attention_direction"] == LEFT_TO_RIGHT
    assert BertConfig.from_json_file(str(path)) == causal != config


@pytest.mark.parametrize("value", ["ltr", "", None, 1, ["left_to_right"]])
def test_other_directions_are_refused(value):
    with pytest.raises(UserError, match="unknown attention_direction") as error:
        BertConfig.from_dict({"vocab_size": 9, "attention_direction": value})
    assert "choose from bidirectional, left_to_right" in str(error.value)


# --- The mask ----------------------------------------------------------------


def test_attention_bias_from_left_to_right():
    """The example of the docstring, and the packed one with both masks."""
    ids = tf.zeros([1, 4], tf.int32)
    mask = tf.constant([[1, 1, 1, 0]])
    off = -10000.0
    found = modeling.attention_bias(ids, mask, None, LEFT_TO_RIGHT)
    first, second = [0, off, off, off], [0, 0, off, off]
    assert found.numpy().tolist() == [[[first, second, *[[0, 0, 0, off]] * 2]]]
    packed = modeling.attention_bias(
        ids, mask, tf.constant([[1, 1, 2, 0]]), LEFT_TO_RIGHT
    )
    rows = [first, second, [off, off, 0, off], [off] * 4]
    assert packed.numpy().tolist() == [[rows]]
    default = modeling.attention_bias(ids, None, None, LEFT_TO_RIGHT)
    np.testing.assert_array_equal(default[0, 0] == 0, np.tri(4, dtype=bool))
    other = modeling.attention_bias(ids, None, None, RIGHT_TO_LEFT)
    np.testing.assert_array_equal(other[0, 0] == 0, np.tri(4, dtype=bool).T)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", nightly("bfloat16")])
def test_fused_attention_with_a_row_of_biases_for_each_query(dtype):
    """Forward and gradient of the compiled operation and of the plain one."""
    rng = np.random.default_rng(0)
    scores = tf.cast(tf.constant(rng.normal(size=[2, 3, 4, 4])), dtype)
    ids = tf.zeros([2, 4], tf.int32)
    mask = tf.constant([[1, 1, 1, 0], [0, 0, 0, 0]])
    bias = modeling.attention_bias(ids, mask, None, LEFT_TO_RIGHT)
    pull = tf.cast(tf.constant(rng.normal(size=[2, 3, 4, 4])), dtype)

    def run(seed, fuse):
        with tf.GradientTape() as tape:
            tape.watch(scores)
            probs = elementwise.apply(
                modeling.attention_probs,
                scores,
                bias,
                seed,
                fuse=fuse,
                scale=0.5,
                rate=0.25,
            )
        gradient = tape.gradient(probs, scores, pull)
        return [tf.cast(x, tf.float32).numpy() for x in (probs, gradient)]

    tolerance = 1e-6 if dtype == "float32" else 1e-2
    for seed in (None, elementwise.fold_seed(7)):
        plain, compiled = run(seed, False), run(seed, True)
        for one, other in zip(plain, compiled, strict=True):
            assert np.isfinite(one).all()
            np.testing.assert_allclose(one, other, atol=tolerance)
            # Nothing comes from, and nothing goes to, what is masked.
            unseen = np.triu(np.ones([4, 4], bool), 1)
            assert not one[0][:, unseen].any() and not other[0][:, unseen].any()


# --- No position sees its right ----------------------------------------------


def padded(change: int | None) -> dict[str, tf.Tensor]:
    """Return a batch; the tokens from `change` on are replaced."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 99, [len(LENGTHS), LONGEST])
    if change is not None:
        ids[:, change:] = (ids[:, change:] + 7) % 90 + 5
    mask = np.arange(LONGEST) < np.array(LENGTHS)[:, None]
    features = {
        "input_ids": ids * mask,
        "input_mask": mask,
        "segment_ids": (np.arange(LONGEST) > 2) * mask,
    }
    return {k: tf.constant(v.astype(np.int32)) for k, v in features.items()}


def packed(change: int | None) -> dict[str, tf.Tensor]:
    """Return a row that holds two sequences of 5 and 4 tokens."""
    rows = padded(change)
    numbers = [[1] * 5 + [2] * 4] * len(LENGTHS)
    places = [[*range(5), *range(4)]] * len(LENGTHS)
    return {
        **rows,
        "sequence_ids": rows["input_mask"] * tf.constant(numbers),
        "position_ids": tf.constant(places),
    }


@pytest.mark.parametrize(
    "form", ["padded", "packed", "unpadded", "training", nightly("compiled")]
)
def test_no_position_sees_its_right(bert, form):
    """Other tokens from a place on: all layers before it stay to the bit."""
    make = packed if form == "packed" else padded

    @tf.function(autograph=False, jit_compile=form == "compiled")
    def run(features):
        return bert(
            **features,
            compute=modeling.Compute(skip_padding=form == "unpadded"),
            training=form == "training",
            dropout_seed=7,
        )

    before = arrays_of(run(make(None)))
    for place in (1, 3, 8):
        after = arrays_of(run(make(place)))
        for old, new in zip(before, after, strict=True):
            np.testing.assert_array_equal(old[:, :place], new[:, :place])
        # The longest row changes everywhere else: nothing is cut off.
        assert (before[-1] != after[-1])[0, place:].any(axis=-1).all()


def test_a_bidirectional_model_does():
    """The test above can fail."""
    tf.keras.utils.set_random_seed(1)
    bert = modeling.BertModel(small_models.tiny_config())
    before, after = bert(**padded(None)), bert(**padded(8))
    moved = before.sequence_output != after.sequence_output
    assert moved.numpy()[0, :8].any(axis=-1).all()


# --- Padding and lengths -----------------------------------------------------


@pytest.mark.parametrize("skips", [False, True])
def test_the_length_of_a_batch_changes_no_score(bert, skips):
    """Each row alone, without padding, and in the batch with padding."""
    features = padded(None)
    compute = modeling.Compute(skip_padding=skips)
    together = bert(**features, compute=compute).pooled_output
    for row, length in enumerate(LENGTHS):
        alone = {n: v[row : row + 1, :length] for n, v in features.items()}
        for wanted in (alone, {**alone, "input_mask": None}):
            found = bert(**wanted, compute=compute).pooled_output
            np.testing.assert_allclose(found[0], together[row], atol=1e-5)


# --- The token that represents a row -----------------------------------------


@pytest.mark.parametrize("compiles", [False, True])
def test_the_last_real_token_represents_a_row(compiles):
    x = tf.reshape(tf.range(12), [2, 3, 2])
    mask = tf.constant([[1, 1, 0], [0, 0, 0]])
    choose = tf.function(modeling.class_vectors, jit_compile=compiles)
    assert choose(x, mask, BIDIRECTIONAL).numpy().tolist() == [[0, 1], [6, 7]]
    assert choose(x, mask, LEFT_TO_RIGHT).numpy().tolist() == [[2, 3], [6, 7]]
    hole = tf.constant([[1, 0, 1], [0, 1, 0]])
    assert choose(x, hole, LEFT_TO_RIGHT).numpy().tolist() == [[4, 5], [8, 9]]
    full = choose(x, None, LEFT_TO_RIGHT).numpy().tolist()
    assert full == [[4, 5], [10, 11]]


def test_the_pooler_reads_it_whatever_the_positions(bert):
    features = padded(None)
    places = np.tile(np.arange(LONGEST)[::-1], (len(LENGTHS), 1))
    for position_ids in (None, tf.constant(places.astype(np.int32))):
        output = bert(**features, position_ids=position_ids)
        last = tf.gather(
            output.sequence_output, np.array(LENGTHS) - 1, batch_dims=1
        )
        np.testing.assert_allclose(
            output.pooled_output, bert.pooler(last), atol=1e-6
        )
