"""run_swag.py as a user runs it, on questions a tiny model can learn."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import fine_tuned_models
import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
from paths import ROOT
from swag_runs import (
    CONFIG,
    VOCAB,
    csv_lines,
    flags_for,
    questions,
    write_data,
)

from checkpoints import weight_files
from finetuning import runner
from modeling import BertConfig
from records import tfrecord
from tasks import heads, saved_model
from tasks.swag import model as swag_model

run_swag = scripts.load("run_swag")
convert_checkpoint = scripts.load("convert_checkpoint")
export_saved_model = scripts.load("export_saved_model")

# Runs the script on two logical devices.
TWO_DEVICES = """
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    [tf.config.LogicalDeviceConfiguration()] * 2,
)
import run_swag
from base import errors
errors.run(run_swag.main)
"""


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory) -> Path:
    """An encoder with weights, vocabulary and configuration beside them."""
    # As of a classifier, whose labels are not this task's.
    other = BertConfig.from_dict(CONFIG.to_dict() | {"id2label": {"0": "x"}})
    return tiny.write_model(tmp_path_factory.mktemp("model"), other, VOCAB)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


def table_of(path: Path) -> np.ndarray:
    rows = path.read_text().splitlines()
    return np.array([[float(p) for p in row.split("\t")] for row in rows])


def values_of(prefix: Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(prefix))
    names = reader.get_variable_to_shape_map()
    return {name: reader.get_tensor(name) for name in names}


@pytest.fixture(scope="module")
def finished(model_dir, data_dir, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    flags = flags_for(model_dir, data_dir, out)
    flags |= {"do_predict": True, "do_export": True}
    assert scripts.run(run_swag, **flags) == 0
    return out


def fine_tuned(folder: Path) -> swag_model.BertForMultipleChoice:
    model = swag_model.BertForMultipleChoice(CONFIG)
    weight_files.restore_weights(model.variables, str(folder), required="")
    return model


def probabilities_by_hand(model, context: str, endings: list) -> np.ndarray:
    """Softmax over the scores of single sequences, nothing padded."""
    scores = []
    for ending in endings:
        a, b = context.split(), ["he", *ending.split()]
        ids = [VOCAB.index(t) for t in ["[CLS]", *a, "[SEP]", *b, "[SEP]"]]
        segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
        features = {
            "input_ids": tf.constant([ids]),
            "segment_ids": tf.constant([segments]),
        }
        scores.append(model(features).numpy()[0])
    scores = np.exp(np.array(scores, np.float64) - max(scores))
    return scores / scores.sum()


def strings() -> dict[str, tf.Tensor]:
    """Return the test questions as inputs of a SavedModel."""
    rows = questions(21, 3)
    choices = [[f"he {e}" for e in endings] for _, endings, _ in rows]
    context = [context for context, _, _ in rows]
    return {"context": tf.constant(context), "choices": tf.constant(choices)}


# --- Results -----------------------------------------------------------------


@pytest.mark.slow
def test_a_run_learns_and_writes_its_scores(finished):
    results = tiny.results_of(finished)
    header, *wrong = (finished / "errors.tsv").read_text().splitlines()
    assert header.startswith("guid\ttruth\tprediction\tconfidence")
    assert len(wrong) == round(40 * (1 - results["accuracy"]))
    assert set(results) == {
        *("accuracy", "eval_accuracy", "eval_loss", "loss", "global_step")
    }
    assert results["eval_accuracy"] > 0.9
    assert results["accuracy"] == results["eval_accuracy"]
    assert results["global_step"] == int(120 / 8 * 6)
    config = json.loads((finished / "bert_config.json").read_text())
    assert config["task"] == "multiple_choice" and "id2label" not in config


@pytest.mark.slow
def test_scores_agree_with_every_question_by_hand(finished):
    model, rows = fine_tuned(finished), questions(40, 2)
    probs = [probabilities_by_hand(model, c, e) for c, e, _ in rows]
    right = [p[label] for p, (_, _, label) in zip(probs, rows, strict=True)]
    results = tiny.results_of(finished)
    np.testing.assert_allclose(
        results["eval_loss"], -np.log(right).mean(), 1e-4
    )
    answers = np.argmax(probs, axis=1)
    accuracy = np.mean(answers == [label for _, _, label in rows])
    np.testing.assert_allclose(results["eval_accuracy"], accuracy)


@pytest.mark.slow
def test_predictions_agree_with_every_question_by_hand(finished):
    """Probabilities, answers and weights agree with each other."""
    probs = table_of(finished / "test_results.tsv")
    assert probs.shape == (21, 3)
    header, *lines = (finished / "test.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    for number, line in enumerate(lines):
        assert line == f"{number}\t{probs[number].argmax()}"
    model = fine_tuned(finished)
    for row, (context, endings, _) in zip(probs, questions(21, 3), strict=True):
        wanted = probabilities_by_hand(model, context, endings)
        np.testing.assert_allclose(row, wanted, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_saved_model_gives_the_predictions(finished):
    """Strings in, or ids."""
    probs = table_of(finished / "test_results.tsv")
    folder = finished / "saved_model" / "1"
    signatures = tf.saved_model.load(str(folder)).signatures
    found = signatures["serving_default"](**strings())
    np.testing.assert_allclose(found["probabilities"], probs, atol=1e-5)
    np.testing.assert_array_equal(found["answer"], probs.argmax(axis=1))
    ids = tf.constant([[[2, 7, 3, 14, 5, 3], [2, 7, 3, 14, 6, 3]]])
    segments = tf.constant([[[0, 0, 0, 1, 1, 1]] * 2])
    found = signatures["ids"](
        input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=segments
    )
    wanted = probabilities_by_hand(
        fine_tuned(finished), "film", ["good", "bad"]
    )
    np.testing.assert_allclose(found["probabilities"][0], wanted, atol=1e-5)


@pytest.mark.slow
def test_export_saved_model_recognizes_the_task(
    finished, tmp_path, monkeypatch
):
    """By `task` of the configuration; the shape is a regression's too."""
    exports = []
    monkeypatch.setattr(saved_model, "write", lambda e, *_: exports.append(e))
    flags = {
        "init_checkpoint": str(finished),
        "export_dir": str(tmp_path / "1"),
    }
    scripts.run(export_saved_model, **flags)
    (export,) = exports
    context, endings, _ = questions(21, 3)[0]
    found = export.answers(
        export.features(
            tf.constant([context]), tf.constant([[f"he {e}" for e in endings]])
        )
    )
    wanted = table_of(finished / "test_results.tsv")[0]
    np.testing.assert_allclose(found["probabilities"][0], wanted, atol=1e-5)


