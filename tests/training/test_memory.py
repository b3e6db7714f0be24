"""The estimate of a run's memory: computed by hand, and what is advised."""

import dataclasses
import math
import types

from base import machine
from base.errors import UserError

import pytest
import tensorflow as tf
from accelerators import steps
from small_models import tiny_config

import modeling
from training import evaluation, memory
from training.settings import TrainingSettings
from training.task_model import TaskModel

# B 2, S 10, H 32, I 64, N 4, L 2: X = 2 * 10 * 32 * 4 bytes, I / H = 2,
# A = 2 * 4 * 10 * 10 * 4 bytes.
X, A, E = 2560, 3200, 8 * 2 * 10 * 32
LAYER = 12 * X + 2 * 2 * X
BACKWARD = 3 * X + 2 * 2 * X + 2 * A


def sizes_of(config, trained, length=40, frozen=0, **changes) -> memory.Sizes:
    """Return the sizes of a run; `changes` are fields or settings."""
    fields = {
        name: changes.pop(name)
        for name in memory.Sizes._fields
        if name in changes
    }
    return memory.Sizes(
        True,
        config,
        dataclasses.replace(
            TrainingSettings("", 16, num_train_steps=10), **changes
        ),
        length,
        memory.RowCost(),
        trained + frozen,
        trained,
    )._replace(**fields)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, E + 2 * (LAYER + 2 * A) + BACKWARD),
        ({"recompute": "attention"}, E + 2 * LAYER + 2 * A + BACKWARD),
        ({"recompute": "layers"}, E + 2 * 3 * X + LAYER + 2 * A + BACKWARD),
        ({"dtype": "bfloat16"}, E + (2 * (LAYER + 2 * A) + BACKWARD) // 2),
        (
            {"row": memory.RowCost(encoded=4)},
            4 * (E + 2 * (LAYER + 2 * A) + BACKWARD),
        ),
        # 2 * 9000 * 4 bytes and their gradient.
        (
            {"row": memory.RowCost(logits=9000)},
            E + 2 * (LAYER + 2 * A) + 8 * 2 * 9000,
        ),
        ({"row": memory.RowCost(encoded=0, head_numbers=7)}, 2 * 10 * 7 * 4),
    ],
)
def test_activations_by_hand(changes, expected):
    sizes = sizes_of(
        tiny_config(), 90, length=10, train_batch_size=2, **changes
    )
    assert memory.activation_bytes(sizes) == expected


@pytest.mark.parametrize(
    "changes, gradients, update",
    [
        ({}, 4, 4),
        ({"updates_in_place": False}, 4, 16),
        ({"gradient_accumulation_steps": 4}, 8, 4),
        ({"replicas": 4}, 8, 4),
    ],
)
def test_a_step_by_hand(changes, gradients, update):
    sizes = sizes_of(tiny_config(), 90, frozen=10, **changes)
    found = memory.estimate(sizes)
    activations = memory.activation_bytes(sizes)
    assert found == {
        "weights": 400,
        "optimizer slots": 720,
        "gradients": gradients * 90,
        "activations": activations,
        "update": update * 90,
    }
    kept = 400 + 720 + gradients * 90
    rest = memory.RUNTIME_BYTES
    assert memory.total_bytes(sizes) == kept + activations + rest
    several = memory.total_bytes(sizes._replace(here=2))
    assert several == 2 * (kept + activations) + rest
    # A row of one token: the update needs more.
    small = sizes.changed(train_batch_size=sizes.parts)._replace(length=1)
    small = small._replace(trained=10**6, parameters=10**6)
    expected = (4 + 8 + gradients + update) * 10**6
    assert memory.total_bytes(small) == expected + rest


PREDICTIONS = {32: 5, 128: 20, 256: 39, 512: 77}
PARAMETERS = {"mini": 11_301_692, "base": 110_106_428, "large": 336_226_108}
# Size, rows, length, settings, bytes.
LAYERS, ATTENTION = {"recompute": "layers"}, {"recompute": "attention"}
BFLOAT16, LOOSE = {"dtype": "bfloat16"}, {"updates_in_place": False}
FLOAT16 = {"dtype": "float16", **LOOSE}
MEASURED = [
    ("mini", 8, 512, {}, 1974e6),
    ("mini", 8, 512, LAYERS, 1564e6),
    ("mini", 8, 512, ATTENTION, 1771e6),
    ("mini", 32, 128, {}, 1784e6),
    ("mini", 4, 256, BFLOAT16, 1418e6),
    ("mini", 4, 256, FLOAT16, 1566e6),
    ("base", 8, 512, {}, 8840e6),
    ("base", 8, 512, ATTENTION, 6636e6),
    ("base", 8, 512, LAYERS, 4401e6),
    ("large", 4, 512, {}, 14013e6),
    ("large", 4, 512, LAYERS, 8028e6),
    ("large", 4, 512, ATTENTION, 10914e6),
    ("large", 16, 128, {}, 11491e6),
    ("large", 16, 128, LAYERS, 7935e6),
    ("large", 16, 128, ATTENTION, 10566e6),
    # With one short row the update needs more than the activations do.
    ("base", 1, 32, {}, 3250e6),
    ("large", 1, 32, {}, 7450e6),
    ("base", 1, 32, BFLOAT16, 3291e6),
    ("large", 1, 32, BFLOAT16, 7607e6),
    ("base", 1, 32, FLOAT16, 4424e6),
    ("large", 1, 32, FLOAT16, 10506e6),
    ("base", 1, 32, LOOSE, 4575e6),
    ("large", 1, 32, LOOSE, 11839e6),
]


