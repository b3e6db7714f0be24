"""--recompute: the same loss and gradients from less memory."""

import math
import re

import numpy as np
import pytest
import tensorflow as tf
from marks import nightly
from small_models import batch_of, losses_of, tiny_config, total_loss

import modeling
from modeling import Compute
from pretraining.model import BertForPreTraining

CHANGED = ("layers", "attention")
CHOICES = ("none", *CHANGED)


def create_model(dtype="float32", **changes):
    tf.keras.utils.set_random_seed(1)
    return BertForPreTraining(tiny_config(**changes), dtype)


def gradients(model, batch, choice, fuses=True, compiles=False):
    """Return loss and gradients of a batch, computed in a graph."""
    compute = Compute(fuse=fuses, recompute=choice, one_program=compiles)

    @tf.function(autograph=False, jit_compile=compiles)
    def run():
        variables = [v.value for v in model.trainable_variables]
        with tf.GradientTape() as tape:
            losses = losses_of(model.computing(compute), batch, seed=3)
            loss = total_loss(losses)
        found = tape.gradient(loss, variables)
        return [loss, *map(tf.convert_to_tensor, found)]

    return [x.numpy() for x in run()]


def assert_equal_bits(one, other):
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype, direction",
    [("float32", "bidirectional"), nightly("bfloat16", "left_to_right")],
)
def test_compiled_parts_give_the_same_bits(dtype, direction):
    """As on a CPU, whose elementwise operations are compiled; with dropout."""
    model = create_model(dtype, attention_direction=direction)
    batch = batch_of(model.config)
    expected = gradients(model, batch, "none")
    for choice in CHANGED:
        assert_equal_bits(gradients(model, batch, choice), expected)


@pytest.mark.nightly
def test_without_a_compiler_they_agree_to_rounding():
    """TensorFlow fuses a product and its bias where neither is kept."""
    model = create_model()
    batch = batch_of(model.config)
    expected = gradients(model, batch, "none", fuses=False)
    found = gradients(model, batch, "attention", fuses=False)
    assert_equal_bits(found, expected)
    found = gradients(model, batch, "layers", fuses=False)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_calls_without_a_graph_agree():
    """The gradients of query, key and value are added in another order."""
    model = create_model()
    batch = batch_of(model.config)
    results = []
    for choice in CHOICES:
        variables = [v.value for v in model.trainable_variables]
        computing = model.computing(Compute(recompute=choice))
        with tf.GradientTape() as tape:
            loss = total_loss(losses_of(computing, batch, seed=3))
        found = tape.gradient(loss, variables)
        results.append([np.array(tf.convert_to_tensor(x)) for x in found])
    for found in results[1:]:
        for a, b in zip(found, results[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_skipped_padding_has_the_same_output():
    model = create_model()
    mask = tf.constant([[1] * 10, [1] * 4 + [0] * 6])
    batch = batch_of(model.config, batch=2) | {"input_mask": mask}
    outputs = []
    for choice in CHOICES:
        compute = Compute(recompute=choice, skip_padding=True)
        inputs = model.computing(compute).encoder_inputs(batch)
        output = model.bert(**inputs)
        outputs.append(output.sequence_output.numpy())
    assert_equal_bits(outputs[1:2], outputs[:1])
    assert_equal_bits(outputs[2:], outputs[:1])


@pytest.mark.nightly
@pytest.mark.parametrize(
    "dtype, direction, difference",
    [("float32", "bidirectional", 1e-6), ("bfloat16", "left_to_right", 1e-2)],
)
def test_one_program_agrees_to_rounding(dtype, direction, difference):
    """As on a GPU: the compiler fuses the second call in other ways."""
    model = create_model(dtype, attention_direction=direction)
    expected, *others = (
        gradients(model, batch_of(model.config), choice, False, compiles=True)
        for choice in CHOICES
    )
    for found in others:
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, atol=difference, rtol=1e-5)


# %name = f32[4,128]{1,0} operation(%operand, ...)
_INSTRUCTION = re.compile(r"\s+(?:ROOT )?%?([\w.-]+) = (.*)")
_ARRAY = re.compile(r"^(\w+)\[([\d,]*)\]\S* ([\w-]+)\(")


def temporary_bytes(function, *arguments):
    """Return the most bytes of values at any moment of a compiled program.

    Instructions stand in the order of their execution; a value is there from
    its instruction to the last one that reads it.
    """
    text = function.experimental_get_compiler_ir(*arguments)("optimized_hlo")
    assert "is_scheduled=true" in text
    entry = text[text.index("ENTRY") :].splitlines()[1:]
    sizes, owner, last = {}, {}, {}
    for place, line in enumerate(entry):
        found = _INSTRUCTION.match(line)
        if not found:
            continue
        name, rest = found.groups()
        array = _ARRAY.match(rest)
        sizes[name], owner[name] = (place, 0), name
        operands = [x for x in re.findall(r"%?([\w.-]+)", rest) if x in sizes]
        if array and array[3] in ("bitcast", "get-tuple-element"):
            owner[name] = owner[operands[-1]]
        elif array and array[3] not in ("parameter", "constant"):
            width = {"bf16": 2, "pred": 1}.get(array[1], 4)
            numbers = math.prod(int(n) for n in array[2].split(",") if n)
            sizes[name] = (place, width * numbers)
        for operand in operands:
            last[owner[operand]] = place
    change = np.zeros(len(entry) + 2, np.int64)
    for name, (place, size) in sizes.items():
        change[place] += size
        change[last.get(name, place) + 1] -= size
    return np.cumsum(change).max()


@pytest.mark.nightly
def test_a_program_needs_less_memory():
    """Temporary bytes that XLA plans for the gradients of three layers."""

    def planned(choice):
        config = tiny_config(num_hidden_layers=3, max_position_embeddings=128)
        model = modeling.BertModel(config)
        ids = tf.ones([4, 128], tf.int32)
        variables = [v.value for v in model.encoder.trainable_weights]

        @tf.function(jit_compile=True, autograph=False)
        def run(ids):
            with tf.GradientTape() as tape:
                output = model(ids, compute=Compute(recompute=choice))
                loss = tf.reduce_sum(output.sequence_output**2)
            return tape.gradient(loss, variables)

        return temporary_bytes(run, ids)

    kept = {choice: planned(choice) for choice in CHOICES}
    # X = 4 * 128 * 32 numbers, A = 16 X, see training/memory.py. A layer keeps
    # 12 X + 4 X + 2 A = 48 X, and the backward pass of one takes 39 X.
    assert kept["layers"] < 0.7 * kept["none"]
    assert kept["attention"] < 0.9 * kept["none"]
    assert kept["layers"] < kept["attention"]
