"""--bilstm_layers of a fine-tuned model; the contract has runs with it."""

import json
from collections.abc import Callable
from pathlib import Path

import classifier_runs
import fine_tuned_models
import numpy as np
import pytest
import scripts
import tiny
from classifier_runs import values_of

from tasks.bilstm import BiLstmSize

run_classifier = scripts.load("run_classifier")

SIZE = {"bilstm_layers": 2, "bilstm_units": 6}
# Nothing compiled: that is in tests/ops/test_recurrence.py.
SHORT = {
    "num_train_epochs": 0.4,
    "save_checkpoints_steps": 4,
    "iterations_per_loop": 1,
    "jit_compile": False,
}

Flags = Callable[..., dict]


def prepare(folder: Path) -> Flags:
    """Write a model and data; return output_dir, **more -> flags."""
    classifier_runs.write_data(folder)
    model = tiny.write_model(
        folder / "model", classifier_runs.CONFIG, classifier_runs.VOCAB
    )

    def flags(out: Path, **more) -> dict:
        return classifier_runs.flags_for(
            model, folder, out, **SIZE | SHORT | more
        )

    return flags


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory) -> tuple[Flags, Path]:
    """A finished run of run_classifier.py."""
    flags = prepare(tmp_path_factory.mktemp("data"))
    out = tmp_path_factory.mktemp("run") / "out"
    assert scripts.run(run_classifier, **flags(out)) == 0
    return flags, out


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
    flags = prepare(tmp_path)
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
