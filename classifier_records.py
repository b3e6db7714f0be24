"""The splits of a sentence task as record files, made once and reused.

Apart from classifier_data.py, which knows the files of tasks but nothing of
records, and from run_classifier.py, which has enough to tell.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

import checkpoints
import classifier_data
import devices
import input_pipeline
import length_buckets
import records
import tokenization
from errors import UserError

_LENGTH_FLAGS = dict.fromkeys(
    ("input_ids", "input_mask", "segment_ids"), "max_seq_length"
)
_SHOWN = 5  # examples in the log


class Data:
    """A task's files as records in output_dir.

    Args:
        task: which files and labels.
        data_dir: where the files are.
        output_dir: where the records go.
        tokenizer: text to ids.
        vocab_file: it was made from.
        vocab_size: of the configuration.
        max_seq_length: longer sentences and pairs are cut.
        is_padding: pad every batch to that length.
    """

    def __init__(
        self,
        task: classifier_data.Task,
        data_dir: str,
        output_dir: str,
        tokenizer: tokenization.FullTokenizer,
        vocab_file: str,
        vocab_size: int,
        max_seq_length: int,
        is_padding: bool,
    ):
        self.task, self.tokenizer = task, tokenizer
        self.data_dir, self.output_dir = data_dir, output_dir
        self.vocab_file, self.vocab_sum = vocab_file, sha256(vocab_file)
        self.vocab_size = vocab_size
        self.max_seq_length, self.is_padding = max_seq_length, is_padding
        self.is_regression = task.labels is None
        self.schema = classifier_data.schema(max_seq_length, self.is_regression)
        self.examples: dict[str, list[classifier_data.Example]] = {}

    def split(
        self, name: str, split: classifier_data.Split
    ) -> length_buckets.ShortRecords:
        """Return the records of a file, from the last run or made now."""
        path = checkpoints.join(self.output_dir, f"{name}.tf_record")
        made_of = self.fingerprint(split)
        if read_json(path + ".json") == made_of and tf.io.gfile.exists(path):
            logging.info("Reusing %s: same data, same flags", path)
        elif devices.is_chief():
            self._write(path, name, split)
            checkpoints.write_text(path + ".json", json.dumps(made_of))
        data = length_buckets.ShortRecords(
            [path],
            self.schema,
            {
                "input_ids": input_pipeline.Bound(
                    self.vocab_size, "vocab_size of the configuration"
                )
            },
            _LENGTH_FLAGS,
            self.is_padding,
        )
        logging.info("%s:", path)
        data.log_lengths()
        return data

    def read(
        self, name: str, split: classifier_data.Split
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

    def fingerprint(self, split: classifier_data.Split) -> dict[str, Any]:
        """Return all that a record file depends on."""
        path = checkpoints.join(self.data_dir, split.file)
        value = {
            "data": sha256(path),
            "columns": split.columns._asdict(),
            "labels": self.task.labels,
            "language": self.task.language,
            "vocabulary": self.vocab_sum,
            "do_lower_case": self.tokenizer.basic_tokenizer.do_lower_case,
            "max_seq_length": self.max_seq_length,
        }
        return json.loads(json.dumps(value))

    def _write(
        self, path: str, name: str, split: classifier_data.Split
    ) -> None:
        examples = self.read(name, split)
        features, num_cut = classifier_data.convert_examples(
            examples, self.label_id, self.max_seq_length, self.tokenizer
        )
        label_type = np.float32 if self.is_regression else np.int64
        features["label_ids"] = features["label_ids"].astype(label_type)
        self._log_examples(examples, features)
        with records.atomic_file(path) as file:
            with records.RecordWriter(file) as writer:
                writer.write_examples(features)
        logging.info(
            "Wrote %d examples to %s, %d of them cut to %d tokens",
            len(examples),
            path,
            num_cut,
            self.max_seq_length,
        )

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


def sha256(path: str) -> str:
    """Return the checksum of a file."""
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except tf.errors.OpError as error:
        raise UserError(f"{path} cannot be read: {error.message}") from error


def read_json(path: str) -> Any:
    """Return what a JSON file holds, None without one."""
    if not tf.io.gfile.exists(path):
        return None
    try:
        with tf.io.gfile.GFile(path) as file:
            return json.load(file)
    except ValueError:  # half-written by a crash: as good as none
        return None
