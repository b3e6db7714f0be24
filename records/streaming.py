"""From TFRecord files to batches: exact order, exact resume, any devices.

What a batch holds depends on the files, the seed and the step alone, never on
the number of machines or devices and never on when a run was interrupted:

    epoch e of the stream = the files in an order drawn from (seed, e), read
    interleaved, through a shuffle buffer drawn from (seed, e)
    batch s = examples [s * batch_size, (s + 1) * batch_size) of the stream

Every worker reads the same stream of undecoded records and keeps its own part
of each global batch. That costs little (500,000 undecoded records a second)
and makes one machine and many train on the same batches.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf
from absl import logging

from records import tfrecord

SHUFFLE_BUFFER = 20_000  # undecoded records; the generator shuffles within

CYCLE_LENGTH = 8  # files read side by side

BLOCK_LENGTH = 16  # records taken from one of them at a time

_READ_BUFFER = 1 << 20

Batch = dict[str, tf.Tensor]


class Bound(NamedTuple):
    """Feature values must lie in [0, limit); `what` names the limit."""

    limit: int
    what: str


def check_schema(
    files: Sequence[str],
    schema: Mapping[str, tfrecord.Feature],
    flags: Mapping[str, str],
) -> None:
    """Compare the first record of each file with what the flags say.

    Args:
        files: record files.
        schema: feature name to type and length, from the flags.
        flags: feature name to the flag that sets its length.

    Raises:
        UserError: names file, feature, the length found and the one wanted.
    """
    for path in files:
        found = tfrecord.describe_first_record(path)
        for name, feature in schema.items():
            if name not in found:
                raise UserError(
                    f"{path} has no feature {name!r} (it has "
                    f"{', '.join(sorted(found))}): not made by "
                    "create_pretraining_data.py"
                )
            if found[name] != feature.length:
                flag = flags.get(name, name)
                raise UserError(
                    f"{path} was made with another {flag}: its {name} has "
                    f"{found[name]} values, --{flag} says {feature.length}; "
                    f"use --{flag}={found[name]} or make the data again"
                )


def count_records(files: Sequence[str]) -> dict[str, int]:
    """Count the records of each file, with a sign of life for many.

    Raises:
        UserError: a truncated or corrupted file; none of them has a record.
    """
    counts: dict[str, int] = {}
    told = time.monotonic()
    for done, path in enumerate(files, 1):
        counts[path] = tfrecord.count_records(path)
        if time.monotonic() - told > 10:
            told = time.monotonic()
            logging.info("Counted records in %d of %d files", done, len(files))
        if not counts[path]:
            logging.warning("%s holds no record", path)
    if not sum(counts.values()):
        raise UserError(
            f"the {len(files)} input files hold no record, the first: "
            f"{files[0]}"
        )
    return counts


def parse_batch(
    serialized: tf.Tensor, schema: Mapping[str, tfrecord.Feature]
) -> Batch:
    """Decode a batch of tf.train.Example; integers become int32.

    Args:
        serialized: [B] strings.
        schema: feature name to type and length.

    Returns:
        Feature name to [B, length] tensor, [B] for features of length 1.
    """
    spec = {
        name: tf.io.FixedLenFeature(
            [feature.length], tf.dtypes.as_dtype(feature.dtype)
        )
        for name, feature in schema.items()
    }
    batch = tf.io.parse_example(serialized, spec)
    for name, value in batch.items():
        if value.dtype == tf.int64:
            value = tf.cast(value, tf.int32)
        batch[name] = (
            tf.squeeze(value, 1) if schema[name].length == 1 else value
        )
    return batch


def check_bounds(batch: Batch, bounds: Mapping[str, Bound]) -> Batch:
    """Stop at ids the model has no row for; a gather would clamp them.

    The original gathers out of range unchecked: NaN on a GPU, a wrong row
    elsewhere. Runs on the host, beside the decoding.
    """
    checks = []
    for name, bound in bounds.items():
        largest = tf.reduce_max(batch[name])
        smallest = tf.reduce_min(batch[name])
        message = tf.strings.format(
            f"{name} holds {{}}, outside 0..{bound.limit - 1} ({bound.what})",
            tf.where(smallest < 0, smallest, largest),
        )
        inside = tf.logical_and(smallest >= 0, largest < bound.limit)
        checks.append(tf.debugging.Assert(inside, [message]))
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in batch.items()}


def _compression(files: Sequence[str]) -> tf.Tensor:
    """Return the TFRecord compression type of each file, as strings."""
    return tf.constant(
        ["GZIP" if tfrecord.is_gzip(path) else "" for path in files]
    )


def _epoch(
    epoch: tf.Tensor, files: tf.Tensor, kinds: tf.Tensor, seed: int
) -> tf.data.Dataset:
    """One pass over the undecoded records in the order of (seed, epoch)."""
    order = tf.random.experimental.stateless_shuffle(
        tf.range(tf.size(files)),
        seed=tf.stack([tf.constant(seed, tf.int64), epoch]),
    )
    dataset = tf.data.Dataset.from_tensor_slices(
        (tf.gather(files, order), tf.gather(kinds, order))
    ).interleave(
        lambda path, kind: tf.data.TFRecordDataset(path, kind, _READ_BUFFER),
        cycle_length=CYCLE_LENGTH,
        block_length=BLOCK_LENGTH,
        num_parallel_calls=2,
        deterministic=True,
    )
    return dataset.shuffle(
        SHUFFLE_BUFFER, seed=epoch + seed, reshuffle_each_iteration=False
    )


def training_stream(
    files: Sequence[str], num_records: int, seed: int, start: int = 0
) -> tf.data.Dataset:
    """The endless stream of undecoded records, from example `start` on.

    Args:
        files: record files, in a fixed order.
        num_records: records in all files together: the length of an epoch.
        seed: draws the order of each epoch.
        start: examples already used; those before are skipped undecoded, and
            whole epochs are not even read.
    """
    paths, kinds = tf.constant(list(files)), _compression(files)
    epoch, used = divmod(start, num_records)
    first = _epoch(tf.constant(epoch, tf.int64), paths, kinds, seed).skip(used)
    later = tf.data.Dataset.range(epoch + 1, 1 << 40).flat_map(
        lambda number: _epoch(number, paths, kinds, seed)
    )
    return first.concatenate(later)


def check_divides(batch_size: int, devices: int) -> None:
    """Stop at a global batch that devices cannot share.

    Raises:
        UserError: names both numbers.
    """
    if batch_size % devices:
        raise UserError(
            f"a batch of {batch_size} does not divide among {devices} devices: "
            "the batch size is global, use a multiple of the device count"
        )


def per_replica_batches(
    batches: tf.data.Dataset,
    context: tf.distribute.InputContext,
    batch_size: int,
    decode: Callable[[tf.Tensor], Batch],
) -> tf.data.Dataset:
    """Give this worker its part of each global batch, a piece per replica.

    Args:
        batches: global batches of `batch_size` undecoded records.
        context: which worker this is, and how many replicas there are.
        batch_size: examples in a global batch.
        decode: undecoded records [B] to a batch.
    """
    pieces = context.num_replicas_in_sync
    check_divides(batch_size, pieces)
    local = pieces // context.num_input_pipelines
    first = context.input_pipeline_id * local
    size = batch_size // pieces

    def split(records_: tf.Tensor) -> tf.data.Dataset:
        mine = tf.reshape(records_, [pieces, size])[first : first + local]
        return tf.data.Dataset.from_tensor_slices(mine)

    options = tf.data.Options()
    options.deterministic = True
    # Every degree of parallelism is given; the tuner would only keep a core
    # busy, and hold up the end of the run by seconds.
    options.autotune.enabled = False
    return (
        batches.flat_map(split)
        .map(decode, num_parallel_calls=2, deterministic=True)
        .prefetch(4)
        .with_options(options)
    )


def training_batches(
    stream: tf.data.Dataset,
    context: tf.distribute.InputContext,
    batch_size: int,
    decode: Callable[[tf.Tensor], Batch],
) -> tf.data.Dataset:
    """Cut a stream into global batches and hand out this worker's part."""
    batches = stream.batch(batch_size, drop_remainder=True)
    return per_replica_batches(batches, context, batch_size, decode)


