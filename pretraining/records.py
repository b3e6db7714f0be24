"""Open and check the record files of a pre-training run, packed or not."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from base import file_system
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


class PretrainingFiles(streaming.RecordFiles):
    """Record files, all packed or none; see `streaming.RecordFiles`.

    Attributes:
        counts: {path: number of records}; of packed files, of rows.
        num_records: their sum.
        masks: how to mask the records; None if they have masks.
        batch_schema: the features of batches: those of masked records.
        lengths: tokens and predictions of a record, unused places included.
    """

    def __init__(
        self,
        files: Sequence[str],
        batch_schema: Mapping[str, tfrecord.Feature],
        bounds: Mapping[str, Bound],
        masks: "Masks | None",
    ):
        schema = batch_schema
        if masks:
            schema = pretraining_schema.unmasked(batch_schema)
        super().__init__(files, schema, bounds, _LENGTH_FLAGS)
        self.masks, self.batch_schema = masks, batch_schema
        self.lengths = tuple(
            batch_schema[name].length for name in ("input_ids", "masked_lm_ids")
        )

    def describe(self) -> dict[str, Any]:
        """Return the entries of training_config.json about the records.

        Files are named without folders, since the records may be moved between
        two starts of a run; folders stay only to tell files of one name apart.
        The order of the files decides that of the records.
        """
        length, predictions = self.lengths
        names = enumerate(names_of(self.files), 1)
        facts = {
            "file_order": {str(number): name for number, name in names},
            "max_seq_length": length,
        }
        if self.masks:
            facts["masking"] = self.masks.describe()
        if packs := self.schema.get(PACKED_FEATURE):
            packing = {
                "max_sequences_per_pack": packs.length,
                "predictions_per_row": predictions,
            }
            return facts | {"packing": packing}
        return facts | {"max_predictions_per_seq": predictions}

    def log(self, flag: str) -> None:
        """Log the files of a flag, and what is in them."""
        logging.info("*** Input Files (--%s) ***", flag)
        for path in self.files:
            logging.info("  %s, %d records", path, self.counts[path])
        logging.info(
            "  %d records in %s",
            self.num_records,
            counted(len(self.files), "file"),
        )
        if packs := self.schema.get(PACKED_FEATURE):
            logging.info(
                "  a record is a row of up to %d sequences", packs.length
            )
        if self.masks:
            found = self.masks.describe().items()
            logging.info(
                "  masks are drawn while reading: %s",
                ", ".join(f"{name} {value}" for name, value in found),
            )

    def prepare(
        self, batch: Batch, numbers: tf.Tensor, seed: int | None
    ) -> Batch:
        """Return the batch; unmasked records get masks (on_the_fly.py)."""
        if not self.masks:
            return batch
        names, size = list(batch), batch["input_ids"].shape[0]
        specs = streaming.batch_specs(self.batch_schema, size)

        def draw(numbers: np.ndarray, *values: np.ndarray) -> list[np.ndarray]:
            if not len(numbers):  # all of a replica's part only fills the batch
                return [
                    np.zeros([0, *spec.shape[1:]], spec.dtype.as_numpy_dtype)
                    for spec in specs.values()
                ]
            features = dict(zip(names, values, strict=True))
            found = self.masks.draw(features, numbers, seed)
            return [
                found[name].astype(spec.dtype.as_numpy_dtype)
                for name, spec in specs.items()
            ]

        types = [spec.dtype for spec in specs.values()]
        values = tf.numpy_function(draw, [numbers, *batch.values()], types)
        return {
            name: tf.ensure_shape(value, specs[name].shape)
            for name, value in zip(specs, values, strict=True)
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
        UserError: a file has records of other features or lengths than the
            first, or none has masks and there is no vocabulary.
    """
    first = tfrecord.describe_first_record(files[0])
    length, packs = instances.max_seq_length, first.get(PACKED_FEATURE, 0)
    masks, predictions = None, first.get("masked_lm_positions")
    if MASKED_FEATURE not in first:
        if not vocabulary:
            raise UserError(
                f"{files[0]} has records without masks (--unmasked): give the "
                "--vocab_file they were made with, to draw masks"
            )
        from pretraining import on_the_fly  # few runs draw masks

        masks = on_the_fly.create(vocabulary, instances, packs)
        predictions = masks.predictions_per_row
    schema = pretraining_schema.schema(
        length, instances.max_predictions_per_seq
    )
    if packs:
        schema = pretraining_schema.packed_schema(length, predictions, packs)
    # The error of a single file would not name the cause, two kinds of files.
    wanted = _kind_of(first)
    for path in files[1:]:
        found = _kind_of(tfrecord.describe_first_record(path))
        if found != wanted:
            raise UserError(
                f"{files[0]} has {wanted}, and {path} has {found}: name files "
                "of one kind, made by one command"
            )
    ids = Bound(config.vocab_size, "vocab_size of the configuration")
    places = Bound(length, "max_seq_length")
    bounds = {
        "input_ids": ids,
        "masked_lm_ids": ids,
        "masked_lm_positions": places,
        "segment_ids": Bound(
            config.type_vocab_size, "type_vocab_size of the configuration"
        ),
        # Those of packed rows.
        "sequence_ids": Bound(packs + 1, "sequences of a row"),
        "position_ids": places,
        PACKED_FEATURE: places,
    }
    return PretrainingFiles(files, schema, bounds, masks)


def _kind_of(features: Mapping[str, int]) -> str:
    """Return what records with these features are; they have these lengths."""
    kind = "records of one sequence"
    if packs := features.get(PACKED_FEATURE):
        kind = f"packed rows of up to {packs} sequences (--pack_sequences)"
        if places := features.get("masked_lm_positions"):
            kind += f" and {places} predictions"
    if MASKED_FEATURE not in features:
        kind += " without masks (--unmasked)"
    return kind
