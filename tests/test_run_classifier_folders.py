"""What run_classifier.py finds in its folders, and what it leaves in them."""

import json
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from classifier_runs import flags_for, sentences, write_data
from tiny import results_of

from checkpoints import weight_files
from finetuning import runner
from training import curves

run_classifier = scripts.load("run_classifier")

pytestmark = pytest.mark.slow


@pytest.fixture
def flags(encoder_dir, tmp_path) -> dict:
    """A run of 50 steps, on batches of one length, which is traced once."""
    folder = tmp_path / "data"
    folder.mkdir()
    more = {"num_train_epochs": 2, "pad_to_max_length": True}
    return flags_for(encoder_dir, write_data(folder), tmp_path / "out", **more)


def files_of(folder) -> dict[str, bytes]:
    """Return the content of all files of a folder."""
    paths = filter(Path.is_file, Path(folder).iterdir())
    return {path.name: path.read_bytes() for path in paths}


def stop_at(step, number, monkeypatch):
    """Send a signal while the weights of a step are scored.

    None: end the run when they are, as if it were killed.
    """
    score = runner.FineTuningRun.score_and_keep

    def score_and_stop(run, done):
        if done == step and number:
            signal.raise_signal(number)
        ends = score(run, done)
        if done == step and not number:
            raise KeyboardInterrupt
        return ends

    monkeypatch.setattr(runner.FineTuningRun, "score_and_keep", score_and_stop)


# --- Folders that another model or run has -----------------------------------


def test_a_model_that_no_run_left_is_not_replaced(encoder_dir, tmp_path, flags):
    """Its weights, configuration and vocabulary would be lost."""
    folder = tmp_path / "model"
    shutil.copytree(encoder_dir, folder)
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
    assert caplog.text.count("No better score in 3 evaluations") == 1
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
        assert "Plan: " not in caplog.text
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


# --- A finished run, and its command again -----------------------------------


@pytest.fixture(scope="module")
def finished(encoder_dir, tmp_path_factory) -> dict:
    """The flags of a finished run of 12 steps."""
    folder = tmp_path_factory.mktemp("finished")
    more = {"num_train_epochs": 0.5, "pad_to_max_length": True}
    flags = flags_for(encoder_dir, write_data(folder), folder / "out", **more)
    assert scripts.run(run_classifier, **flags) == 0
    return flags


@pytest.mark.parametrize(
    "name, value, words",
    [
        ("learning_rate", 1e-4, "learning_rate = 0.005, not 0.0001"),
        ("layer_decay", 0.9, "layer_decay = its default, not 0.9"),
        ("label_smoothing", 0.1, "label_smoothing = its default, not 0.1"),
        ("num_train_epochs", 0.25, "num_train_epochs = 0.5, not 0.25"),
    ],
)
def test_a_finished_run_cannot_have_had_other_settings(
    finished, name, value, words, caplog
):
    """Its scores are those of the settings it was trained with."""
    out = Path(finished["output_dir"])
    before = files_of(out)
    line = scripts.error_of(run_classifier, **finished | {name: value})
    assert f"holds a finished run with {words}" in line
    assert "use another --output_dir" in line
    assert "changes from" not in caplog.text  # nothing goes on
    assert files_of(out) == before


def test_a_finished_run_can_be_used_in_another_way(finished):
    """On other devices, in other batches, and for more steps."""
    flags = finished | {"jit_compile": True, "eval_batch_size": 3}
    flags |= {"gradient_accumulation_steps": 2, "save_checkpoints_steps": 7}
    before = (Path(flags["output_dir"]) / "bert_model.ckpt.index").read_bytes()
    assert scripts.run(run_classifier, **flags) == 0
    path = Path(flags["output_dir"]) / "bert_model.ckpt.index"
    assert path.read_bytes() == before


def test_a_run_is_moved_aside_for_another_one(finished, tmp_path, caplog):
    out = tmp_path / "out"
    shutil.copytree(finished["output_dir"], out)
    (tmp_path / "out.1").mkdir()
    before = files_of(out)
    flags = finished | {"output_dir": str(out), "learning_rate": 1e-4}
    scripts.run(run_classifier, **flags, restart=True)
    assert files_of(tmp_path / "out.2") == before
    assert f"is in {tmp_path}/out.2 now" in caplog.text
    assert results_of(out)["global_step"] == 12
    before = files_of(out)
    line = scripts.error_of(
        run_classifier, **flags | {"init_checkpoint": str(out)}, restart=True
    )
    assert f"--init_checkpoint={out}/bert_model.ckpt is in it" in line
    assert files_of(out) == before
    shutil.rmtree(out)
    shutil.copytree(finished["init_checkpoint"], out)  # of no run
    line = scripts.error_of(run_classifier, **flags, restart=True)
    assert "holds a model" in line
    line = scripts.error_of(
        run_classifier, **flags, restart=True, num_restarts=2
    )
    assert "--restart is for a single run" in line


