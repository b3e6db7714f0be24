"""Open and check the record files of a pre-training run, packed or not."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from base import file_system, progress
from base.errors import UserError, counted

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from pretraining.data import schema as pretraining_schema
from pretraining.data.schema import (
    MASKED_FEATURE,
    PACKED_FEATURE,
    InstanceConfig,
)
from records import streaming, tfrecord
from records.streaming import Batch, Bound
from tokenization import Vocabulary

if TYPE_CHECKING:
    from pretraining.on_the_fly import Masks

_TOKENS = ("input_ids", "input_mask", "segment_ids")
_PREDICTIONS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")

# The flag that sets the length of a feature, for error messages.
_LENGTH_FLAGS = {
    **dict.fromkeys(_TOKENS, "max_seq_length"),
    **dict.fromkeys(_PREDICTIONS, "max_predictions_per_seq"),
}


# Packed rows have lengths that no flag of a training run sets.
_ROW_LENGTHS = {
    "masked_lm_positions": "predictions",
    PACKED_FEATURE: "sequences",
}

_COUNTED_AT_ONCE = 512  # rows
_FILES_LOGGED = 20


class PretrainingFiles(streaming.RecordFiles):
    """Record files, all packed or none; see `streaming.RecordFiles`.

    Attributes:
        counts: {path: number of records}; of packed files, of rows.
        num_records: their sum.
        is_packed: whether a record is a row of several sequences.
        masks: how to mask the records; None if they have masks.
        batch_schema: the features of batches: those of masked records.
        sequences: {path: number of sequences}; as `counts` if not packed.
        num_sequences: their sum.
        num_tokens: real tokens of packed files; 0 if not counted.
        max_sequences: sequences that a record may have.
        lengths: tokens and predictions of a record, unused places included.
    """

    def __init__(
        self,
        *args: Any,
        masks: "Masks | None" = None,
        batch_schema: Mapping[str, tfrecord.Feature] | None = None,
    ):
        super().__init__(*args)
        self.masks, self.batch_schema = masks, batch_schema or self.schema
        self.is_packed = PACKED_FEATURE in self.schema
        self.sequences, self.num_tokens = self.counts, 0
        self.max_sequences = self.schema["next_sentence_labels"].length
        self.lengths = tuple(
            self.batch_schema[name].length
            for name in ("input_ids", "masked_lm_ids")
        )
        if self.is_packed:
            with self.naming_bad_files():
                self._count_sequences()
        self.num_sequences = sum(self.sequences.values())

    def _count_sequences(self) -> None:
        """Count the sequences and tokens of all rows: reads all files."""
        names = ("input_mask", "next_sentence_weights")
        schema = {name: self.schema[name] for name in names}

        def count(serialized: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            batch = streaming.parse_batch(serialized, schema)
            sequences = tf.cast(batch["next_sentence_weights"], tf.int64)
            return tf.reduce_sum(sequences), tf.reduce_sum(batch["input_mask"])

        self.sequences = {}
        with progress.Bar(
            self.num_records, "rows", "Counting sequences"
        ) as bar:
            for path, num_rows in self.counts.items():
                kind = "GZIP" if tfrecord.is_gzip(path) else ""
                sums = (
                    tf.data.TFRecordDataset(path, kind, 1 << 20)
                    .batch(_COUNTED_AT_ONCE)
                    .map(count, num_parallel_calls=2)
                    .reduce(
                        (tf.constant(0, tf.int64), tf.constant(0, tf.int64)),
                        lambda old, new: tf.nest.map_structure(
                            tf.add, old, new
                        ),
                    )
                )
                self.sequences[path] = int(sums[0])
                self.num_tokens += int(sums[1])
                bar.update(num_rows)

    def describe(self) -> dict[str, Any]:
        """Return the entries of training_config.json about the records.

        Files are named without folders, since the records may be moved between
        two starts of a run; folders stay only to tell files of one name apart.
        The order of the files decides that of the records.
        """
        length, predictions = self.lengths
        names = names_of(self.files)
        counts = [self.sequences[path] for path in self.files]
        facts = {
            "data": dict(zip(names, counts, strict=True)),
            "file_order": {str(n): name for n, name in enumerate(names, 1)},
            "max_seq_length": length,
        }
        if self.masks:
            facts["masking"] = self.masks.describe()
        if not self.is_packed:
            return facts | {"max_predictions_per_seq": predictions}
        packing = {
            "rows": self.num_records,
            "sequences": self.num_sequences,
            "tokens": self.num_tokens,
            "sequences_per_row": self.num_sequences / self.num_records,
            "max_sequences_per_pack": self.max_sequences,
            "predictions_per_row": predictions,
        }
        return facts | {"packing": packing}

    def log(self, flag: str) -> None:
        """Log the files of a flag, and what is in them."""
        logging.info("*** Input Files (--%s) ***", flag)
        for path in self.files[:_FILES_LOGGED]:
            count = f"{self.counts[path]} records"
            if self.is_packed:
                rows = self.counts[path]
                count = f"{self.sequences[path]} sequences in {rows} rows"
            logging.info("  %s, %s", path, count)
        if len(self.files) > _FILES_LOGGED:
            logging.info("  ... and %d more", len(self.files) - _FILES_LOGGED)
        logging.info(
            "  %d records in %s",
            self.num_records,
            counted(len(self.files), "file"),
        )
        if self.is_packed:
            self._log_packing()
        if self.masks:
            found = self.masks.describe().items()
            logging.info(
                "  masks are drawn while reading: %s",
                ", ".join(f"{name} {value}" for name, value in found),
            )

    def _log_packing(self) -> None:
        """Log how the rows of packed files are filled."""
        length, predictions = self.lengths
        logging.info(
            "  packed rows: %s sequences, %.3f in each row (at most %d), "
            "%.2f%% of the tokens real",
            f"{self.num_sequences:,}",
            self.num_sequences / self.num_records,
            self.max_sequences,
            100 * self.num_tokens / (self.num_records * length),
        )
        unused = "; --max_predictions_per_seq is of other records, and not used"
        logging.info(
            "  a row has %d places for predictions%s",
            predictions,
            "" if self.masks else unused,
        )

    def prepare(
        self, batch: Batch, numbers: tf.Tensor, seed: int | None
    ) -> Batch:
        """Return the batch; unmasked records get masks (on_the_fly.py)."""
        if not self.masks:
            return batch
        names, size = list(batch), batch["input_ids"].shape[0]
        schema = self.batch_schema
        types = [
            np.float32 if feature.dtype == "float32" else np.int32
            for feature in schema.values()
        ]
        shapes = [
            [] if feature.length == 1 else [feature.length]
            for feature in schema.values()
        ]

        def draw(numbers: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
            if not len(numbers):  # all of a replica's part only fills the batch
                return [
                    np.zeros([0, *shape], dtype)
                    for shape, dtype in zip(shapes, types, strict=True)
                ]
            features = dict(zip(names, values, strict=True))
            found = self.masks.draw(features, numbers, seed)
            return [
                found[name].astype(dtype)
                for name, dtype in zip(schema, types, strict=True)
            ]

        values = tf.numpy_function(draw, [numbers, *batch.values()], types)
        return {
            name: tf.ensure_shape(value, [size, *shape])
            for name, value, shape in zip(schema, values, shapes, strict=True)
        }


def names_of(files: Sequence[str]) -> list[str]:
    """Return the names of files, with folders where two have one name."""
    names = [os.path.basename(path) for path in files]
    if len(set(names)) < len(names):
        names = file_system.names_in_shared_folder(files)
    return names


def find_data(
    files: list[str],
    config: modeling.BertConfig,
    instances: InstanceConfig,
    vocabulary: Vocabulary | None = None,
) -> PretrainingFiles:
    """Return the record files, checked against lengths and configuration.

    The features of the records show whether they are packed rows. They also
    show how many predictions and sequences such a row may have, which follows
    from several flags of the generator.

    Records without masks get them when they are read, with the probabilities of
    `instances`.

    Ids are checked when a batch is read: without a check, a GPU takes zeros
    for the embedding of an id beyond the vocabulary, without an error.

    Raises:
        UserError: a file has records of other features or lengths, or none of
            them has masks and there is no vocabulary.
    """
    first = tfrecord.describe_first_record(files[0])
    length, packs = instances.max_seq_length, first.get(PACKED_FEATURE, 0)
    schema = pretraining_schema.schema(
        length, instances.max_predictions_per_seq
    )
    if packs:
        schema = pretraining_schema.packed_schema(
            length, first.get("masked_lm_positions", 0), packs
        )
    masks = batch_schema = None
    if MASKED_FEATURE not in first and not vocabulary:
        raise UserError(
            f"{files[0]} has records without masks (--unmasked): give the "
            "--vocab_file they were made with, to draw masks"
        )
    if MASKED_FEATURE not in first:
        from pretraining import on_the_fly  # few runs draw masks

        masks = on_the_fly.create(vocabulary, instances, packs)
        batch_schema = schema
        if packs:
            batch_schema = pretraining_schema.packed_schema(
                length, masks.predictions_per_row, packs
            )
        schema = pretraining_schema.unmasked(schema)
    bounds = _bounds(config, length, packs)
    bounds = {name: bounds[name] for name in schema if name in bounds}
    _check_same_kind(files, first)
    return PretrainingFiles(
        files,
        schema,
        bounds,
        _LENGTH_FLAGS,
        masks=masks,
        batch_schema=batch_schema,
    )


def _bounds(
    config: modeling.BertConfig, max_seq_length: int, max_sequences: int
) -> dict[str, Bound]:
    """Return the range of each feature; `max_sequences` is 0 if not packed."""
    ids = Bound(config.vocab_size, "vocab_size of the configuration")
    places = Bound(max_seq_length, "max_seq_length")
    return {
        "input_ids": ids,
        "masked_lm_ids": ids,
        "masked_lm_positions": places,
        "segment_ids": Bound(
            config.type_vocab_size, "type_vocab_size of the configuration"
        ),
        # Those of packed rows.
        "sequence_ids": Bound(max_sequences + 1, "sequences of a row"),
        "position_ids": places,
        PACKED_FEATURE: places,
    }


def _check_same_kind(files: Sequence[str], first: Mapping[str, int]) -> None:
    """Check that all files have masks or none, and are packed alike or none.

    The error of a single file would not name the cause, that two kinds of files
    are mixed. `first` describes a record of the first file.

    Raises:
        UserError: names two files of two kinds.
    """
    is_packed = PACKED_FEATURE in first
    for path in files[1:]:
        found = tfrecord.describe_first_record(path)
        if (MASKED_FEATURE in found) != (MASKED_FEATURE in first):
            raise UserError(
                f"of {files[0]} and {path} one has masks and the other none "
                "(--unmasked): name files of one kind"
            )
        if (PACKED_FEATURE in found) != is_packed:
            packed, other = (files[0], path) if is_packed else (path, files[0])
            raise UserError(
                f"{packed} has packed rows (--pack_sequences), {other} has "
                "one sequence in each record: name files of one kind"
            )
        for name, what in _ROW_LENGTHS.items():
            if is_packed and found.get(name) != first.get(name):
                raise UserError(
                    f"{path} was made with other flags than {files[0]}: its "
                    f"rows have places for {found.get(name)} {what}, not "
                    f"{first.get(name)}; name files of one command"
                )
