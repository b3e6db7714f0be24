"""The loss scale of float16: skipped steps, growth, checkpoints, devices."""

import dataclasses
import json
import os
import subprocess
import sys

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
import tiny
import toy_training as toy
from paths import ROOT

from training import loss_scale
from training.compilation import Compilation
from training.loss_scale import LossScale

# Plain operations; as on a CPU; as on a GPU.
PROGRAMS = [
    Compilation(),
    Compilation(elementwise=True, update=True),
    Compilation(step=True),
]


@pytest.fixture(autouse=True)
def constants(monkeypatch):
    """Return a function that sets scale and steps; they are 16 and 3 else."""

    def set_both(initial: float = 16.0, growth_steps: int = 3) -> None:
        monkeypatch.setattr(loss_scale, "INITIAL", initial)
        monkeypatch.setattr(loss_scale, "GROWTH_STEPS", growth_steps)

    set_both()
    return set_both


def test_the_sequence_of_scales_by_hand(constants):
    """The table of the module, and the number of skipped steps."""
    constants(8.0, 2)
    scale = LossScale()
    state, found = scale.read(), []
    for is_good in (False, True, True, True, False, True):
        found.append((float(state.value), int(state.good_steps)))
        state = scale.next_scale(state, tf.constant(is_good))
    assert found == [(8, 0), (4, 0), (4, 1), (8, 0), (8, 1), (4, 0)]
    assert int(state.skipped_steps) == 2


def test_the_scale_does_not_overflow_itself(constants):
    constants(2.0**127, 1)
    scale = LossScale()
    state = scale.next_scale(scale.read(), tf.constant(True))
    assert float(state.value) == 2.0**127


def updated(state, gradient, number):
    """Return weights, m and v after an update, as optimization.py has it."""
    w, m, v = (value.astype(np.float64) for value in state)
    gradient = gradient * min(1.0, 1.0 / np.sqrt(np.sum(gradient**2)))
    m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
    rate = toy.RATE * (1 - (number + 1) / 12)
    w = w - rate * (m / (np.sqrt(v) + 1e-6) + 0.01 * w)
    return [w, m, v]


@pytest.mark.parametrize("compilation", PROGRAMS)
def test_an_overflow_skips_one_step_and_training_recovers(
    compilation, constants
):
    """The gradient is 0.75 of the scale or so: 2**17 overflows float16."""
    constants(2.0**17)
    x = toy.rows_of({5: 2})
    step = toy.create_step(toy.settings_of(""), compilation)
    scales, skipped = [], []
    for number in range(7):
        before = toy.state_of(step)
        scales.append(float(step.loss_scale.read().value))
        sums = toy.run_one(step, x, number)
        after = toy.state_of(step)
        skipped.append(not float(sums["gradient_norm"][1]))
        assert np.isfinite(float(sums["loss"][0]))
        if skipped[-1]:
            for one, other in zip(before, after, strict=True):
                np.testing.assert_array_equal(one, other)  # to the bit
            assert float(sums["gradient_norm"][0]) == 0
        else:
            # The rate is that of the step, skipped ones included.
            gradient = x[number].mean(0, dtype=np.float64)[:, None]
            wanted = updated(before, gradient, number)
            for one, other in zip(after, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-6)
    assert scales == [2.0**n for n in (17, 16, 16, 16, 17, 16, 15)]
    assert skipped == [True, False, False, False, True, True, False]


def test_one_bad_micro_batch_skips_the_step():
    """The sum of the micro-batches is as bad as its worst part."""
    x = toy.rows_of({1: 3})
    settings = toy.settings_of("", gradient_accumulation_steps=4)
    step = toy.create_step(settings)
    toy.run_one(step, x, 0)
    before = toy.state_of(step)
    toy.run_one(step, x, 1)
    for one, other in zip(before, toy.state_of(step), strict=True):
        np.testing.assert_array_equal(one, other)
    assert step.loss_scale.means() == {"loss_scale": 8, "skipped_steps": 1}
    toy.run_one(step, x, 2)
    assert not np.array_equal(before[0], toy.state_of(step)[0])