@pytest.mark.slow
def test_padding_and_batches_change_nothing(finished, data_dir, tmp_path):
    wanted = table_of(finished / "test_results.tsv")
    for name, more in {
        "padded": {"pad_to_max_length": True},
        "other": {"predict_batch_size": 5},
    }.items():
        out = tmp_path / name
        flags = flags_for(finished, data_dir, out, do_train=False, **more)
        flags |= {"do_eval": False, "do_predict": True}
        scripts.run(run_swag, **flags)
        found = table_of(out / "test_results.tsv")
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.slow
def test_a_fine_tuned_models_length_holds(model_dir, data_dir, tmp_path):
    """Without the flag, the same scores of windows as long as in training."""
    first, second = tmp_path / "first", tmp_path / "second"
    flags = flags_for(model_dir, data_dir, first, max_seq_length=24)
    scripts.run(run_swag, **flags | {"num_train_epochs": 0.2})
    config = json.loads((first / "bert_config.json").read_text())
    assert config["max_seq_length"] == 24
    flags = flags_for(first, data_dir, second, do_train=False)
    del flags["max_seq_length"]
    assert scripts.run(run_swag, **flags) == 0
    assert tiny.results_of(second) == tiny.results_of(first)
    for record in tfrecord.read_records(str(second / "eval.tf_record")):
        assert len(tfrecord.decode_example(record)["input_ids"]) == 24


