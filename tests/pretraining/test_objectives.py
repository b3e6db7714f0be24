"""The objectives: losses by hand, gradients, and what they share.

The model itself is compared with the original's in tests/test_modeling.py.
"""

import dataclasses

import by_hand
import numpy as np
import one_file_bert
import packed_batches
import pytest
import small_models
import tensorflow as tf
from tiny import NO_DROPOUT

import modeling
from modeling import LEFT_TO_RIGHT
from ops import choices, losses
from pretraining import model as pretraining_model
from pretraining import objectives
from pretraining.model import BertForPreTraining
from training import reporting

MLM_NSP, MLM, LTR, RTL = objectives.OBJECTIVES.values()


def model_of(objective, **changes) -> BertForPreTraining:
    """Return a model for an objective, always with the same weights."""
    tf.keras.utils.set_random_seed(1)
    config = small_models.tiny_config(
        attention_direction=objective.attention_direction, **changes
    )
    return BertForPreTraining(
        config, predicts_next_sentence=objective.predicts_next_sentence
    )


@pytest.fixture(scope="module")
def ltr_model() -> BertForPreTraining:
    return model_of(LTR, **NO_DROPOUT)


@pytest.fixture(scope="module")
def both_model() -> BertForPreTraining:
    """A model of mlm_nsp."""
    return model_of(MLM_NSP, **NO_DROPOUT)


def test_the_loss_of_frequencies_is_the_entropy_of_what_is_predicted():
    """Of 5, 5 and 7; with the masks restored, rows are 1 5 7 6 and 1 7 5.

    So left to right of 5, 7, 6 and 7, 5; right to left of 1, 5, 7 and 1, 7.
    """
    batch = {
        "input_ids": [[1, 2, 7, 6], [1, 7, 2, 0]],
        "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
        "masked_lm_positions": [[1, 2], [2, 0]],
        "masked_lm_ids": [[5, 7], [5, 9]],
        "masked_lm_weights": [[1.0, 1.0], [1.0, 0.0]],
    }
    batch = {name: tf.constant(value) for name, value in batch.items()}
    ids, weights = RTL.targets(batch)
    assert ids.numpy()[weights.numpy() > 0].tolist() == [1, 5, 7, 1, 7]
    for objective, counts in (
        (MLM_NSP, [2, 1]),
        (LTR, [2, 2, 1]),
        (RTL, [2, 2, 1]),
    ):
        shares = np.array(counts) / sum(counts)
        entropy = -(shares * np.log(shares)).sum()
        wanted = entropy + (len(counts) - 1) / (2 * sum(counts))
        # Twice the data, half the correction.
        assert objective.frequency_loss([batch]) == pytest.approx(wanted)
        assert objective.frequency_loss([batch] * 2) == pytest.approx(
            (wanted + entropy) / 2
        )


def test_rtl_is_ltr_of_reversed_rows():
    """With positions that are reversed too, and the same weights."""
    left, right = model_of(LTR, **NO_DROPOUT), model_of(RTL, **NO_DROPOUT)
    for one, other in zip(left.variables, right.variables, strict=True):
        other.assign(one)
    batch = small_models.batch_of(left.config)
    width = batch["input_ids"].shape[1]
    turned = dict(batch)
    turned["masked_lm_positions"] = width - 1 - batch["masked_lm_positions"]
    for name in ("input_ids", "input_mask", "segment_ids"):
        turned[name] = tf.reverse(batch[name], [1])
    places = tf.tile(tf.range(width)[None], [len(batch["input_ids"]), 1])
    turned["position_ids"] = tf.reverse(places, [1])
    wanted = LTR.objective.forward(left, batch, None)
    found = RTL.objective.forward(right, turned, None)
    assert wanted.keys() == found.keys() and float(wanted["lm_loss"][0]) > 1
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-5)
    # Not in the other direction.
    other = LTR.objective.forward(left, turned, None)["lm_loss"][0]
    assert abs(float(other) - float(wanted["lm_loss"][0])) > 0.1


