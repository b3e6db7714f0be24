"""Training checkpoints: saved, kept, resumed; and whose output_dir it is."""

import shutil
from pathlib import Path

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from tiny import assert_same, values_of

from checkpoints import lookup, run_settings, training_state, weight_files


def slots_of(model) -> dict:
    return {
        v.path: {"adam_m": tf.Variable(tf.random.normal(v.shape))}
        for v in model.variables
    }


def test_training_state_keeps_the_newest(model, tmp_path):
    slots = slots_of(model)
    state = training_state.TrainingState(
        str(tmp_path), model.variables, slots, 2
    )
    assert lookup.checkpoint_to_resume(state.output_dir) is None
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
    assert state.restore(lookup.checkpoint_to_resume(state.output_dir)) == 3
    np.testing.assert_array_equal(slot, slot_before)
    assert_same(values_of(model.variables), before)
    keeping = training_state.TrainingState(
        str(tmp_path), model.variables, slots, keep_checkpoint_max=0
    )
    for step in range(4, 10):
        keeping.save(step)
    assert len(list(tmp_path.glob("*.index"))) == 8


def test_a_run_in_a_copy_leaves_the_first_output_dir_alone(model, tmp_path):
    """The original's `checkpoint` names its own folder, also in a copy."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    first = training_state.TrainingState(str(old), model.variables, {})
    names = [first.save(step) for step in (1, 2)]
    (old / "checkpoint").write_text(
        f'model_checkpoint_path: "{names[-1]}"\n'
        + "".join(f'all_model_checkpoint_paths: "{name}"\n' for name in names)
    )
    shutil.copytree(old, new)
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    state = training_state.TrainingState(str(new), model.variables, {}, 1)
    assert lookup.checkpoint_to_resume(str(new)) == str(new / "model.ckpt-2")
    state.save(3)
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    assert [p.name for p in new.glob("*.index")] == ["model.ckpt-3.index"]
    for path in new.glob("model.ckpt-*"):
        path.unlink()
    (old / "checkpoint").rename(new / "checkpoint")
    with pytest.raises(UserError, match="new/model.ckpt-2, whose files are mi"):
        lookup.checkpoint_to_resume(str(new))
    with pytest.raises(UserError, match="without .* its file `checkpoint` li"):
        lookup.find_checkpoint(str(new))


def test_weights_alone_are_no_training_state(model, tmp_path):
    prefix = str(tmp_path / "c")
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    state = training_state.TrainingState(
        str(tmp_path), model.variables, slots_of(model)
    )
    with pytest.raises(UserError, match="can be given as --init_checkpoint"):
        state.restore(prefix)


def test_claim_compares_only_once_a_checkpoint_exists(model, tmp_path, caplog):
    folder = str(tmp_path / "out")
    run_settings.claim_output_dir(folder, {"model": {"a": 1}}, {"rate": 1.0})
    run_settings.claim_output_dir(folder, {"model": {"a": 2}}, {"rate": 1.0})
    training_state.TrainingState(folder, model.variables, {}).save(1)
    with pytest.raises(UserError, match="model = {'a': 2}, not {'a': 3}"):
        run_settings.claim_output_dir(folder, {"model": {"a": 3}}, {})
    fixed = {"model": {"a": 2}}
    run_settings.claim_output_dir(folder, fixed, {"rate": 2.0})
    assert not caplog.text
    run_settings.warn_of_changes(folder, {"rate": 2.0})
    words = f"rate changes from 1.0 to 2.0: the run in {folder} goes on with"
    assert words in caplog.text
    # Nothing is trained with the new rate yet.
    assert run_settings.read_adjustable(folder) == {"rate": 1.0}
    run_settings.write_settings(folder, fixed, {"rate": 2.0})
    assert run_settings.read_adjustable(folder) == {"rate": 2.0}
    run_settings.warn_of_changes(folder, {"rate": 3.0}, {"rate": "since then"})
    assert "rate changes from 2.0 to 3.0: since then" in caplog.text


def test_an_option_that_is_off_may_be_missing(model, tmp_path):
    """Runs of earlier versions do not know it; nor do commands without it."""
    folder = str(tmp_path)
    run_settings.claim_output_dir(folder, {"model": 1, "old": 0}, {})
    training_state.TrainingState(folder, model.variables, {}).save(1)
    fixed = {"model": 1, "layers": 0, "files": [], "teacher": None}
    run_settings.claim_output_dir(folder, fixed, {})
    for name, fixed in (("layers", {"model": 1, "layers": 2}), ("model", {})):
        with pytest.raises(UserError, match=f"belongs to a run with {name} = "):
            run_settings.claim_output_dir(folder, fixed, {})


def test_what_a_resumed_command_lacks_stays_known(model, tmp_path):
    folder = str(tmp_path)
    run_settings.claim_output_dir(folder, {"vocabulary": "a"}, {})
    training_state.TrainingState(folder, model.variables, {}).save(1)
    run_settings.claim_output_dir(folder, {"vocabulary": None}, {})
    run_settings.write_settings(folder, {"vocabulary": None}, {})
    with pytest.raises(UserError, match="vocabulary"):
        run_settings.claim_output_dir(folder, {"vocabulary": "b"}, {})


def test_a_checkpoint_that_is_missing_is_passed_over(model, tmp_path, caplog):
    state = training_state.TrainingState(str(tmp_path), model.variables, {})
    for step in (1, 2, 3):
        state.save(step)
    for path in tmp_path.glob("model.ckpt-3.*"):
        path.unlink()
    assert lookup.checkpoint_to_resume(state.output_dir).endswith(
        "model.ckpt-2"
    )
    assert "model.ckpt-3 are missing: resuming from" in caplog.text
    assert lookup.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-2")
    state.save(4)
    listed = lookup.listed_checkpoints(str(tmp_path))
    assert [Path(p).name for p in listed] == [
        f"model.ckpt-{step}" for step in (1, 2, 4)
    ]


def test_a_run_whose_checkpoints_are_all_missing_does_not_begin_anew(
    model, tmp_path
):
    state = training_state.TrainingState(str(tmp_path), model.variables, {})
    run_settings.claim_output_dir(str(tmp_path), {"seed": 1}, {})
    state.save(8)
    for path in tmp_path.glob("model.ckpt-*"):
        path.unlink()
    with pytest.raises(UserError, match="lists .*ckpt-8, whose files are"):
        lookup.checkpoint_to_resume(state.output_dir)
    with pytest.raises(UserError, match="belongs to a run with seed = 1"):
        run_settings.claim_output_dir(str(tmp_path), {"seed": 2}, {})
    with pytest.raises(UserError, match="lists .*ckpt-8, whose files are"):
        lookup.find_training_checkpoint(str(tmp_path))
    for text in ("model_check", ""):
        (tmp_path / "checkpoint").write_text(text)
        with pytest.raises(UserError, match="checkpoint is damaged: restore"):
            lookup.checkpoint_to_resume(state.output_dir)
    (tmp_path / "checkpoint").unlink()
    assert lookup.checkpoint_to_resume(state.output_dir) is None


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
    run_settings.claim_output_dir(folder, {"data": old}, {})
    training_state.TrainingState(folder, model.variables, {}).save(1)
    with pytest.raises(UserError) as caught:
        run_settings.claim_output_dir(folder, {"data": new}, {})
    assert words in str(caught.value)


@pytest.mark.parametrize("text", ["{", "{}", '{"fixed": 3, "adjustable": {}}'])
def test_a_training_config_of_something_else_is_one_line(model, tmp_path, text):
    folder = str(tmp_path)
    training_state.TrainingState(folder, model.variables, {}).save(1)
    (tmp_path / lookup.RUN_NAME).write_text(text)
    with pytest.raises(UserError, match="training_config.json"):
        run_settings.claim_output_dir(folder, {}, {})
