"""Find the file and the record that made a tf.data pipeline fail.

TensorFlow's error for a bad record names neither its file nor its number. So
after an error the record files are read again in Python, record by record,
until a bad one is found. This costs time only where a run fails.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from base.errors import UserError

import tensorflow as tf
from absl import logging

from records import tfrecord
from records.streaming import Bound


@contextlib.contextmanager
def naming_bad_files(
    files: Sequence[str], bounds: Mapping[str, Bound]
) -> Iterator[None]:
    """Replace TensorFlow's error for a bad record by one that names the file.

    Raises:
        UserError: a record of the files that the block reads is bad. Any other
            error passes unchanged.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if found := _explain(error, files, bounds):
            raise found from error
        raise


def _explain(
    error: tf.errors.OpError, files: Sequence[str], bounds: Mapping[str, Bound]
) -> UserError | None:
    """Return an error for the first bad record; None if all are good."""
    # Errors of a truncated or corrupted file, of a missing feature or an id out
    # of bounds, and of a file that was deleted meanwhile. Errors of other
    # kinds, such as a full memory, have other causes: reading all files would
    # only delay the end of the run.
    suspects = (
        tf.errors.DataLossError,
        tf.errors.InvalidArgumentError,
        tf.errors.NotFoundError,
        tf.errors.OutOfRangeError,
    )
    if not isinstance(error, suspects):
        return None
    logging.error("Reading failed (%s); looking for the file", error.message)
    for path in files:
        try:
            for number, record in enumerate(tfrecord.read_records(path)):
                if problem := _find_out_of_bounds(record, bounds):
                    return UserError(f"{path}, record {number}: {problem}")
        except (UserError, OSError) as found:
            return UserError(str(found))
    return None


def _find_out_of_bounds(
    record: bytes, bounds: Mapping[str, Bound]
) -> str | None:
    """Return what is wrong with a serialized record; None if nothing is."""
    try:
        example = tfrecord.decode_example(record)
    except (IndexError, KeyError, ValueError) as error:
        return f"not a tf.train.Example ({error})"
    for name, bound in bounds.items():
        if name not in example:
            return f"has no feature {name!r}"
        for value in example[name]:
            if not 0 <= value < bound.limit:
                return (
                    f"{name} holds {value}, outside 0..{bound.limit - 1} "
                    f"({bound.what})"
                )
    return None