def loss_and_gradients(objective, model, batch, compiles=None, seed=1) -> tuple:
    """Return the sums, the loss to minimize and {path: gradient}.

    Args:
        objective: one of OBJECTIVES.
        model: for it.
        batch: of records.
        compiles: None: eager; else whether XLA compiles all of it.
        seed: of the forward pass; None: no dropout.
    """

    def run(batch):
        weights = objective.objective.loss_weights(batch)
        with tf.GradientTape() as tape:
            sums = objective.objective.forward(model, batch, seed)
            loss = objective.objective.total_loss(
                {name: sums[name][0] for name in weights}, weights
            )
        gradients = tape.gradient(
            loss, [v.value for v in model.trainable_variables]
        )
        return sums, loss, [tf.convert_to_tensor(g) for g in gradients]

    if compiles is not None:
        run = tf.function(run, jit_compile=compiles, autograph=False)
    sums, loss, gradients = run(batch)
    paths = [v.path for v in model.trainable_variables]
    return sums, float(loss), dict(zip(paths, gradients, strict=True))


def padded_batch() -> dict[str, tf.Tensor]:
    """Return records of 48 sequences, of many lengths."""
    return packed_batches.batch_of(packed_batches.both(48)[0])


# --- What is predicted -------------------------------------------------------


def test_masked_tokens_are_restored_and_filling_is_not():
    """The example of the docstring; and position 0 masked for once."""
    batch = {
        "input_ids": [[2, 4, 7, 3], [9, 6, 4, 3]],
        "masked_lm_positions": [[1, 0, 0], [0, 2, 0]],
        "masked_lm_ids": [[5, 0, 0], [2, 8, 0]],
        "masked_lm_weights": [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]],
    }
    batch = {name: tf.constant(value) for name, value in batch.items()}
    for compiles in (False, True):
        restore = tf.function(
            pretraining_model.unmasked_ids, jit_compile=compiles
        )
        found = restore(batch).numpy().tolist()
        assert found == [[2, 5, 7, 3], [2, 6, 8, 3]]


# --- The loss by hand --------------------------------------------------------


def test_ltr_loss_is_the_one_computed_by_hand(ltr_model):
    """Of records with padding and masks, row by row of the restored text."""
    for variable in ltr_model.variables:
        if variable.path.endswith(("bias", "beta")):  # zeros would hide a bug
            shape = variable.shape
            variable.assign(0.3 * tf.random.stateless_normal(shape, [1, 2]))
    plain = by_hand.LeftToRight(
        one_file_bert.Config(
            **{
                field.name: getattr(ltr_model.config, field.name)
                for field in dataclasses.fields(one_file_bert.Config)
            }
        )
    )
    for variable in ltr_model.variables:
        plain.weights[variable.path].assign(variable)
    features = packed_batches.both(5)[0]
    batch = packed_batches.batch_of(features)
    total = count = correct = 0
    for row in range(5):
        ids = features["input_ids"][row].copy()
        for place, token, weight in zip(
            features["masked_lm_positions"][row],
            features["masked_lm_ids"][row],
            features["masked_lm_weights"][row],
            strict=True,
        ):
            if weight:
                ids[place] = token
        length = int(features["input_mask"][row].sum())
        states, _ = plain.encode(
            {
                "input_ids": tf.constant(ids[None, :length]),
                "input_mask": tf.ones([1, length], tf.int32),
                "segment_ids": batch["segment_ids"][row : row + 1, :length],
            }
        )
        logits = plain.masked_lm_logits(states[-1], tf.range(length)[None])
        found = tf.nn.log_softmax(logits[0]).numpy()
        for place in range(length - 1):
            total -= found[place, ids[place + 1]]
            correct += found[place].argmax() == ids[place + 1]
            count += 1
    for seed in (None, 1):
        sums = LTR.objective.forward(ltr_model, batch, seed)
        assert sums.keys() == set(LTR.objective.names)
        assert float(sums["lm_loss"][1]) == count > 60
        np.testing.assert_allclose(sums["lm_loss"][0], total, rtol=1e-5)
        assert float(sums["lm_accuracy"][0]) == correct
    denominators = LTR.objective.loss_weights(batch)
    assert float(denominators["lm_loss"]) == count
    pair = {"lm_loss": (total, count)}
    found = reporting.to_means(pair, LTR.objective.perplexities)
    assert found["lm_perplexity"] == pytest.approx(np.exp(total / count))


# --- Gradients ---------------------------------------------------------------


