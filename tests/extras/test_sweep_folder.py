"""The output_dir of a sweep: no run of its own, and a whole model or none."""

import json
from pathlib import Path

from base import file_system
from base.errors import UserError

import classifier_runs
import fine_tuned_models
import pytest
import scripts
from tiny import weights_of

from checkpoints.run_folder import Identity, RunFolder
from extras import sweeps

run_classifier = scripts.load("run_classifier")

RESULTS = ("eval_results.txt", "errors.tsv", "predictions.json")


def write_run(folder: Path, *labels: str, **files: str) -> Path:
    """Write a finished run: a model of these labels, files without endings."""
    fine_tuned_models.write_classifier(
        folder, classifier_runs.CONFIG, classifier_runs.VOCAB, labels
    )
    (folder / "words.txt").unlink()
    names = {name.split(".")[0]: name for name in RESULTS}
    for name, text in files.items():
        (folder / names[name]).write_text(text)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Return {path: bytes} of all files below a folder."""
    files = filter(Path.is_file, folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


# --- What it may hold --------------------------------------------------------


def test_a_sweep_does_not_mix_with_a_run(tmp_path):
    """Nor with a model that it begins with, which a single run refuses too."""
    data = classifier_runs.write_data(tmp_path)
    out = write_run(tmp_path / "out", "bad", "good")
    (out / "model.safetensors").write_text("")
    before = contents(out)
    flags = classifier_runs.flags_for(out, data, out, num_restarts=5)
    line = scripts.error_of(run_classifier, **flags)
    assert f"has a run of its own ({out}/bert_model.ckpt)" in line
    assert contents(out) == before
    (out / "bert_model.ckpt.index").unlink()
    with pytest.raises(UserError, match="holds a model .*model.safetensors"):
        RunFolder.read(str(out)).check_no_run()
    (out / "model.ckpt-5.index").write_text("")
    (out / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\n')
    with pytest.raises(
        UserError, match=r"model.ckpt-5\).*another --output_dir"
    ):
        RunFolder.read(str(out)).check_no_run()


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_does_not_mix_with_a_sweep(is_finished, tmp_path):
    data = classifier_runs.write_data(tmp_path)
    out = tmp_path / "out"
    seed = out / "runs" / "seed1"
    write_run(seed, "bad", "good")
    if is_finished:
        (out / "sweep_results.txt").write_text("")
        sweeps.copy_best(str(seed), str(out), ())
    run = {"fixed": {}, "adjustable": {"learning_rate": 1.0}}
    (seed / "training_config.json").write_text(json.dumps(run))
    before = contents(out)
    flags = classifier_runs.flags_for(seed, data, out)
    line = scripts.error_of(run_classifier, **flags)
    what = "sweep_results.txt" if is_finished else "runs/seed1"
    assert f"output_dir {out} has the runs of a sweep ({what})" in line
    assert "use another --output_dir" in line
    assert contents(out) == before
    RunFolder.read(str(out)).check_no_run()  # the sweep goes on


def test_a_sweep_whose_run_never_began_is_no_sweep(tmp_path):
    seed = tmp_path / "runs" / "seed1"
    seed.mkdir(parents=True)
    RunFolder(str(seed)).claim(Identity({}, {"learning_rate": 1.0}, {}))
    (tmp_path / "runs" / "notes.txt").write_text("")
    RunFolder.read(str(tmp_path)).check_no_sweep()
    RunFolder.read(str(tmp_path / "none")).check_no_sweep()
    RunFolder.read(str(tmp_path / "none")).check_no_run()
    assert not (tmp_path / "none").exists()


# --- The best run ------------------------------------------------------------


class Killed(BaseException):
    """The process ends."""


def kill_after(count: int, monkeypatch) -> None:
    """End the process in the middle of a file, after so many whole ones."""
    left = [count]
    copy = sweeps.shutil.copyfileobj

    def copy_or_end(old, new):
        if not left[0]:
            new.write(old.read(10))
            # A process that is killed removes no temporary file.
            monkeypatch.setattr(file_system, "remove", lambda path: None)
            raise Killed
        left[0] -= 1
        copy(old, new)

    monkeypatch.setattr(sweeps.shutil, "copyfileobj", copy_or_end)


def test_a_killed_copy_is_no_model_and_is_mended(tmp_path):
    """At every file: of an older best run, then of a newer one."""
    out = tmp_path / "out"
    first = write_run(
        tmp_path / "a", "bad", "good", eval_results="accuracy = 0.5", errors="a"
    )
    second = write_run(
        tmp_path / "b", "x", "y", eval_results="accuracy = 1", predictions=""
    )
    number_of_files = 7
    for count in range(number_of_files):
        out.mkdir(exist_ok=True)
        sweeps.copy_best(str(first), str(out), RESULTS)
        assert RunFolder.read(str(out)).weights
        with pytest.MonkeyPatch.context() as patch:
            kill_after(count, patch)
            with pytest.raises(Killed):
                sweeps.copy_best(str(second), str(out), RESULTS)
        assert RunFolder.read(str(out)).weights is None, count
        # Nor are there results of the older model.
        assert not (out / "errors.tsv").exists()
        found = contents(out).get("eval_results.txt")
        assert found in (None, b"accuracy = 1")
        sweeps.copy_best(str(second), str(out), RESULTS)
        assert contents(out) == contents(second)
    with pytest.MonkeyPatch.context() as patch:
        kill_after(number_of_files, patch)  # none is left to be killed at
        sweeps.copy_best(str(second), str(out), RESULTS)


def test_files_that_the_best_run_lacks_do_not_stay(tmp_path):
    first = write_run(tmp_path / "a", "bad", "good", errors="", predictions="x")
    second = write_run(tmp_path / "b", "bad", "good", eval_results="loss = 1")
    out = tmp_path / "out"
    out.mkdir()
    (out / "sweep_results.txt").write_text("")
    for run in (first, second):
        sweeps.copy_best(str(run), str(out), RESULTS)
        assert contents(out) == contents(run) | {"sweep_results.txt": b""}
    found = weights_of(out / "bert_model.ckpt")["output_weights"]
    wanted = weights_of(second / "bert_model.ckpt")["output_weights"]
    assert (found == wanted).all()
