"""run_classifier.py as a user runs it, on sentences a tiny model can learn."""

import json
import shutil
from pathlib import Path

import fine_tuned_models
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from classifier_runs import (
    CONFIG,
    VOCAB,
    flags_for,
    sentences,
    values_of,
    write_data,
)
from tiny import results_of

from checkpoints import weight_files
from tasks.classifier import model as classifier_model
from tasks.swag import model as swag_model
from training import curves

run_classifier = scripts.load("run_classifier")


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """An encoder with weights, vocabulary and configuration beside them."""
    return tiny.write_model(tmp_path_factory.mktemp("model"), CONFIG, VOCAB)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def finished(model_dir, data_dir, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    flags = flags_for(model_dir, data_dir, out, do_predict=True)
    assert scripts.run(run_classifier, **flags, pictures=True) == 0
    return out


# --- What comes out ----------------------------------------------------------


@pytest.mark.slow
def test_it_learns_and_says_so(finished):
    results = tiny.results_of(finished)
    assert set(results) == {
        *("accuracy", "macro_f1", "eval_accuracy", "eval_loss"),
        *("loss", "global_step"),
    }
    assert results["accuracy"] > 0.9
    assert results["eval_accuracy"] == results["accuracy"]
    assert results["global_step"] == int(200 / 8 * 6)


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
        text, label = texts[int(found["guid"])]
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
def test_the_curve_of_a_short_run_has_fifty_points(finished):
    found = curves.read(str(finished), 100, ("loss",), "accuracy")
    assert list(found.loss) == list(range(3, 151, 3))  # 150 steps
    results = results_of(finished)
    assert found.metric == {150: pytest.approx(results["accuracy"])}
    assert found.dev_loss == {150: pytest.approx(results["loss"])}
    assert found.learning_rate[150] == 0.0


@pytest.mark.slow
def test_prediction_files(finished, data_dir):
    """Probabilities, answers and weights agree with each other."""
    rows = (finished / "test_results.tsv").read_text().splitlines()
    probs = np.array([[float(p) for p in row.split("\t")] for row in rows])
    assert probs.shape == (21, 2)
    np.testing.assert_allclose(probs.sum(1), 1.0, rtol=1e-6)
    header, *lines = (finished / "test.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    labels = ["bad", "good"]
    for number, line in enumerate(lines):
        assert line == f"{number}\t{labels[probs[number].argmax()]}"
    right = [label for _, label in sentences(21, 3)]
    answers = [line.split("\t")[1] for line in lines]
    assert np.mean(np.array(answers) == np.array(right)) > 0.8
    # By hand, one sentence, no padding and no batch.
    model = classifier_model.BertForSequenceClassification(CONFIG, 2)
    weight_files.restore_weights(model.variables, str(finished), required="")
    text = sentences(21, 3)[0][0]
    ids = [VOCAB.index(t) for t in ["[CLS]", *text.split(), "[SEP]"]]
    logits = model({"input_ids": tf.constant([ids])})
    np.testing.assert_allclose(
        tf.nn.softmax(logits)[0], probs[0], rtol=0, atol=1e-5
    )


@pytest.mark.slow
def test_saved_model_gives_the_predictions(finished, data_dir, tmp_path):
    flags = flags_for(finished, data_dir, tmp_path, do_train=False)
    flags |= {"do_eval": False, "do_export": True}
    scripts.run(run_classifier, **flags)
    loaded = tf.saved_model.load(str(tmp_path / "saved_model" / "1"))
    texts = [text for text, _ in sentences(21, 3)]
    found = loaded.signatures["serving_default"](text=tf.constant(texts))
    rows = (finished / "test_results.tsv").read_text().splitlines()
    wanted = [[float(p) for p in row.split("\t")] for row in rows]
    np.testing.assert_allclose(found["probabilities"], wanted, atol=1e-5)
    line = scripts.error_of(run_classifier, **flags)
    assert "exists already" in line


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_float32_model_is_used_in_16_bits(
    finished, data_dir, tmp_path, dtype
):
    """Scores, predictions and the SavedModel are nearly those of float32."""
    flags = flags_for(finished, data_dir, tmp_path, do_train=False)
    flags |= {"do_predict": True, "do_export": True, "dtype": dtype}
    scripts.run(run_classifier, **flags)
    wanted, found = results_of(finished), results_of(tmp_path)
    assert found == pytest.approx(wanted, abs=0.02)
    wide, narrow = (
        [[float(p) for p in row.split("\t")] for row in text.splitlines()]
        for text in (
            (folder / "test_results.tsv").read_text()
            for folder in (finished, tmp_path)
        )
    )
    np.testing.assert_allclose(narrow, wide, atol=0.02)
    assert narrow != wide
    loaded = tf.saved_model.load(str(tmp_path / "saved_model" / "1"))
    texts = [text for text, _ in sentences(21, 3)]
    found = loaded.signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(found["probabilities"], narrow, atol=0.02)


@pytest.mark.slow
def test_exported_directory_is_complete(finished):
    config = json.loads((finished / "bert_config.json").read_text())
    assert config["id2label"] == {"0": "bad", "1": "good"}
    assert (finished / "vocab.txt").read_text().split() == VOCAB
    names = set(values_of(finished / "bert_model.ckpt"))
    assert {"output_weights", "output_bias"} < names
    assert not any(name.endswith("adam_m") for name in names)


@pytest.mark.slow
def test_predictions_do_not_depend_on_padding(finished, data_dir, tmp_path):
    """Buckets and full padding, any batch size: 1e-5."""
    found = []
    for name, more in {
        "padded": {"pad_to_max_length": True},
        "other": {"predict_batch_size": 5},
    }.items():
        out = tmp_path / name
        flags = flags_for(finished, data_dir, out, do_train=False)
        flags |= {"do_eval": False, "do_predict": True} | more
        scripts.run(run_classifier, **flags)
        rows = (out / "test_results.tsv").read_text().split()
        found.append(np.array(rows, float))
    wanted = (finished / "test_results.tsv").read_text().split()
    for values in found:
        np.testing.assert_allclose(values, np.array(wanted, float), atol=1e-5)


@pytest.mark.slow
def test_a_finished_run_says_so_and_records_are_reused(
    finished, model_dir, data_dir, caplog
):
    before = values_of(finished / "bert_model.ckpt")
    written = (finished / "train.tf_record").stat().st_mtime_ns
    # As version 0.1.0 wrote it, which had none of these flags.
    path = finished / "training_config.json"
    run = json.loads(path.read_text())
    for name in ("bilstm_layers", "bilstm_units", "reinit_top_layers"):
        assert run["fixed"].pop(name) is None
    path.write_text(json.dumps(run))
    with caplog.at_level("INFO", logger="absl"):
        flags = flags_for(model_dir, data_dir, finished)
        assert scripts.run(run_classifier, **flags) == 0
    assert "holds a finished run of 150 steps" in caplog.text
    assert "Reusing" in caplog.text
    assert (finished / "train.tf_record").stat().st_mtime_ns == written
    for name, value in values_of(finished / "bert_model.ckpt").items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.slow
def test_records_are_rebuilt_when_the_data_changed(model_dir, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    flags = flags_for(model_dir, data, tmp_path / "out", num_train_epochs=1)
    for count in (20, 30):
        rows = ["\t".join(row) for row in sentences(count, 1)]
        for name in ("train", "dev"):
            text = "\n".join(["sentence\tlabel", *rows]) + "\n"
            (data / f"{name}.tsv").write_text(text)
        if count == 20:
            scripts.run(run_classifier, **flags)
    before = (tmp_path / "out" / "train.tf_record").read_bytes()
    line = scripts.error_of(run_classifier, **flags)
    assert "belongs to a run with data" in line
    assert (tmp_path / "out" / "train.tf_record").read_bytes() == before
    flags["do_train"] = False
    scripts.run(run_classifier, **flags)
    fingerprint = json.loads(
        (tmp_path / "out" / "eval.tf_record.json").read_text()
    )
    assert fingerprint["max_seq_length"] == 40


@pytest.mark.slow
def test_a_test_file_alone_is_predicted(finished, data_dir, tmp_path):
    """Labels are the fine-tuned model's, where no training file tells them."""
    (tmp_path / "test.tsv").write_bytes((data_dir / "test.tsv").read_bytes())
    flags = flags_for(finished, tmp_path, tmp_path / "out", do_train=False)
    flags |= {"do_eval": False, "do_predict": True}
    assert scripts.run(run_classifier, **flags) == 0
    for name in ("test.tsv", "test_results.tsv"):
        wanted = (finished / name).read_text()
        assert (tmp_path / "out" / name).read_text() == wanted


@pytest.mark.slow
def test_a_head_for_other_labels_starts_anew(
    finished, model_dir, tmp_path, caplog
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


@pytest.mark.slow
def test_the_fine_tuned_length_holds(model_dir, data_dir, tmp_path, caplog):
    """Without --max_seq_length a model is used at the length it was fine-tuned.

    The default, 128, is more than the 64 positions of this model.
    """
    flags = flags_for(model_dir, data_dir, tmp_path, max_seq_length=12)
    scripts.run(run_classifier, **flags | {"num_train_epochs": 1})
    config = json.loads((tmp_path / "bert_config.json").read_text())
    assert config["max_seq_length"] == 12
    wanted = results_of(tmp_path)
    again = flags | {
        "init_checkpoint": str(tmp_path),
        "output_dir": str(tmp_path / "again"),
        "do_train": False,
        "max_seq_length": None,
    }
    scripts.run(run_classifier, **again)
    found = results_of(tmp_path / "again")
    assert found["eval_loss"] == wanted["eval_loss"]
    with caplog.at_level("WARNING"):
        scripts.run(run_classifier, **again | {"max_seq_length": 30})
    assert (
        "--max_seq_length=30; the model was fine-tuned with 12" in caplog.text
    )
    assert results_of(tmp_path / "again")["eval_loss"] != wanted["eval_loss"]


def test_a_multiple_choice_head_is_no_regression(model_dir, data_dir, tmp_path):
    """Both are [1, H]; only the configuration tells."""
    tf.keras.utils.set_random_seed(1)
    model = swag_model.BertForMultipleChoice(CONFIG)
    folder = tmp_path / "other"
    shutil.copytree(model_dir, folder)
    weight_files.write(
        str(folder / "bert_model.ckpt"),
        weight_files.as_tensors(model.variables),
    )
    config = CONFIG.to_dict() | {"task": "multiple_choice"}
    (folder / "bert_config.json").write_text(json.dumps(config))
    flags = flags_for(folder, data_dir, tmp_path / "out", regression=True)
    # The labels of the dev file are classes, so it is not read here.
    flags |= {"do_train": False, "do_eval": False, "do_predict": True}
    line = scripts.error_of(run_classifier, **flags)
    assert "is multiple_choice, this script needs none" in line


@pytest.mark.slow
def test_regression(model_dir, tmp_path):
    """A number instead of a class."""
    for name, count, seed in (("train", 240, 1), ("dev", 40, 2)):
        lines = ["sentence\tlabel"]
        for text, label in sentences(count, seed):
            lines.append(f"{text}\t{1.5 if label == 'good' else -0.5}")
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n")
    flags = flags_for(model_dir, tmp_path, tmp_path / "out", regression=True)
    scripts.run(run_classifier, **flags)
    results = tiny.results_of(tmp_path / "out")
    assert results["pearson"] > 0.8 and results["spearman"] > 0.7
    assert "accuracy" not in results and results["eval_loss"] < 0.4


@pytest.mark.slow
def test_best_weights_and_early_stopping(model_dir, data_dir, tmp_path, caplog):
    """With a rate of 0 nothing gets better: the first evaluation is best."""
    flags = flags_for(
        model_dir,
        data_dir,
        tmp_path,
        learning_rate=0.0,
        eval_steps=5,
        early_stopping_patience=3,
    )
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["5", "10", "15", "20"]
    assert len(set(scores.values())) == 1
    assert "No better score in 3 evaluations" in caplog.text
    assert tiny.results_of(tmp_path)["global_step"] == 5
    assert weight_files.global_step(str(tmp_path / "bert_model.ckpt")) == 5
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_classifier, **flags) == 0
    assert "ended early: nothing to train" in caplog.text
    assert "Running training" not in caplog.text
    assert json.loads((tmp_path / "scores.json").read_text()) == scores


@pytest.mark.slow
def test_training_on_without_scores_keeps_the_last_weights(
    model_dir, data_dir, tmp_path
):
    """An earlier command's best weights stay where nothing is trained."""
    flags = flags_for(model_dir, data_dir, tmp_path, num_train_epochs=2)
    scripts.run(run_classifier, **flags | {"eval_steps": 25})
    best = values_of(tmp_path / "bert_model.ckpt")
    scripts.run(run_classifier, **flags)
    again = values_of(tmp_path / "bert_model.ckpt")
    assert all((best[name] == again[name]).all() for name in best)
    scripts.run(run_classifier, **flags | {"num_train_epochs": 3})
    last = values_of(tmp_path / "model.ckpt-75")
    kept = values_of(tmp_path / "bert_model.ckpt")
    assert all((kept[name] == last[name]).all() for name in kept)
    assert results_of(tmp_path)["global_step"] == 75


@pytest.mark.slow
def test_two_development_sets(model_dir, tmp_path, caplog):
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
    flags = flags_for(model_dir, tmp_path, tmp_path / "out", task_name="MNLI")
    scripts.run(run_classifier, **flags)
    for name in ("dev_matched", "dev_mismatched"):
        assert f"{name}: all 24 predictions are" in caplog.records[-1].message
    results = tiny.results_of(tmp_path / "out")
    assert results["degenerate"] == 1
    assert results["dev_matched_accuracy"] == results["eval_accuracy"]
    assert "dev_mismatched_accuracy" in results
    assert "dev_mismatched_loss" in results


# --- What goes wrong ---------------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"do_train": False, "do_eval": False}, "give --do_train"),
        ({"task_name": None}, "--task_name is required"),
        ({"task_name": "snli"}, "unknown; choose from cola"),
        ({"data_dir": "/nowhere"}, "--data_dir=/nowhere is not a directory"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        (
            {"init_checkpoint": None},
            "--bert_config_file is required without a checkpoint",
        ),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"text_a_column": "text"}, "no column 'text'"),
        ({"label_column": "class"}, "no column 'class'"),
        ({"train_batch_size": 1000, "num_train_epochs": 0.1}, "make no step"),
        ({"early_stopping_patience": 2}, "needs --eval_steps"),
        ({"task_name": "cola", "regression": True}, "is for --task_name=tsv"),
        ({"task_name": "ax"}, "ax has no training file"),
        ({"gradient_accumulation_steps": 3}, "does not divide by"),
        ({"regression": True}, "is not a number"),
        ({"do_train": False}, "has no head for this task (output_weights)"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(model_dir, data_dir, tmp_path, changes, words):
    flags = flags_for(model_dir, data_dir, tmp_path / "out") | changes
    line = scripts.error_of(run_classifier, **flags)
    assert words in line, line


def test_vocabulary_larger_than_the_model(model_dir, data_dir, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(["[PAD]", "x", *"qwertyuiopz", *VOCAB[1:]]))
    flags = flags_for(model_dir, data_dir, tmp_path, vocab_file=str(vocab))
    line = scripts.error_of(run_classifier, **flags)
    assert "has 26 tokens" in line and "vocab_size" in line, line


@pytest.mark.slow
def test_outputs_that_are_not_numbers_are_an_error(
    finished, data_dir, tmp_path
):
    """A score or an answer made of them would look like any other."""
    fine_tuned_models.check_damage_is_found(
        run_classifier,
        finished,
        tmp_path,
        lambda model, out: flags_for(model, data_dir, out, do_train=False),
        {"do_eval": "dev", "do_predict": "test"},
    )
