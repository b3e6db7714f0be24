"""What run_classifier.py finds in its folders, and what it leaves in them."""

import json
import shutil
import signal
from pathlib import Path

import fine_tuned_models
import pytest
import scripts
import tensorflow as tf
import tiny
from classifier_runs import CONFIG, VOCAB, flags_for, write_data
from tiny import results_of

from checkpoints import weight_files
from finetuning import runner
from training import curves

run_classifier = scripts.load("run_classifier")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """An encoder with weights, vocabulary and configuration beside them."""
    return tiny.write_model(tmp_path_factory.mktemp("model"), CONFIG, VOCAB)


@pytest.fixture
def flags(model_dir, tmp_path) -> dict:
    """A run of 50 steps, on batches of one length, which is traced once."""
    folder = tmp_path / "data"
    folder.mkdir()
    more = {"num_train_epochs": 2, "pad_to_max_length": True}
    return flags_for(model_dir, write_data(folder), tmp_path / "out", **more)


def files_of(folder) -> dict[str, bytes]:
    """Return the content of all files of a folder."""
    paths = filter(Path.is_file, Path(folder).iterdir())
    return {path.name: path.read_bytes() for path in paths}


def stop_at(step, number, monkeypatch):
    """Send a signal while the weights of a step are scored.

    None: end the run when they are, as if it were killed.
    """
    score = runner.score_and_keep

    def score_and_stop(job, loaded, done):
        if done == step and number:
            signal.raise_signal(number)
        ends = score(job, loaded, done)
        if done == step and not number:
            raise KeyboardInterrupt
        return ends

    monkeypatch.setattr(runner, "score_and_keep", score_and_stop)


# --- Folders that another model or run has -----------------------------------


def test_a_model_that_no_run_left_is_not_replaced(model_dir, tmp_path, flags):
    """Its weights, configuration and vocabulary would be lost."""
    folder = tmp_path / "model"
    shutil.copytree(model_dir, folder)
    before = files_of(folder)
    flags |= {"init_checkpoint": str(folder), "output_dir": str(folder)}
    line = scripts.error_of(run_classifier, **flags)
    assert "holds a model" in line and "use another --output_dir" in line
    assert files_of(folder) == before


def test_early_stopping_keeps_the_best_weights(flags, caplog):
    """With a rate of 0 nothing gets better: the first evaluation is best.

    Such a run is not taken for another, though its only weights may be those
    of a step before the first checkpoint.
    """
    flags |= {"learning_rate": 0.0, "eval_steps": 5}
    flags |= {"early_stopping_patience": 3}
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags) == 0
    assert "No better score in 3 evaluations" in caplog.text
    out = Path(flags["output_dir"])
    scores = json.loads((out / "scores.json").read_text())
    assert list(scores) == ["5", "10", "15", "20"]
    assert len(set(scores.values())) == 1
    assert weight_files.global_step(str(out / "bert_model.ckpt")) == 5
    assert tf.train.latest_checkpoint(str(out)).endswith("model.ckpt-20")
    # Also a run of an earlier version, which saved nothing when it ended.
    for has_checkpoint in (True, False):
        if not has_checkpoint:
            (out / "checkpoint").unlink()
        before = files_of(out)
        line = scripts.error_of(run_classifier, **flags | {"random_seed": 7})
        assert "belongs to a run with random_seed = 12345, not 7" in line
        assert files_of(out) == before
        caplog.clear()
        with caplog.at_level("INFO", logger="absl"):
            assert scripts.run(run_classifier, **flags) == 0
        assert "ended early: nothing to train" in caplog.text
        assert "Running training" not in caplog.text
        assert results_of(out)["global_step"] == 5
        assert json.loads((out / "scores.json").read_text()) == scores


def test_a_name_that_tensorflow_takes_for_a_pattern(flags, tmp_path):
    """It would not find the checkpoints of such a folder again."""
    for name, character in (("out[1]", "["), ("out*", "*"), ("a?/b", "?")):
        folder = tmp_path / name
        flags |= {"output_dir": str(folder)}
        line = scripts.error_of(run_classifier, **flags)
        assert f"{name} has a {character}, which" in line
        assert not folder.exists()


# --- Signals -----------------------------------------------------------------


def test_interrupted_runs_end_with_the_same_bits(flags, monkeypatch):
    """Scores and curves too: one gets a signal while it scores, one is killed.

    That one scores step 20 again, from the checkpoint at 16.
    """
    whole = Path(flags["output_dir"])
    flags |= {"eval_steps": 20, "save_checkpoints_steps": 16}
    assert scripts.run(run_classifier, **flags) == 0
    signalled, killed = whole.with_name("signalled"), whole.with_name("killed")
    flags |= {"output_dir": str(signalled)}
    with monkeypatch.context() as patch:
        stop_at(20, signal.SIGTERM, patch)
        assert scripts.run(run_classifier, **flags) == 1
    assert tf.train.latest_checkpoint(str(signalled)).endswith("model.ckpt-20")
    assert scripts.run(run_classifier, **flags) == 0
    flags |= {"output_dir": str(killed)}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_at(20, None, patch)
        scripts.run(run_classifier, **flags)
    assert tf.train.latest_checkpoint(str(killed)).endswith("model.ckpt-16")
    assert list(json.loads((killed / "scores.json").read_text())) == ["20"]
    assert scripts.run(run_classifier, **flags) == 0
    wanted = curves.read(str(whole), 100, ("loss",), "accuracy")
    for parts in (signalled, killed):
        for name in ("bert_model.ckpt", "model.ckpt-50"):
            fine_tuned_models.check_same_bits(parts / name, whole / name)
        assert (parts / "scores.json").read_text() == (
            whole / "scores.json"
        ).read_text()
        assert curves.read(str(parts), 100, ("loss",), "accuracy") == wanted


def test_best_weights_are_chosen_by_scores_of_one_set(flags, monkeypatch):
    """Another development set is refused while the run is not finished."""
    flags |= {"eval_steps": 20, "save_checkpoints_steps": 16}
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        stop_at(20, None, patch)
        scripts.run(run_classifier, **flags)
    dev = Path(flags["data_dir"]) / "dev.tsv"
    lines = dev.read_text().splitlines(keepends=True)
    dev.write_text("".join(lines[:-1]))
    error = scripts.error_of(run_classifier, **flags)
    assert "belongs to a run with other heldout_data" in error


def test_a_signal_during_the_last_evaluation_ends_the_run(flags, monkeypatch):
    """Nothing else begins; the same command does the rest."""
    flags |= {"eval_steps": 25, "do_predict": True}
    out = Path(flags["output_dir"])
    with monkeypatch.context() as patch:
        stop_at(50, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            scripts.run(run_classifier, **flags)
    assert not (out / "test_results.tsv").exists()
    assert tf.train.latest_checkpoint(str(out)).endswith("model.ckpt-50")
    assert scripts.run(run_classifier, **flags) == 0
    assert (out / "test_results.tsv").exists()
