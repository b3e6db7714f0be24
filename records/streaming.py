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

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from base import errors, progress
from base.errors import UserError

import tensorflow as tf
from absl import logging

from ops import elementwise
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


class Bound(NamedTuple):
    """Feature values must lie in [least, limit); `what` names the limits."""

    limit: int
    what: str
    least: int = 0

    @property
    def words(self) -> str:
        return f"outside {self.least}..{self.limit - 1} ({self.what})"


_INT32 = Bound(2**31, "32 bits", -(2**31))


class RecordFiles:
    """Record files of one schema, checked when this object is made.

    Args:
        files: paths.
        schema: feature name to type and length.
        bounds: feature name to the range its values must lie in; integers
            without one have to fit into 32 bits.
        length_flags: feature name to the flag that sets its length.

    Attributes:
        counts: {path: number of records}.
        num_records: their sum.

    Raises:
        UserError: a file is damaged, empty or of another schema.
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
        integers = [n for n, f in schema.items() if f.dtype == "int64"]
        self.bounds = {name: bounds.get(name, _INT32) for name in integers}
        # The first records alone: all records of a file come from one run of
        # its writer. Without this check, a wrong --max_seq_length would be an
        # error of tf.io.parse_example that names neither the file nor the flag.
        for path in files:
            lengths = tfrecord.describe_first_record(path)
            for name, feature in schema.items():
                if name not in lengths:
                    raise UserError(
                        f"{path} has no feature {name!r} (it has "
                        f"{', '.join(sorted(lengths))}): its records were made "
                        "for another task, or by another program"
                    )
                if lengths[name] != feature.length:
                    flag = length_flags.get(name, name)
                    raise UserError(
                        f"{path} was made with another {flag}: its {name} has "
                        f"{lengths[name]} values, --{flag} is {feature.length};"
                        f" use --{flag}={lengths[name]} or make the data again"
                    )
        # The size of an epoch has to be known: it gives the epoch of every
        # step, and with it the place where a resumed run continues.
        self.counts: dict[str, int] = {}
        with progress.Bar(len(files), "files", "Counting records") as bar:
            for path in files:
                self.counts[path] = tfrecord.count_records(path)
                bar.update(1)
        self.num_records = sum(self.counts.values())
        # As TFRecordDataset calls the compression of a file.
        self._kinds = ["GZIP" * tfrecord.is_gzip(path) for path in files]

    # --- Batches -------------------------------------------------------------

    def decode(self, serialized: tf.Tensor) -> Batch:
        """Decode records, [B] strings; fail if an integer is out of bounds.

        Integers are int32 then.
        """
        spec = {
            name: tf.io.FixedLenFeature(
                [] if feature.length == 1 else [feature.length], feature.dtype
            )
            for name, feature in self.schema.items()
        }
        # The whole batch at once, which is many times faster than one by one.
        batch = tf.io.parse_example(serialized, spec)
        # The original does not check ids. A gather out of range returns zeros
        # on a GPU and, compiled by XLA, the row of the largest id: with the
        # vocabulary of another model it would train a wrong model silently.
        # The check is part of the input pipeline, hence on the host: XLA drops
        # assertions.
        checks = []
        for name, bound in self.bounds.items():
            largest = tf.reduce_max(batch[name])
            smallest = tf.reduce_min(batch[name])
            message = tf.strings.format(
                f"{name} holds {{}}, {bound.words}",
                tf.where(smallest < bound.least, smallest, largest),
            )
            inside = (smallest >= bound.least) & (largest < bound.limit)
            checks.append(tf.debugging.Assert(inside, [message]))
        # The pipeline is a graph, where an operation runs only if an output
        # depends on it: the identities depend on the checks.
        with tf.control_dependencies(checks):
            # tf.train.Example has no 32-bit integers, but int32 holds every id
            # with half the bytes. A cast before the checks would let an id of
            # 2^32 + 5 pass as 5.
            return {
                name: tf.cast(value, tf.int32)
                if name in self.bounds
                else tf.identity(value)
                for name, value in batch.items()
            }

    def stream(self, seed: int, start: int) -> tf.data.Dataset:
        """Return the endless stream of undecoded records from a number on.

        Earlier records of its epoch are skipped undecoded, earlier epochs are
        not read.
        """
        paths, kinds = tf.constant(list(self.files)), tf.constant(self._kinds)

        def one_epoch(epoch: tf.Tensor) -> tf.data.Dataset:
            order = tf.random.experimental.stateless_shuffle(
                tf.range(tf.size(paths)),
                seed=tf.stack([tf.constant(seed, tf.int64), epoch]),
            )
            files = tf.gather(paths, order), tf.gather(kinds, order)
            dataset = tf.data.Dataset.from_tensor_slices(files).interleave(
                _open,
                cycle_length=CYCLE_LENGTH,
                block_length=BLOCK_LENGTH,
                num_parallel_calls=2,
                deterministic=True,
            )
            # create_pretraining_data.py shuffles within a file; the buffer
            # mixes records of the files that are read at the same time.
            # Folded: with seed + epoch, epoch 1 of seed 1 would have the order
            # of epoch 0 of seed 2.
            return dataset.shuffle(
                SHUFFLE_BUFFER,
                seed=tf.cast(elementwise.fold_seed(seed, epoch), tf.int64),
                reshuffle_each_iteration=False,
            )

        # With 100 records, example 224 is number 24 of epoch 2.
        epoch, used = divmod(start, self.num_records)
        first = one_epoch(tf.constant(epoch, tf.int64)).skip(used)
        # flat_map opens the files of an epoch when the one before is used up.
        # The range ends after 10**12 epochs, since it needs an end.
        later = tf.data.Dataset.range(epoch + 1, 1 << 40).flat_map(one_epoch)
        return first.concatenate(later)

    def training(
        self,
        batch_size: int,
        seed: int,
        start: int,
        context: tf.distribute.InputContext,
    ) -> tf.data.Dataset:
        """Return this worker's part of the batches from an example on."""
        # The stream is endless: drop_remainder drops nothing, it only makes
        # the batch size known when the graph is built.
        numbered = self.stream(seed, start).enumerate(start)
        batches = numbered.batch(batch_size, drop_remainder=True)

        def made(numbers: tf.Tensor, serialized: tf.Tensor) -> Batch:
            return self.prepare(self.decode(serialized), numbers, seed)

        return _of_worker(batches, context, batch_size, made)

    def prepare(
        self, batch: Batch, numbers: tf.Tensor, seed: int | None
    ) -> Batch:
        """Return the batch to train on or, without a seed, to evaluate.

        Here it is the batch that was read. A subclass draws masks. `numbers`
        int64 [B] count the examples in the stream of the seed, or the records
        in the files.
        """
        del numbers, seed
        return batch

    def evaluation(
        self,
        batch_size: int,
        max_steps: int,
        context: tf.distribute.InputContext,
    ) -> tf.data.Dataset:
        """Return this worker's part of at most `max_steps` batches.

        Each record comes once, in the order of the files. The last batch is
        filled up with rows of zeros, so that all shapes are static;
        `example_weights` [B] is 1 for records and 0 for the filling.
        """

        def fill(numbers: tf.Tensor, serialized: tf.Tensor) -> tuple:
            # "" marks the filling: an Example with features has a byte at
            # least.
            missing = batch_size - tf.size(serialized)
            filling = tf.fill([missing], tf.constant(""))
            serialized = tf.concat([serialized, filling], 0)
            numbers = tf.pad(numbers, [[0, missing]])
            return (
                tf.ensure_shape(numbers, [batch_size]),
                tf.ensure_shape(serialized, [batch_size]),
            )

        def made(numbers: tf.Tensor, serialized: tf.Tensor) -> Batch:
            is_real = tf.not_equal(serialized, "")
            # The filling is not decoded: "" is an Example without features. A
            # replica's part may be filling alone, [0] strings are decoded then.
            records = tf.boolean_mask(serialized, is_real)
            numbers = tf.boolean_mask(numbers, is_real)
            batch = self.prepare(self.decode(records), numbers, None)
            missing = tf.math.count_nonzero(~is_real, dtype=tf.int32)
            for name, value in batch.items():
                padding = [[0, missing], *[[0, 0]] * (value.shape.rank - 1)]
                batch[name] = tf.ensure_shape(
                    tf.pad(value, padding),
                    [serialized.shape[0], *value.shape[1:]],
                )
            batch["example_weights"] = tf.cast(is_real, tf.float32)
            return batch

        files = list(self.files), self._kinds
        records = tf.data.Dataset.from_tensor_slices(files).flat_map(_open)
        batches = records.enumerate().batch(batch_size).take(max_steps)
        return _of_worker(batches.map(fill), context, batch_size, made)

    # --- Errors --------------------------------------------------------------

    @contextlib.contextmanager
    def naming_bad_files(self) -> Iterator[None]:
        """Replace TensorFlow's error for a bad record by one that names it.

        TensorFlow names neither the file nor the record. So after an error the
        files are read again in Python, record by record, until a bad one is
        found. This costs time only where a run fails.

        Raises:
            UserError: a record of the files is bad. Any other error of the
                block passes unchanged.
        """
        try:
            yield
        # A truncated or corrupted file, a missing feature or an id out of
        # bounds, a file that was deleted meanwhile. Errors of other kinds, such
        # as a full memory, have other causes: reading all files would only
        # delay the end of the run.
        except (
            tf.errors.DataLossError,
            tf.errors.InvalidArgumentError,
            tf.errors.NotFoundError,
            tf.errors.OutOfRangeError,
            UnicodeDecodeError,  # TensorFlow's words have a damaged name
        ) as error:
            why = errors.reason(error)
            logging.error("Reading failed (%s); looking for the file", why)
            for path in self.files:
                try:
                    for at, record in enumerate(tfrecord.read_records(path)):
                        if problem := self._problem(record):
                            raise UserError(f"{path}, record {at}: {problem}")
                except (UserError, OSError) as bad:
                    raise UserError(str(bad)) from error
            raise

    def _problem(self, record: bytes) -> str | None:
        """Return what is wrong with a serialized record; None if nothing is."""
        try:
            example = tfrecord.decode_example(record)
        except ValueError as error:
            return f"not a tf.train.Example ({error})"
        if lacking := [name for name in self.schema if name not in example]:
            return f"has no feature {lacking[0]!r}"
        for name, feature in self.schema.items():
            values = example[name]
            if len(values) != feature.length:
                return f"{name} has {len(values)} values, not {feature.length}"
            kind = "bytes" if isinstance(values, list) else values.dtype.name
            if kind != feature.dtype:
                return f"{name} holds {kind}, wanted {feature.dtype}"
            if bound := self.bounds.get(name):
                for value in values:
                    if not bound.least <= value < bound.limit:
                        return f"{name} holds {value}, {bound.words}"
        return None


