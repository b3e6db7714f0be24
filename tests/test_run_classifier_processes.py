"""run_classifier.py in several processes: sweeps, two machines."""

import json
from pathlib import Path

import numpy as np
import pytest
import scripts
import tiny
from classifier_runs import flags_for
from cluster_runs import Cluster

from extras import sweeps

run_classifier = scripts.load("run_classifier")


# --- Sweeps ------------------------------------------------------------------


def sweep_flags(encoder_dir: Path, sentences_dir: Path, out: Path) -> dict:
    flags = flags_for(encoder_dir, sentences_dir, out, do_predict=True)
    flags |= {"num_train_epochs": 2, "pad_to_max_length": True}
    return flags | {"num_restarts": 2, "sweep_learning_rates": "0.0,0.01"}


def test_grid(encoder_dir, sentences_dir, tmp_path, monkeypatch):
    flags = sweep_flags(encoder_dir, sentences_dir, tmp_path)
    parsed = scripts.parse(run_classifier, **flags)
    sweep = sweeps.from_flags(parsed, "s.py")
    assert list(sweep.runs) == [
        "lr0.0_seed12345",
        "lr0.0_seed12346",
        "lr0.01_seed12345",
        "lr0.01_seed12346",
    ]
    line = sweep.command("lr0.01_seed12346", "o")
    assert line[1] == "s.py"
    assert {"--learning_rate=0.01", "--random_seed=12346"} < set(line)
    assert {"--do_eval", f"--records_dir={tmp_path}"} < set(line)
    assert {"--output_dir=o", "--max_seq_length=40", "--do_train"} < set(line)
    # Runs of sweeps of version 0.1.0 have the same command.
    assert not any("num_restarts" in argument for argument in line)
    text = " ".join(line)
    assert "predict" not in text and "sweep" not in text
    monkeypatch.setattr(sweeps.child_processes, "run", lambda command: 3)
    line = scripts.error_of(run_classifier, **flags)
    assert "run lr0.0_seed12345 ended with status 3" in line


@pytest.mark.nightly
def test_sweep_keeps_the_best_and_repeats_nothing(
    encoder_dir, sentences_dir, tmp_path, capfd, caplog
):
    flags = sweep_flags(encoder_dir, sentences_dir, tmp_path) | {
        "num_restarts": 1
    }
    flags["pictures"] = True
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags) == 0
    lines = (tmp_path / "sweep_results.txt").read_text().splitlines()
    # What is shown has each score once, the file also the original's names.
    assert "eval_accuracy" in lines[0] and "accuracy" in caplog.text
    assert "eval_accuracy" not in caplog.text
    assert lines[1].startswith("lr0.01_seed12345 ")
    assert lines[2].startswith("lr0.0_seed12345 ")
    assert lines[2].endswith(" failed")
    assert lines[3] == "1 of 2 runs failed: lr0.0_seed12345"
    assert lines[4].endswith("over 1 other run")
    log = capfd.readouterr().err  # of the runs
    assert "This run failed: " in log
    best = tmp_path / "runs" / "lr0.01_seed12345"
    assert tiny.results_of(tmp_path) == tiny.results_of(best)
    tiny.check_same_bits(tmp_path / "bert_model.ckpt", best / "bert_model.ckpt")
    for name in ("curves.png", "confusion_matrix.png", "errors.tsv"):
        assert (tmp_path / name).read_bytes() == (best / name).read_bytes()
    assert len((tmp_path / "test.tsv").read_text().splitlines()) == 22
    assert (tmp_path / "train.tf_record").exists()
    assert not (best / "train.tf_record").exists()
    written = (best / "eval_results.txt").stat().st_mtime_ns
    assert scripts.run(run_classifier, **flags) == 0
    assert (best / "eval_results.txt").stat().st_mtime_ns == written
    # Without --do_predict no predictions of another model stay.
    assert scripts.run(run_classifier, **flags | {"do_predict": False}) == 0
    assert (best / "eval_results.txt").stat().st_mtime_ns == written
    assert not list(tmp_path.glob("test*.tsv"))
    # Scored alone, the best run is scored as what it is, with its step.
    (tmp_path / "eval_results.txt").unlink()
    flags |= {"do_train": False, "sweep_learning_rates": None}
    assert scripts.run(run_classifier, **flags) == 0
    assert tiny.results_of(tmp_path) == tiny.results_of(best)


# --- Two machines ------------------------------------------------------------


@pytest.mark.nightly
def test_two_machines(encoder_dir, sentences_dir, tmp_path):
    """One writes; both score and keep the best, as one machine would."""
    flags = flags_for(
        encoder_dir, sentences_dir, tmp_path, eval_steps=50, do_predict=True
    ) | {"num_train_epochs": 4, "pad_to_max_length": True}
    with Cluster(tmp_path, script="run_classifier", **flags) as cluster:
        cluster.assert_all_finish()
    assert tiny.results_of(tmp_path)["accuracy"] > 0.9
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["50", "100"]
    alone = tmp_path / "alone"
    flags = flags_for(tmp_path, sentences_dir, alone, do_train=False)
    scripts.run(run_classifier, **flags | {"do_predict": True})
    found, wanted = (
        np.loadtxt(folder / "test_results.tsv") for folder in (tmp_path, alone)
    )
    np.testing.assert_allclose(found, wanted, atol=1e-5)
