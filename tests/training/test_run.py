"""When a run saves, by steps and by the clock, and what it keeps of that."""

import shutil
import types
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
import toy_training as toy

from checkpoints import lookup
from checkpoints.training_state import TrainingState
from training import run
from training.stop_request import StopRequest

X = toy.rows_of({})


class Clock:
    """A clock on which 20 seconds pass from one look to the next."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 20.0
        return self.now


def kept(folder: Path) -> list[str]:
    """Return the checkpoints that are listed, whose files are the only ones."""
    listed = lookup.listed_checkpoints(str(folder))
    names = {Path(prefix).name for prefix in listed}
    assert {path.stem for path in folder.glob("model.ckpt-*.index")} == names
    return [name.removeprefix("model.ckpt-") for name in sorted(names)]


@pytest.mark.slow
def test_the_clock_saves_between_steps_and_a_kill_loses_minutes(
    tmp_path, monkeypatch
):
    """A step takes a minute of this clock, so it saves every two steps.

    Such a checkpoint is gone with the next one.
    """
    whole = toy.settings_of(tmp_path / "whole", save_checkpoints_steps=5)
    toy.train(whole, X)
    saved, save = [], TrainingState.save

    def save_or_die(state, step):
        if step == 10 and "killed" not in saved:
            saved.append("killed")
            raise KeyboardInterrupt
        saved.append(step)
        return save(state, step)

    monkeypatch.setattr(TrainingState, "save", save_or_die)
    monkeypatch.setattr(run, "time", Clock())
    out = tmp_path / "killed"
    settings = toy.settings_of(
        out, save_checkpoints_steps=5, save_checkpoints_minutes=2
    )
    with pytest.raises(KeyboardInterrupt):
        toy.train(settings, X)
    assert saved == [2, 4, 5, 7, 9, "killed"]
    assert kept(out) == ["5", "9"]
    toy.train(settings, X)
    assert saved[6:] == [10, 12]
    assert kept(out) == ["10", "12", "5", "9"]
    assert kept(tmp_path / "whole") == ["10", "12", "5"]
    for name, value in toy.values_of(tmp_path / "whole", 12).items():
        np.testing.assert_array_equal(toy.values_of(out, 12)[name], value, name)


def test_a_disk_without_room_is_found_before_the_first_step(
    tmp_path, monkeypatch
):
    """A state is 4 weights with m and v of 4 bytes: 48 bytes.

    12 steps save 3 checkpoints; with 2 to keep there are 3 for a moment, and
    the weights at the end and after step 7.
    """
    usage = types.SimpleNamespace(total=999, free=3 * 48 + 2 * 16 - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    settings = toy.settings_of(
        tmp_path,
        save_checkpoints_steps=5,
        keep_checkpoint_max=2,
        keep_steps=(7,),
    )
    with pytest.raises(UserError, match="175 bytes free, .* needs 176: 3 che"):
        toy.train(settings, X)
    assert not list(tmp_path.iterdir())
    usage.free += 1
    toy.train(settings, X)


def test_the_clock_of_the_chief_counts_for_all():
    """Else one machine would save where another goes on."""
    rows = np.array([[0, 5_000_000, 9_500_000], [0, 7_000_000, 10_500_000]])
    machines = types.SimpleNamespace(count=2, gather=lambda row: rows)
    found = run._agree(machines, StopRequest(), 1, 5.0, 10.5)
    assert found == (7.0, 9.5)