@pytest.mark.slow
def test_two_choices_in_json_lines(finished, tmp_path):
    """A fine-tuned model answers questions with another number of choices."""
    lines = [
        {"context": "film", "choices": ["good", "bad"], "label": 0},
        {"context": "book", "choices": ["very bad", "good"], "label": 1},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / "dev.jsonl").write_text(text)
    flags = flags_for(finished, tmp_path, tmp_path / "out", do_train=False)
    assert scripts.run(run_swag, **flags) == 0
    assert tiny.results_of(tmp_path / "out")["eval_accuracy"] == 1.0


@pytest.mark.slow
def test_a_finished_run_is_not_repeated(finished, model_dir, data_dir, caplog):
    before = values_of(finished / "bert_model.ckpt")
    with caplog.at_level("INFO", logger="absl"):
        flags = flags_for(model_dir, data_dir, finished)
        assert scripts.run(run_swag, **flags) == 0
    assert "holds a finished run of 90 steps" in caplog.text
    assert "Reusing" in caplog.text
    for name, value in values_of(finished / "bert_model.ckpt").items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.slow
def test_export_of_a_finished_run(finished, model_dir, data_dir, caplog):
    """Nor is its export; without --do_train that is an error."""
    flags = flags_for(model_dir, data_dir, finished, do_eval=False)
    flags |= {"do_export": True}
    file = finished / "saved_model" / "1" / "saved_model.pb"
    before = file.stat().st_mtime_ns
    with caplog.at_level("INFO", logger="absl"):
        assert scripts.run(run_swag, **flags) == 0
    words = f"saved_model/1 exists already and holds the weights of {finished}"
    assert f"{words}/bert_model.ckpt: not written again" in caplog.text
    assert file.stat().st_mtime_ns == before
    flags["do_train"] = False
    assert "exists already" in scripts.error_of(run_swag, **flags)


@pytest.mark.slow
def test_an_export_of_older_weights_is_an_error(
    finished, model_dir, data_dir, tmp_path
):
    """The run was trained on; the command with a new directory goes on."""
    out = tmp_path / "out"
    shutil.copytree(finished, out)
    flags = flags_for(model_dir, data_dir, out, num_train_epochs=7)
    flags |= {"do_predict": True, "do_export": True}
    old, new = (out / "saved_model" / number for number in "12")
    before = (old / "saved_model.pb").read_bytes()
    line = scripts.error_of(run_swag, **flags)
    what = f"--export_dir={old} holds the SavedModel of other weights than"
    assert line.startswith(f"{what} {out}/bert_model.ckpt: ")
    assert f"such as --export_dir={new}, or remove it" in line
    assert (old / "saved_model.pb").read_bytes() == before
    steps = int(120 / 8 * 7)
    assert tiny.results_of(out)["global_step"] == steps  # is scored
    flags["export_dir"] = str(new)
    assert scripts.run(run_swag, **flags) == 0
    signatures = tf.saved_model.load(str(new)).signatures
    found = signatures["serving_default"](**strings())["probabilities"]
    probs = table_of(out / "test_results.tsv")
    np.testing.assert_allclose(found, probs, atol=1e-5)


def test_an_export_of_another_run_is_not_replaced(
    model_dir, data_dir, tmp_path
):
    """Nothing is fine-tuned yet, so the existing export is not of this run."""
    flags = flags_for(model_dir, data_dir, tmp_path / "out")
    flags |= {"do_export": True, "export_dir": str(tmp_path)}
    assert "exists already" in scripts.error_of(run_swag, **flags)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.parametrize("task", [None, "token_classification"])
