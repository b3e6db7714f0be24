"""Distillation on SQuAD: targets over the tokens of windows, loss, errors."""

import json
import types
from pathlib import Path

import fine_tuned_models
import numpy as np
import prediction_runs
import pytest
import scripts
import squad_runs
import tensorflow as tf
import tiny

from checkpoints import weight_files
from extras.distillation import students
from extras.distillation.spans import SpanDistillation
from tasks.settings import DistillationFlags
from tasks.squad import model as squad_model

INPUTS = ("input_ids", "input_mask", "segment_ids")

# Of the windows of squad_runs.flags_for.
LENGTHS = {"max_seq_length": 32, "doc_stride": 12, "max_query_length": 8}

run_squad = scripts.load("run_squad")


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Path:
    """Data, a model to train, a teacher and its answers."""
    folder = squad_runs.write_data(tmp_path_factory.mktemp("data"))
    fine_tuned_models.write_reader(
        folder / "teacher", squad_runs.CONFIG, squad_runs.VOCAB
    )
    questions = questions_of(folder)
    prediction_runs.answers(
        folder / "teacher", questions, folder / "answers", **LENGTHS
    )
    return folder


def questions_of(folder: Path) -> list[dict]:
    """Return the questions to train on, as batch_predict.py reads them."""
    (article,) = squad_runs.read(folder / "train1.json")["data"]
    return [
        {"question": qa["question"], "context": paragraph["context"]}
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    ]


def flags_of(places: Path, out: Path, **more) -> dict:
    return squad_runs.flags_for(
        places, out, **{"teacher_answers": places / "answers"} | more
    )


@pytest.mark.slow
def test_every_token_has_what_the_teacher_answers(places, tmp_path):
    flags = flags_of(places, tmp_path, distillation_temperature=2.0)
    data, _ = fine_tuned_models.distilled_data(run_squad, **flags)
    targets = data.features["soft_targets"]  # [n, S, 2]
    mask = data.features["input_mask"]
    assert not targets[mask == 0].any() and (mask == 0).any()
    np.testing.assert_allclose(targets.sum(1), 1.0, rtol=1e-5)
    model = squad_model.BertForQuestionAnswering(squad_runs.CONFIG)
    prefix = str(places / "teacher" / "bert_model.ckpt")
    weight_files.restore_weights(model.variables, prefix, "")
    short = int(data.lengths.argmin())
    for row in (0, 5, short):
        size = data.lengths[row]
        features = data.gather(np.array([row]), size)
        logits = model({n: features[n] for n in INPUTS})
        wanted = students.mean_probabilities([logits.numpy()], 2.0)
        np.testing.assert_allclose(
            targets[row, :size].T, wanted[:, 0], atol=1e-5
        )
    batch = data.training(8, seed=1, is_fine=True).batch(2)
    assert batch["soft_targets"].shape == (*batch["input_ids"].shape, 2)


def test_the_loss_of_spans_by_hand():
    """Two tokens and padding, which takes no part."""
    logits = np.array([[[1, 2, 9]], [[0, 0, 9]]], np.float32)
    targets = np.array([[[0.5, 1], [0.5, 0], [0, 0]]], np.float32)
    batch = {
        "input_mask": tf.constant([[1, 1, 0]]),
        "start_positions": tf.constant([1]),
        "end_positions": tf.constant([0]),
        "soft_targets": tf.constant(targets),
    }
    options = DistillationFlags((), 1.0, 0.25)
    job = types.SimpleNamespace(settings=types.SimpleNamespace(output_dir=""))
    wrapper = SpanDistillation(job, options)
    objective = wrapper.objective(squad_model.QUESTION_ANSWERING)
    sums = objective.forward(lambda *_: tf.constant(logits), batch, None)
    assert set(sums) == set(objective.names)
    wrong, right = np.log(1 + np.exp(1.0)), np.log(1 + np.exp(-1.0))
    soft = ((wrong + right) / 2 + np.log(2.0)) / 2
    label = (right + np.log(2.0)) / 2
    np.testing.assert_allclose(sums["soft_loss"], (soft, 1.0), rtol=1e-5)
    np.testing.assert_allclose(sums["start_loss"], (right, 1.0), rtol=1e-5)
    weights = objective.loss_weights(batch)
    loss = objective.total_loss({n: sums[n][0] for n in weights}, weights)
    np.testing.assert_allclose(loss, 0.25 * soft + 0.75 * label, 1e-5)


def test_windows_without_an_answer(places, tmp_path):
    """Those of another vocabulary or length are no answers."""
    words = [*tiny.SPECIAL, *squad_runs.VOCAB[5:8]]
    other = fine_tuned_models.write_reader(
        tmp_path / "other", squad_runs.CONFIG, words
    )
    questions = questions_of(places)
    for name, model, lengths in (
        ("words", other, LENGTHS),
        ("stride", places / "teacher", LENGTHS | {"doc_stride": 11}),
    ):
        answers = prediction_runs.answers(
            model, questions, tmp_path / name, **lengths
        )
        flags = flags_of(places, tmp_path / "out", teacher_answers=answers)
        line = scripts.error_of(run_squad, **flags)
        assert " training texts have no answer, the first is {" in line
        assert "the same vocabulary and casing, --max_seq_length" in line
    asked = (tmp_path / "out" / "unanswered.jsonl").read_text().splitlines()
    # Short contexts have one window, for any stride.
    assert len(asked) < len(questions)
    assert all(json.loads(line) in questions for line in asked)


def test_damaged_windows(places, tmp_path):
    lines = prediction_runs.predictions(places / "answers")
    window = lines[0]["windows"][0]
    for windows, words in (
        (window, "'windows' is"),
        ([window | {"end_logits": [1.0]}], "the answer is no array of numbers"),
        ([window | {"end_logits": None}], "'end_logits' is None, wanted a li"),
        ([{"start_logits": []}], "no key 'digest'"),
        ([window | {n: [0.0] for n in ("start_logits", "end_logits")}], "have"),
    ):
        lines[0]["windows"] = windows
        answers = prediction_runs.write_lines(tmp_path / "a.jsonl", lines)
        flags = flags_of(places, tmp_path / "out", teacher_answers=answers)
        assert words in scripts.error_of(run_squad, **flags)
