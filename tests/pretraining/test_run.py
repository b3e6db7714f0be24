"""The number of steps that hours make."""

import gc
import json
import weakref
from pathlib import Path

import pytest
import scripts
from pretraining_runs import flags_for, write_data
from tiny import check_same_bits

from training import loop, train_step

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


def without(flags: dict, *names: str, **changes) -> dict:
    return {k: v for k, v in (flags | changes).items() if k not in names}


@pytest.mark.nightly
def test_hours_are_steps_that_a_resumed_run_keeps(
    data, tmp_path, monkeypatch, caplog
):
    """3.6 s at 0.3 s a step; then the machine is slower.

    The timed steps leave no trace: the run is that of 12 steps.
    """
    monkeypatch.setattr(loop, "_TIMED_SECONDS", 0.01)
    times, time_steps = [0.3], loop.seconds_per_step

    def seconds_per_step(training: loop.Training) -> float:
        assert time_steps(training) > 0
        return times.pop()

    monkeypatch.setattr(loop, "seconds_per_step", seconds_per_step)
    flags = flags_for(
        data,
        tmp_path / "given",
        num_warmup_steps=1,
        learning_rate=1e-6,  # it learns nothing
        do_eval=True,
        eval_input_file=data / "dev",
    )
    scripts.run(run_pretraining, **flags)
    flags = without(
        flags,
        "num_train_steps",
        "num_warmup_steps",
        output_dir=tmp_path / "hours",
        train_hours=0.001,
    )
    scripts.run(run_pretraining, **flags)
    # The advice is the same before the training and after it.
    assert "12 steps from new weights are few" in caplog.text
    assert caplog.text.count("--train_hours=0.052, for 570 steps") == 2
    name = "model.ckpt-12"
    check_same_bits(tmp_path / "given" / name, tmp_path / "hours" / name)
    scripts.run(run_pretraining, **flags)  # would time with an empty list
    kept = json.loads((tmp_path / "hours/training_config.json").read_text())
    assert kept["adjustable"]["num_train_steps"] == 12
    line = scripts.error_of(run_pretraining, **flags | {"train_hours": 2})
    assert "train_hours = 0.001, not 2.0" in line


@pytest.mark.nightly
def test_the_moments_of_the_timed_steps_are_freed(data, tmp_path, monkeypatch):
    """They are as large as two models, and the estimate has them once."""
    alive, steps, create = [], [], train_step.Step

    def count(*arguments):
        alive.append(sum(ref() is not None for ref in steps))
        step = create(*arguments)
        steps.append(weakref.ref(step))
        return step

    monkeypatch.setattr(train_step, "Step", count)
    monkeypatch.setattr(loop, "_TIMED_SECONDS", 0.01)
    flags = without(
        flags_for(data, tmp_path),
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
    assert alive == [0, 0]