def test_a_head_of_another_task_is_refused(finished, data_dir, tmp_path, task):
    """Of the same shape: a regression's, a tagger's of one tag."""
    other = tmp_path / "other"
    shutil.copytree(finished, other, ignore=lambda *_: ["saved_model"])
    path = other / "bert_config.json"
    config = json.loads(path.read_text()) | {"task": task}
    path.write_text(json.dumps({k: v for k, v in config.items() if v}))
    flags = flags_for(other, data_dir, tmp_path / "out", do_train=False)
    line = scripts.error_of(run_swag, **flags)
    assert "was fine-tuned on another task" in line
    assert f"is {task or 'not set'}, this script needs multiple_ch" in line


@pytest.mark.slow
def test_a_configuration_without_a_task_is_accepted_as_a_flag(
    finished, data_dir, tmp_path
):
    """An encoder's file has no `task`; the one beside the weights counts."""
    path = tmp_path / "bert_config.json"
    path.write_text(CONFIG.to_json_string())
    flags = flags_for(finished, data_dir, tmp_path / "out", do_train=False)
    assert scripts.run(run_swag, **flags, bert_config_file=str(path)) == 0


@pytest.mark.slow
def test_best_weights_and_early_stopping(model_dir, data_dir, tmp_path):
    flags = flags_for(model_dir, data_dir, tmp_path, learning_rate=0.0)
    flags |= {"eval_steps": 5, "early_stopping_patience": 1}
    assert scripts.run(run_swag, **flags) == 0
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert list(scores) == ["5", "10"]
    assert tiny.results_of(tmp_path)["global_step"] == 5


@pytest.mark.slow
def test_hugging_face_there_and_back(finished, tmp_path):
    """As BertForMultipleChoice; `classifier.weight` is output_weights."""
    import safetensors.numpy

    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    scripts.run(
        convert_checkpoint,
        input=str(finished),
        output=str(theirs),
        output_format="huggingface",
    )
    config = json.loads((theirs / "config.json").read_text())
    assert config["architectures"] == ["BertForMultipleChoice"]
    tensors = safetensors.numpy.load_file(theirs / "model.safetensors")
    assert tensors["classifier.weight"].shape == (1, 16)
    scripts.run(
        convert_checkpoint,
        input=str(theirs),
        output=str(ours),
        output_format="original",
    )
    before = values_of(finished / "bert_model.ckpt")
    for name, value in values_of(ours / "bert_model.ckpt").items():
        np.testing.assert_array_equal(value, before[name])


# --- The step ----------------------------------------------------------------


@pytest.mark.slow
def test_devices_and_micro_batches_keep_questions_whole(
    data_dir, tmp_path, monkeypatch
):
    """Without dropout the same weights, however a step is split."""
    folder = tmp_path / "model"
    folder.mkdir()
    config = BertConfig.from_dict(
        CONFIG.to_dict()
        | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    )
    tiny.write_model(folder, config, VOCAB)
    flags = flags_for(folder, data_dir, tmp_path / "whole", do_eval=False)
    flags["num_train_epochs"] = 0.3
    monkeypatch.setattr(heads, "_CLASSIFIER_DROPOUT", 0.0)
    scripts.run(run_swag, **flags)
    flags["output_dir"] = str(tmp_path / "split")
    flags["gradient_accumulation_steps"] = 2  # on each of two devices
    code = (
        "from tasks import heads; heads._CLASSIFIER_DROPOUT = 0.0\n"
        f"{TWO_DEVICES}"
    )
    arguments = [f"--{name}={value}" for name, value in flags.items()]
    subprocess.run(
        [sys.executable, "-c", code, *arguments],
        check=True,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
    )
    start = values_of(folder / "bert_model.ckpt")
    found = values_of(tmp_path / "split" / "bert_model.ckpt")
    whole = values_of(tmp_path / "whole" / "bert_model.ckpt")
    name = "bert/pooler/dense/kernel"
    assert np.abs(whole[name] - start[name]).max() > 1e-3
    for name, value in whole.items():
        # No softmax sees a bias all choices share: its gradient is the
        # rounding error of zero, which Adam makes a step of.
        if name != "output_bias":
            np.testing.assert_allclose(
                found[name], value, rtol=0, atol=2e-5, err_msg=name
            )


