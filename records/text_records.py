"""Base class for converting the text files of a task to record files."""

from collections.abc import Iterable, Mapping
from typing import Any

from base import file_system

import numpy as np
from absl import logging

import tokenization
from records import cache as record_cache
from records import tfrecord


class TextRecords:
    """Base class: converts a task's text files to record files, once.

    A subclass reads the text files and converts them to features; this class
    holds what the features of every task depend on, writes them and logs the
    first ones.

    Args:
        records_dir: where the records go.
        schema: {feature name: type and length}.
        tokenizer: text to ids.
        vocab_size: of the configuration; no id may reach it.
        max_seq_length: length of the padded sequences.
        pad_to_max_length: pad every batch to that length.

    Attributes:
        cache: the record files in records_dir.
    """

    def __init__(
        self,
        records_dir: str,
        schema: Mapping[str, tfrecord.Feature],
        tokenizer: tokenization.FullTokenizer,
        vocab_size: int,
        max_seq_length: int,
        pad_to_max_length: bool,
    ):
        self.tokenizer, self.max_seq_length = tokenizer, max_seq_length
        self.cache = record_cache.RecordCache(
            records_dir, schema, vocab_size, pad_to_max_length
        )

    def text_fingerprint(self) -> dict[str, Any]:
        """Return the fingerprint of tokenization: vocabulary, casing, length.

        A task adds the checksum of its file and all else its features depend
        on.
        """
        return record_cache.text_fingerprint(
            self.tokenizer, self.max_seq_length
        )

    def write_file(
        self, path: str, parts: Iterable[Mapping[str, np.ndarray]]
    ) -> int:
        """Write features to a record file; return the number of records.

        The file appears when it is complete.

        Args:
            path: of the file.
            parts: features [n, ...] of some records at a time.
        """
        with file_system.atomic_file(path) as file:
            with tfrecord.RecordWriter(file) as writer:
                for features in parts:
                    writer.write_examples(features)
                return writer.num_records

    def tokens(self, features: Mapping[str, np.ndarray], row: int) -> list[str]:
        """Return the tokens of a record, without padding."""
        ids = features["input_ids"][row]
        used = ids[features["input_mask"][row] > 0].tolist()
        return self.tokenizer.convert_ids_to_tokens(used)


def log_example(*lines: tuple[str, Any]) -> None:
    """Log an example under the original's headline.

    The first examples of a data set show mistakes in reading it.

    Args:
        lines: (name, value), such as ("guid", "7").
    """
    logging.info("*** Example ***")
    for name, value in lines:
        logging.info("%s: %s", name, value)
