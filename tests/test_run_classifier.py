"""run_classifier.py as a user runs it, on sentences a tiny model can learn."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import scripts
import tiny
from classifier_runs import flags_for, sentences
from tiny import results_of, weights_of

run_classifier = scripts.load("run_classifier")


@pytest.fixture(scope="module")
def finished(encoder_dir, sentences_dir, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    flags = flags_for(encoder_dir, sentences_dir, out, do_predict=True)
    flags |= {"pictures": True, "jit_compile": True}  # as a user has them
    assert scripts.run(run_classifier, **flags) == 0
    return out


# --- What comes out ----------------------------------------------------------


@pytest.mark.slow
def test_mistakes_and_pictures_belong_to_the_scores(finished):
    results = results_of(finished)
    header, *rows = (
        line.split("\t")
        for line in (finished / "errors.tsv").read_text().splitlines()
    )
    assert len(rows) == round(50 * (1 - results["accuracy"]))
    texts = sentences(50, 2)
    for row in rows:
        found = dict(zip(header, row, strict=True))
        text, label = texts[int(found["line"]) - 2]
        assert (found["text_a"], found["truth"]) == (text, label)
        assert found["prediction"] != label and found["text_b"] == ""
        assert float(found["confidence"]) >= 0.5
    table = (finished / "confusion_matrix.tsv").read_text().splitlines()
    counts = np.array([line.split("\t")[1:] for line in table[1:]], int)
    assert counts.sum() == 50 and counts.trace() == 50 - len(rows)
    assert counts.sum(1)[0] == sum(label == "bad" for _, label in texts)
    for name in ("curves", "confusion_matrix"):
        data = (finished / f"{name}.png").read_bytes()
        assert data[:4] == b"\x89PNG" and len(data) < 100_000


@pytest.mark.slow
def test_calibrated_it_gives_the_same_answers_less_surely(
    finished, sentences_dir, tmp_path
):
    """Of the model's files the output layer alone changes, by one factor.

    So whatever reads them has the calibrated model. A second time there is
    nothing to change.
    """
    model = shutil.copytree(finished, tmp_path / "model")
    data = shutil.copytree(sentences_dir, tmp_path / "data")
    lines = (data / "dev.tsv").read_text().splitlines()
    for number in (3, 13, 23, 33, 43):  # that are wrong, and surely so
        text, label = lines[number].split("\t")
        lines[number] = f"{text}\t{'bad' if label == 'good' else 'good'}"
    (data / "dev.tsv").write_text("\n".join(lines) + "\n")
    flags = flags_for(finished, data, model, do_train=False)
    flags |= {"pictures": True}
    scripts.run(run_classifier, **flags)
    before = results_of(model)
    flags |= {"do_predict": True, "calibrate": True}
    scripts.run(run_classifier, **flags)
    results = results_of(model)
    temperature = results["temperature"]
    assert temperature > 1.2
    assert results["loss"] < before["loss"] - 0.01
    assert results["ece"] < results["uncalibrated_ece"] / 2
    assert results["uncalibrated_ece"] == pytest.approx(before["ece"])
    for name in ("accuracy", "macro_f1", "global_step"):
        assert results[name] == before[name]
    assert (model / "reliability.png").exists()
    old, new = (weights_of(p / "bert_model.ckpt") for p in (finished, model))
    assert old.keys() == new.keys()
    for name, value in new.items():
        if name in ("output_weights", "output_bias"):
            value = value * np.float32(temperature)
        np.testing.assert_allclose(value, old[name], rtol=1e-6)
    wanted, found = (
        np.loadtxt(folder / "test_results.tsv") for folder in (finished, model)
    )
    odds, wanted = (np.log(p[:, 0] / p[:, 1]) for p in (found, wanted))
    np.testing.assert_allclose(odds * temperature, wanted, rtol=1e-4)
    answers = (finished / "test.tsv").read_text()
    assert (model / "test.tsv").read_text() == answers
    path = model / "bert_model.ckpt.data-00000-of-00001"
    calibrated = path.read_bytes()
    scripts.run(run_classifier, **flags)
    assert results_of(model)["temperature"] == 1
    assert path.read_bytes() == calibrated


@pytest.mark.slow
def test_a_test_file_alone_is_predicted(
    finished, sentences_dir, tmp_path, caplog
):
    """Labels are the fine-tuned model's, where no training file tells them."""
    (tmp_path / "test.tsv").write_bytes(
        (sentences_dir / "test.tsv").read_bytes()
    )
    flags = flags_for(finished, tmp_path, tmp_path / "out", do_train=False)
    flags |= {"do_eval": False, "do_predict": True}
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags) == 0
    assert "*** Example ***" in caplog.text
    assert "label: None" not in caplog.text
    for name in ("test.tsv", "test_results.tsv"):
        wanted = (finished / name).read_text()
        assert (tmp_path / "out" / name).read_text() == wanted


