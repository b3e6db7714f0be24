"""--bilstm_layers in the fine-tuning scripts, as a user runs them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import classifier_runs
import fine_tuned_models
import ner_runs
import numpy as np
import pytest
import scripts
import squad_runs
import swag_runs
import tensorflow as tf
import tiny
from classifier_runs import values_of

from checkpoints import training_state
from tasks.bilstm import BiLstmSize

convert_checkpoint = scripts.load("convert_checkpoint")
extract_features = scripts.load("extract_features")
run_ner = scripts.load("run_ner")
run_classifier = scripts.load("run_classifier")

# Scripts with their data and model.
TASKS = {
    "classifier": (run_classifier, classifier_runs),
    "squad": (scripts.load("run_squad"), squad_runs),
    "ner": (run_ner, ner_runs),
    "swag": (scripts.load("run_swag"), swag_runs),
}
SIZE = {"bilstm_layers": 2, "bilstm_units": 6}
# Nothing compiled: that is in tests/ops/test_recurrence.py.
SHORT = {
    "num_train_epochs": 0.4,
    "save_checkpoints_steps": 4,
    "iterations_per_loop": 1,
    "jit_compile": False,
}

Flags = Callable[..., dict]


def prepare(runs: ModuleType, folder: Path) -> Flags:
    """Write a model and data; return output_dir, **more -> flags."""
    runs.write_data(folder)
    model = tiny.write_model(folder / "model", runs.CONFIG, runs.VOCAB)

    def flags(out: Path, **more) -> dict:
        places = [folder] if runs is squad_runs else [model, folder]
        return runs.flags_for(*places, out, **SIZE | SHORT | more)

    return flags


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory) -> tuple[Flags, Path]:
    """A finished run of run_classifier.py."""
    flags = prepare(classifier_runs, tmp_path_factory.mktemp("data"))
    out = tmp_path_factory.mktemp("run") / "out"
    assert scripts.run(run_classifier, **flags(out)) == 0
    return flags, out


# --- Every script ------------------------------------------------------------
# That batch_predict.py, exported models and --do_predict agree for models with
# a BiLSTM is in tests/test_batch_predict.py.


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squad", "ner", "swag"])
def test_every_other_script_trains_it(name, tmp_path):
    script, runs = TASKS[name]
    more = {"num_train_epochs": 0.16, "do_eval": False, "bilstm_layers": 1}
    more["recompute"] = "layers"
    flags, out = prepare(runs, tmp_path), tmp_path / "out"
    assert scripts.run(script, **flags(out, **more)) == 0
    config = json.loads((out / "bert_config.json").read_text())
    assert (config["bilstm_layers"], config["bilstm_units"]) == (1, 6)
    values = values_of(Path(tf.train.latest_checkpoint(str(out))))
    for direction in ("forward", "backward"):
        for kind in ("kernel", "recurrent_kernel", "bias"):
            path = f"bilstm/layer_0/{direction}_lstm/lstm_cell/{kind}"
            assert values[f"{path}/adam_m"].any(), path
    assert "bert/pooler/dense/kernel/adam_m" not in values


@pytest.mark.slow
def test_it_travels_with_the_model(fine_tuned, tmp_path):
    """Scored without a flag of the BiLSTM; another size is an error."""
    flags, out = fine_tuned
    more = {"init_checkpoint": str(out), "do_train": False}
    again = flags(tmp_path / "again", **more, **dict.fromkeys(SIZE))
    assert scripts.run(run_classifier, **again) == 0
    assert tiny.results_of(tmp_path / "again") == tiny.results_of(out)
    line = scripts.error_of(run_classifier, **again | {"bilstm_layers": 1})
    assert "was fine-tuned with a BiLSTM of 2 layers of 6 units: leave" in line


def test_weights_with_a_bilstm_are_not_scored_without_one(tmp_path):
    """As of an interrupted run, which has no configuration of its own yet.

    2 * U = H: the output layer fits a model without a BiLSTM too.
    """
    flags = prepare(classifier_runs, tmp_path)
    model = fine_tuned_models.write_classifier(
        tmp_path / "fine-tuned",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        ["bad", "good"],
        bilstm_size=BiLstmSize(1, classifier_runs.CONFIG.hidden_size // 2),
    )
    path = model / "bert_config.json"
    config = json.loads(path.read_text())
    for name in SIZE:
        del config[name]
    path.write_text(json.dumps(config))
    more = {"init_checkpoint": model, "do_train": False}
    again = flags(tmp_path / "out", **more, **dict.fromkeys(SIZE))
    line = scripts.error_of(run_classifier, **again)
    assert f"{model}/bert_model.ckpt has a BiLSTM" in line
    assert "give --bilstm_layers and --bilstm_units as in training" in line


# --- Interrupted, continued, started from ------------------------------------


@pytest.mark.slow
def test_a_run_in_two_parts_ends_with_the_same_bits(
    fine_tuned, tmp_path, monkeypatch
):
    """Ended like by kill -9 while it saved step 8, after that of step 4."""
    flags, finished = fine_tuned
    save = training_state.TrainingState.save

    def save_or_end(state, step: int) -> str:
        if step == 8:
            raise KeyboardInterrupt
        return save(state, step)

    with monkeypatch.context() as patch:
        patch.setattr(training_state.TrainingState, "save", save_or_end)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_classifier, **flags(tmp_path))
    # Scored before it is over: the flags describe the model.
    scripts.run(run_classifier, **flags(tmp_path, do_train=False))
    assert tiny.results_of(tmp_path)["global_step"] == 4
    for name, value in (("bilstm_layers", 1), ("bilstm_units", 7)):
        other = flags(tmp_path, **{name: value})
        line = scripts.error_of(run_classifier, **other)
        wanted = f"belongs to a run with {name} = {SIZE[name]}, not {value}"
        assert wanted in line
    assert scripts.run(run_classifier, **flags(tmp_path)) == 0
    wanted = values_of(finished / "bert_model.ckpt")
    for name, value in values_of(tmp_path / "bert_model.ckpt").items():
        np.testing.assert_array_equal(value, wanted[name], err_msg=name)


@pytest.mark.slow
def test_starting_from_a_fine_tuned_model(fine_tuned, tmp_path, caplog):
    """Of the same size it is trained further; see test_bilstm.py too."""
    flags, finished = fine_tuned
    more = {"init_checkpoint": str(finished), "learning_rate": 0.0}
    more |= {"do_eval": False, "num_train_epochs": 0.05}
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_classifier, **flags(tmp_path / "same", **more))
    assert "Training goes on with a BiLSTM of 2 layers of 6" in caplog.text
    wanted = values_of(finished / "bert_model.ckpt")
    found = values_of(tmp_path / "same" / "bert_model.ckpt")
    assert wanted.pop("global_step") != found["global_step"]
    for name, value in wanted.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
    other = flags(tmp_path / "other", **more | {"bilstm_units": 5})
    line = scripts.error_of(run_classifier, **other)
    assert "of 2 layers of 6 units: give these numbers" in line


@pytest.mark.slow
def test_other_programs(fine_tuned, tmp_path, caplog):
    """The encoder alone is a source of features; transformers has no class."""
    _, finished = fine_tuned
    (tmp_path / "in.txt").write_text("good film\n")
    scripts.run(
        extract_features,
        input_file=str(tmp_path / "in.txt"),
        output_file=str(tmp_path / "out.jsonl"),
        init_checkpoint=str(finished),
        layers="-1",
        max_seq_length=16,
    )
    assert "unused: bilstm/layer_0/forward_lstm/lstm_cell/kernel" in caplog.text
    line = scripts.error_of(
        convert_checkpoint,
        input=str(finished),
        output=str(tmp_path / "other"),
        output_format="huggingface",
    )
    assert "has a BiLSTM on top of the encoder, which no class in tr" in line


# --- Bad values --------------------------------------------------------------


def test_flags_that_cannot_work(tmp_path):
    flags = prepare(ner_runs, tmp_path)
    out = tmp_path / "out"
    for more, wanted in (
        ({"bilstm_layers": None}, "--bilstm_units=6 needs --bilstm_layers"),
        ({"feature_based": True}, "--bilstm_layers is for fine-tuning"),
        (
            {"feature_based": True, "reinit_top_layers": 1},
            "--reinit_top_layers is for fine-tuning",
        ),
        (
            {"feature_based": True, "recompute": "layers"},
            "--recompute=layers is for fine-tuning",
        ),
        ({"reinit_top_layers": 2}, "the model has 1 layers; give at most"),
        (
            {"reinit_top_layers": 1, "do_train": False},
            "--reinit_top_layers=1 needs --do_train",
        ),
        (
            {"reinit_top_layers": 1, "init_checkpoint": None},
            "--reinit_top_layers=1 needs --init_checkpoint",
        ),
    ):
        line = scripts.error_of(run_ner, **flags(out, **more))
        assert wanted in line, line
        assert not out.exists()
    for name in ("bilstm_layers", "reinit_top_layers"):
        with pytest.raises(Exception, match=f"{name}=-1: -1 is not a non-ne"):
            scripts.run(run_ner, **flags(out, **{name: -1}))
