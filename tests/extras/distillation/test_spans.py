"""Distillation on SQuAD: targets over the tokens of windows, loss, errors."""

from pathlib import Path

import fine_tuned_models
import numpy as np
import pytest
import scripts
import squad_runs
import tensorflow as tf
import tiny

from checkpoints import weight_files
from extras.distillation import teachers
from extras.distillation.spans import SpanDistillation
from tasks.squad import model as squad_model

INPUTS = ("input_ids", "input_mask", "segment_ids")

run_squad = scripts.load("run_squad")


@pytest.fixture(scope="module")
def places(tmp_path_factory) -> Path:
    """Data, a model to train, and a teacher."""
    folder = squad_runs.write_data(tmp_path_factory.mktemp("data"))
    fine_tuned_models.write_reader(
        folder / "teacher", squad_runs.CONFIG, squad_runs.VOCAB
    )
    return folder


def flags_of(places: Path, out: Path, **more) -> dict:
    return squad_runs.flags_for(
        places, out, **{"teacher_checkpoint": places / "teacher"} | more
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
        wanted = teachers.mean_probabilities([logits.numpy()], 2.0)
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
    options = teachers.Options((), 1.0, 0.25)
    objective = SpanDistillation(None, options).objective()
    sums = objective.forward(lambda *_: tf.constant(logits), batch, None)
    assert set(sums) == set(objective.names)
    wrong, right = np.log(1 + np.exp(1.0)), np.log(1 + np.exp(-1.0))
    soft = ((wrong + right) / 2 + np.log(2.0)) / 2
    label = (right + np.log(2.0)) / 2
    np.testing.assert_allclose(sums["soft_loss"], (soft, 1.0), rtol=1e-5)
    np.testing.assert_allclose(sums["label_loss"], (label, 1.0), rtol=1e-5)
    weights = objective.loss_weights(batch)
    loss = objective.total_loss({n: sums[n][0] for n in weights}, weights)
    np.testing.assert_allclose(loss, 0.25 * soft + 0.75 * label, 1e-5)


def test_what_cannot_teach(places, tmp_path):
    def changed(name: str, **keys) -> Path:
        return fine_tuned_models.changed(
            places / "teacher", tmp_path / name, **keys
        )

    words = [*tiny.SPECIAL, *squad_runs.VOCAB[:4:-1]]
    other = fine_tuned_models.write_reader(
        tmp_path / "other", squad_runs.CONFIG, words
    )
    for teacher, text in (
        (other, "has another vocabulary than the student"),
        (
            changed("v2", version_2_with_negative=True),
            "was fine-tuned with version_2_with_negative=True, this run has F",
        ),
        (
            changed("small", max_position_embeddings=16, max_seq_length=16),
            "has 16 positions, fewer than --max_seq_length=32",
        ),
    ):
        flags = flags_of(places, tmp_path / "out", teacher_checkpoint=teacher)
        line = scripts.error_of(run_squad, **flags)
        assert text in line, line
    flags = flags_of(places, tmp_path / "out", predictions_file="x.json")
    flags |= {"do_train": False, "do_eval": False}
    line = scripts.error_of(run_squad, **flags)
    assert "--predictions_file or --teacher_checkpoint, not both" in line
