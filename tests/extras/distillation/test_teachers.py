"""Outputs of teachers, kept and never half-written; targets by hand."""

import math
import os
import shutil
from pathlib import Path

from base.errors import UserError

import classifier_runs
import fine_tuned_models
import numpy as np
import pytest

from extras.distillation import teachers
from records import cache as record_cache

OUTPUTS = np.arange(6, dtype=np.float32).reshape(3, 2)


@pytest.fixture(scope="module")
def fine_tuned(tmp_path_factory) -> Path:
    """A classifier with random weights, for texts of 20 tokens."""
    return fine_tuned_models.write_classifier(
        tmp_path_factory.mktemp("teacher") / "fine-tuned",
        classifier_runs.CONFIG,
        classifier_runs.VOCAB,
        ["no", "yes"],
        length=20,
    )


def test_a_teacher_keeps_its_own_length(fine_tuned, tmp_path):
    teacher = teachers.open_teacher(str(fine_tuned), max_seq_length=40)
    assert teacher.source.max_seq_length == 20
    other = fine_tuned_models.changed(
        fine_tuned, tmp_path / "other", max_seq_length=None
    )
    other = teachers.open_teacher(str(other), max_seq_length=100)
    assert other.source.max_seq_length == 64  # of its position table
    assert other.digest != teacher.digest
    assert teachers.open_teacher(str(fine_tuned), 10).digest == teacher.digest


# --- Kept outputs ------------------------------------------------------------


class Counted:
    """Outputs of a teacher that count how often they are computed."""

    def __init__(self, folder: Path, fine_tuned: Path):
        self.count, self.outputs = 0, OUTPUTS
        self.teacher = teachers.open_teacher(str(fine_tuned), 40)
        self.cache = record_cache.RecordCache(str(folder), {}, 1, False)

    def compute(self) -> np.ndarray:
        self.count += 1
        return self.outputs

    def kept(self, **fingerprint) -> np.ndarray:
        return teachers.kept_outputs(
            self.cache,
            f"train_teacher_{self.teacher.digest}",
            self.teacher.path,
            fingerprint,
            self.compute,
        )


def test_they_are_computed_once(fine_tuned, tmp_path, caplog):
    counted = Counted(tmp_path, fine_tuned)
    for _ in range(2):
        with caplog.at_level("INFO", logger="absl"):
            found = counted.kept(data="a")
        np.testing.assert_array_equal(found, OUTPUTS)
    assert counted.count == 1
    name = f"train_teacher_{counted.teacher.digest}.npy"
    assert f"Reusing {tmp_path}/{name}: same data, same flags" in caplog.text
    counted.kept(data="b")  # another text
    counted.kept(data="b")
    assert counted.count == 2
    assert sorted(os.listdir(tmp_path)) == [name, f"{name}.json"]
    # Another teacher has another file: both stay.
    other = counted.teacher._replace(
        fingerprint={**counted.teacher.fingerprint, "weights": ["x"]}
    )
    counted.teacher, first = other, counted.teacher
    counted.kept(data="b")
    counted.teacher = first
    counted.kept(data="b")
    assert counted.count == 3


def test_a_kill_while_they_are_written_leaves_nothing_to_use(
    fine_tuned, tmp_path, monkeypatch
):
    counted = Counted(tmp_path, fine_tuned)

    def save_half(file, array):
        file.write(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(np, "save", save_half)
        with pytest.raises(KeyboardInterrupt):
            counted.kept()
    assert not list(tmp_path.glob("*.npy"))
    np.testing.assert_array_equal(counted.kept(), OUTPUTS)
    assert counted.count == 2


def test_outputs_that_are_not_numbers_are_refused(fine_tuned, tmp_path):
    counted = Counted(tmp_path, fine_tuned)
    counted.outputs = OUTPUTS.copy()
    counted.outputs[1, 1] = np.nan
    with pytest.raises(UserError, match="computes nan for row 2 of train"):
        counted.kept()
    assert not list(tmp_path.glob("*.npy"))
    counted.outputs = OUTPUTS
    counted.kept()
    (path,) = tmp_path.glob("*.npy")
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UserError, match=f"{path} is damaged"):
        counted.kept()


def test_models_that_are_no_teachers(fine_tuned, tmp_path):
    shutil.copytree(fine_tuned, tmp_path / "no_vocab")
    (tmp_path / "no_vocab" / "vocab.txt").unlink()
    shutil.copytree(fine_tuned, tmp_path / "no_config")
    (tmp_path / "no_config" / "bert_config.json").unlink()
    for path, words in (
        (tmp_path / "none", "no such checkpoint"),
        (tmp_path / "no_vocab", "no vocab.txt beside"),
        (tmp_path / "no_config", "no bert_config.json beside"),
    ):
        with pytest.raises(UserError) as error:
            teachers.open_teacher(str(path), 40)
        line = str(error.value)
        assert line.startswith(f"--teacher_checkpoint={path}") and words in line


# --- Targets -----------------------------------------------------------------


def test_the_mean_of_teachers_is_one_of_probabilities():
    logits = [np.log([[1.0, 3.0], [4.0, 1.0]]), np.log([[1.0, 1.0], [1, 4]])]
    found = teachers.mean_probabilities(logits, 1.0)
    np.testing.assert_allclose(found, [[0.375, 0.625], [0.5, 0.5]], rtol=1e-6)
    assert found.dtype == np.float32
    # At temperature 2 odds of 3 and 4 become their square roots.
    share = 1.0 / (1.0 + math.sqrt(3.0))
    found = teachers.mean_probabilities(logits, 2.0)
    np.testing.assert_allclose(found[0, 0], (share + 0.5) / 2, rtol=1e-6)
    # Of tags, [words, K], and of logits whose exponentials overflow.
    large = np.array([[[1000.0, 999.0], [-1000.0, 1000.0]]])
    found = teachers.mean_probabilities([large], 1.0)
    np.testing.assert_allclose(
        found, [[[0.7310586, 0.2689414], [0.0, 1.0]]], rtol=1e-5
    )


def test_a_perfect_student_has_the_entropy_of_the_targets():
    targets = np.array([[1.0, 0.0], [0.5, 0.5]], np.float32)
    np.testing.assert_allclose(
        teachers.entropy(targets), [0.0, math.log(2.0)], rtol=1e-6
    )