# --- Errors ------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"do_train": False, "do_eval": False}, "give --do_train"),
        ({"data_dir": None}, "--data_dir is required"),
        ({"data_dir": "/nowhere"}, "--data_dir=/nowhere is not a directory"),
        ({"data_dir": "/proc/self"}, "holds no train.csv or train.jsonl"),
        ({"output_dir": None}, "--output_dir is required"),
        ({"init_checkpoint": "/nowhere"}, "no such checkpoint"),
        (
            {"init_checkpoint": None},
            "--bert_config_file is required without a checkpoint",
        ),
        ({"bert_config_file": "/nowhere"}, "/nowhere: cannot be read"),
        ({"vocab_file": "/nowhere"}, "cannot read the vocabulary"),
        ({"max_seq_length": 65}, "max_position_embeddings=64"),
        ({"train_batch_size": 1000, "num_train_epochs": 0.1}, "make no step"),
        ({"early_stopping_patience": 2}, "needs --eval_steps"),
        ({"gradient_accumulation_steps": 3}, "does not divide by"),
        ({"do_train": False}, "has no head for this task (output_weights)"),
        ({"num_restarts": 2, "do_train": False}, "restarts and sweeps need"),
        ({"sweep_learning_rates": "fast"}, "--sweep_learning_rates=fast"),
    ],
    ids=str,
)
def test_flags_that_cannot_work(model_dir, data_dir, tmp_path, changes, words):
    flags = flags_for(model_dir, data_dir, tmp_path / "out") | changes
    line = scripts.error_of(run_swag, **flags)
    assert words in line, line


def test_bad_data_end_in_one_line(model_dir, tmp_path):
    """With file and line; no records are left."""
    rows = questions(4, 1)
    lines = csv_lines(rows).replace(f",{rows[2][2]}\n", ",9\n")
    (tmp_path / "train.csv").write_text(lines)
    (tmp_path / "val.csv").write_text(csv_lines(rows))
    flags = flags_for(model_dir, tmp_path, tmp_path / "out")
    line = scripts.error_of(run_swag, **flags)
    assert "train.csv, line " in line and "label 9 is none of the 3" in line
    assert not (tmp_path / "out").exists()
    line = scripts.error_of(run_swag, **flags | {"num_restarts": 2})
    assert "train.csv, line " in line and "label 9 is none of the 3" in line
    assert not (tmp_path / "out").exists()


def test_data_are_read_before_training(
    model_dir, data_dir, tmp_path, monkeypatch
):
    """The files of every job that is asked for."""
    monkeypatch.setattr(runner, "train", lambda *_: pytest.fail("trained"))
    for name, changes in {
        "val": {},
        "test": {"do_eval": False, "do_predict": True},
    }.items():
        folder = shutil.copytree(data_dir, tmp_path / name)
        with (folder / f"{name}.csv").open("a") as file:
            file.write("too,few\n")
        flags = flags_for(model_dir, folder, tmp_path / "out") | changes
        line = scripts.error_of(run_swag, **flags)
        assert f"{name}.csv, line " in line and "2 columns, wanted" in line


@pytest.mark.slow
def test_outputs_that_are_not_numbers_are_an_error(
    finished, data_dir, tmp_path
):
    """A score or an answer made of them would look like any other."""
    fine_tuned_models.check_damage_is_found(
        run_swag,
        finished,
        tmp_path,
        lambda model, out: flags_for(model, data_dir, out, do_train=False),
        {"do_eval": "dev", "do_predict": "test"},
    )