def test_mlm_is_mlm_nsp_without_next_sentence():
    """Loss, metrics and every gradient to the bit; fewer are trained."""
    batch = padded_batch()
    both, alone = (model_of(o, num_hidden_layers=1) for o in (MLM_NSP, MLM))
    wanted = {v.path for v in both.trainable_variables}
    trained = {v.path for v in alone.trainable_variables}
    assert {v.path for v in both.variables} == {v.path for v in alone.variables}
    assert wanted - trained == {
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }
    sums, loss, gradients = loss_and_gradients(MLM, alone, batch)
    assert sums.keys() == set(MLM.objective.names)
    # mlm_nsp, with the next sentence loss taken out of the sum.
    variables = [v for v in both.trainable_variables if v.path in trained]
    weights = MLM_NSP.objective.loss_weights(batch)
    with tf.GradientTape() as tape:
        expected = MLM_NSP.objective.forward(both, batch, seed=1)
        parts = {name: expected[name][0] for name in weights}
        parts["next_sentence_loss"] = tf.zeros([])
        masked = MLM_NSP.objective.total_loss(parts, weights)
    slopes = tape.gradient(masked, [v.value for v in variables])
    assert loss == float(masked)
    for name in MLM.objective.names:
        np.testing.assert_array_equal(sums[name], expected[name])
    for variable, slope in zip(variables, slopes, strict=True):
        np.testing.assert_array_equal(
            gradients[variable.path], tf.convert_to_tensor(slope)
        )


@pytest.mark.nightly
def test_compiled_ltr_gradients_agree():
    """Of packed rows: eager, compiled whole, a graph of fused pieces.

    Dropout too.
    """
    model = model_of(LTR, num_hidden_layers=1)
    batch = packed_batches.batch_of(packed_batches.both(48)[1])
    expected = loss_and_gradients(LTR, model, batch)
    largest = max(float(tf.reduce_max(tf.abs(g))) for g in expected[2].values())
    for compiles, pieces in ((True, False), (False, True)):
        computing = model.computing(modeling.Compute(fuse=pieces))
        found = loss_and_gradients(LTR, computing, batch, compiles)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
        for path, gradient in found[2].items():
            np.testing.assert_allclose(
                gradient, expected[2][path], rtol=0, atol=1e-5 * largest
            )


# --- Packed rows, and rows that fill a batch ---------------------------------


