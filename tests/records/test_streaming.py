"""The order of examples: complete, random, and the same on any devices."""

import itertools

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from records import streaming, tfrecord

SCHEMA = {"input_ids": tfrecord.Feature("int64", 2)}
SIZES = (37, 5, 64, 1)
TOTAL = sum(SIZES)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[str]:
    """Record files; the first id of each record is its number."""
    folder = tmp_path_factory.mktemp("records")
    numbers = itertools.count()
    paths = []
    for index, size in enumerate(SIZES):
        ids = [[next(numbers), 7] for _ in range(size)]
        path = folder / f"part-{index}"
        with open(path, "wb") as file:
            kind = "GZIP" if index == 2 else ""
            with tfrecord.RecordWriter(file, kind) as writer:
                writer.write_examples({"input_ids": np.array(ids)})
        paths.append(str(path))
    return paths


def decode(serialized: tf.Tensor) -> dict:
    return streaming.parse_batch(serialized, SCHEMA)


def numbers_of(stream: tf.data.Dataset, count: int) -> list[int]:
    batch = next(iter(stream.take(count).batch(count)))
    return decode(batch)["input_ids"][:, 0].numpy().tolist()


def test_epochs_are_complete_and_differently_ordered(files):
    stream = streaming.training_stream(files, TOTAL, seed=1)
    numbers = numbers_of(stream, 3 * TOTAL)
    epochs = [numbers[i : i + TOTAL] for i in range(0, 3 * TOTAL, TOTAL)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(TOTAL))
    assert epochs[0] != epochs[1] != epochs[2]
    other = streaming.training_stream(files, TOTAL, seed=2)
    assert numbers_of(other, TOTAL) != epochs[0]


@pytest.mark.parametrize("start", [1, TOTAL - 1, TOTAL, 2 * TOTAL + 13])
def test_any_start_continues_the_same_stream(files, start):
    whole = numbers_of(
        streaming.training_stream(files, TOTAL, seed=1), start + 150
    )
    rest = streaming.training_stream(files, TOTAL, seed=1, start=start)
    assert numbers_of(rest, 150) == whole[start:]


@pytest.mark.parametrize(("workers", "local"), [(1, 1), (1, 4), (2, 2), (4, 1)])
def test_devices_share_out_the_same_global_batches(files, workers, local):
    size, steps = 8, 5
    stream = streaming.training_stream(files, TOTAL, seed=3)
    expected = np.reshape(numbers_of(stream, size * steps), [steps, size])
    found = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers * local)
        dataset = streaming.training_batches(stream, context, size, decode)
        pieces = [b["input_ids"][:, 0] for b in dataset.take(steps * local)]
        found.append(np.reshape(pieces, [steps, size // workers]))
    np.testing.assert_array_equal(np.concatenate(found, axis=1), expected)


def test_evaluation_reads_once_and_fills_the_last_batch(files):
    context = tf.distribute.InputContext(1, 0, 2)
    dataset = streaming.evaluation_batches(files, context, 10, 99, decode)
    batches = list(dataset)
    assert all(b["input_ids"].shape == (5, 2) for b in batches)
    ids = np.concatenate([b["input_ids"][:, 0] for b in batches])
    weights = np.concatenate([b["example_weights"] for b in batches])
    assert weights.sum() == TOTAL
    assert ids[weights == 1].tolist() == list(range(TOTAL))
    assert not ids[weights == 0].any()
    few = streaming.evaluation_batches(files, context, 10, 3, decode)
    assert len(list(few)) == 3 * 2


def test_schema_mismatch_names_both_values(files):
    wanted = {"input_ids": tfrecord.Feature("int64", 3)}
    with pytest.raises(UserError, match="has 2 values, --length is 3"):
        streaming.check_schema(files, wanted, {"input_ids": "length"})
    other = {"label_ids": tfrecord.Feature("int64", 1)}
    with pytest.raises(UserError, match="has no feature 'label_ids'"):
        streaming.check_schema(files, other, {})
