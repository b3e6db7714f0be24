"""Frozen layers, rates by layer, averages, and losses of weighted labels."""

import dataclasses
from pathlib import Path

import classifier_runs
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
import two_devices
from tiny import weights_of

import modeling
from checkpoints import training_state, weight_files
from tasks.classifier.model import (
    BertForSequenceClassification,
    label_objective,
)
from training import layers, task_model

run_classifier = scripts.load("run_classifier")

DEEP = dataclasses.replace(classifier_runs.CONFIG, num_hidden_layers=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Data, and an encoder of three layers, all weights moved a bit."""
    folder = classifier_runs.write_data(tmp_path_factory.mktemp("data"))
    tiny.write_model(folder / "model", DEEP, classifier_runs.VOCAB)
    return folder


def test_new_weights_are_a_truncated_normal():
    """Cut at two deviations: 0.88 of the deviation is left."""
    config = modeling.BertConfig.from_size("tiny", vocab_size=10)
    tf.keras.utils.set_random_seed(1)
    model = BertForSequenceClassification(config, 2)
    parts = *model.bert.encoder.weights, *model.bert.pooler.weights
    values = [v.numpy() for v in parts if v.path.endswith("/kernel")]
    kernels = np.concatenate([v.ravel() for v in values])
    assert kernels.size == 2 * 12 * 128**2 + 128**2
    assert abs(kernels.std() / 0.02 - 0.8796) < 0.01
    assert abs(kernels.mean()) < 1e-4 and np.abs(kernels).max() <= 0.04


def run_until_killed(flags: dict, monkeypatch) -> None:
    """Run until step 8 would be saved; step 4 is."""
    save = training_state.TrainingState.save

    def save_or_end(state, step: int, stays: bool = True) -> str:
        if step == 8:
            raise KeyboardInterrupt
        return save(state, step, stays)

    with monkeypatch.context() as patch:
        patch.setattr(training_state.TrainingState, "save", save_or_end)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_classifier, **flags)


def knobs_for(folder: Path, out: Path, **more) -> dict:
    more = {"freeze_layers": 1, "layer_decay": 0.5, "ema_decay": 0.9, **more}
    more |= {"label_smoothing": 0.1, "class_weights": "balanced"}
    more = {"do_eval": False, "num_train_epochs": 0.4, **more}
    more |= {"save_checkpoints_steps": 4, "jit_compile": False}
    more["iterations_per_loop"] = 1
    return classifier_runs.flags_for(folder / "model", folder, out, **more)


@pytest.mark.nightly
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_killed_and_resumed_with_all_of_them(
    folder, tmp_path, monkeypatch, optimizer
):
    """The same bits; frozen weights are those of the checkpoint."""
    more = {"eval_steps": 8, "optimizer": optimizer}
    flags = knobs_for(folder, tmp_path / "killed", **more)
    run_until_killed(flags, monkeypatch)
    line = scripts.error_of(run_classifier, **flags | {"freeze_layers": 2})
    assert "belongs to a run with freeze_layers = 1, not 2" in line
    scripts.run(run_classifier, **flags)
    whole = knobs_for(folder, tmp_path / "whole", **more)
    scripts.run(run_classifier, **whole)
    for name in ("model.ckpt-10", "bert_model.ckpt"):
        once, again = (tmp_path / run / name for run in ("whole", "killed"))
        tiny.check_same_bits(once, again)
    old = weights_of(folder / "model" / "bert_model.ckpt")
    trained = weights_of(tmp_path / "whole" / "model.ckpt-10")
    for path, value in old.items():
        is_frozen = layers.number_of(path, 3) <= 1
        assert is_frozen == (f"{path}/average" not in trained), path
        assert is_frozen == (value == trained[path]).all(), path


@pytest.mark.nightly
def test_averages_are_what_is_kept_and_scored(folder, tmp_path, caplog):
    flags = knobs_for(folder, tmp_path, eval_steps=0, do_eval=True)
    scripts.run(run_classifier, **flags)
    kept = weights_of(tmp_path / "bert_model.ckpt")
    saved = weights_of(tmp_path / "model.ckpt-10")
    total = 1 - 0.9**10
    for path, value in kept.items():
        average = saved.get(f"{path}/average")
        wanted = saved[path] if average is None else average / total
        np.testing.assert_allclose(value, wanted, rtol=1e-6, err_msg=path)
    # The command that is repeated trains nothing, and keeps the same weights.
    (tmp_path / "bert_model.ckpt.index").unlink()
    scripts.run(run_classifier, **flags)
    tiny.assert_same(weights_of(tmp_path / "bert_model.ckpt"), kept)
    # So does every script that reads the checkpoint of a run that was killed.
    scores = tiny.results_of(tmp_path)
    (tmp_path / "bert_model.ckpt.index").unlink()
    alone = classifier_runs.flags_for(
        folder / "model", folder, tmp_path, do_train=False, do_eval=True
    )
    scripts.run(run_classifier, **alone)
    assert tiny.results_of(tmp_path) == scores
    prefix = str(tmp_path / "model.ckpt-10")
    found, step = weight_files.read_weights(prefix), kept["global_step"]
    tiny.assert_same(found | {"global_step": step}, kept)
    (tmp_path / "training_config.json").unlink()
    found = weight_files.read_weights(prefix)
    assert "of the last step are used" in caplog.text
    np.testing.assert_array_equal(found["output_bias"], saved["output_bias"])


@pytest.mark.nightly
def test_two_devices_give_the_same(folder, tmp_path, monkeypatch):
    config = dataclasses.replace(DEEP, **tiny.NO_DROPOUT)
    tiny.write_model(tmp_path / "model", config, classifier_runs.VOCAB)
    (tmp_path / "train.tsv").write_bytes((folder / "train.tsv").read_bytes())
    monkeypatch.setattr(task_model, "HEAD_DROPOUT", 0.0)
    scripts.run(run_classifier, **knobs_for(tmp_path, tmp_path / "one"))
    no_dropout = "from training import task_model as m; m.HEAD_DROPOUT = 0.0"
    flags = knobs_for(tmp_path, tmp_path / "two")
    two_devices.run("run_classifier", no_dropout, **flags)
    one, two = (tmp_path / run / "bert_model.ckpt" for run in ("one", "two"))
    tiny.assert_same(weights_of(one), weights_of(two), 2e-5)


def test_smoothed_and_weighted_loss_by_hand():
    """Of two examples with probabilities 3/4, 1/4 and 1/2, 1/2."""
    logits = tf.constant([[np.log(3.0), 0.0], [0.0, 0.0]], tf.float32)
    objective = label_objective(0.2, [1.0, 3.0])

    class Fixed:
        def __call__(self, *_):
            return logits

        loss = BertForSequenceClassification.loss
        is_regression = multi_label = False

    batch = {
        "label_ids": tf.constant([0, 1]),
        "input_mask": tf.ones([2, 5], tf.int32),
    }
    sums = objective.forward(Fixed(), batch, None)
    # Targets 0.9, 0.1 of weight 1 and 0.1, 0.9 of weight 3.
    loss = -0.9 * np.log(0.75) - 0.1 * np.log(0.25) + 3 * np.log(2)
    np.testing.assert_allclose(sums["label_loss"], [loss, 4.0], rtol=1e-6)
    np.testing.assert_allclose(sums["accuracy"], [2.0, 2.0])
    assert float(objective.loss_weights(batch)["label_loss"]) == 4.0
