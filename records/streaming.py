"""Read TFRecord files as batches in an order that depends on seed and step.

The records of a batch are a function of the files, the seed and the step. They
depend neither on the number of machines or devices nor on interruptions of the
run:

    epoch e of the stream = the files in an order drawn from (seed, e), read
    interleaved, through a shuffle buffer drawn from (seed, e)
    batch s = examples [s * batch_size, (s + 1) * batch_size) of the stream

Example: with 100 records and batches of 32, batch 3 holds the examples 96 to
127 of the stream, the last 4 of epoch 0 and the first 28 of epoch 1. A run
that resumes at step 3 skips 96 records; one that resumes at step 7 (example
224) does not read epochs 0 and 1 at all, and skips 24 records of epoch 2.

Every worker reads the same stream of undecoded records and keeps its own part
of each global batch, so that one machine and many train on the same batches.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf
from absl import logging

from records import tfrecord

# The order of the records depends on these three too: with another value, a
# resumed run would see other batches than before. The buffer holds undecoded
# records. Decoding comes after shuffling and splitting, since skipping and
# shuffling undecoded records is cheap (500,000 a second), and so each worker
# decodes only its own part.
SHUFFLE_BUFFER = 20_000  # records
CYCLE_LENGTH = 8  # files read at the same time
BLOCK_LENGTH = 16  # consecutive records taken from one of them

_READ_BUFFER = 1 << 20  # bytes

Batch = dict[str, tf.Tensor]

# --- Checks ------------------------------------------------------------------


class Bound(NamedTuple):
    """Feature values must lie in [0, limit); `what` names the limit."""

    limit: int
    what: str


def check_schema(
    files: Sequence[str],
    schema: Mapping[str, tfrecord.Feature],
    flags: Mapping[str, str],
) -> None:
    """Check that the first record of each file has the wanted features.

    Raises:
        UserError: a feature is missing or has another length; names file,
            feature, the length found, the one wanted, and its flag.
    """
    # The first record alone: all records of a file come from one run of its
    # writer. Without this check, a wrong --max_seq_length would be an error of
    # tf.io.parse_example that names neither the file nor the flag.
    for path in files:
        found = tfrecord.describe_first_record(path)
        for name, feature in schema.items():
            if name not in found:
                raise UserError(
                    f"{path} has no feature {name!r} (it has "
                    f"{', '.join(sorted(found))}): its records were made for "
                    "another task, or by another program"
                )
            if found[name] != feature.length:
                flag = flags.get(name, name)
                raise UserError(
                    f"{path} was made with another {flag}: its {name} has "
                    f"{found[name]} values, --{flag} is {feature.length}; "
                    f"use --{flag}={found[name]} or make the data again"
                )


def count_records(files: Sequence[str]) -> dict[str, int]:
    """Return {file: number of records}; log progress every 10 s.

    Raises:
        UserError: a file is truncated or corrupted, or all are empty.
    """
    # The size of an epoch has to be known: it gives the epoch of every step,
    # and with it the place where a resumed run goes on.
    counts: dict[str, int] = {}
    reported = time.monotonic()
    for done, path in enumerate(files, 1):
        counts[path] = tfrecord.count_records(path)
        if time.monotonic() - reported > 10:
            reported = time.monotonic()
            logging.info("Counted records in %d of %d files", done, len(files))
        if not counts[path]:
            logging.warning("%s holds no record", path)
    if not sum(counts.values()):
        raise UserError(
            f"the {len(files)} input files hold no record, the first: "
            f"{files[0]}"
        )
    return counts


# --- Decoding ----------------------------------------------------------------


def parse_batch(
    serialized: tf.Tensor, schema: Mapping[str, tfrecord.Feature]
) -> Batch:
    """Decode a batch of serialized tf.train.Example, [B] strings.

    Features are [B, length], [B] for length 1. Integers are int32; records have
    int64.
    """
    spec = {
        name: tf.io.FixedLenFeature(
            [feature.length], tf.dtypes.as_dtype(feature.dtype)
        )
        for name, feature in schema.items()
    }
    # The whole batch at once, which is many times faster than one by one.
    batch = tf.io.parse_example(serialized, spec)
    for name, value in batch.items():
        # tf.train.Example has no 32-bit integers, but int32 holds every id
        # with half the bytes.
        if value.dtype == tf.int64:
            value = tf.cast(value, tf.int32)
        batch[name] = (
            tf.squeeze(value, 1) if schema[name].length == 1 else value
        )
    return batch


def check_bounds(batch: Batch, bounds: Mapping[str, Bound]) -> Batch:
    """Return the batch; fail when it is computed if an id is out of range."""
    # The original does not check ids. A gather out of range returns zeros on a
    # GPU and, compiled by XLA, the row of the largest id: with the vocabulary
    # of another model it would train a wrong model silently. The check is part
    # of the input pipeline, hence on the host: XLA drops assertions.
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
    # The pipeline is a graph, where an operation runs only if an output
    # depends on it: the identities depend on the checks.
    with tf.control_dependencies(checks):
        return {name: tf.identity(value) for name, value in batch.items()}


# --- Streams of records ------------------------------------------------------


def _compression(files: Sequence[str]) -> tf.Tensor:
    """Return the compression of each file, "GZIP" or "": [num_files]."""
    return tf.constant(
        ["GZIP" if tfrecord.is_gzip(path) else "" for path in files]
    )


def _epoch(
    epoch: tf.Tensor, files: tf.Tensor, kinds: tf.Tensor, seed: int
) -> tf.data.Dataset:
    """Return the undecoded records once, in the order of (seed, epoch)."""
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
    # create_pretraining_data.py shuffles within a file; the buffer mixes
    # records of the files that are read at the same time.
    return dataset.shuffle(
        SHUFFLE_BUFFER, seed=epoch + seed, reshuffle_each_iteration=False
    )


def training_stream(
    files: Sequence[str], num_records: int, seed: int, start: int = 0
) -> tf.data.Dataset:
    """Return the endless stream of undecoded records from example `start`.

    `num_records`, those of all files, are an epoch. Earlier records of the
    epoch are skipped undecoded, earlier epochs are not read.
    """
    paths, kinds = tf.constant(list(files)), _compression(files)
    # With 100 records, example 224 is number 24 of epoch 2.
    epoch, used = divmod(start, num_records)
    first = _epoch(tf.constant(epoch, tf.int64), paths, kinds, seed).skip(used)
    # flat_map opens the files of an epoch when the one before is used up. The
    # range ends after 10**12 epochs, since it needs an end.
    later = tf.data.Dataset.range(epoch + 1, 1 << 40).flat_map(
        lambda number: _epoch(number, paths, kinds, seed)
    )
    return first.concatenate(later)


# --- Batches -----------------------------------------------------------------


def check_divides(
    batch_size: int, devices: int, what: str = "a batch of "
) -> None:
    """Raise a UserError if a global batch does not divide among devices."""
    if batch_size % devices:
        raise UserError(
            f"{what}{batch_size} does not divide among {devices} devices: "
            "the batch size is global, use a multiple of the device count"
        )


def per_replica_batches(
    batches: tf.data.Dataset,
    context: tf.distribute.InputContext,
    batch_size: int,
    decode: Callable[[tf.Tensor], Batch],
) -> tf.data.Dataset:
    """Return this worker's part of each global batch, a batch per replica.

    Example: a global batch of 8 on 2 workers with 2 replicas each is 4 parts
    of 2 records. Worker 1 (first = 2) yields [4, 5], then [6, 7].

    Args:
        batches: global batches of `batch_size` undecoded records.
        context: number of this worker, and how many replicas there are.
        batch_size: examples in a global batch, B.
        decode: converts undecoded records [B / replicas] to a batch.

    Raises:
        UserError: the batch does not divide among the replicas.
    """
    pieces = context.num_replicas_in_sync
    check_divides(batch_size, pieces)
    local = pieces // context.num_input_pipelines
    first = context.input_pipeline_id * local
    size = batch_size // pieces

    def split(records_: tf.Tensor) -> tf.data.Dataset:
        # Consecutive records form a part: replica r has the records from
        # r * size on, whatever the number of workers.
        mine = tf.reshape(records_, [pieces, size])[first : first + local]
        return tf.data.Dataset.from_tensor_slices(mine)

    options = tf.data.Options()
    options.deterministic = True
    # Every degree of parallelism is given. The tuner would only keep a core
    # busy and delay the end of the run by seconds.
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
    """Return this worker's part of the global batches of a stream."""
    # The stream is endless: drop_remainder drops nothing, it only makes the
    # batch size known when the graph is built.
    batches = stream.batch(batch_size, drop_remainder=True)
    return per_replica_batches(batches, context, batch_size, decode)


