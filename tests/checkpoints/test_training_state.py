"""Training checkpoints: saved, kept, resumed; and whose output_dir it is."""

import os
import shutil
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from tiny import assert_same, values_of

from checkpoints import lookup, weight_files
from checkpoints.run_folder import RUN_NAME, Identity, RunFolder
from checkpoints.training_state import TrainingState


def slots_of(model) -> dict:
    return {
        v.path: {"adam_m": tf.Variable(tf.random.normal(v.shape))}
        for v in model.variables
    }


def state_in(folder: str, *arguments, **keywords) -> TrainingState:
    """Return the state of a run that goes on in a folder."""
    return TrainingState(RunFolder.read(folder), *arguments, **keywords)


def claim(folder: str, fixed: dict, adjustable: dict) -> None:
    """Begin a run, or check that it may go on, as a command does."""
    identity = Identity(fixed, adjustable, {})
    run = RunFolder.read(folder)
    run.check_same(identity)
    os.makedirs(folder, exist_ok=True)
    run.claim(identity)


def test_training_state_keeps_the_newest(model, tmp_path):
    slots = slots_of(model)
    state = state_in(str(tmp_path), model.variables, slots, 2)
    assert RunFolder.read(state.output_dir).resumed is None
    for step in (1, 2, 3):
        state.save(step)
    names = {path.name for path in tmp_path.glob("model.ckpt-*")}
    assert names == {
        f"model.ckpt-{step}{suffix}"
        for step in (2, 3)
        for suffix in weight_files.SUFFIXES
    }
    before = values_of(model.variables)
    slot = slots["bert/pooler/dense/bias"]["adam_m"]
    slot_before = slot.numpy()
    slot.assign(tf.zeros_like(slot))
    model.variables[0].assign(tf.zeros_like(model.variables[0]))
    assert state.restore(RunFolder.read(state.output_dir).resumed) == 3
    np.testing.assert_array_equal(slot, slot_before)
    assert_same(values_of(model.variables), before)
    keeping = state_in(
        str(tmp_path), model.variables, slots, keep_checkpoint_max=0
    )
    for step in range(4, 10):
        keeping.save(step)
    assert len(list(tmp_path.glob("*.index"))) == 8


