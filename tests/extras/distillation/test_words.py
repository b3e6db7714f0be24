"""Distillation of taggers: targets word by word, loss and errors."""

import json
import types
from pathlib import Path

import exports
import fine_tuned_models
import ner_runs
import numpy as np
import prediction_runs
import pytest
import scripts
import tensorflow as tf
import tiny

from checkpoints import weight_files
from extras.distillation import students
from extras.distillation.words import TaggerDistillation
from tasks.ner import model as ner_model
from tasks.settings import DistillationFlags

run_ner = scripts.load("run_ner")

VOCAB = [*tiny.SPECIAL, *reversed(ner_runs.PIECES)]  # the teacher's
LABELS = ner_runs.LABELS[::-1]


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Path:
    """Data, a model to train, and answers of another vocabulary."""
    folder = ner_runs.write_data(tmp_path_factory.mktemp("data"))
    tiny.write_model(folder / "model", ner_runs.CONFIG, ner_runs.VOCAB)
    fine_tuned_models.write_tagger(
        folder / "teacher", ner_runs.CONFIG, VOCAB, LABELS
    )
    sentences = [
        {"tokens": [word for word, _ in sentence]}
        for sentence in ner_runs.sentences(160, 1)
    ]
    prediction_runs.answers(folder / "teacher", sentences, folder / "answers")
    return folder


def flags_of(places: Path, out: Path, **more) -> dict:
    return ner_runs.flags_for(
        places / "model",
        places,
        out,
        **{"teacher_answers": places / "answers"} | more,
    )


def teacher_logits(places: Path, words: list[str]) -> np.ndarray:
    """Return the teacher's logits for a sentence of whole words, [words, K]."""
    model = ner_model.BertForTokenClassification(ner_runs.CONFIG, len(LABELS))
    prefix = str(places / "teacher" / "bert_model.ckpt")
    weight_files.restore_weights(model.variables, prefix, "")
    ids, first = [VOCAB.index("[CLS]")], []
    for word in words:
        first.append(len(ids))
        name = word.rstrip("x")
        ids.append(VOCAB.index(name))
        ids += [VOCAB.index("##x")] * (len(word) - len(name))
    ids.append(VOCAB.index("[SEP]"))
    logits = model({"input_ids": tf.constant([ids])})[0].numpy()
    return logits[first]


@pytest.mark.slow
def test_every_word_has_what_the_teacher_answers(places, tmp_path):
    flags = flags_of(places, tmp_path, distillation_temperature=2.0)
    data, wrapper = fine_tuned_models.distilled_data(run_ner, **flags)
    job = wrapper.job
    targets = data.features["soft_targets"]  # [n, S, K]
    is_word = data.features["label_ids"] >= 0
    assert not targets[~is_word].any()
    np.testing.assert_allclose(targets[is_word].sum(-1), 1.0, rtol=1e-5)
    order = [LABELS.index(label) for label in job.labels]
    sentences = job.examples(job.train).sentences
    at = 0
    for number, sentence in enumerate(sentences):
        count = len(sentence.words)
        if number in (0, 3, 40):
            logits = teacher_logits(places, sentence.words)[:, order]
            wanted = students.mean_probabilities([logits], 2.0)
            found = targets[is_word][at : at + count]
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        at += count
    # A batch is cut to its length, the targets with it.
    batches = data.training(8, seed=1, is_fine=True)
    batch, shapes = batches.batch(2), data.signature(8, None)
    assert batch["soft_targets"].shape == (*batch["input_ids"].shape, 5)
    assert shapes["soft_targets"].shape.as_list() == [8, None, 5]
    assert (
        (batch["soft_targets"].sum(-1) > 0) == (batch["label_ids"] >= 0)
    ).all()


def test_the_loss_of_words_by_hand():
    logits = np.array([[[1, 2], [0, 0], [7, 7]]], np.float32)
    targets = np.array([[[0.5, 0.5], [1, 0], [0, 0]]], np.float32)
    batch = {
        "input_mask": tf.ones([1, 3], tf.int32),
        "label_ids": tf.constant([[1, 0, -1]]),
        "soft_targets": tf.constant(targets),
    }
    options = DistillationFlags((), 1.0, 0.25)
    job = types.SimpleNamespace(settings=types.SimpleNamespace(output_dir=""))
    wrapper = TaggerDistillation(job, options)
    objective = wrapper.objective(ner_model.WORD_CLASSIFICATION)

    class Fixed:
        loss = ner_model.BertForTokenClassification.loss

        def __call__(self, *_):
            return tf.constant(logits)

    sums = objective.forward(Fixed(), batch, None)
    assert set(sums) == set(objective.names)
    wrong, right = np.log(1 + np.exp(1.0)), np.log(1 + np.exp(-1.0))
    soft = (wrong + right) / 2 + np.log(2.0)
    label = right + np.log(2.0)
    np.testing.assert_allclose(sums["soft_loss"], (soft, 2.0), rtol=1e-6)
    np.testing.assert_allclose(sums["label_loss"], (label, 2.0), rtol=1e-6)
    weights = objective.loss_weights(batch)
    loss = objective.total_loss({n: sums[n][0] for n in weights}, weights)
    np.testing.assert_allclose(loss, (0.25 * soft + 0.75 * label) / 2, 1e-6)


@pytest.mark.nightly
def test_what_cannot_be_learned(places, tmp_path):
    """Other tags, another number of words, no answers at all."""
    lines = prediction_runs.predictions(places / "answers")
    words, shares = lines[0]["words"], lines[0]["probabilities"]
    short = {label: found[1:] for label, found in shares.items()}
    other = shares | {"B-ORG": shares["I-PER"]}
    for keys, text in (
        ({"probabilities": other}, "line 1: the teacher was fine-tuned on the"),
        ({"probabilities": short}, "line 1: the answer has [5, "),
        ({"words": words[1:]}, "line 1: the answer has [5, "),
        ({"words": [*words[1:], "zz"]}, "1 of 160 training texts have no ans"),
    ):
        path = prediction_runs.write_lines(
            tmp_path / "answers.jsonl", [lines[0] | keys, *lines[1:]]
        )
        flags = flags_of(places, tmp_path / "out", teacher_answers=path)
        line = scripts.error_of(run_ner, **flags)
        assert text in line, line
    asked = (tmp_path / "out" / "unanswered.jsonl").read_text()
    assert json.loads(asked) == {"tokens": words}
    flags = flags_of(places, tmp_path / "out", feature_based=True)
    assert "--teacher_answers" in scripts.error_of(run_ner, **flags)
    export = exports.export(places / "teacher", tmp_path / "saved")
    line = scripts.error_of(
        prediction_runs.batch_predict,
        model=export,
        input_file=tmp_path / "out" / "unanswered.jsonl",
        output_dir=tmp_path / "more",
        as_teacher=True,
    )
    assert "gives the likeliest tag alone: give the checkpoint" in line