def test_measured_peaks():
    """docs/records/memory.md: peaks of pre-training, commit b76e6a3."""
    for size, batch, length, changes, measured in MEASURED:
        sizes = sizes_of(
            modeling.BertConfig.from_size(size, 30522),
            PARAMETERS[size],
            length=length,
            row=memory.RowCost(logits=PREDICTIONS[length] * 30522),
            train_batch_size=batch,
            **changes,
        )
        total = memory.total_bytes(sizes)
        exact = 0.2 if "dtype" in changes else 0.1
        assert total == pytest.approx(measured, rel=exact)
        assert measured <= memory.SAFETY * total


COMPILED = [row for row in steps.ROWS if "parameters" in row]


@pytest.mark.parametrize("row", COMPILED, ids=steps.name_of)
def test_compiled_programs(row):
    """What the compilers of GPUs and TPUs ask for."""
    needed = row["arguments"] + row["temporaries"]
    total = memory.total_bytes(steps.sizes(row))
    # Programs of Tiny leave out most of what they would keep.
    most = 2.7 if row["size"] == "tiny" else 1.9
    assert needed <= memory.SAFETY * total and total <= most * needed


def test_the_flags_that_make_a_run_fit():
    sizes = sizes_of(
        modeling.BertConfig.from_size("base", 30522),
        110_106_428,
        on_cpu=False,
        length=512,
        train_batch_size=64,
        dtype="bfloat16",
    )
    assert not memory.what_fits(sizes, 1e9), "the weights alone need 1.3 GB"
    for free in (4e9, 8e9, 16e9, 24e9):
        for flag in memory.what_fits(sizes, free):
            name, _, value = flag.removeprefix("--").partition("=")
            value = int(value) if value.isdecimal() else value
            total = memory.total_bytes(sizes.changed(**{name: value}))
            assert memory.SAFETY * total <= free
    largest = memory.largest_batch(sizes, 16e9)
    more = sizes.changed(train_batch_size=largest + 1)
    assert memory.SAFETY * memory.total_bytes(more) > 16e9
    # The batch is that of all devices.
    assert memory.largest_batch(sizes._replace(replicas=2), 16e9) % 2 == 0


def test_the_longest_batch_counts_and_a_run_that_does_not_fit_warns(
    monkeypatch, caplog
):
    caplog.set_level("INFO", "absl")
    lengths = [8, 40, 16, *[8] * 7]
    sizes = sizes_of(tiny_config(), 90)
    needed = memory.SAFETY * memory.total_bytes(sizes)
    monkeypatch.setattr(
        memory,
        "sizes_of",
        lambda step, length, row: sizes._replace(length=length),
    )
    for free, warns in ((math.inf, False), (needed - 1, True)):
        monkeypatch.setattr(
            machine, "free_bytes", lambda free=free: (free, "it")
        )
        caplog.clear()
        memory.log_estimate(
            types.SimpleNamespace(settings=sizes.settings, replicas=1),
            lambda step: lengths[step],
            0,
            memory.RowCost(),
        )
        assert "with --recompute=none and length 40: weights" in caplog.text
        assert ("out of memory: of the" in caplog.text) == warns
        assert ("each of these fits: --recompute" in caplog.text) == warns


def test_a_batch_that_the_memory_does_not_hold_is_named(monkeypatch):
    free = (10**9, "it")
    cpus = tf.config.list_logical_devices("CPU")  # GPUs are not checked
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda: cpus)
    monkeypatch.setattr(machine, "free_bytes", lambda: free)
    model = TaskModel(tiny_config())
    evaluation._check_fits(model, tf.TensorShape([10**4, 40]))
    evaluation._check_fits(model, tf.TensorShape([None, 40]))
    with pytest.raises(UserError, match="100000 sequences of 40 tokens"):
        evaluation._check_fits(model, tf.TensorShape([10**5, 40]))
