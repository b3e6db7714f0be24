"""A pipeline's error names the file and the record that caused it."""

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from records import bad_records, streaming, tfrecord

SCHEMA = {"input_ids": tfrecord.Feature("int64", 1)}


@pytest.fixture
def files(tmp_path) -> list[str]:
    """Three files, the last compressed, of the numbers 0..36, ..41, ..105."""
    paths = []
    for first, end, kind in ((0, 37, ""), (37, 42, ""), (42, 106, "GZIP")):
        path = tmp_path / f"from-{first}"
        with open(path, "wb") as file:
            with tfrecord.RecordWriter(file, kind) as writer:
                writer.write_examples({"input_ids": np.arange(first, end)})
        paths.append(str(path))
    return paths


def test_ids_out_of_bounds_are_blamed_on_file_and_record(files):
    bounds = {"input_ids": streaming.Bound(50, "vocab_size")}
    context = tf.distribute.InputContext(1, 0, 1)

    def checked(serialized):
        batch = streaming.parse_batch(serialized, SCHEMA)
        return streaming.check_bounds(batch, bounds)

    dataset = streaming.evaluation_batches(files, context, 10, 9, checked)
    message = f"{files[2]}, record 8: input_ids holds 50, outside 0..49"
    with pytest.raises(UserError, match=message):
        with bad_records.naming_bad_files(files, bounds):
            list(dataset)


def test_other_errors_pass_unchanged(files):
    with pytest.raises(tf.errors.InvalidArgumentError):
        with bad_records.naming_bad_files(files, {}):
            tf.reshape(tf.range(3), [2])