def evaluation_batches(
    files: Sequence[str],
    context: tf.distribute.InputContext,
    batch_size: int,
    max_steps: int,
    decode: Callable[[tf.Tensor], Batch],
) -> tf.data.Dataset:
    """Read files once, in order, at most `max_steps` batches.

    The last batch is filled up with its own first record, so that shapes stay
    static; `example_weights` [B] is 1 for real examples and 0 for the filling.
    """
    dataset = tf.data.Dataset.from_tensor_slices(
        (list(files), _compression(files))
    ).flat_map(lambda p, kind: tf.data.TFRecordDataset(p, kind, _READ_BUFFER))

    def fill(serialized: tf.Tensor) -> tf.Tensor:
        missing = batch_size - tf.size(serialized)
        filling = tf.fill([missing], tf.constant(""))
        return tf.ensure_shape(
            tf.concat([serialized, filling], 0), [batch_size]
        )

    def decode_filled(serialized: tf.Tensor) -> Batch:
        is_real = tf.not_equal(serialized, "")
        # A replica's part may be filling only, hence decoding [0] strings.
        batch = decode(tf.boolean_mask(serialized, is_real))
        size = tf.shape(serialized)[0]
        padded = {
            name: _pad_rows(value, size, serialized.shape[0])
            for name, value in batch.items()
        }
        padded["example_weights"] = tf.cast(is_real, tf.float32)
        return padded

    batches = dataset.batch(batch_size).take(max_steps).map(fill)
    return per_replica_batches(batches, context, batch_size, decode_filled)


