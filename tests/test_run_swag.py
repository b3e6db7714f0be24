"""run_swag.py as a user runs it, on questions a tiny model can learn."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scripts
import tensorflow as tf
import tiny
import two_devices
from swag_runs import CONFIG, VOCAB, flags_for, questions, write_data
from tiny import weights_of

from modeling import BertConfig
from training import task_model

run_swag = scripts.load("run_swag")
convert_checkpoint = scripts.load("convert_checkpoint")
export_saved_model = scripts.load("export_saved_model")


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


@pytest.fixture(scope="module")
def finished(model_dir, data_dir, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("run") / "out"
    flags = flags_for(model_dir, data_dir, out)
    flags |= {"do_predict": True, "do_export": True}
    assert scripts.run(run_swag, **flags) == 0
    return out


def strings() -> dict[str, tf.Tensor]:
    """Return the test questions as inputs of a SavedModel."""
    rows = questions(21, 3)
    choices = [[f"he {e}" for e in endings] for _, endings, _ in rows]
    context = [context for context, _, _ in rows]
    return {"context": tf.constant(context), "choices": tf.constant(choices)}


# --- Results -----------------------------------------------------------------


@pytest.mark.nightly
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


@pytest.mark.nightly
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
    assert line.endswith("a new one, such as a higher number, or remove it")
    assert (old / "saved_model.pb").read_bytes() == before
    steps = int(120 / 8 * 7)
    assert tiny.results_of(out)["global_step"] == steps  # is scored
    flags["export_dir"] = str(new)
    assert scripts.run(run_swag, **flags) == 0
    signatures = tf.saved_model.load(str(new)).signatures
    found = signatures["serving_default"](**strings())["probabilities"]
    probs = table_of(out / "test_results.tsv")
    np.testing.assert_allclose(found, probs, atol=1e-5)


@pytest.mark.nightly
def test_a_configuration_without_a_task_is_accepted_as_a_flag(
    finished, data_dir, tmp_path
):
    """An encoder's file has no `task`; the one beside the weights counts."""
    path = tmp_path / "bert_config.json"
    path.write_text(CONFIG.to_json_string())
    flags = flags_for(finished, data_dir, tmp_path / "out", do_train=False)
    assert scripts.run(run_swag, **flags, bert_config_file=str(path)) == 0


# --- The step ----------------------------------------------------------------


@pytest.mark.nightly
def test_devices_and_micro_batches_keep_questions_whole(
    data_dir, tmp_path, monkeypatch
):
    """Without dropout the same weights, however a step is split."""
    config = tiny.config_of(VOCAB, **tiny.NO_DROPOUT)
    folder = tiny.write_model(tmp_path / "model", config, VOCAB)
    flags = flags_for(folder, data_dir, tmp_path / "whole", do_eval=False)
    flags["num_train_epochs"] = 0.3
    monkeypatch.setattr(task_model, "HEAD_DROPOUT", 0.0)
    scripts.run(run_swag, **flags)
    flags["output_dir"] = str(tmp_path / "split")
    flags["gradient_accumulation_steps"] = 2  # on each of two devices
    no_dropout = "from training import task_model as m; m.HEAD_DROPOUT = 0.0"
    two_devices.run("run_swag", no_dropout, **flags)
    start, found, whole = (
        weights_of(tmp_path / run / "bert_model.ckpt")
        for run in ("model", "split", "whole")
    )
    name = "bert/pooler/dense/kernel"
    assert np.abs(whole[name] - start[name]).max() > 1e-3
    # No softmax sees a bias all choices share: its gradient is the rounding
    # error of zero, which Adam makes a step of.
    del found["output_bias"], whole["output_bias"]
    tiny.assert_same(found, whole, 2e-5)
