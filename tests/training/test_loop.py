"""What a run does between its calls, in which order, and when it saves."""

import dataclasses
import shutil
import types
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
import tiny
import toy_training as toy

from checkpoints.run_folder import RunFolder
from checkpoints.training_state import TrainingState
from training import loop, scalars
from training.hooks import ledger
from training.hooks import save as save_hooks
from training.hooks.hook import Call
from training.hooks.save import Pace
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
    listed = RunFolder.read(str(folder)).listed
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

    def save_or_die(state, step, stays=True):
        if step == 10 and "killed" not in saved:
            saved.append("killed")
            raise KeyboardInterrupt
        saved.append(step)
        return save(state, step, stays)

    monkeypatch.setattr(TrainingState, "save", save_or_die)
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(save_hooks, "time", clock)
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
    whole = toy.values_of(tmp_path / "whole", 12)
    tiny.assert_same(toy.values_of(out, 12), whole)


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
    times = [5_000_000_000, 9_500_000], [7_000_000_000, 10_500_000]
    rows = np.array([[0, *row] for row in times])
    machines = types.SimpleNamespace(gather=lambda row: rows)
    settings = toy.settings_of("", save_checkpoints_minutes=9.6)
    pace = Pace(
        dataclasses.replace(settings, save_checkpoints_steps=9),
        machines,
        StopRequest(),
        lambda step: 1,
    )
    pace.after(Call(1, 1, {}, 5.0, compiles=False))
    assert (pace.seconds_per_place, pace.saves) == (7.0, False)
    assert machines.done == 1
    rows[0, 2] = 9_700_000
    pace.after(Call(2, 1, {}, 5.0, compiles=False))
    assert (pace.saves, pace.stays) == (True, False)


# What a run of 6 steps does after its calls, in order.
ACTIONS = [
    *("scalars 1", "scalars 2", "keep 2", "evaluate 2"),
    *("scalars 3", "ledger 3", "keep 3"),
    *("scalars 4", "ledger 4", "save 4", "evaluate 4"),
    *("scalars 5", "scalars 6", "ledger 6", "save 6", "evaluate 6"),
]


@pytest.mark.slow
def test_hooks_have_an_order_and_a_kill_between_two_changes_nothing(
    tmp_path, monkeypatch
):
    actions: list[str] = []
    limit = len(ACTIONS)

    def note(action: str) -> None:
        if len(actions) == limit:
            raise KeyboardInterrupt
        actions.append(action)

    def noting(name: str, owner: object, function: str) -> None:
        """Note what is called with a step as its second argument."""
        do = getattr(owner, function)

        def noted(first, step, *others):
            if step != getattr(first, "last", None):  # else no line is due
                note(f"{name} {step}")
            return do(first, step, *others)

        monkeypatch.setattr(owner, function, noted)

    noting("save", TrainingState, "save")
    noting("ledger", ledger.Ledger, "close")
    noting("scalars", scalars, "append")

    def train(out: Path) -> None:
        settings = toy.settings_of(
            out,
            num_train_steps=6,
            save_checkpoints_steps=4,
            keep_steps=(2, 3),
            eval_steps=2,
            ledger=3,
        )

        def keep(step: int) -> None:
            note(f"keep {step}")
            (out / f"kept-{step}").touch()

        def evaluate(step: int) -> None:
            note(f"evaluate {step}")
            (out / f"evaluated-{step}").touch()

        toy.train(settings, X, keep=keep, evaluate=evaluate)

    def left(out: Path) -> list:
        """Return what a run leaves, without times, starts and events."""
        return [
            {p.name for p in out.iterdir() if "events." not in p.name},
            [(point["step"], point["loss"]) for point in scalars.read(out)],
            [x for x in ledger.read(out) if "from" in x],
            *(
                toy.values_of(out, step)["toy_kernel"].tolist()
                for step in (4, 6)
            ),
        ]

    train(tmp_path / "whole")
    assert actions == ACTIONS
    wanted = left(tmp_path / "whole")
    for limit in range(len(ACTIONS)):
        out = tmp_path / f"killed-{limit}"
        actions.clear()
        with pytest.raises(KeyboardInterrupt):
            train(out)
        actions.clear()
        killed_at, limit = limit, len(ACTIONS)
        train(out)
        if ACTIONS[killed_at] == "evaluate 6":
            # The run is finished: the scripts evaluate the last step then.
            (out / "evaluated-6").touch()
        assert left(out) == wanted, ACTIONS[killed_at]