def _open(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
    return tf.data.TFRecordDataset(path, compression, _READ_BUFFER)


def batch_specs(
    schema: Mapping[str, tfrecord.Feature], rows: int | None
) -> dict[str, tf.TensorSpec]:
    """Return the shapes and types of batches of so many decoded records."""
    return {
        name: tf.TensorSpec(
            [rows] if feature.length == 1 else [rows, feature.length],
            tf.float32 if feature.dtype == "float32" else tf.int32,
        )
        for name, feature in schema.items()
    }


# --- Machines and devices ----------------------------------------------------


def check_divides(flag: str, size: int, parts: int, what: str) -> None:
    """Raise a UserError if the batch of a flag does not divide into parts."""
    if size % parts:
        raise UserError(
            f"--{flag}={size} does not divide by {what}; the batch size is "
            f"global: use a multiple of {parts}"
        )


def split_among_replicas(
    batches: tf.data.Dataset,
    context: tf.distribute.InputContext,
    batch_size: int,
) -> tf.data.Dataset:
    """Return this worker's part of each global batch, a batch per replica.

    Example: a global batch of 8 on 2 workers with 2 replicas each is 4 parts
    of 2 examples. Worker 1 (first = 2) yields [4, 5], then [6, 7]. Whoever
    chooses a batch size has called `check_divides`.
    """
    replicas = context.num_replicas_in_sync
    if replicas == 1:
        return batches
    local = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local

    def part(value: tf.Tensor) -> tf.Tensor:
        # Consecutive examples form a part: replica r has the examples from
        # r * B / replicas on, whatever the number of workers.
        inner = elementwise.shape_of(value)[1:]
        shape = [replicas, batch_size // replicas, *inner]
        return tf.reshape(value, shape)[first : first + local]

    def parts(*batch: Batch | tf.Tensor) -> tf.data.Dataset:
        # A batch of one element comes alone.
        whole = batch if len(batch) > 1 else batch[0]
        mine = tf.nest.map_structure(part, whole)
        return tf.data.Dataset.from_tensor_slices(mine)

    return batches.flat_map(parts)


def in_order(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Return a dataset that keeps its order, without TensorFlow's tuner."""
    options = tf.data.Options()
    options.deterministic = True
    # Every degree of parallelism is given. The tuner would only keep a core
    # busy and delay the end of the run by seconds.
    options.autotune.enabled = False
    return dataset.with_options(options)


def _of_worker(
    batches: tf.data.Dataset,
    context: tf.distribute.InputContext,
    batch_size: int,
    made: Callable[[tf.Tensor, tf.Tensor], Batch],
) -> tf.data.Dataset:
    """Return what is `made` of this worker's part of undecoded batches.

    These are pairs (numbers, serialized records), [B] both.
    """
    mine = split_among_replicas(batches, context, batch_size)
    mine = mine.map(made, num_parallel_calls=2, deterministic=True)
    return in_order(mine.prefetch(4))