def _pad_rows(value: tf.Tensor, rows: tf.Tensor, static: int) -> tf.Tensor:
    """Append zero rows until there are `rows`; keep the static shape."""
    padding = [[0, rows - tf.shape(value)[0]]]
    padding += [[0, 0]] * (value.shape.rank - 1)
    padded = tf.pad(value, padding)
    padded.set_shape([static, *value.shape[1:]])
    return padded


class RecordFiles:
    """Record files of one schema, checked before the first step.

    Args:
        files: paths.
        schema: feature name to type and length.
        bounds: feature name to the range its values must lie in.
        length_flags: feature name to the flag its length comes from.
    """

    def __init__(
        self,
        files: Sequence[str],
        schema: Mapping[str, tfrecord.Feature],
        bounds: Mapping[str, Bound],
        length_flags: Mapping[str, str],
    ):
        self.files = files
        self.schema = schema
        self.bounds = bounds
        check_schema(files, schema, length_flags)
        self.counts = count_records(files)
        self.num_records = sum(self.counts.values())

    def decode(self, serialized: tf.Tensor) -> Batch:
        """Decode records [B] and check their ids."""
        return check_bounds(parse_batch(serialized, self.schema), self.bounds)

    def training(
        self, batch_size: int, seed: int, start: int
    ) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
        """Batches of the endless stream from example `start` on."""
        stream = training_stream(self.files, self.num_records, seed, start)
        return lambda context: training_batches(
            stream, context, batch_size, self.decode
        )

    def evaluation(
        self, batch_size: int, max_steps: int
    ) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
        """Batches that hold each record once, at most `max_steps`."""
        return lambda context: evaluation_batches(
            self.files, context, batch_size, max_steps, self.decode
        )


@contextlib.contextmanager
def blaming_files(
    files: Sequence[str], bounds: Mapping[str, Bound]
) -> Iterator[None]:
    """Turn a failed read inside the block into a line that names the file.

    Raises:
        UserError: the data is to blame; any other error passes unchanged.
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
    """Read the files again, the slow way, until one is to blame."""
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
    """Say what is wrong with one serialized record, None if nothing is."""
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
