"""Phases of a pre-training, and the number of steps that hours make."""

import gc
import json
import weakref
from pathlib import Path

import pytest
import scripts
import two_devices
from pretraining_runs import assert_same, flags_for, weights_of, write_data

from pretraining.phases import Phase, Plan, constant, parse
from training import loop

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


def test_phases_by_hand():
    plan = Plan(None, parse("batch_schedule", ["8:0.3", "32:1"]))
    assert plan.phases(100) == [
        Phase(0, 30, 100, 8, 0),
        Phase(30, 100, 100, 32, 240),
    ]
    # A share of less than half a step is none.
    assert plan.phases(1) == [Phase(0, 1, 1, 32, 0)]
    # 5 steps of 4 x 64 and 5 of 8 x 128, which has a stream of its own.
    plan = Plan(
        None,
        parse("", ["4:0.5", "8:1"]),
        parse("", ["64:0.5", "128:1"]),
    )
    assert plan.phases(10) == [
        Phase(0, 5, 10, 4, 0, 64),
        Phase(5, 10, 10, 8, 0, 128),
    ]
    assert Plan(None, constant(8)).phases(9) == [Phase(0, 9, 9, 8)]


def without(flags: dict, *names: str, **changes) -> dict:
    return {k: v for k, v in (flags | changes).items() if k not in names}


@pytest.mark.slow
def test_hours_are_steps_that_a_resumed_run_keeps(data, tmp_path, monkeypatch):
    """3.6 s at 0.3 s a step; then the machine is slower.

    The timed steps leave no trace: the run is that of 12 steps.
    """
    monkeypatch.setattr(loop, "_TIMED_SECONDS", 0.01)
    times, time_steps = [0.3], loop.seconds_per_step

    def seconds_per_step(training: loop.Training) -> float:
        assert time_steps(training) > 0
        return times.pop()

    monkeypatch.setattr(loop, "seconds_per_step", seconds_per_step)
    flags = flags_for(data, tmp_path / "given", num_warmup_steps=1)
    scripts.run(run_pretraining, **flags)
    flags = without(
        flags,
        "num_train_steps",
        "num_warmup_steps",
        output_dir=tmp_path / "hours",
        train_hours=0.001,
    )
    scripts.run(run_pretraining, **flags)
    assert_same(
        *(
            weights_of(tmp_path / n / "model.ckpt-12")
            for n in ("given", "hours")
        )
    )
    scripts.run(run_pretraining, **flags)  # would time with an empty list
    kept = json.loads((tmp_path / "hours/training_config.json").read_text())
    assert kept["adjustable"]["num_train_steps"] == 12
    line = scripts.error_of(run_pretraining, **flags | {"train_hours": 2})
    assert "train_hours = 0.001, not 2.0" in line


@pytest.mark.slow
def test_phases_on_two_devices(data, tmp_path, caplog):
    """Without dropout, which each device draws for itself."""
    caplog.set_level("INFO")
    flags = without(
        flags_for(data, tmp_path / "one", batch_schedule="4:0.9,8:1"),
        "train_batch_size",
        bert_config_file=data / "no_dropout.json",
        jit_compile=False,
    )
    scripts.run(run_pretraining, **flags)
    assert "step 11/12 (91.7%)" in caplog.text  # the end of the first phase
    two_devices.run(
        "run_pretraining", **flags | {"output_dir": tmp_path / "two"}
    )
    one, two = (
        weights_of(tmp_path / n / "model.ckpt-12") for n in ("one", "two")
    )
    assert_same(one, two, 1e-5)
    line = scripts.error_of(run_pretraining, **flags | {"num_train_steps": 20})
    assert "belongs to a run with other phases" in line


@pytest.mark.slow
def test_the_moments_of_a_phase_are_freed_before_the_next_one(
    data, tmp_path, monkeypatch
):
    """They are as large as two models, and the estimate has them once."""
    alive, steps, create = [], [], loop.Step

    def count(*arguments):
        alive.append(sum(ref() is not None for ref in steps))
        step = create(*arguments)
        steps.append(weakref.ref(step))
        return step

    monkeypatch.setattr(loop, "Step", count)
    monkeypatch.setattr(loop, "_TIMED_SECONDS", 0.01)
    flags = without(
        flags_for(data, tmp_path, batch_schedule="4:0.9,8:1"),
        "train_batch_size",
        "num_train_steps",
        "num_warmup_steps",
        train_hours=1e-4,
        jit_compile=False,
    )
    gc.disable()
    try:
        scripts.run(run_pretraining, **flags)
    finally:
        gc.enable()
    assert alive == [0, 0, 0, 0]