@pytest.mark.nightly
def test_a_killed_run_ends_with_the_same_bits(tmp_path, caplog):
    """Killed right before a step that is skipped, and right after it."""
    caplog.set_level("INFO", logger="absl")
    x = toy.rows_of({1: 0, 6: 3, 10: 1})
    toy.train(toy.settings_of(tmp_path / "whole"), x)
    assert "float16: 3 of 12 steps skipped" in caplog.text
    assert "the loss scale is 8" in caplog.text
    wanted = toy.values_of(tmp_path / "whole", 12)
    assert wanted["loss_scale/value"] == 8
    assert wanted["loss_scale/good_steps"] == 1
    assert wanted["loss_scale/skipped_steps"] == 3
    for last in (6, 7):
        folder = tmp_path / str(last)
        settings = toy.settings_of(folder, stop_after_steps=last)
        toy.train(settings, x)
        toy.train(dataclasses.replace(settings, stop_after_steps=0), x)
        tiny.assert_same(toy.values_of(folder, 12), wanted)


@pytest.mark.nightly
def test_a_run_may_change_its_type(tmp_path):
    """float16 begins with a new scale; other types keep none."""
    x = toy.rows_of({1: 0})
    first = toy.settings_of(tmp_path, stop_after_steps=3)
    toy.train(dataclasses.replace(first, dtype="float32"), x)
    names = {"global_step", "toy_kernel"}
    names |= {f"toy_kernel/{slot}" for slot in ("adam_m", "adam_v")}
    assert toy.values_of(tmp_path, 3).keys() == names
    toy.train(dataclasses.replace(first, stop_after_steps=5), x)
    found = toy.values_of(tmp_path, 5)
    assert found["loss_scale/value"] == 16
    assert found["loss_scale/good_steps"] == 2
    assert all(
        value.dtype in (np.float32, np.int64) for value in found.values()
    )
    toy.train(
        dataclasses.replace(first, stop_after_steps=6, dtype="bfloat16"), x
    )
    assert toy.values_of(tmp_path, 6).keys() == names


def test_a_scale_below_1_ends_the_run(tmp_path, constants):
    x = toy.rows_of({})
    x[2] = 60_000  # the gradient too, and twice that overflows
    settings = toy.settings_of(
        tmp_path / "1", iterations_per_loop=9, save_checkpoints_steps=2
    )
    constants(2.0)
    toy.train(settings, x)
    assert toy.values_of(tmp_path / "1", 4)["loss_scale/value"] == 1
    constants(1.6)
    message = "gradients overflowed, and a loss scale of 0.8 is too small, at "
    with pytest.raises(UserError, match=f"{message}step 3") as error:
        toy.train(dataclasses.replace(settings, output_dir=str(tmp_path)), x)
    assert "the last good checkpoint is" in str(error.value)
    assert "model.ckpt-2;" in str(error.value)
    assert not (tmp_path / "model.ckpt-3.index").exists()


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path):
    """No loss scale can help: the forward pass itself overflowed."""
    x = toy.rows_of({})
    x[2] = 1e5  # infinite in float16
    with pytest.raises(UserError, match=r"loss became \S+ at step 3"):
        toy.train(toy.settings_of(tmp_path), x)


@pytest.mark.nightly
def test_devices_skip_together(tmp_path):
    """A gradient that overflows on one of two devices is skipped on both."""
    large = {1: 3, 6: 0}  # rows of the second device and of the first
    process = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.path[:0] = sys.argv[1:3]; "
            "import toy_training; toy_training.main()",
            str(ROOT),
            str(ROOT / "tests/helpers"),
            str(tmp_path / "two"),
            json.dumps(large),
        ],
        env=os.environ | {"LOGICAL_CPUS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]
    copies = json.loads(process.stdout.splitlines()[-1])
    assert len(copies) == 2 and copies[0] == copies[1]
    toy.train(toy.settings_of(tmp_path / "one"), toy.rows_of(large))
    one, two = (toy.values_of(tmp_path / name, 12) for name in ("one", "two"))
    assert one["loss_scale/skipped_steps"] == 2
    assert one.keys() == two.keys()
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, 1e-3, 1e-6)
