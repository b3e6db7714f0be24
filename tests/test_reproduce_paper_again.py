"""reproduce_paper.py given again: what is repeated, kept, counted and told."""

import json
import shutil
import signal
import time

import pytest
import reproduction_runs
from reproduction_runs import read_csv


@pytest.fixture
def run(tmp_path, monkeypatch):
    return reproduction_runs.runner(tmp_path, monkeypatch)


def test_scores_are_not_mixed_with_a_model_trained_anew(run, tmp_path):
    """A model is deleted, its fine-tuning runs are still there."""
    assert run() == 0
    work = tmp_path / "work"
    (model,) = (work / "pretraining").glob("mlm_nsp*/seed1")
    shutil.rmtree(model)
    count = len(reproduction_runs.calls(tmp_path))
    line = reproduction_runs.error_of(tmp_path)
    assert f"the model pretraining/{model.parent.name}/seed1" in line
    assert "but steps after it are finished: finetuning/" in line
    assert len(reproduction_runs.calls(tmp_path)) == count
    assert run(report_only=True) == 0
    # As the line says: delete these folders too.
    for path in (
        line.split("are finished: ")[1].split(". To repeat")[0].split(", ")
    ):
        shutil.rmtree(work / path)
    assert run() == 0
    new = [c["script"] for c in reproduction_runs.calls(tmp_path)[count:]]
    assert new.count("run_pretraining.py") == 1
    assert new.count("run_classifier.py") == 2  # MRPC and SST-2


def test_failures_are_kept_while_another_experiment_runs(run, tmp_path):
    assert run({"fails": "bilstm_layers"}.items()) == 1
    assert run(experiment="table6") == 0
    assert run(report_only=True) == 1
    assert read_csv(tmp_path)["+ BiLSTM", "MRPC"]["failed"] == "1"
    assert run() == 0  # mended
    assert run(report_only=True) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_time_of_a_step_is_that_of_all_its_attempts(number, tmp_path):
    """The first one lasts three seconds, the second 30 ms."""
    folder = reproduction_runs.make_scripts(tmp_path, hangs="objective=ltr")
    values = reproduction_runs.arguments(tmp_path, num_parallel=1)
    process = reproduction_runs.start(folder, values)
    reproduction_runs.wait_for_ltr(process, tmp_path)
    # What the step prints goes to its log, whose time is that of the line.
    (log,) = (tmp_path / "work" / "logs").glob("pretraining/ltr*/**/*.log")
    time.sleep(3)
    with log.open("a") as file:
        file.write("step 3\n")
    process.send_signal(number)
    process.communicate(timeout=60)
    reproduction_runs.make_scripts(tmp_path)
    process = reproduction_runs.start(folder, values)
    _, text = process.communicate(timeout=60)
    assert process.returncode == 0, text
    (marker,) = (tmp_path / "work" / "steps").glob("pretraining/ltr*/**/*.json")
    assert 3 <= json.loads(marker.read_text())["seconds"] < 60
