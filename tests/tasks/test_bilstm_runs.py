"""--bilstm_layers of a fine-tuned model; the contract has runs with it."""

from collections.abc import Callable
from pathlib import Path

import classifier_runs
import fine_tuned_models
import pytest
import scripts
import tiny

from tasks.settings import BiLstmSize

run_classifier = scripts.load("run_classifier")

SIZE = {"bilstm_layers": 2, "bilstm_units": 6}
Flags = Callable[..., dict]


def prepare(folder: Path) -> Flags:
    """Write a model and data; return output_dir, **more -> flags."""
    classifier_runs.write_data(folder)
    model = tiny.write_model(
        folder / "model", classifier_runs.CONFIG, classifier_runs.VOCAB
    )

    def flags(out: Path, **more) -> dict:
        # Nothing compiled: that is in tests/ops/test_recurrence.py.
        flags = SIZE | {"jit_compile": False} | more
        return classifier_runs.flags_for(model, folder, out, **flags)

    return flags


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory) -> tuple[Flags, Path]:
    """Flags of runs, and a fine-tuned model with a BiLSTM."""
    folder = tmp_path_factory.mktemp("data")
    return prepare(folder), write_model(folder / "tuned", **SIZE)


def write_model(folder: Path, bilstm_layers: int, bilstm_units: int) -> Path:
    return fine_tuned_models.write_classifier(
        folder,
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        ["bad", "good"],
        bilstm_size=BiLstmSize(bilstm_layers, bilstm_units),
    )


@pytest.mark.nightly
def test_it_travels_with_the_model(fine_tuned, tmp_path):
    """Scored without a flag of the BiLSTM; another size is an error."""
    flags, model = fine_tuned
    more = {"init_checkpoint": model, "do_train": False}
    again = flags(tmp_path / "again", **more, **dict.fromkeys(SIZE))
    assert scripts.run(run_classifier, **again) == 0
    assert scripts.run(run_classifier, **flags(tmp_path / "same", **more)) == 0
    results = [tiny.results_of(tmp_path / name) for name in ("again", "same")]
    assert results[0] == results[1]
    line = scripts.error_of(run_classifier, **again | {"bilstm_layers": 1})
    assert "was fine-tuned with a BiLSTM of 2 layers of 6 units: leave" in line


def test_weights_with_a_bilstm_are_not_scored_without_one(tmp_path):
    """As of an interrupted run, which has no configuration of its own yet.

    2 * U = H: the output layer fits a model without a BiLSTM too.
    """
    flags = prepare(tmp_path)
    units = classifier_runs.CONFIG.hidden_size // 2
    model = fine_tuned_models.changed(
        write_model(tmp_path / "tuned", 1, units),
        tmp_path / "unnamed",
        **dict.fromkeys(SIZE),
    )
    more = {"init_checkpoint": model, "do_train": False}
    again = flags(tmp_path / "out", **more, **dict.fromkeys(SIZE))
    line = scripts.error_of(run_classifier, **again)
    assert f"{model}/bert_model.ckpt has a BiLSTM" in line
    assert "give --bilstm_layers and --bilstm_units as in training" in line


@pytest.mark.nightly
def test_starting_from_a_fine_tuned_model(fine_tuned, tmp_path, caplog):
    """Of the same size it is trained further; see test_bilstm.py too."""
    flags, model = fine_tuned
    more = {"init_checkpoint": model, "learning_rate": 0.0}
    more |= {"do_eval": False, "num_train_epochs": 0.05}
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_classifier, **flags(tmp_path / "same", **more))
    assert "Training continues with a BiLSTM of 2 layers of 6" in caplog.text
    name = "bert_model.ckpt"
    tiny.check_same_bits(tmp_path / "same" / name, model / name)
    other = flags(tmp_path / "other", **more | {"bilstm_units": 5})
    line = scripts.error_of(run_classifier, **other)
    assert "of 2 layers of 6 units: give these numbers" in line