def test_a_run_cannot_have_begun_with_another_model(
    encoder_dir, finished, tmp_path
):
    """Of the same configuration; a copy elsewhere is the same model."""
    shutil.copytree(encoder_dir, tmp_path / "model")
    flags = finished | {"init_checkpoint": str(tmp_path / "model")}
    assert scripts.run(run_classifier, **flags) == 0
    prefix = str(tmp_path / "model" / "bert_model.ckpt")
    tensors = weight_files.read_weights(prefix)
    tensors["bert/embeddings/word_embeddings"] *= 0.5
    weight_files.write(prefix, tensors)
    line = scripts.error_of(run_classifier, **flags)
    assert "belongs to a run with other init_checkpoint" in line


@pytest.mark.nightly
def test_what_was_tuned_after_training_stays(encoder_dir, tmp_path):
    """Thresholds of labels, and the temperature of a calibrated model."""
    rows = {
        part: [f"{text}\t{label}" for text, label in sentences(n, seed)]
        for part, n, seed in (("train", 60, 1), ("dev", 40, 2))
    }
    for part, lines in rows.items():
        text = "\n".join(["sentence\tlabel", *lines]) + "\n"
        (tmp_path / f"{part}.tsv").write_text(text)
    (tmp_path / "test.tsv").write_text((tmp_path / "dev.tsv").read_text())
    for name in ("multi_label", "calibrate"):
        out = tmp_path / name
        flags = flags_for(encoder_dir, tmp_path, out, num_train_epochs=0.5)
        flags |= {"pad_to_max_length": True, "do_predict": True}
        first = flags | {name: True}
        assert scripts.run(run_classifier, **first) == 0
        wanted = {
            file: (out / file).read_bytes()
            for file in ("test_results.tsv", "test.tsv", "bert_config.json")
        }
        again = flags | {"do_eval": False}
        again |= {"multi_label": name == "multi_label"}
        assert scripts.run(run_classifier, **again) == 0
        for file, content in wanted.items():
            assert (out / file).read_bytes() == content, (name, file)
    # Thresholds are not those of other weights: here of an interrupted run
    # that began with a model that has some.
    shutil.copytree(tmp_path / "multi_label", tmp_path / "model")
    out = tmp_path / "multi_label"
    for path in out.glob("bert_*"):
        path.unlink()
    model = {"init_checkpoint": str(tmp_path / "model"), "do_train": False}
    again = flags | model | {"multi_label": True, "do_eval": False}
    # What its record says of the labels and the rows is asked for again.
    for other, message in (
        ({"multi_label": False}, "multi_label = True, not its default"),
        ({"max_seq_length": 20}, "max_seq_length = 40, not 20"),
    ):
        line = scripts.error_of(
            run_classifier, **again | other | {"output_dir": str(out)}
        )
        assert f"model.ckpt-3 is of a run with {message}" in line
    assert scripts.run(run_classifier, **again | {"output_dir": str(out)}) == 0
    shares = np.loadtxt(out / "test_results.tsv")
    lines = (out / "test.tsv").read_text().splitlines()[1:]
    for line, row in zip(lines, shares, strict=True):
        pairs = zip(("bad", "good"), row, strict=True)
        names = [name for name, share in pairs if share >= 0.5]
        assert line.split("\t")[1] == ",".join(names)


# --- Signals -----------------------------------------------------------------


@pytest.mark.nightly
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
            tiny.check_same_bits(parts / name, whole / name)
        assert (parts / "scores.json").read_text() == (
            whole / "scores.json"
        ).read_text()
        assert curves.read(str(parts), 100, ("loss",), "accuracy") == wanted


@pytest.mark.nightly
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


@pytest.mark.nightly
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


@pytest.mark.parametrize("accuracy, is_told", [(0.65, True), (0.75, False)])
def test_examples_learned_by_heart_are_told(
    accuracy, is_told, tmp_path, caplog
):
    lines = [{"step": n, "accuracy": 0.3 * n} for n in (1, 2, 3)]
    text = "\n".join(map(json.dumps, [*lines, {"step": 4, "loss": 0.1}]))
    (tmp_path / "scalars.jsonl").write_text(text + "\n")
    caplog.set_level("INFO", logger="absl")
    results = {"accuracy": accuracy}
    runner._say_what_was_learned_by_heart(str(tmp_path), results)
    assert ("accuracy of 0.9000" in caplog.text) == is_told