@pytest.mark.parametrize("name", ["mlm_nsp", "ltr"])
def test_packed_rows_have_loss_and_gradient_of_their_sequences(
    both_model, ltr_model, name
):
    """Every metric, the loss, and the gradient of each variable."""
    model = ltr_model if name == "ltr" else both_model
    objective = objectives.OBJECTIVES[name]
    single, packed = map(packed_batches.batch_of, packed_batches.both(48))
    assert len(packed["input_ids"]) < 0.7 * len(single["input_ids"])
    expected = loss_and_gradients(objective, model, single)
    found = loss_and_gradients(objective, model, packed)
    for one, other in zip(
        tf.nest.flatten(found[:2]), tf.nest.flatten(expected[:2]), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    largest = max(float(tf.reduce_max(tf.abs(g))) for g in expected[2].values())
    assert largest > 0.1
    worst = max(
        float(tf.reduce_max(tf.abs(gradient - expected[2][path])))
        for path, gradient in found[2].items()
    )
    # pytest -s shows it.
    print(f"gradients up to {largest:.2f} differ by {worst:.1e} at most")
    assert worst < 1e-5 * largest


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("name", ["mlm_nsp", "ltr"])
def test_rows_that_fill_a_batch_and_padding_change_nothing(
    both_model, ltr_model, name, is_packed
):
    model = ltr_model if name == "ltr" else both_model
    objective = objectives.OBJECTIVES[name]
    batch = packed_batches.batch_of(packed_batches.both(48)[is_packed])
    expected = loss_and_gradients(objective, model, batch)
    width = batch["input_ids"].shape[1]
    filled = {}
    for key, value in batch.items():
        is_of_tokens = value.shape[1:] == [width]
        paddings = [[0, 2], [0, 7 * is_of_tokens]][: len(value.shape)]
        filled[key] = tf.pad(value, paddings)
    rows = batch["input_ids"].shape[0]
    filled["example_weights"] = tf.constant([1.0] * rows + [0.0] * 2)
    found = loss_and_gradients(objective, model, filled)
    for key, pair in expected[0].items():
        np.testing.assert_allclose(found[0][key], pair, rtol=1e-5)
    for path, gradient in found[2].items():
        np.testing.assert_allclose(gradient, expected[2][path], atol=1e-5)


@pytest.mark.parametrize("has_predictions", [True, False])
def test_the_loss_of_mlm_nsp_is_the_sum_of_two_means(
    both_model, has_predictions
):
    """Their denominators follow from the records alone, before the step."""
    batch = small_models.batch_of(both_model.config)
    weights = np.full([3, 4], has_predictions, np.float32)
    weights[-1] = 0
    batch["masked_lm_weights"] = tf.constant(weights)
    batch["example_weights"] = tf.constant([1.0, 1.0, 0.0])
    objective = MLM_NSP.objective
    sums = objective.forward(both_model, batch, None)
    denominators = objective.loss_weights(batch)
    assert denominators.keys() == {"masked_lm_loss", "next_sentence_loss"}
    counts = {name: float(sums[name][1]) for name in denominators}
    assert {k: float(v) for k, v in denominators.items()} == counts
    assert counts["next_sentence_loss"] == 2
    total = objective.total_loss(
        {name: sums[name][0] for name in denominators}, denominators
    )
    wanted = sum(float(sums[n][0]) / max(counts[n], 1) for n in counts)
    np.testing.assert_allclose(total, wanted, rtol=1e-5)


# --- Slices ------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_any_slices_give_the_numbers_of_the_whole(dtype):
    """One slice, several, uneven ones; 37 rows of H = 4."""
    rng = np.random.default_rng(0)
    rows, hidden, vocab = 37, 4, 11
    x, table, bias = (
        tf.constant(rng.normal(size=shape), tf.float32)
        for shape in ([rows, hidden], [vocab, hidden], [vocab])
    )
    x = tf.cast(x, dtype)
    labels = tf.constant(rng.integers(0, vocab, rows), tf.int32)
    weights = tf.constant(rng.integers(0, 3, rows), tf.float32)

    def run(function, *options):
        with tf.GradientTape() as tape:
            tape.watch([x, table, bias])
            found = function(x, table, bias, labels, weights, *options)
            loss = found[0] / 7  # some gradient from outside
        gradients = tape.gradient(loss, [x, table, bias])
        return [tf.cast(value, tf.float32) for value in (*found, *gradients)]

    expected = run(losses.projected_cross_entropy)
    tolerance = 1e-5 if dtype == "float32" else 0.02
    for max_rows in (1000, 37, 36, 10, 5, 1):
        found = run(losses.sliced_cross_entropy, max_rows, True)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                one, other, rtol=tolerance, atol=tolerance
            )
        alone = losses.sliced_cross_entropy(
            x, table, bias, labels, weights, max_rows, False
        )
        np.testing.assert_allclose(alone, expected[:2], rtol=1e-5)


def test_no_tensor_holds_the_logits_of_all_rows():
    """Neither forward nor backward: nothing larger than a slice's."""
    rows, hidden, vocab, max_rows = 40, 4, 1009, 5
    x, table, bias = tf.ones([rows, hidden]), tf.ones([vocab, hidden]), None
    bias = tf.zeros([vocab])
    labels, weights = tf.zeros([rows], tf.int32), tf.ones([rows])

    @tf.function(autograph=False)
    def run(x, table, bias):
        with tf.GradientTape() as tape:
            tape.watch([x, table, bias])
            loss, _ = losses.sliced_cross_entropy(
                x, table, bias, labels, weights, max_rows, True
            )
        return tape.gradient(loss, [x, table, bias])

    def graphs(graph):
        yield graph
        names = graph._functions  # the bodies of its loops
        for name in names:
            yield from graphs(names[name].graph)

    sizes = [
        output.shape.num_elements() or 0
        for graph in graphs(run.get_concrete_function(x, table, bias).graph)
        for operation in graph.get_operations()
        for output in operation.outputs
        if output.shape.is_fully_defined()
    ]
    assert max(sizes) == max_rows * vocab


# --- Configurations ----------------------------------------------------------


def test_ltr_sets_the_direction_of_the_configuration():
    given = {"vocab_size": 9, "is_decoder": False}
    config = modeling.BertConfig.from_dict(given)
    objectives.set_direction(config, "ltr", "config.json")
    assert config.to_dict()["attention_direction"] == LEFT_TO_RIGHT
    assert not hasattr(config, "is_decoder")
    objectives.set_direction(config, "ltr", "config.json")  # already
    config = modeling.BertConfig(vocab_size=9)
    objectives.set_direction(config, "mlm", "config.json")
    assert "attention_direction" not in config.to_dict()


def test_flags_offer_every_objective():
    assert choices.OBJECTIVES == tuple(objectives.OBJECTIVES)