def evaluation_batches(
    files: Sequence[str],
    context: tf.distribute.InputContext,
    batch_size: int,
    max_steps: int,
    decode: Callable[[tf.Tensor], Batch],
) -> tf.data.Dataset:
    """Return this worker's part of at most `max_steps` batches, in file order.

    Each record comes once. The last batch is filled up with rows of zeros, so
    that all shapes are static; `example_weights` [B] is 1 for records and 0
    for the filling. Other arguments: see `per_replica_batches`.
    """
    dataset = tf.data.Dataset.from_tensor_slices(
        (list(files), _compression(files))
    ).flat_map(lambda p, kind: tf.data.TFRecordDataset(p, kind, _READ_BUFFER))

    def fill(serialized: tf.Tensor) -> tf.Tensor:
        # "" marks the filling: an Example with features has at least a byte.
        missing = batch_size - tf.size(serialized)
        filling = tf.fill([missing], tf.constant(""))
        return tf.ensure_shape(
            tf.concat([serialized, filling], 0), [batch_size]
        )

    def decode_filled(serialized: tf.Tensor) -> Batch:
        is_real = tf.not_equal(serialized, "")
        # The filling is not decoded: "" is an Example without features. A
        # replica's part may be filling alone, then decode gets [0] strings.
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
    """Append rows of zeros to [B, ...]; `static` are the rows, if known."""
    padding = [[0, rows - tf.shape(value)[0]]]
    padding += [[0, 0]] * (value.shape.rank - 1)
    padded = tf.pad(value, padding)
    padded.set_shape([static, *value.shape[1:]])
    return padded


class RecordFiles:
    """Record files of one schema, checked when this object is made.

    Args:
        files: paths.
        schema: feature name to type and length.
        bounds: feature name to the range its values must lie in.
        length_flags: feature name to the flag that sets its length.

    Attributes:
        counts: {path: number of records}.
        num_records: their sum.

    Raises:
        UserError: see `check_schema` and `count_records`.
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
        self,
        batch_size: int,
        seed: int,
        start: int,
        context: tf.distribute.InputContext,
    ) -> tf.data.Dataset:
        """Return this worker's part of the batches from an example on."""
        stream = training_stream(self.files, self.num_records, seed, start)
        return training_batches(stream, context, batch_size, self.decode)

    def evaluation(
        self,
        batch_size: int,
        max_steps: int,
        context: tf.distribute.InputContext,
    ) -> tf.data.Dataset:
        """Return this worker's part of the batches with each record once.

        For the arguments see `evaluation_batches`.
        """
        return evaluation_batches(
            self.files, context, batch_size, max_steps, self.decode
        )
