"""--bilstm_layers in the four fine-tuning scripts, as a user runs them."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import classifier_runs
import ner_runs
import pytest
import scripts
import squad_runs
import swag_runs
import tiny

convert_checkpoint = scripts.load("convert_checkpoint")
extract_features = scripts.load("extract_features")
run_ner = scripts.load("run_ner")
run_classifier = scripts.load("run_classifier")

SIZE = {"bilstm_layers": 2, "bilstm_units": 6}
SHORT = {"num_train_epochs": 0.5, "save_checkpoints_steps": 4}


class Task(NamedTuple):
    """A script, data for it, and the files with its predictions."""

    script: ModuleType
    runs: ModuleType
    predictions: tuple[str, ...]
    epochs: float = 3


TASKS = {
    "classifier": Task(run_classifier, classifier_runs, ("test_results.tsv",)),
    "squad": Task(
        scripts.load("run_squad"),
        squad_runs,
        ("predictions.json", "nbest_predictions.json"),
    ),
    "ner": Task(run_ner, ner_runs, ("predictions.txt",)),
    "swag": Task(scripts.load("run_swag"), swag_runs, ("test_results.tsv",)),
}

Flags = Callable[..., dict]


def prepare(name: str, folder: Path) -> Flags:
    """Write a model and data; return output_dir, **more -> flags."""
    runs = TASKS[name].runs
    runs.write_data(folder)
    model = tiny.write_model(folder / "model", runs.CONFIG, runs.VOCAB)

    def flags(out: Path, **more) -> dict:
        if name == "squad":
            return runs.flags_for(folder, out, **SIZE | SHORT | more)
        return runs.flags_for(model, folder, out, **SIZE | SHORT | more)

    return flags


@pytest.fixture(scope="module", params=TASKS)
def fitted(request, tmp_path_factory) -> tuple[str, Flags, Path]:
    """A finished run with everything that a script can do."""
    flags = prepare(request.param, tmp_path_factory.mktemp(request.param))
    out = tmp_path_factory.mktemp("run") / "out"
    script = TASKS[request.param].script
    more = {"do_predict": True, "do_export": True}
    assert scripts.run(script, **flags(out, **more)) == 0
    return request.param, flags, out


@pytest.mark.slow
def test_it_travels_with_the_model(fitted, tmp_path, caplog):
    """Scored and predicted from the files alone, without a flag."""
    name, flags, out = fitted
    task = TASKS[name]
    config = json.loads((out / "bert_config.json").read_text())
    assert {key: config[key] for key in SIZE} == SIZE
    more = {"init_checkpoint": str(out), "do_train": False, "do_predict": True}
    more |= dict.fromkeys(SIZE)
    assert scripts.run(task.script, **flags(tmp_path / "out", **more)) == 0
    for file in ("eval_results.txt", *task.predictions):
        found = (tmp_path / "out" / file).read_text()
        if file == "eval_results.txt":  # global_step: weights alone have none
            assert tiny.results_of(tmp_path / "out") == {
                **tiny.results_of(out),
                "global_step": 0,
            }
        else:
            assert found == (out / file).read_text()
    other = flags(tmp_path / "out", **more | {"bilstm_layers": 1})
    line = scripts.error_of(task.script, **other)
    assert "was fitted with a BiLSTM of 2 layers of 6 units: leave" in line
    line = scripts.error_of(
        convert_checkpoint,
        input=str(out),
        output=str(tmp_path / "other"),
        output_format="huggingface",
    )
    assert "has a BiLSTM on top of the encoder, which no class in tr" in line
