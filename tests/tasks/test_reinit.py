"""--reinit_top_layers: new weights in the last layers before fine-tuning."""

import dataclasses
from pathlib import Path

import classifier_runs
import numpy as np
import pytest
import scripts
import squad_runs
import tensorflow as tf
import tiny
from classifier_runs import values_of

import modeling
from checkpoints import training_state
from tasks import reinit
from tasks.classifier.model import BertForSequenceClassification
from tasks.squad.model import BertForQuestionAnswering

run_classifier = scripts.load("run_classifier")

DEEP = dataclasses.replace(classifier_runs.CONFIG, num_hidden_layers=3)
TOP = ("bert/encoder/layer_2/", "bert/pooler/")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Data, and an encoder of three layers, all weights moved a bit."""
    folder = classifier_runs.write_data(tmp_path_factory.mktemp("data"))
    tiny.write_model(folder / "model", DEEP, classifier_runs.VOCAB)
    return folder


def flags_for(folder: Path, out: Path, **more) -> dict:
    more = {"do_eval": False, "num_train_epochs": 0.4, **more}
    more |= {"save_checkpoints_steps": 4, "jit_compile": False}
    more |= {"iterations_per_loop": 1, "reinit_top_layers": 1}
    return classifier_runs.flags_for(folder / "model", folder, out, **more)


def start_of(folder: Path, out: Path, monkeypatch, **more) -> dict:
    """Return the weights before the first step."""
    found = {}

    def keep(state) -> int:
        found.update({k: v.numpy() for k, v in state._weights.items()})
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(
            "training.run.check_same_start", lambda _, s, *__: keep(s)
        )
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_classifier, **flags_for(folder, out, **more))
    return found


def test_exactly_these_variables_are_new(folder, tmp_path, monkeypatch, caplog):
    with caplog.at_level("INFO", logger="absl"):
        found = start_of(folder, tmp_path / "1", monkeypatch)
    line = "except 18 variables with new weights, in bert/encoder/layer_2, bert"
    assert line in caplog.text
    old = values_of(folder / "model" / "bert_model.ckpt")
    for name, value in old.items():
        if not name.startswith(TOP):
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        elif name.endswith("kernel"):
            assert (found[name] != value).all(), name
        else:  # gamma is 1; beta and bias are 0
            assert (found[name] == name.endswith("gamma")).all(), name
    again = start_of(folder, tmp_path / "2", monkeypatch)
    other = start_of(folder, tmp_path / "3", monkeypatch, random_seed=2)
    name = "bert/encoder/layer_2/output/dense/kernel"
    np.testing.assert_array_equal(again[name], found[name])
    assert (other[name] != found[name]).any()


def test_new_weights_are_a_truncated_normal():
    """Cut at two deviations: 0.88 of the deviation is left."""
    config = modeling.BertConfig.from_size("tiny", vocab_size=10)
    tf.keras.utils.set_random_seed(1)
    model = BertForSequenceClassification(config, 2)
    new = reinit.new_variables(model, 1)
    values = [v.numpy() for v in model.variables if v.path in new]
    kernels = np.concatenate([v.ravel() for v in values if v.ndim == 2])
    assert kernels.size == 12 * 128**2 + 128**2
    assert abs(kernels.std() / 0.02 - 0.8796) < 0.01
    assert abs(kernels.mean()) < 1e-4 and np.abs(kernels).max() <= 0.04


def test_which_variables():
    """The pooler is new where the head reads it; 0 is none."""
    model = BertForSequenceClassification(DEEP, 2)
    assert reinit.new_variables(model, 0) == set()
    assert {v.path for v in model.bert.variables} - reinit.new_variables(
        model, 3
    ) == {v.path for v in model.bert.embeddings.variables}
    reader = BertForQuestionAnswering(squad_runs.CONFIG)
    paths = reinit.new_variables(reader, 1)
    assert len(paths) == 16
    assert all(path.startswith("bert/encoder/layer_0/") for path in paths)


@pytest.mark.slow
def test_nothing_is_new_a_second_time(folder, tmp_path, monkeypatch):
    """A run that goes on begins with the bits of its checkpoint."""
    save = training_state.TrainingState.save

    def save_or_end(state, step: int) -> str:
        if step == 8:
            raise KeyboardInterrupt
        return save(state, step)

    flags = flags_for(folder, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(training_state.TrainingState, "save", save_or_end)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_classifier, **flags)
    line = scripts.error_of(run_classifier, **flags | {"reinit_top_layers": 2})
    assert "belongs to a run with reinit_top_layers = 1, not 2" in line
    line = scripts.error_of(run_classifier, **flags | {"reinit_top_layers": 0})
    assert "belongs to a run with reinit_top_layers = 1, not None" in line
    found = start_of(folder, tmp_path, monkeypatch)
    saved = values_of(tmp_path / "model.ckpt-4")
    for name, value in found.items():
        np.testing.assert_array_equal(value, saved[name], err_msg=name)
