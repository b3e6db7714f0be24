"""Batches of records in memory: complete, ordered by seed, little padding."""

from pathlib import Path

from base import file_system

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from records import in_memory, streaming, tfrecord
from records.in_memory import WINDOW, BatchPlan
from records.lengths import bucket_lengths
from tasks import rows

FULL = 40


def test_lengths_end_with_the_longest():
    assert bucket_lengths(128) == [16, 32, 48, 64, 96, 128]
    assert bucket_lengths(10) == [10]
    assert bucket_lengths(40) == [16, 32, 40]
    assert bucket_lengths(128, pad_to_max_length=True) == [128]
    fine = bucket_lengths(30, is_fine=True)
    assert fine == [8, 16, 24, 30]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, FULL), min_size=1, max_size=300),
    st.integers(1, 9),
    st.integers(0, 5),
)
def test_each_window_holds_its_part_of_the_epochs(lengths, size, seed):
    """WINDOW batches hold what WINDOW unsorted ones would, each fitting."""
    buckets = bucket_lengths(FULL)
    lengths = np.array(lengths)
    plan = BatchPlan(lengths, size, buckets, seed)
    batches = [plan.batch(step) for step in range(WINDOW)]
    assert {len(batch) for batch in batches} == {size}
    counts = np.bincount(np.concatenate(batches), minlength=len(lengths))
    epochs = WINDOW * size // len(lengths)
    assert set(counts) <= {epochs, epochs + 1}
    for step, batch in enumerate(batches):
        longest = lengths[batch].max()
        fitting = [bucket for bucket in buckets if bucket >= longest]
        assert plan.length(step) == fitting[0]


def test_order_depends_on_seed_and_step_alone():
    lengths = np.random.default_rng(0).integers(1, FULL, 500)
    buckets = bucket_lengths(FULL)
    first, again, other = (BatchPlan(lengths, 8, buckets, s) for s in (1, 1, 2))
    for step in (130, 3, 62, 0):  # in any order
        np.testing.assert_array_equal(first.batch(step), again.batch(step))
    assert any((first.batch(s) != other.batch(s)).any() for s in range(9))
    # Label-sorted data come out mixed: the mean index of a batch is no trend.
    means = [first.batch(step).mean() for step in range(60)]
    assert abs(np.corrcoef(means, range(60))[0, 1]) < 0.5


def test_sorting_saves_padding():
    lengths = np.random.default_rng(0).integers(5, 41, 4000)
    plan = BatchPlan(lengths, 32, bucket_lengths(128), 0)
    padded = sum(plan.length(step) * 32 for step in range(100))
    real = sum(lengths[plan.batch(step)].sum() for step in range(100))
    # To 48 at most, where 128 is the full length and 23 the mean.
    assert real / padded > 0.7


def test_without_buckets_the_order_is_a_plain_shuffle():
    lengths = np.arange(1, 301)
    plan = BatchPlan(lengths, 10, [300], 7)
    epoch = np.random.default_rng([7, 0]).permutation(300)
    found = np.concatenate([plan.batch(step) for step in range(30)])
    np.testing.assert_array_equal(found, epoch)
    assert plan.length(0) == 300


# --- Records -----------------------------------------------------------------


def write_records(path: Path, count: int = 70) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    lengths = rng.integers(2, FULL + 1, count)
    mask = (np.arange(FULL) < lengths[:, None]).astype(np.int64)
    features = {
        "input_ids": rng.integers(1, 90, [count, FULL]) * mask,
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, [count, FULL]) * mask,
        "label_ids": np.arange(count),
        "is_real_example": np.ones([count], np.int64),
    }
    with file_system.atomic_file(str(path)) as file:
        with tfrecord.RecordWriter(file) as writer:
            writer.write_examples(features)
    return features


def load(path: Path, pad_to_max_length: bool = False) -> in_memory.ShortRecords:
    return in_memory.ShortRecords.read(
        [str(path)],
        rows.schema(FULL, label_ids="int64", is_real_example="int64"),
        {"input_ids": streaming.Bound(90, "vocabulary")},
        {"input_ids": "max_seq_length"},
        pad_to_max_length,
    )


def test_records_come_back_as_written(tmp_path):
    features = write_records(tmp_path / "r")
    data = load(tmp_path / "r")
    assert data.num_records == 70
    np.testing.assert_array_equal(
        data.lengths, features["input_mask"].sum(axis=1)
    )
    rows = np.flatnonzero(data.lengths <= 24)
    batch = data.gather(rows, 24)
    np.testing.assert_array_equal(batch["label_ids"], rows)
    for name in ("input_ids", "input_mask", "segment_ids"):
        assert batch[name].dtype == np.int32
        np.testing.assert_array_equal(batch[name], features[name][rows, :24])


@pytest.mark.parametrize(
    "pad_to_max_length, is_fine", [(False, False), (False, True), (True, False)]
)
def test_training_batches_follow_the_plan(tmp_path, pad_to_max_length, is_fine):
    write_records(tmp_path / "r")
    data = load(tmp_path / "r", pad_to_max_length)
    batches = data.training(8, seed=5, is_fine=is_fine)
    assert (len(batches.plan.buckets) == 1) == pad_to_max_length
    coarse = data.training(8, seed=5)  # the same records in every batch
    np.testing.assert_array_equal(batches.plan.batch(9), coarse.plan.batch(9))
    assert batches.length(9) <= coarse.length(9)
    dataset = batches.make(3 * 8, tf.distribute.InputContext(1, 0, 1))
    for step, batch in enumerate(dataset.take(57).as_numpy_iterator(), 3):
        rows = batches.plan.batch(step)
        np.testing.assert_array_equal(batch["label_ids"], rows)
        assert batch["input_ids"].shape == (8, batches.length(step))


def test_devices_share_a_batch(tmp_path):
    write_records(tmp_path / "r")
    batches = load(tmp_path / "r").training(8, seed=5)
    whole = next(
        batches.make(0, tf.distribute.InputContext(1, 0, 1)).as_numpy_iterator()
    )
    parts = []
    for worker in range(2):
        context = tf.distribute.InputContext(2, worker, 4)
        dataset = batches.make(0, context).take(2)
        parts += [part["label_ids"] for part in dataset.as_numpy_iterator()]
    np.testing.assert_array_equal(np.concatenate(parts), whole["label_ids"])
