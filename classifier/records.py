"""The splits of a sentence task as record files.

Apart from classifier_data.py, which knows the files of tasks but nothing of
records, and from run_classifier.py, which has enough to tell.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from base import file_system

import numpy as np
from absl import logging

import tokenization
from classifier import data as classifier_data
from classifier import tasks as classifier_tasks
from records import cache as record_cache
from records import in_memory, tfrecord

_SHOWN = 5  # examples in the log


class ClassifierRecords:
    """A task's files as records.

    Args:
        task: which files and labels.
        data_dir: where the files are.
        records_dir: where the records go.
        tokenizer: text to ids.
        vocab_size: of the configuration.
        max_seq_length: longer sentences and pairs are cut.
        pad_to_max_length: pad every batch to that length.
    """

    def __init__(
        self,
        task: classifier_tasks.Task,
        data_dir: str,
        records_dir: str,
        tokenizer: tokenization.FullTokenizer,
        vocab_size: int,
        max_seq_length: int,
        pad_to_max_length: bool,
    ):
        self.task, self.tokenizer = task, tokenizer
        self.data_dir, self.max_seq_length = data_dir, max_seq_length
        self.is_regression = task.labels is None
        self.cache = record_cache.RecordCache(
            records_dir,
            classifier_data.schema(max_seq_length, self.is_regression),
            vocab_size,
            pad_to_max_length,
        )
        self.examples: dict[str, list[classifier_data.Example]] = {}

    def split(
        self, name: str, split: classifier_tasks.Split
    ) -> in_memory.ShortRecords:
        """Return the records of a file, from the last run or made now."""
        return self.cache.records(
            name,
            self.fingerprint(split),
            lambda path: self._write(path, name, split),
        )

    def check(self, name: str, split: classifier_tasks.Split) -> None:
        """Read a file, unless its records exist already.

        Raises:
            UserError: the file is damaged; names the line.
        """
        if not self.cache.has(self.cache.path(name), self.fingerprint(split)):
            self.read(name, split)

    def read(
        self, name: str, split: classifier_tasks.Split
    ) -> list[classifier_data.Example]:
        """Return the examples of a file."""
        if name not in self.examples:
            self.examples[name] = classifier_data.read_examples(
                self.data_dir,
                split,
                self.task.labels,
                self.task.language,
                self.is_regression,
            )
        return self.examples[name]

    def fingerprint(self, split: classifier_tasks.Split) -> dict[str, Any]:
        """Return all that the records of a file depend on."""
        path = os.path.join(self.data_dir, split.file)
        return {
            "data": file_system.sha256(path),
            "columns": split.columns._asdict(),
            "labels": self.task.labels,
            "language": self.task.language,
            **record_cache.text_fingerprint(
                self.tokenizer, self.max_seq_length
            ),
        }

    def _write(
        self, path: str, name: str, split: classifier_tasks.Split
    ) -> None:
        examples = self.read(name, split)
        features, num_cut = classifier_data.convert_examples(
            examples, self.label_id, self.max_seq_length, self.tokenizer
        )
        label_type = np.float32 if self.is_regression else np.int64
        features["label_ids"] = features["label_ids"].astype(label_type)
        self._log_examples(examples, features)
        with file_system.atomic_file(path) as file:
            with tfrecord.RecordWriter(file) as writer:
                writer.write_examples(features)
        logging.info(
            "Wrote %d examples to %s, %d of them cut to %d tokens",
            len(examples),
            path,
            num_cut,
            self.max_seq_length,
        )
        del self.examples[name]  # training sets are large

    def label_id(self, label: str | None) -> float:
        """Return the number of a label; 0 where there is none."""
        if label is None:
            return 0.0
        if self.task.labels is None:
            return float(label)
        return float(self.task.labels.index(label))

    def _log_examples(
        self,
        examples: Sequence[classifier_data.Example],
        features: Mapping[str, np.ndarray],
    ) -> None:
        for row, example in enumerate(examples[:_SHOWN]):
            ids = features["input_ids"][row]
            used = ids[features["input_mask"][row] > 0].tolist()
            tokens = self.tokenizer.convert_ids_to_tokens(used)
            logging.info("*** Example ***")
            logging.info("guid: %s", example.guid)
            logging.info("tokens: %s", " ".join(tokens))
            logging.info(
                "label: %s (id = %g)",
                example.label,
                features["label_ids"][row],
            )
