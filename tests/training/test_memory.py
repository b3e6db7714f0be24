"""The estimate of a run's memory: computed by hand, and what is advised."""

import contextlib
import math
import types

from base.errors import UserError

import pytest
import tensorflow as tf
from small_models import tiny_config

import modeling
from training import memory
from training.compilation import Compilation
from training.settings import Settings

# B 2, S 10, H 32, I 64, N 4, L 2: X = 2 * 10 * 32 * 4 bytes, I / H = 2,
# A = 2 * 4 * 10 * 10 * 4 bytes.
X, A, E = 2560, 3200, 8 * 2 * 10 * 32
LAYER = 12 * X + 2 * 2 * X
BACKWARD = 3 * X + 2 * 2 * X + 2 * A
# Norms: (16 / 4 + 2 / 4) X. Attention: A, and (4 / 4 + 1 / 4) A.
LOOSE_LAYER = 6 * X + 5 * 2 * X + 4.5 * X + 2.25 * A


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({}, E + 2 * (LAYER + 2 * A) + BACKWARD),
        ({"choice": "attention"}, E + 2 * LAYER + 2 * A + BACKWARD),
        ({"choice": "layers"}, E + 2 * 3 * X + LAYER + 2 * A + BACKWARD),
        ({"is_fused": False}, E + 2 * LOOSE_LAYER + BACKWARD),
        ({"number_bytes": 2}, E + (2 * (LAYER + 2 * A) + BACKWARD) // 2),
        (
            {"row": memory.Rows(encoded=4)},
            4 * (E + 2 * (LAYER + 2 * A) + BACKWARD),
        ),
        # 2 * 9000 * 4 bytes and their gradient.
        (
            {"row": memory.Rows(logits=9000)},
            E + 2 * (LAYER + 2 * A) + 8 * 2 * 9000,
        ),
        ({"row": memory.Rows(encoded=0, head_numbers=7)}, 2 * 10 * 7 * 4),
    ],
)
def test_activations_by_hand(changes, expected):
    found = memory.activation_bytes(tiny_config(), 2, 10, **changes)
    assert found == expected


def step_of(
    config, trained, replicas=1, compiles=True, frozen=0, **changes
) -> types.SimpleNamespace:
    """Return what the estimate reads of a step."""
    variable = types.SimpleNamespace(shape=(trained,))
    rest = types.SimpleNamespace(shape=(frozen, 1))
    return types.SimpleNamespace(
        settings=Settings("", 10, 16)._replace(**changes),
        strategy=tf.distribute.get_strategy(),
        model=types.SimpleNamespace(
            config=config,
            variables=[variable, rest],
            trainable_variables=[variable],
        ),
        compilation=Compilation(elementwise=True, update=compiles),
        optimizer=types.SimpleNamespace(slot_names=("m", "v")),
        replicas=replicas,
    )


@pytest.mark.parametrize(
    "changes, parts, gradients, update",
    [
        ({}, 1, 4, 4),
        ({"compiles": False}, 1, 4, 16),
        ({"dtype": "float16"}, 1, 4, 12),
        ({"gradient_accumulation_steps": 4}, 4, 8, 4),
        ({"replicas": 4}, 4, 8, 16),
        ({"replicas": 2, "gradient_accumulation_steps": 2}, 4, 8, 16),
    ],
)
def test_a_step_by_hand(changes, parts, gradients, update):
    step = step_of(tiny_config(), 90, frozen=10, **changes)
    found = memory.estimate(step, 40, memory.ONE_SEQUENCE)
    activations = memory.activation_bytes(
        tiny_config(),
        16 // parts,
        40,
        number_bytes=2 if "dtype" in changes else 4,
    )
    assert found == {
        "weights": 400,
        "slots": 720,
        "gradients": gradients * 90,
        "activations": activations,
        "update": update * 90,
    }
    total = memory.total_bytes(step, found, "GPU")
    assert total == 400 + 720 + gradients * 90 + activations
    small = found | {"activations": 10}
    total = memory.total_bytes(step, small, "GPU")
    assert total == 400 + 720 + gradients * 90 + update * 90


PREDICTIONS = {32: 5, 128: 20, 256: 39, 512: 77}
PARAMETERS = {"mini": 11_301_692, "base": 110_106_428, "large": 336_226_108}
# Size, rows, length, settings, bytes.
LAYERS, ATTENTION = {"recompute": "layers"}, {"recompute": "attention"}
BFLOAT16, FLOAT16 = {"dtype": "bfloat16"}, {"dtype": "float16"}
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
    ("base", 1, 32, {"compiles": False}, 4575e6),
    ("large", 1, 32, {"compiles": False}, 11839e6),
]


def test_measured_peaks():
    """docs/memory.md: peaks of pre-training, commit b76e6a3, within 10%."""
    for size, rows, length, changes, measured in MEASURED:
        config = modeling.BertConfig.from_size(size, 30522)
        step = step_of(
            config, PARAMETERS[size], train_batch_size=rows, **changes
        )
        row = memory.Rows(logits=PREDICTIONS[length] * 30522)
        found = memory.estimate(step, length, row)
        total = memory.total_bytes(step, found, "CPU")
        assert total == pytest.approx(measured, rel=0.1)


def test_the_longest_batch_counts_and_a_run_that_does_not_fit_warns(
    monkeypatch, caplog
):
    """Or ends, if it needs more than twice of what is free."""
    caplog.set_level("INFO", "absl")
    lengths = [8, 40, 16, *[8] * 7]
    step = step_of(tiny_config(), 90)
    found = memory.estimate(step, 40, memory.ONE_SEQUENCE)
    needed = memory.total_bytes(step, found, "CPU")
    for free, warns, ends in (
        (math.inf, False, False),
        (needed - 1, True, False),
        (needed // 2 - 1, False, True),
    ):
        monkeypatch.setattr(
            memory, "free_bytes", lambda kind, free=free: (free, "it")
        )
        caplog.clear()
        error = pytest.raises(UserError, match="batches of 16 of length 40")
        with error if ends else contextlib.nullcontext():
            memory.log_estimate(
                step, lambda step: lengths[step], 0, memory.ONE_SEQUENCE
            )
        assert "(--recompute=none, length 40)" in caplog.text
        assert ("more than what is free" in caplog.text) == warns
