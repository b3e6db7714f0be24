"""Batches of records of similar length, from records that fit in memory.

Fine-tuning data are small and their texts are short: most of a batch that is
padded to max_seq_length is padding. Here each batch is padded to the smallest
of a few lengths that holds its longest record, and records of similar length
share a batch. XLA compiles one program for each length, hence few lengths.

The records of batch s are a function of the records, the seed and s:

    stream = all records in an order drawn from (seed, 0), then in one drawn
    from (seed, 1), ...
    window w = the next WINDOW * batch_size records of the stream, sorted by
    length and cut into WINDOW batches, in an order drawn from (seed, w)

Example with windows of 2 batches of 3 records: if the next records of the
stream have 9, 31, 12, 30, 10 and 14 tokens, the batches are (9, 10, 12),
padded to 16, and (14, 30, 31), padded to 32, in either order. Unsorted, both
would be padded to 32.
"""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from records import streaming, tfrecord
from records.lengths import bucket_lengths

# Batches sorted together. A larger window pads less and mixes less: the more
# records are sorted, the more alike in length are those of a batch.
WINDOW = 50


class BatchPlan:
    """Which records are in each training batch, and its padded length.

    `lengths` are the tokens of each record, [n], `buckets` the lengths that a
    batch may be padded to, ascending.
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
        # Consecutive steps are in one window. The training loop reads lengths
        # of later steps while the input pipeline makes the batches of others,
        # so two windows alternate where they meet, hence more than one.
        self._window_at = functools.lru_cache(maxsize=4)(self._make_window)

    def batch(self, step: int) -> np.ndarray:
        """Return the numbers of the records of batch `step`, [batch_size]."""
        # With WINDOW = 50, batch 137 is number 37 of window 2.
        window, at = divmod(step, WINDOW)
        return self._window_at(window)[at]

    def length(self, step: int) -> int:
        """Return the length that batch `step` is padded to."""
        # The first bucket that is not shorter: of (16, 32), 16 holds 16
        # tokens, and 17 need 32.
        longest = self.lengths[self.batch(step)].max()
        return int(self.buckets[np.searchsorted(self.buckets, longest)])

    def _make_window(self, window: int) -> np.ndarray:
        """Return the records of each batch of a window, [WINDOW, B]."""
        count = WINDOW * self.batch_size
        # Part of the endless stream of epochs. With 10 records, records
        # [8, 23) are the last 2 of epoch 0, all of epoch 1 and the first 3 of
        # epoch 2. So no record of an epoch is dropped where the batch size
        # does not divide it.
        size = len(self.lengths)
        first, skipped = divmod(window * count, size)
        end = -(-(window + 1) * count // size)
        epochs = [
            np.random.default_rng([self.seed, epoch]).permutation(size)
            for epoch in range(first, end)
        ]
        rows = np.concatenate(epochs)[skipped : skipped + count]
        if len(self.buckets) == 1:  # one length: nothing to sort
            return rows.reshape(WINDOW, -1)
        # A stable sort keeps the drawn order of records of one length, and
        # gives the same result on every machine.
        rows = rows[np.argsort(self.lengths[rows], kind="stable")]
        # Without a drawn order, the batches of every window would come by
        # length. The 1 makes the seed differ from that of epoch `window`.
        rng = np.random.default_rng([self.seed, window, 1])
        return rows.reshape(WINDOW, -1)[rng.permutation(WINDOW)]


class ShortRecords:
    """Records in memory, cut to the length of the batch they are used in.

    Features that `sequences` names, by default all, are [n, S, ...], others
    [n, ...]; input_mask is among them.

    Attributes:
        lengths: [n], up to the last real token of each record.
        num_records: n.
        group: consecutive records that are one training example, such as the
            four choices of a question.
    """

    group = 1

    def __init__(
        self,
        features: Mapping[str, np.ndarray],
        sequences: Sequence[str] | None = None,
        pad_to_max_length: bool = False,
    ):
        self.features = dict(features)
        self.sequences = list(features) if sequences is None else sequences
        self.pad_to_max_length = pad_to_max_length
        mask = features["input_mask"] != 0
        self.full_length = mask.shape[1]
        # Counted to the last 1 of the mask, not as the sum of the mask: a
        # zero in the middle must not cut tokens off at the end. For example
        # 1 1 0 1 0 has its last 1 at place 1 from the end (argmax of the
        # reversed mask), so the length is 5 - 1 = 4.
        self.lengths = self.full_length - np.argmax(mask[:, ::-1], axis=1)
        # Without any 1, argmax is 0 and the length would be the full one.
        self.lengths[~mask.any(axis=1)] = 1
        self.num_records = len(mask)

    @classmethod
    def read(
        cls,
        files: Sequence[str],
        schema: Mapping[str, tfrecord.Feature],
        bounds: Mapping[str, streaming.Bound],
        length_flags: Mapping[str, str],
        pad_to_max_length: bool = False,
    ) -> "ShortRecords":
        """Return the records of files, in the narrowest types that hold them.

        Masks and segments need one byte, token ids two, where records have
        eight. Arguments and errors are those of streaming.RecordFiles.
        """
        found = streaming.RecordFiles(files, schema, bounds, length_flags)
        context = tf.distribute.InputContext(1, 0, 1)
        parts: dict[str, list[np.ndarray]] = {name: [] for name in schema}
        batches = found.evaluation(1024, found.num_records, context)
        with found.naming_bad_files():
            for batch in batches.as_numpy_iterator():
                is_real = batch.pop("example_weights") > 0
                for name, value in batch.items():
                    parts[name].append(_narrow(value[is_real]))
        full = schema["input_ids"].length
        sequences = [
            n for n, f in schema.items() if f.per_token and f.length == full
        ]
        features = {name: np.concatenate(some) for name, some in parts.items()}
        return cls(features, sequences, pad_to_max_length)

    @property
    def num_examples(self) -> int:
        """The number of training examples."""
        return self.num_records // self.group

    def append(self, other: "ShortRecords") -> None:
        """Add the records of another file, which is empty afterwards."""
        for name, value in self.features.items():
            parts = [value, other.features.pop(name)]
            self.features[name] = np.concatenate(parts)
        self.lengths = np.concatenate([self.lengths, other.lengths])
        self.num_records = len(self.lengths)

    def buckets(self, is_fine: bool = False) -> list[int]:
        """Return the lengths of batches; see `lengths.bucket_lengths`."""
        return bucket_lengths(self.full_length, self.pad_to_max_length, is_fine)

    def training(
        self, batch_size: int, seed: int, is_fine: bool = False
    ) -> "TrainingBatches":
        """Return the endless training batches of batch_size examples, B.

        If an example is a `group` of records, features are [B, group, ...], and
        an example stays whole when a batch is split among devices. For is_fine
        see `buckets`.
        """
        # A plan of examples, each as long as the longest of its records.
        lengths = self.lengths.reshape(-1, self.group).max(axis=1)
        plan = BatchPlan(lengths, batch_size, self.buckets(is_fine), seed)
        return TrainingBatches(self, plan)

    def gather(self, rows: np.ndarray, length: int) -> dict[str, np.ndarray]:
        """Return the features of records [...], sequences cut to a length S.

        They are [..., S] for sequences, [...] for other features; of features
        with a vector per token or record [..., S, K], [..., K].
        """
        return {
            name: (
                value[rows, :length] if name in self.sequences else value[rows]
            ).astype(_type_in_batch(value))
            for name, value in self.features.items()
        }

    def signature(
        self, size: int, length: int | None
    ) -> dict[str, tf.TensorSpec]:
        """Return the shapes and types of a batch of `size` examples.

        The length is None if it differs from batch to batch.
        """
        rows = [size] if self.group == 1 else [size, self.group]
        specs = {}
        for name, value in self.features.items():
            inner = value.shape[1:]
            if name in self.sequences:
                inner = [length, *inner[1:]]
            specs[name] = tf.TensorSpec([*rows, *inner], _type_in_batch(value))
        return specs


class TrainingBatches:
    """The endless batches of a plan, for the training loop.

    An example of the plan is a group of records of the data.
    """

    def __init__(self, data: ShortRecords, plan: BatchPlan):
        self.data, self.plan, self.group = data, plan, data.group
        self.length = plan.length

    def batch(self, step: int) -> dict[str, np.ndarray]:
        """Return the features of a step, [B, ...] or [B, group, ...]."""
        rows = self.plan.batch(step)
        if self.group > 1:
            # With groups of 4, example 5 has the records 20, 21, 22 and 23.
            rows = rows[:, None] * self.group + np.arange(self.group)
        return self.data.gather(rows, self.plan.length(step))

    def make(
        self, start: int, context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """Return a dataset of this worker's batches from example `start` on."""
        size = self.plan.batch_size
        # With several lengths the training step sets the static shape.
        is_static = len(self.plan.buckets) == 1
        known = int(self.plan.buckets[0]) if is_static else None

        def batches() -> Iterator[dict[str, np.ndarray]]:
            for step in itertools.count(start // size):
                yield self.batch(step)

        # The step is known, so a resumed run starts here without reading or
        # skipping anything. Every worker makes the whole batch and keeps the
        # parts of its own replicas.
        dataset = tf.data.Dataset.from_generator(
            batches, output_signature=self.data.signature(size, known)
        )
        mine = streaming.split_among_replicas(dataset, context, size)
        return streaming.in_order(mine.prefetch(2))


def _narrow(values: np.ndarray) -> np.ndarray:
    """Return integers in the narrowest type that holds them."""
    if values.dtype.kind != "i":
        return values
    for dtype in (np.int8, np.int16, np.int32):
        bounds = np.iinfo(dtype)
        if values.min() >= bounds.min and values.max() <= bounds.max:
            return values.astype(dtype)
    return values


def _type_in_batch(values: np.ndarray) -> type:
    return np.int32 if values.dtype.kind == "i" else np.float32
