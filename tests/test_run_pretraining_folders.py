"""run_pretraining.py and what its output_dir holds already."""

import shutil
from pathlib import Path

import pretraining_runs
import pytest
import scripts
from pretraining_runs import flags_for, write_data
from tiny import results_of

from checkpoints import run_settings
from modeling import BertConfig
from pretraining import records

run_pretraining = scripts.load("run_pretraining")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


@pytest.fixture(scope="module")
def finished(data, tmp_path_factory) -> Path:
    """A run of 6 steps."""
    output_dir = tmp_path_factory.mktemp("finished")
    scripts.run(run_pretraining, **flags_for(data, output_dir, **SIX_STEPS))
    return output_dir


SIX_STEPS = {"num_train_steps": 6, "save_checkpoints_steps": 2}


def test_an_output_dir_has_one_run_at_a_time(data, tmp_path, monkeypatch):
    monkeypatch.setattr(run_settings, "_LOCK_SECONDS", 0.0)
    out = tmp_path / "out"
    with run_settings.locked(str(out)):
        line = scripts.error_of(run_pretraining, **flags_for(data, out))
        assert f"another run is writing --output_dir={out}; wait" in line
        assert not list(out.iterdir())
    assert not out.exists()


@pytest.mark.slow
def test_a_run_that_continues_another_has_steps_of_its_own(
    data, finished, tmp_path
):
    """The first phase was given no --stop_after_steps, so it did all."""
    flags = flags_for(data, tmp_path / "2", resume_from=finished, **SIX_STEPS)
    line = scripts.error_of(run_pretraining, **flags)
    assert "6 steps are done in" in line and "ends after 6: give a larger" in (
        line
    )
    assert not list((tmp_path / "2").glob("bert_model*"))


@pytest.mark.slow
def test_a_finished_run_keeps_its_settings_and_its_step(data, finished):
    settings = (finished / run_settings.CONFIG_NAME).read_text()
    flags = flags_for(
        data,
        finished,
        **SIX_STEPS | {"num_train_steps": 4, "learning_rate": 0.5},
        do_eval=True,
        eval_input_file=data / "dev",
    )
    scripts.run(run_pretraining, **flags)
    assert results_of(finished)["global_step"] == 6
    assert (finished / run_settings.CONFIG_NAME).read_text() == settings


@pytest.mark.slow
def test_a_run_goes_on_with_its_files_in_their_order(data, tmp_path):
    """Their order is that of the records."""
    out, files = tmp_path / "out", [str(data / f"train-{n}") for n in (0, 1)]
    first = flags_for(data, out, stop_after_steps=2) | SIX_STEPS
    scripts.run(run_pretraining, **first | {"input_file": ",".join(files)})
    swapped = first | {"input_file": ",".join(files[::-1])}
    line = scripts.error_of(run_pretraining, **swapped)
    assert "file_order = {'1': 'train-0', '2': 'train-1'}, not" in line


def test_files_of_one_name_in_two_folders_are_told_apart(tmp_path):
    """Else a run would go on with one of them changed, or in another order."""
    for folder, rows in (("a", 3), ("b", 4)):
        (tmp_path / "1" / folder).mkdir(parents=True)
        pretraining_runs.write_records(tmp_path / "1" / folder / "x", rows, 0)
    shutil.copytree(tmp_path / "1", tmp_path / "2")

    def describe(*names: str) -> dict:
        files = [str(tmp_path / name) for name in names]
        config = BertConfig.from_dict(pretraining_runs.CONFIG)
        lengths = pretraining_runs.LENGTH, pretraining_runs.PREDICTIONS
        return records.find_data(files, config, *lengths).describe()

    found = describe("1/a/x", "1/b/x")
    assert found["data"] == {"a/x": 3, "b/x": 4}
    assert found != describe("1/b/x", "1/a/x")
    assert found == describe("2/a/x", "2/b/x")
    assert describe("1/b/x") == describe("2/b/x")  # in one folder: its name
