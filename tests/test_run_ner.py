"""run_ner.py as a user runs it, on sentences a tiny model can learn."""

import json
import os
import shutil
from pathlib import Path

import fine_tuned_models
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from ner_runs import (
    CONFIG,
    LABELS,
    NAMES,
    VOCAB,
    check_served,
    flags_for,
    only,
    values_of,
    write_data,
)

from checkpoints import weight_files
from finetuning import runner, sweeps
from tasks.ner import data as ner_data
from tasks.ner import model as ner_model

run_ner = scripts.load("run_ner")
convert_checkpoint = scripts.load("convert_checkpoint")
export_saved_model = scripts.load("export_saved_model")


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
    flags["gradient_accumulation_steps"] = 2  # of batches of any length
    assert scripts.run(run_ner, **flags) == 0
    return out


# --- Results -----------------------------------------------------------------


@pytest.mark.slow
def test_a_run_learns_and_writes_its_scores(finished):
    results = tiny.results_of(finished, "eval_results.txt")
    header, *wrong = (finished / "errors.tsv").read_text().splitlines()
    assert header.startswith("line\tkind\ttruth\tprediction\tconfidence")
    assert bool(wrong) == (results["f1"] < 1)
    scores = {"precision", "recall", "f1"}
    assert set(results) == {
        *scores,
        *(f"{kind}_{name}" for kind in NAMES for name in scores),
        *("accuracy", "loss", "global_step"),
    }
    assert results["f1"] > 0.9 and results["accuracy"] > 0.95
    records = os.path.join(str(finished), "train.tf_record")
    count = sum(1 for _ in tf.data.TFRecordDataset(records))
    assert count > 160  # some sentences have two windows
    assert results["global_step"] == int(count / 8 * 6)


@pytest.mark.slow
def test_predictions_follow_the_file_line_by_line(finished, data_dir):
    given = (data_dir / "test.txt").read_text().splitlines()
    found = (finished / "predictions.txt").read_text().splitlines()
    assert len(found) == len(given)
    pairs = []
    for before, after in zip(given, found, strict=True):
        if not before:
            assert after == ""
            continue
        start, _, tag = after.rpartition(" ")
        assert start == before and tag in LABELS
        if not before.startswith("-DOCSTART-"):
            pairs.append((before.split()[1][2:], tag[2:]))
    types = np.array(pairs)
    assert np.mean(types[:, 0] == types[:, 1]) > 0.95
    results = tiny.results_of(finished, "test_results.txt")
    assert results["f1"] > 0.9 and "global_step" not in results


@pytest.mark.slow
def test_predictions_are_the_outputs_at_first_pieces(finished):
    """By hand: each word of one short and one long sentence, no padding."""
    model = ner_model.BertForTokenClassification(CONFIG, len(LABELS))
    weight_files.restore_weights(model.variables, str(finished), required="")
    path = str(finished / "predictions.txt")
    file = ner_data.read_file(path, ner_data.Columns(0, -1))
    sentence = file.sentences[0]
    ids, places = [VOCAB.index("[CLS]")], []
    for word in sentence.words:
        places.append(len(ids))
        stem = word.rstrip("x")
        ids.append(VOCAB.index(stem))
        ids += [VOCAB.index("##x")] * (len(word) - len(stem))
    ids.append(VOCAB.index("[SEP]"))
    assert len(ids) < 32
    logits = model({"input_ids": tf.constant([ids])})[0].numpy()
    tags = [LABELS[best] for best in logits[places].argmax(-1)]
    assert ner_data.normalized_tags(tags) == sentence.tags


@pytest.mark.slow
def test_exported_directory_is_complete(finished):
    config = json.loads((finished / "bert_config.json").read_text())
    assert list(config["id2label"].values()) == list(LABELS)
    assert config["task"] == "token_classification"
    assert config["max_seq_length"] == 32
    assert config["document_context"] is False
    names = values_of(finished / "bert_model.ckpt")
    assert names["output_weights"].shape == (5, 16)
    assert not any(name.endswith("adam_m") for name in names)


