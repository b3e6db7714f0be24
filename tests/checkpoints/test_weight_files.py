"""Checkpoints: the original's format in and out, whole or not at all."""

import json
from pathlib import Path

from base import file_system
from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from paths import GOLDEN

import modeling
from checkpoints import training_state, weight_files
from pretraining import model as pretraining_model

GOLDEN_MODEL = GOLDEN / "model"
CONFIG = modeling.BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
    type_vocab_size=2,
)


@pytest.fixture
def model() -> pretraining_model.BertForPreTraining:
    return pretraining_model.BertForPreTraining(CONFIG)


def slots_of(model) -> dict:
    return {
        v.path: {"adam_m": tf.Variable(tf.random.normal(v.shape))}
        for v in model.variables
    }


def values_of(variables) -> dict:
    return {v.path: v.numpy() for v in variables}


def test_reads_the_original_format_with_adam_slots():
    config = modeling.BertConfig.from_json_file(
        str(GOLDEN_MODEL / "bert_config.json")
    )
    model = pretraining_model.BertForPreTraining(config)
    report = weight_files.restore_weights(
        model.variables, str(GOLDEN_MODEL / "bert_model.ckpt")
    )
    assert len(report.restored) == len(model.variables)
    assert not report.new and not report.unused and not report.mismatched
    reader = tf.train.load_checkpoint(str(GOLDEN_MODEL / "bert_model.ckpt"))
    for variable in model.variables:
        np.testing.assert_array_equal(
            variable, reader.get_tensor(variable.path)
        )
    trained = str(GOLDEN_MODEL / "trained" / "model.ckpt-30")
    assert weight_files.global_step(trained) == 30


def test_round_trip_keeps_every_bit(model, tmp_path):
    prefix = str(tmp_path / "bert_model.ckpt")
    before = values_of(model.variables)
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    for variable in model.variables:
        variable.assign(tf.zeros_like(variable))
    weight_files.restore_weights(model.variables, str(tmp_path))
    for path, value in values_of(model.variables).items():
        np.testing.assert_array_equal(value, before[path])
    assert not list(tmp_path.glob("*.tmp*"))


def test_texts_of_two_runs_do_not_meet(tmp_path):
    """In a directory they share; what fails leaves nothing."""
    path, other = tmp_path / "x", tmp_path / "x.tmp"
    other.write_text("half")
    file_system.write_text(str(path), "whole\n")
    assert other.read_text() == "half"
    with pytest.raises(UnicodeEncodeError):
        file_system.write_text(str(path), "\ud800")
    assert path.read_text() == "whole\n"
    assert sorted(tmp_path.iterdir()) == [path, other]


def test_a_new_head_is_reported_and_a_missing_encoder_refused(model, tmp_path):
    prefix = str(tmp_path / "c")
    tensors = weight_files.as_tensors(model.bert.variables)
    tensors["output_weights"] = np.zeros([2, 8], np.float32)
    weight_files.write(prefix, tensors)
    report = weight_files.restore_weights(model.variables, prefix)
    assert len(report.new) == 7 and all(
        p.startswith("cls/") for p in report.new
    )
    assert report.unused == ["output_weights"]
    del tensors["bert/pooler/dense/bias"]
    weight_files.write(prefix, tensors)
    with pytest.raises(UserError, match="lacks 1 .* bert/pooler/dense/bias"):
        weight_files.restore_weights(model.variables, prefix)


def test_nothing_is_changed_by_a_refused_restore(model, tmp_path):
    prefix = str(tmp_path / "c")
    tensors = weight_files.as_tensors(model.variables)
    tensors = {name: tf.zeros_like(value) for name, value in tensors.items()}
    tensors["bert/pooler/dense/bias"] = np.zeros([9], np.float32)
    weight_files.write(prefix, tensors)
    before = values_of(model.variables)
    message = r"pooler/dense/bias: the model wants \[8\], .* holds \[9\]"
    with pytest.raises(UserError, match=message):
        weight_files.restore_weights(model.variables, prefix)
    for path, value in values_of(model.variables).items():
        np.testing.assert_array_equal(value, before[path])


def test_damage_on_disk_is_named(model, tmp_path):
    prefix = str(tmp_path / "c")
    weight_files.write(prefix, weight_files.as_tensors(model.variables))
    data = tmp_path / "c.data-00000-of-00001"
    content = bytearray(data.read_bytes())
    content[50] ^= 0xFF
    data.write_bytes(content)
    with pytest.raises(UserError, match="is damaged at"):
        weight_files.restore_weights(model.variables, prefix)


def test_training_state_keeps_the_newest(model, tmp_path):
    slots = slots_of(model)
    state = training_state.TrainingState(
        str(tmp_path), model.variables, slots, 2
    )
    assert state.latest() is None
    for step in (1, 2, 3):
        state.save(step)
    names = {path.name for path in tmp_path.glob("*.index")}
    assert names == {"model.ckpt-2.index", "model.ckpt-3.index"}
    before = values_of(model.variables)
    slot = slots["bert/pooler/dense/bias"]["adam_m"]
    slot_before = slot.numpy()
    slot.assign(tf.zeros_like(slot))
    model.variables[0].assign(tf.zeros_like(model.variables[0]))
    assert state.restore(state.latest()) == 3
    np.testing.assert_array_equal(slot, slot_before)
    for path, value in values_of(model.variables).items():
        np.testing.assert_array_equal(value, before[path])


def test_a_moved_output_dir_still_works(model, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    training_state.TrainingState(str(old), model.variables, {}).save(7)
    new = tmp_path / "new"
    old.rename(new)
    state = training_state.TrainingState(str(new), model.variables, {})
    assert state.restore(state.latest()) == 7


def test_a_checkpoint_without_index_does_not_count(model, tmp_path):
    """Killed between the data file and the index: the old one stands."""
    state = training_state.TrainingState(str(tmp_path), model.variables, {})
    state.save(1)
    (tmp_path / "model.ckpt-2.data-00000-of-00001").write_bytes(b"whole")
    assert state.latest() == str(tmp_path / "model.ckpt-1")


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
    training_state.claim_output_dir(folder, {"model": {"a": 1}}, {"rate": 1.0})
    training_state.claim_output_dir(folder, {"model": {"a": 2}}, {"rate": 1.0})
    training_state.TrainingState(folder, model.variables, {}).save(1)
    with pytest.raises(UserError, match="model = {'a': 2}, not {'a': 3}"):
        training_state.claim_output_dir(folder, {"model": {"a": 3}}, {})
    training_state.claim_output_dir(folder, {"model": {"a": 2}}, {"rate": 2.0})
    assert "rate changes from 1.0 to 2.0" in caplog.text
    written = json.loads(Path(folder, training_state.CONFIG_NAME).read_text())
    assert written["adjustable"] == {"rate": 2.0}