@pytest.mark.nightly
def test_a_head_for_other_labels_starts_anew(
    finished, encoder_dir, tmp_path, caplog
):
    """As from MNLI's three labels to two: warned of, not refused."""
    lines = ["sentence\tlabel", "good\ta", "bad\tb", "the film\tc"]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines * 1) + "\n")
    more = {"train_batch_size": 3, "num_train_epochs": 1}
    flags = flags_for(finished, tmp_path, tmp_path / "out", **more)
    assert scripts.run(run_classifier, **flags) == 0
    text = "new weights: output_weights: the model has shape [3, 16], the"
    assert f"starts from {text}" in caplog.text
    flags |= {"do_train": False, "init_checkpoint": str(finished)}
    flags["output_dir"] = str(tmp_path / "other")
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\ngood\ta\n")
    line = scripts.error_of(run_classifier, **flags)
    assert "unknown label 'a'; known are bad, good" in line


@pytest.mark.nightly
def test_training_on_without_scores_keeps_the_last_weights(
    encoder_dir, sentences_dir, tmp_path
):
    """An earlier command's best weights stay where nothing is trained."""
    more = {"num_train_epochs": 2, "pad_to_max_length": True}
    flags = flags_for(encoder_dir, sentences_dir, tmp_path, **more)
    scripts.run(run_classifier, **flags | {"eval_steps": 25})
    best = weights_of(tmp_path / "bert_model.ckpt")
    scripts.run(run_classifier, **flags)
    tiny.assert_same(weights_of(tmp_path / "bert_model.ckpt"), best)
    scripts.run(run_classifier, **flags | {"num_train_epochs": 3})
    last = weights_of(tmp_path / "model.ckpt-75")
    kept = weights_of(tmp_path / "bert_model.ckpt")
    assert all((kept[name] == last[name]).all() for name in kept)
    assert results_of(tmp_path)["global_step"] == 75


@pytest.mark.nightly
def test_two_development_sets(encoder_dir, tmp_path, caplog):
    """All texts are alike, so all predictions are: in both sets, named."""
    names = ["index", "a", "b", "c", "d", "e", "f", "g", "sentence1"]
    header = "\t".join([*names, "sentence2", "gold_label"])
    labels = ["contradiction", "entailment", "neutral"]
    for file in ("train", "dev_matched", "dev_mismatched"):
        lines = [header]
        for number in range(24):
            cells = [str(number), *"abcdefg", "the film", "was good"]
            lines.append("\t".join([*cells, labels[number % 3]]))
        (tmp_path / f"{file}.tsv").write_text("\n".join(lines) + "\n")
    flags = flags_for(encoder_dir, tmp_path, tmp_path / "out", task_name="MNLI")
    scripts.run(run_classifier, **flags)
    for name in ("dev_matched", "dev_mismatched"):
        assert f"{name}: all 24 predictions are" in caplog.records[-1].message
    results = tiny.results_of(tmp_path / "out")
    assert results["degenerate"] == 1
    assert "a run that has learned next to nothing" in caplog.text
    assert results["dev_matched_accuracy"] == results["eval_accuracy"]
    assert "dev_mismatched_accuracy" in results
    assert "dev_mismatched_loss" in results
