"""Runs made to fail, as a user sees them: the warning and eval_results.txt.

The tests of each script have runs that do not fail. Elsewhere too: predictions
of one class (test_two_development_sets), a fine-tuned model that is only scored
(test_another_threshold_needs_no_pass_of_the_model) and a sweep
(test_sweep_keeps_the_best_and_repeats_nothing).
"""

from pathlib import Path

import classifier_runs
import ner_runs
import pytest
import scripts
import swag_runs
import tiny

run_classifier = scripts.load("run_classifier")
run_ner = scripts.load("run_ner")
run_swag = scripts.load("run_swag")


def write_all(module, folder: Path) -> Path:
    """Write the data of a task, with a model in the folder `model`."""
    module.write_data(folder)
    tiny.write_model(folder / "model", module.CONFIG, module.VOCAB)
    return folder


def regression_flags(folder: Path, out: Path) -> dict:
    write_all(classifier_runs, folder)
    flags = classifier_runs.flags_for(folder / "model", folder, out)
    flags["regression"] = True
    for name in ("train", "dev"):
        path = folder / f"{name}.tsv"
        text = path.read_text().replace("\tgood\n", "\t1.5\n")
        path.write_text(text.replace("\tbad\n", "\t-0.5\n"))
    return flags


def ner_flags(folder: Path, out: Path) -> dict:
    write_all(ner_runs, folder)
    return ner_runs.flags_for(folder / "model", folder, out)


def feature_flags(folder: Path, out: Path) -> dict:
    flags = ner_flags(folder, out) | {"feature_based": True, "lstm_units": 8}
    return flags | {"feature_layers": "last"}


def swag_flags(folder: Path, out: Path) -> dict:
    write_all(swag_runs, folder)
    return swag_runs.flags_for(folder / "model", folder, out)


@pytest.mark.slow
@pytest.mark.parametrize(
    "script, make_flags, changes, seen",
    [
        (run_classifier, regression_flags, {}, "predictions are almost"),
        (run_ner, ner_flags, {}, "words are tagged O"),
        (run_ner, feature_flags, {"num_train_epochs": 2}, "words are tagged"),
        (run_swag, swag_flags, {}, "answers are choice"),
    ],
)
def test_a_failed_run_says_so(
    script, make_flags, changes, seen, tmp_path, caplog
):
    flags = make_flags(tmp_path, tmp_path / "out")
    # Without XLA, which takes longer to compile than these runs to train.
    flags |= {"learning_rate": 10.0, "num_train_epochs": 1}
    flags |= {"jit_compile": False, "pad_to_max_length": True}
    flags |= {"bias_correction": True} | changes
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(script, **flags) == 0
    last = caplog.records[-1]
    assert last.levelname == "WARNING"
    assert last.getMessage().startswith("This run failed: ")
    assert seen in last.getMessage()
    assert "--bias_correction" not in last.getMessage()  # is on
    results = tiny.results_of(tmp_path / "out")
    assert results["degenerate"] == 1
    if script is not run_swag:
        return
    # Scored by another command.
    (tmp_path / "out" / "eval_results.txt").unlink()
    assert scripts.run(script, **flags | {"do_train": False}) == 0
    assert tiny.results_of(tmp_path / "out") == results
    last = caplog.records[-1].getMessage()
    assert last.startswith("The run that fine-tuned this model failed: ")
    assert seen in last