def test_a_run_in_a_copy_leaves_the_first_output_dir_alone(model, tmp_path):
    """The original's `checkpoint` names its own folder, also in a copy."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    first = state_in(str(old), model.variables, {})
    names = [first.save(step) for step in (1, 2)]
    (old / "checkpoint").write_text(
        f'model_checkpoint_path: "{names[-1]}"\n'
        + "".join(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
    )
    shutil.copytree(old, new)
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    state = state_in(str(new), model.variables, {}, 1)
    assert RunFolder.read(str(new)).resumed == str(new / "model.ckpt-2")
    state.save(3)
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    assert [p.name for p in new.glob("*.index")] == ["model.ckpt-3.index"]
    for path in new.glob("model.ckpt-*"):
        path.unlink()
    (old / "checkpoint").rename(new / "checkpoint")
    with pytest.raises(UserError, match="new/model.ckpt-2, whose files are mi"):
        assert RunFolder.read(str(new)).resumed
    with pytest.raises(UserError, match="without .* its file `checkpoint` li"):
        lookup.find_checkpoint(str(new))


def test_weights_alone_are_no_training_state(model, tmp_path):
    prefix = str(tmp_path / "c")
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    state = state_in(str(tmp_path), model.variables, slots_of(model))
    with pytest.raises(UserError, match="can be given as --init_checkpoint"):
        state.restore(prefix)


def test_claim_compares_only_once_a_checkpoint_exists(model, tmp_path, caplog):
    folder = str(tmp_path / "out")
    claim(folder, {"model": {"a": 1}}, {"rate": 1.0})
    claim(folder, {"model": {"a": 2}}, {"rate": 1.0})
    state_in(folder, model.variables, {}).save(1)
    with pytest.raises(UserError, match="model = {'a': 2}, not {'a': 3}"):
        claim(folder, {"model": {"a": 3}}, {})
    fixed = {"model": {"a": 2}}
    claim(folder, fixed, {"rate": 2.0})
    assert not caplog.text
    RunFolder.read(folder).warn_of_changes(Identity({}, {"rate": 2.0}, {}))
    words = f"rate changes from 1.0 to 2.0: the run in {folder} goes on with"
    assert words in caplog.text
    # Nothing is trained with the new rate yet.
    assert RunFolder.read(folder).adjustable == {"rate": 1.0}
    RunFolder.read(folder).write_settings(Identity(fixed, {"rate": 2.0}, {}))
    assert RunFolder.read(folder).adjustable == {"rate": 2.0}
    RunFolder.read(folder).warn_of_changes(
        Identity({}, {"rate": 3.0}, {}, {"rate": "since then"})
    )
    assert "rate changes from 2.0 to 3.0: since then" in caplog.text


def test_an_option_that_is_off_may_be_missing(model, tmp_path):
    """Runs of earlier versions do not know it; nor do commands without it."""
    folder = str(tmp_path)
    claim(folder, {"model": 1, "old": 0}, {})
    state_in(folder, model.variables, {}).save(1)
    fixed = {"model": 1, "layers": 0, "files": [], "teacher": None}
    claim(folder, fixed, {})
    for name, fixed in (("layers", {"model": 1, "layers": 2}), ("model", {})):
        with pytest.raises(UserError, match=f"belongs to a run with {name} = "):
            claim(folder, fixed, {})


def test_what_a_resumed_command_lacks_stays_known(model, tmp_path):
    folder = str(tmp_path)
    claim(folder, {"vocabulary": "a"}, {})
    state_in(folder, model.variables, {}).save(1)
    claim(folder, {"vocabulary": None}, {})
    RunFolder.read(folder).write_settings(
        Identity({"vocabulary": None}, {}, {})
    )
    with pytest.raises(UserError, match="vocabulary"):
        claim(folder, {"vocabulary": "b"}, {})


def test_a_checkpoint_that_is_missing_is_passed_over(model, tmp_path, caplog):
    state = state_in(str(tmp_path), model.variables, {})
    for step in (1, 2, 3):
        state.save(step)
    for path in tmp_path.glob("model.ckpt-3.*"):
        path.unlink()
    assert RunFolder.read(state.output_dir).resumed.endswith("model.ckpt-2")
    assert "model.ckpt-3 are missing: resuming from" in caplog.text
    assert RunFolder.read(str(tmp_path)).latest.endswith("model.ckpt-2")
    state.save(4)
    listed = RunFolder.read(str(tmp_path)).listed
    assert [Path(p).name for p in listed] == [
        f"model.ckpt-{step}" for step in (1, 2, 4)
    ]


def test_a_run_whose_checkpoints_are_all_missing_does_not_begin_anew(
    model, tmp_path
):
    state = state_in(str(tmp_path), model.variables, {})
    claim(str(tmp_path), {"seed": 1}, {})
    state.save(8)
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    with pytest.raises(UserError, match="lists .*ckpt-8, whose files are"):
        assert RunFolder.read(state.output_dir).resumed
    with pytest.raises(UserError, match="belongs to a run with seed = 1"):
        claim(str(tmp_path), {"seed": 2}, {})
    with pytest.raises(UserError, match="lists .*ckpt-8, whose files are"):
        lookup.find_training_checkpoint(str(tmp_path))
    for text in ("model_check", ""):
        (tmp_path / "checkpoint").write_text(text)
        with pytest.raises(UserError, match="checkpoint is damaged: restore"):
            assert RunFolder.read(state.output_dir).resumed
    (tmp_path / "checkpoint").unlink()
    assert RunFolder.read(state.output_dir).resumed is None


HASH = "a" * 64


@pytest.mark.parametrize(
    "old, new, words",
    [
        (HASH, None, "a run with other data; use"),
        ({"a": HASH, "b": 1}, {"b": 1}, "a run with other data (a); use"),
        (dict.fromkeys("abcdef", HASH), {}, "other data (a, b, c, d, ...)"),
        ({"a": 1, "b": 2}, {"a": 1}, "data = {'b': 2}, not {'b': None}; use"),
    ],
)
def test_what_differs_is_told_in_short(model, tmp_path, old, new, words):
    folder = str(tmp_path)
    claim(folder, {"data": old}, {})
    state_in(folder, model.variables, {}).save(1)
    with pytest.raises(UserError) as caught:
        claim(folder, {"data": new}, {})
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["{", "{}", '{"fixed": 3, "adjustable": {}}'])
def test_a_training_config_of_something_else_is_one_line(model, tmp_path, text):
    folder = str(tmp_path)
    state_in(folder, model.variables, {}).save(1)
    (tmp_path / RUN_NAME).write_text(text)
    with pytest.raises(UserError, match="training_config.json"):
        claim(folder, {}, {})
