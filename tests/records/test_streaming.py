"""The order of examples: complete, random, and the same on any devices."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf
from tiny import write_examples

from records import in_memory, tfrecord
from records.streaming import Bound, RecordFiles

SCHEMA = {"input_ids": tfrecord.Feature("int64", 2)}
ENDS = (37, 42, 106, 107)
TOTAL = ENDS[-1]
ONE_DEVICE = tf.distribute.InputContext(1, 0, 1)


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> list[str]:
    """Four files; the first id of each record is its number."""
    folder, first, paths = tmp_path_factory.mktemp("records"), 0, []
    for end in ENDS:
        paths.append(str(folder / f"to-{end}"))
        ids = np.stack([np.arange(first, end), np.full(end - first, 7)], 1)
        kind = "GZIP" if end == 106 else ""
        with open(paths[-1], "wb") as file:
            with tfrecord.RecordWriter(file, kind) as writer:
                writer.write_examples({"input_ids": ids})
        first = end
    return paths


@pytest.fixture(scope="module")
def files(paths) -> RecordFiles:
    return RecordFiles(paths, SCHEMA, {}, {})


def numbers_of(files: RecordFiles, seed: int, start: int, count: int) -> list:
    stream = files.stream(seed, start).take(count)
    return [
        int(tfrecord.decode_example(record)["input_ids"][0])
        for record in stream.as_numpy_iterator()
    ]


def test_epochs_are_complete_and_any_start_goes_on_with_them(files):
    numbers = numbers_of(files, 1, 0, 4 * TOTAL)
    epochs = [numbers[i : i + TOTAL] for i in range(0, 4 * TOTAL, TOTAL)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(TOTAL))
    assert epochs[0] != epochs[1] != epochs[2]
    assert numbers_of(files, 2, 0, TOTAL) != epochs[0]
    for start in (1, TOTAL - 1, TOTAL, 2 * TOTAL + 13):
        rest = numbers_of(files, 1, start, 150)
        assert rest == numbers[start : start + 150]


def test_no_two_seeds_and_epochs_share_an_order(paths):
    """One file, in an order of the shuffle buffer alone."""
    one = RecordFiles(paths[:1], SCHEMA, {}, {})
    found = set()
    for seed in range(1, 6):
        numbers = numbers_of(one, seed, 0, 6 * one.num_records)
        found |= {tuple(x) for x in np.reshape(numbers, [6, -1])}
    assert len(found) == 5 * 6


@pytest.mark.parametrize(("workers", "local"), [(1, 1), (1, 4), (2, 2), (4, 1)])
def test_devices_share_out_the_same_global_batches(files, workers, local):
    size, steps = 8, 5
    expected = numbers_of(files, 3, size, size * steps)
    found = []
    for worker in range(workers):
        context = tf.distribute.InputContext(workers, worker, workers * local)
        dataset = files.training(size, 3, size, context)
        pieces = [b["input_ids"][:, 0] for b in dataset.take(steps * local)]
        found.append(np.reshape(pieces, [steps, size // workers]))
    np.testing.assert_array_equal(
        np.concatenate(found, axis=1), np.reshape(expected, [steps, size])
    )


def test_evaluation_reads_once_and_fills_the_last_batch(files):
    context = tf.distribute.InputContext(1, 0, 2)
    batches = list(files.evaluation(10, 99, context))
    assert all(b["input_ids"].shape == (5, 2) for b in batches)
    ids = np.concatenate([b["input_ids"][:, 0] for b in batches])
    weights = np.concatenate([b["example_weights"] for b in batches])
    assert weights.sum() == TOTAL
    assert ids[weights == 1].tolist() == list(range(TOTAL))
    assert not ids[weights == 0].any()
    assert len(list(files.evaluation(10, 3, context))) == 3 * 2


def test_schema_mismatch_names_both_values(paths):
    wanted = {"input_ids": tfrecord.Feature("int64", 3)}
    with pytest.raises(UserError, match="has 2 values, --length is 3"):
        RecordFiles(paths, wanted, {}, {"input_ids": "length"})
    other = {"label_ids": tfrecord.Feature("int64", 1)}
    with pytest.raises(UserError, match="has no feature 'label_ids'"):
        RecordFiles(paths, other, {}, {})


def test_ids_out_of_bounds_are_blamed_on_file_and_record(paths):
    files = RecordFiles(paths, SCHEMA, {"input_ids": Bound(50, "words")}, {})
    message = f"{paths[2]}, record 8: input_ids holds 50, outside 0..49"
    with pytest.raises(UserError, match=message), files.naming_bad_files():
        list(files.evaluation(10, 99, ONE_DEVICE))


@pytest.mark.parametrize(
    "name, second, problem",
    [
        ("input_ids", [2**32 + 5, 7], "input_ids holds 4294967301, outside"),
        ("input_ids", [5, 2**31], "input_ids holds 2147483648, outside"),
        ("input_ids", [5, -(2**32)], "input_ids holds -4294967296, outside"),
        ("label_ids", [2**32], "label_ids holds 4294967296, outside.*32 bits"),
        ("label_ids", [-1], None),
        ("label_ids", [1, 1], "label_ids has 2 values, not 1"),
        ("input_ids", [1.0, 1.0], "input_ids holds float32, wanted int64"),
        ("input_ids", [b"a", b"b"], "input_ids holds bytes, wanted int64"),
        ("input_ids", None, "has no feature 'input_ids'"),
    ],
)
@pytest.mark.parametrize("reader", ["stream", "memory"])
def test_what_a_later_record_holds_is_named(
    tmp_path, name, second, problem, reader
):
    """An id of 2^32 + 5 would be 5 in 32 bits, and pass every check."""
    path = str(tmp_path / "records")
    good = {"input_ids": [1, 2], "input_mask": [1, 1], "label_ids": [0]}
    bad = {key: v for key, v in {**good, name: second}.items() if v}
    write_examples(path, [good, bad])
    schema = {**SCHEMA, "input_mask": tfrecord.Feature("int64", 2)}
    schema["label_ids"] = tfrecord.Feature("int64", 1)
    given = [path], schema, {"input_ids": Bound(50, "words")}, {}

    def read() -> list[int]:
        if reader == "memory":
            return list(in_memory.ShortRecords.read(*given).features[name])
        files = RecordFiles(*given)
        with files.naming_bad_files():
            (batch,) = files.evaluation(2, 9, ONE_DEVICE)
        return batch[name].numpy().tolist()

    if not problem:
        assert read() == [0, -1]
        return
    with pytest.raises(UserError, match=f"records, record 1: {problem}"):
        read()


def test_a_record_that_is_no_example_is_named(tmp_path):
    """TensorFlow's words hold its bytes, and need not be UTF-8."""
    path = str(tmp_path / "records")
    write_examples(path, [{"input_ids": [1, 2]}])
    record = next(tfrecord.read_records(path))
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(record)
        writer.write(b"\xec\xec")
    files = RecordFiles([path], SCHEMA, {}, {})
    words = "record 1: not a tf.train.Example"
    with pytest.raises(UserError, match=words), files.naming_bad_files():
        list(files.evaluation(2, 9, ONE_DEVICE))


def test_other_errors_pass_unchanged(files):
    with pytest.raises(tf.errors.InvalidArgumentError):
        with files.naming_bad_files():
            tf.reshape(tf.range(3), [2])
