"""Batches of like length, from records that fit in memory.

Fine-tuning data are small and short: most of a batch padded to max_seq_length
is padding. Here a batch is padded to the smallest of a few lengths that holds
its longest row, and rows of like length come together, so that shapes stay few
and static (XLA compiles one program for each) and little is padded.

What batch s holds depends on records, seed and s alone:

    epoch e = all records in an order drawn from (seed, e), cut into windows
    of WINDOW batches; a window is sorted by length and cut into batches,
    which are used in an order drawn from (seed, e, window)
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence

from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

from ops import elementwise
from records import streaming, tfrecord

WINDOW = 50  # batches sorted together: more pads less, and mixes less

# Lengths a batch may have, as far as max_seq_length goes.
_LENGTHS = (16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448)


def bucket_lengths(
    max_seq_length: int, pad_to_max_length: bool = False, is_fine: bool = False
) -> list[int]:
    """Return the lengths batches may have, the longest last.

    Args:
        max_seq_length: the longest.
        pad_to_max_length: that one alone.
        is_fine: every multiple of 8, for those who compile nothing.
    """
    if pad_to_max_length:
        return [max_seq_length]
    lengths = range(8, max_seq_length, 8) if is_fine else _LENGTHS
    return [n for n in lengths if n < max_seq_length] + [max_seq_length]


class Plan:
    """Which records are in which batch, and how long it is.

    Args:
        lengths: [n] tokens of each record.
        batch_size: records in a batch.
        buckets: ascending lengths a batch may have.
        seed: draws the order.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        batch_size: int,
        buckets: Sequence[int],
        seed: int,
    ):
        self.lengths = np.asarray(lengths)
        self.batch_size = batch_size
        self.buckets = np.asarray(buckets)
        self.seed = seed
        if len(self.lengths) == 0:
            raise UserError("there is no record to make batches of")
        self._window_at = functools.lru_cache(maxsize=4)(self._make_window)

    def _bucket_of(self, length: int) -> int:
        return int(self.buckets[np.searchsorted(self.buckets, length)])

    def _records(self, start: int, count: int) -> np.ndarray:
        """Records [start, start + count) of the endless shuffled stream."""
        size, parts = len(self.lengths), []
        while count:
            epoch, at = divmod(start, size)
            part = self._epoch(epoch)[at : at + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return np.concatenate(parts)

    def _epoch(self, epoch: int) -> np.ndarray:
        return np.random.default_rng([self.seed, epoch]).permutation(
            len(self.lengths)
        )

    def _make_window(self, window: int) -> list[np.ndarray]:
        count = WINDOW * self.batch_size
        rows = self._records(window * count, count)
        if len(self.buckets) > 1:
            rows = rows[np.argsort(self.lengths[rows], kind="stable")]
            rng = np.random.default_rng([self.seed, window, 1])
            order = rng.permutation(WINDOW)
        else:
            order = np.arange(WINDOW)
        return [rows.reshape(WINDOW, -1)[number] for number in order]

    def batch(self, step: int) -> np.ndarray:
        """Return the numbers of the records of batch `step`, [batch_size]."""
        window, at = divmod(step, WINDOW)
        return self._window_at(window)[at]

    def length(self, step: int) -> int:
        """Return the length batch `step` is padded to."""
        return self._bucket_of(self.lengths[self.batch(step)].max())


def sorted_batches(
    lengths: np.ndarray, batch_size: int, buckets: Sequence[int]
) -> list[tuple[np.ndarray, int]]:
    """Return every record once, longest first: [(record numbers, length)].

    The last batch of a length may be short. For prediction, whose results
    are put back in order by number.
    """
    lengths, buckets = np.asarray(lengths), np.asarray(buckets)
    places = np.searchsorted(buckets, lengths)
    batches = []
    for place in range(len(buckets))[::-1]:
        rows = np.flatnonzero(places == place)
        batches += [
            (rows[at : at + batch_size], int(buckets[place]))
            for at in range(0, len(rows), batch_size)
        ]
    return batches


class ShortRecords:
    """Records in memory, each as long as it is.

    Args:
        files: record files.
        schema: feature name to type and length, from the flags.
        bounds: feature name to the range its values must lie in.
        length_flags: feature name to the flag its length comes from.
        pad_to_max_length: pad every batch to the full length, as the original.
    """

    def __init__(
        self,
        files: Sequence[str],
        schema: Mapping[str, tfrecord.Feature],
        bounds: Mapping[str, streaming.Bound],
        length_flags: Mapping[str, str],
        pad_to_max_length: bool = False,
    ):
        self.files = streaming.RecordFiles(files, schema, bounds, length_flags)
        self.full_length = schema["input_ids"].length
        self.pad_to_max_length = pad_to_max_length
        self.sequences = [
            name
            for name, feature in schema.items()
            if feature.length == self.full_length
        ]
        self.features = _load(self.files)
        mask = self.features["input_mask"] != 0
        # The last token, so that a hole in the mask cuts nothing off.
        self.lengths = self.full_length - np.argmax(mask[:, ::-1], axis=1)
        self.lengths[~mask.any(axis=1)] = 1
        self.num_records = self.files.num_records

    def buckets(self, is_fine: bool = False) -> list[int]:
        """Return the lengths batches may have; see bucket_lengths."""
        return bucket_lengths(self.full_length, self.pad_to_max_length, is_fine)

    def training(
        self, batch_size: int, seed: int, is_fine: bool = False, group: int = 1
    ) -> "TrainingBatches":
        """Return the endless stream of training batches.

        Args:
            batch_size: examples in a batch.
            seed: draws the order.
            is_fine: see bucket_lengths.
            group: records that make an example, one after the other. Beyond 1
                features are [B, group, ...]: an example stays whole wherever
                a batch is split.
        """
        lengths = self.lengths.reshape(-1, group).max(axis=1)
        plan = Plan(lengths, batch_size, self.buckets(is_fine), seed)
        return TrainingBatches(self, plan, group)

    def gather(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the features of some records, sequences cut to a length.

        Args:
            rows: numbers of records, of any shape [...].
            length: S.

        Returns:
            Name to [..., S], or [...] for what is no sequence.
        """
        return {
            name: _widen(
                value[rows, :length] if name in self.sequences else value[rows]
            )
            for name, value in self.features.items()
        }

    def signature(
        self, size: int, length: int | None, group: int = 1
    ) -> dict[str, tf.TensorSpec]:
        """Return the shapes of a batch; None: of any length."""
        rows = [size] if group == 1 else [size, group]
        return {
            name: tf.TensorSpec(
                [*rows, length] if name in self.sequences else rows,
                _wide_type(value),
            )
            for name, value in self.features.items()
        }

    def prediction(
        self, batch_size: int, is_fine: bool = False
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """Yield (record numbers, batch) until each record was in one.

        Batches are filled up to `batch_size` with their own first record,
        whose `example_weights` are 0 there.
        """
        for rows, length in sorted_batches(
            self.lengths, batch_size, self.buckets(is_fine)
        ):
            filled = np.concatenate(
                [rows, np.repeat(rows[:1], batch_size - len(rows))]
            )
            batch = self.gather(filled, length)
            batch["example_weights"] = np.zeros([batch_size], np.float32)
            batch["example_weights"][: len(rows)] = 1.0
            yield rows, batch

    def log_lengths(self) -> None:
        """Say how much of the full length the records fill."""
        logging.info(
            "  %d records, %.1f tokens in the mean, padded to %s %d",
            self.num_records,
            self.lengths.mean(),
            "all of" if self.pad_to_max_length else "like lengths, at most",
            self.full_length,
        )


class TrainingBatches:
    """Batches of a plan, as training.Batches wants them.

    Args:
        data: the records.
        plan: of examples.
        group: records that make an example.
    """

    def __init__(self, data: ShortRecords, plan: Plan, group: int = 1):
        self.data, self.plan, self.group = data, plan, group

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the features of a step, [B, ...] or [B, group, ...]."""
        rows = self.plan.batch(step)
        if self.group > 1:
            rows = rows[:, None] * self.group + np.arange(self.group)
        return self.data.gather(rows, self.plan.length(step))

    def length(self, step: int) -> int:
        """Return the length of the sequences of a step."""
        return self.plan.length(step)

    def make(
        self, start: int
    ) -> Callable[[tf.distribute.InputContext], tf.data.Dataset]:
        """Return the dataset function from example `start` on."""
        size = self.plan.batch_size

        def batches() -> Iterator[dict[str, np.ndarray]]:
            step = start // size
            while True:
                yield self.batch(step)
                step += 1

        def make(context: tf.distribute.InputContext) -> tf.data.Dataset:
            return self._replica_batches(context, batches)

        return make

    def _replica_batches(self, context, batches) -> tf.data.Dataset:
        pieces, size = context.num_replicas_in_sync, self.plan.batch_size
        streaming.check_divides(size, pieces)
        local = pieces // context.num_input_pipelines
        first = context.input_pipeline_id * local
        rows = size // pieces
        is_static = len(self.plan.buckets) == 1
        known = int(self.plan.buckets[0]) if is_static else None
        signature = self.data.signature(size, known, self.group)

        def split(batch: streaming.Batch) -> tf.data.Dataset:
            mine = {}
            for name, value in batch.items():
                inner = elementwise.shape_of(value)[1:]
                parts = tf.reshape(value, [pieces, rows, *inner])
                mine[name] = parts[first : first + local]
            return tf.data.Dataset.from_tensor_slices(mine)

        dataset = tf.data.Dataset.from_generator(
            batches, output_signature=signature
        )
        if pieces > 1:
            dataset = dataset.flat_map(split)
        options = tf.data.Options()
        options.deterministic = True
        options.autotune.enabled = False
        return dataset.prefetch(2).with_options(options)


def _load(files: streaming.RecordFiles) -> dict[str, np.ndarray]:
    """Return all records as arrays of the narrowest types that hold them."""
    context = tf.distribute.InputContext(1, 0, 1)
    parts: dict[str, list[np.ndarray]] = {}
    batches = files.evaluation(1024, files.num_records)(context)
    for batch in batches.as_numpy_iterator():
        is_real = batch.pop("example_weights") > 0
        for name, value in batch.items():
            parts.setdefault(name, []).append(_narrow(value[is_real]))
    return {name: np.concatenate(values) for name, values in parts.items()}


def _narrow(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind != "i":
        return values
    for dtype in (np.int8, np.int16, np.int32):
        bounds = np.iinfo(dtype)
        if values.min() >= bounds.min and values.max() <= bounds.max:
            return values.astype(dtype)
    return values


def _wide_type(values: np.ndarray) -> type:
    return np.int32 if values.dtype.kind == "i" else np.float32


def _widen(values: np.ndarray) -> np.ndarray:
    return values.astype(_wide_type(values))