@pytest.mark.slow
def test_other_scripts_recognize_a_tagger(finished, tmp_path):
    flags = {"output_format": "huggingface"}
    out = tmp_path / "hf"
    scripts.run(
        convert_checkpoint, input=str(finished), output=str(out), **flags
    )
    config = json.loads((out / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    assert config["label2id"] == {n: i for i, n in enumerate(LABELS)}
    flags = {"init_checkpoint": str(finished)}
    flags["export_dir"] = str(tmp_path / "1")
    line = scripts.error_of(export_saved_model, **flags)
    assert "export it with run_ner.py --do_export" in line


@pytest.mark.slow
def test_words_without_tags_get_the_same_tags(finished, data_dir, tmp_path):
    """The same tags; a fine-tuned model needs neither training nor dev file."""
    flags = flags_for(finished, data_dir, tmp_path, train_file=None)
    flags |= {"dev_file": None, "test_file": str(data_dir / "words.txt")}
    scripts.run(run_ner, **only(flags, do_predict=True))
    found = (tmp_path / "predictions.txt").read_text().splitlines()
    wanted = (finished / "predictions.txt").read_text().splitlines()[2:]
    assert [line.split() for line in found] == [
        line.split()[::2] for line in wanted
    ]
    assert not (tmp_path / "test_results.txt").exists()


@pytest.mark.slow
def test_predictions_do_not_depend_on_padding(finished, data_dir, tmp_path):
    found = []
    for name, more in {
        "padded": {"pad_to_max_length": True},
        "other": {"predict_batch_size": 5},
    }.items():
        flags = flags_for(finished, data_dir, tmp_path / name, **more)
        scripts.run(run_ner, **only(flags, do_predict=True))
        found.append(tiny.results_of(tmp_path / name, "test_results.txt"))
    wanted = tiny.results_of(finished, "test_results.txt")
    for results in found:
        assert results["loss"] == pytest.approx(wanted["loss"], abs=1e-5)


@pytest.mark.slow
def test_unknown_tags_are_reported_not_scored(
    finished, data_dir, tmp_path, caplog
):
    test = tmp_path / "test.txt"
    test.write_text("ann B-PER\n\nrome B-GPE\n")
    flags = flags_for(finished, data_dir, tmp_path, test_file=str(test))
    scripts.run(run_ner, **only(flags, do_predict=True))
    assert "test.txt, line 3: tag 'B-GPE': the training file" in caplog.text
    lines = (tmp_path / "predictions.txt").read_text().splitlines()
    assert lines == ["ann B-PER B-PER", "", "rome B-GPE B-LOC"]
    assert not (tmp_path / "test_results.txt").exists()
    flags = only(flags | {"dev_file": str(test)}, do_eval=True)
    line = scripts.error_of(run_ner, **flags)
    assert "line 3: tag 'B-GPE'" in line and "only LOC, PER" in line


def fine_tuned_with(source: Path, folder: Path, **changes) -> Path:
    """A copy of a fine-tuned model with changes in its configuration."""
    shutil.copytree(source, folder)
    path = folder / "bert_config.json"
    config = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(config))
    return folder


@pytest.mark.slow
def test_a_fine_tuned_models_context_and_length_hold(
    finished, data_dir, tmp_path, caplog
):
    """Another context is an error, another length a warning."""
    flags = only(flags_for(finished, data_dir, tmp_path), do_predict=True)
    line = scripts.error_of(run_ner, **flags, document_context=True)
    assert "--document_context=True, but the model was trained with" in line
    assert "document_context=False: leave the flag out" in line
    assert "max_seq_length" not in caplog.text
    flags |= {"max_seq_length": 16, "document_context": False}
    scripts.run(run_ner, **flags)
    assert (
        "--max_seq_length=16; the model was fine-tuned with 32" in caplog.text
    )


@pytest.mark.slow
def test_json_lines_with_documents(finished, data_dir, tmp_path, caplog):
    """The neighbours are in the window; the answer is the sentence's own."""
    test = tmp_path / "test.jsonl"
    rows = [
        {"tokens": ["ann", "saw", "rome"], "document": 1},
        {"tokens": ["oslo"] * 70, "document": 1},
        {"tokens": ["bob"], "document": 2},
    ]
    test.write_text("".join(json.dumps(row) + "\n" for row in rows))
    model = fine_tuned_with(finished, tmp_path / "model", document_context=True)
    flags = flags_for(model, data_dir, tmp_path, test_file=str(test))
    del flags["max_seq_length"]
    scripts.run(run_ner, **only(flags, do_predict=True))
    text = (tmp_path / "predictions.jsonl").read_text()
    found = [json.loads(line) for line in text.splitlines()]
    assert [len(x["predicted_tags"]) for x in found] == [3, 70, 1]
    assert found[0]["predicted_tags"] == ["B-PER", "O", "B-LOC"]
    assert found[2]["predicted_tags"] == ["B-PER"]
    assert set(found[1]["predicted_tags"]) <= {"B-LOC", "I-LOC"}
    path = str(tmp_path / "predict.tf_record")
    lengths = [
        sum(
            tf.train.Example.FromString(x.numpy())
            .features.feature["input_mask"]
            .int64_list.value
        )
        for x in tf.data.TFRecordDataset(path)
    ]
    assert set(lengths[:-1]) == {32} and lengths[-1] == 3


# --- SavedModel --------------------------------------------------------------


@pytest.mark.slow
def test_saved_model_gives_the_predictions(finished, data_dir, tmp_path):
    pytest.importorskip("tensorflow_text")
    flags = flags_for(finished, data_dir, tmp_path)
    scripts.run(run_ner, **only(flags, do_export=True))
    loaded = tf.saved_model.load(str(tmp_path / "saved_model" / "1"))
    check_served(loaded.signatures, finished)
    ids = [[VOCAB.index(t) for t in ("[CLS]", "ann", "saw", "rome", "[SEP]")]]
    ones = [[1] * 5]
    found = loaded.signatures["ids"](
        input_ids=tf.constant(ids),
        input_mask=tf.constant(ones),
        segment_ids=tf.constant([[0] * 5]),
    )
    tags = found["tags"].numpy().astype(str)[0, 1:4].tolist()
    assert ner_data.normalized_tags(tags) == ["B-PER", "O", "B-LOC"]
    nothing = loaded.signatures["words"](words=tf.constant([["", ""]]))
    assert nothing["tags"].numpy().tolist() == [[b"", b""]]
    nothing = loaded.signatures["serving_default"](text=tf.constant(["", " "]))
    assert nothing["tags"].shape == (2, 0)


# --- Sweeps ------------------------------------------------------------------


@pytest.mark.slow
def test_a_sweep_keeps_the_best_f1(model_dir, data_dir, tmp_path):
    flags = flags_for(model_dir, data_dir, tmp_path, num_train_epochs=1)
    flags |= {"sweep_learning_rates": "0.01", "do_predict": True}
    assert scripts.run(run_ner, **flags) == 0
    lines = (tmp_path / "sweep_results.txt").read_text().splitlines()
    assert lines[1].startswith("lr0.01_seed12345 ")
    assert lines[2].startswith("f1: best")
    assert (tmp_path / "predictions.txt").exists()


# --- Errors ------------------------------------------------------------------


def test_data_are_read_before_training(
    model_dir, data_dir, tmp_path, monkeypatch
):
    """The files of every job that is asked for, in a sweep too."""
    monkeypatch.setattr(runner, "train", lambda *_: pytest.fail("trained"))
    monkeypatch.setattr(
        sweeps, "run_all", lambda *_: pytest.fail("began a sweep")
    )
    bad = tmp_path / "bad.txt"
    bad.write_text("ann B-PER\nrome\n")
    flags = flags_for(model_dir, data_dir, tmp_path / "out")
    for changes in (
        {"dev_file": str(bad)},
        {"dev_file": str(bad), "do_eval": False, "eval_steps": 5},
        {"test_file": str(bad), "do_predict": True},
        {"test_file": str(bad), "do_predict": True, "num_restarts": 2},
    ):
        line = scripts.error_of(run_ner, **flags | changes)
        assert "bad.txt, line 2: 1 columns, wanted 2" in line


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"do_train": False, "do_eval": False}, "give --do_train"),
        ({"train_file": None}, "--do_train needs --train_file"),
        ({"dev_file": None}, "--do_eval needs --dev_file"),
        (
            {"dev_file": None, "do_eval": False, "eval_steps": 5},
            "--eval_steps needs --dev_file",
        ),
        ({"do_predict": True, "test_file": None}, "--do_predict needs"),
        ({"train_file": "/nowhere"}, "--train_file=/nowhere: no such file"),
        ({"test_file": "/nowhere"}, "--test_file=/nowhere: no such file"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        ({"init_checkpoint": None}, "--bert_config_file is required"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"token_column": 2}, "line 3: 2 columns, --token_column=2 is none"),
        ({"label_column": 0}, "--label_column are both 0: word and tag"),
        ({"label_column": 5}, "--label_column=5 is none of them"),
        ({"train_batch_size": 1000, "num_train_epochs": 0.1}, "make no step"),
        ({"early_stopping_patience": 2}, "needs --eval_steps"),
        ({"do_train": False}, "is not a fine-tuned tagger"),
        ({"feature_layers": "last"}, "--feature_layers is for"),
        ({"lstm_units": 3}, "--lstm_units is for --feature_based"),
        ({"feature_based": True}, "the model has 1 layers, which allow emb"),
        (
            {"feature_based": True, "init_checkpoint": None},
            "--feature_based needs --init_checkpoint",
        ),
        pytest.param(
            {
                "feature_based": True,
                "feature_layers": "last",
                "records_dir": "file:///tmp/run_ner_remote",
            },
            "name a local --records_dir",
            marks=pytest.mark.slow,
        ),
    ],
    ids=str,
)
def test_flags_that_cannot_work(model_dir, data_dir, tmp_path, changes, words):
    flags = flags_for(model_dir, data_dir, tmp_path / "out") | changes
    line = scripts.error_of(run_ner, **flags)
    assert words in line, line


@pytest.mark.slow
def test_outputs_that_are_not_numbers_are_an_error(
    finished, data_dir, tmp_path
):
    """A score or an answer made of them would look like any other."""
    fine_tuned_models.check_damage_is_found(
        run_ner,
        finished,
        tmp_path,
        lambda model, out: flags_for(model, data_dir, out, do_train=False),
        {"do_eval": "dev_file", "do_predict": "test_file"},
    )
