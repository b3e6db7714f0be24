"""Which tokens skip the middle layers in pre-training."""

import numpy as np
import packed_batches
import pytest
import tensorflow as tf

from pretraining import dropping


def test_number_of_tokens_by_hand():
    assert dropping.num_kept(64, 10, 0.5) == 37
    assert dropping.num_kept(64, 10, 0.0) == 64


@pytest.mark.parametrize("kind", [0, 1])
def test_marks_and_predictions_stay(kind):
    """Also where no more tokens stay than these; then padding goes first."""
    features = packed_batches.both(200)[kind]
    batch = packed_batches.batch_of(features)
    rows = len(features["input_ids"])
    numbers = tf.range(rows, dtype=tf.int64)
    ids = features["input_ids"]
    needed = (ids == 2) | (ids == 3)  # [CLS] and [SEP]
    row = np.arange(rows)[:, None]
    used = np.where(features["masked_lm_weights"] > 0, 1, 0)
    predicted = np.zeros_like(ids)
    np.add.at(predicted, (row, features["masked_lm_positions"]), used)
    needed |= predicted > 0
    count = int(needed.sum(axis=1).max())
    for size in (count, count + 4, packed_batches.LENGTH):
        kept = dropping.kept_positions(batch, numbers, 7, size).numpy()
        assert (np.diff(kept, axis=1) > 0).all()
        stays = np.zeros(ids.shape, bool)
        np.put_along_axis(stays, kept, True, axis=1)
        assert (stays | ~needed).all()
        is_short = features["input_mask"].sum(axis=1) <= size
        assert (stays | ~(features["input_mask"] > 0))[is_short].all()
        is_long = ~is_short
        assert (stays <= (features["input_mask"] > 0))[is_long].all()


def test_tokens_depend_on_seed_and_number_and_are_dropped_alike():
    features = packed_batches.both(40)[0]
    length = packed_batches.LENGTH
    one = {k: np.repeat(v[:1], 20_000, axis=0) for k, v in features.items()}
    one["input_mask"] = np.ones_like(one["input_mask"])
    one["segment_ids"] = np.repeat(np.arange(2), length // 2)[None] * np.ones(
        [20_000, 1], int
    )
    batch = packed_batches.batch_of(one)
    numbers = tf.range(20_000, dtype=tf.int64) + 2**35
    kept = dropping.kept_positions(batch, numbers, 7, 20).numpy()
    part = {name: value[100:300] for name, value in batch.items()}
    again = dropping.kept_positions(part, numbers[100:300], 7, 20).numpy()
    np.testing.assert_array_equal(again, kept[100:300])
    other = dropping.kept_positions(batch, numbers, 8, 20).numpy()
    assert (other == kept).all(axis=1).mean() < 0.01
    counts = np.bincount(kept.ravel(), minlength=length)
    free = counts[counts < 20_000]
    share = free.sum() / 20_000 / len(free)
    deviation = np.sqrt(20_000 * share * (1 - share))
    assert np.abs(free - 20_000 * share).max() < 5 * deviation
