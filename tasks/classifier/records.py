"""Convert the files of a classification task to record files."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from base import file_system, progress

import numpy as np
from absl import logging

import tokenization
from records import in_memory, text_records
from tasks.classifier import data as classifier_data
from tasks.classifier import tasks as classifier_tasks
from tasks.classifier import transfer as classifier_transfer

_SHOWN = 5  # examples in the log, as in the original

_PART = 10_000  # texts converted at a time


class ClassifierRecords(text_records.TextRecords):
    """The record files of a classification task.

    Args:
        task: its files and labels.
        data_dir: the folder of the task's files.
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
        self.task, self.data_dir = task, data_dir
        self.is_regression = task.labels is None
        super().__init__(
            records_dir,
            classifier_data.schema(max_seq_length, self.is_regression),
            tokenizer,
            vocab_size,
            max_seq_length,
            pad_to_max_length,
        )
        self._examples: dict[str, list[classifier_data.Example]] = {}

    def split(
        self, name: str, split: classifier_tasks.Split
    ) -> in_memory.ShortRecords:
        """Return the records of a file, from an earlier run or made now.

        Args:
            name: of the record file, without .tf_record.
            split: the file and its columns.
        """
        return self.cache.records(
            name,
            self.fingerprint(split),
            lambda path: self._write(path, name, split),
        )

    def check(self, name: str, split: classifier_tasks.Split) -> None:
        """Read a file to find mistakes, unless its records exist already.

        The examples are kept until they are written as records.

        Args:
            name: of the record file, without .tf_record.
            split: the file and its columns.

        Raises:
            UserError: the file is damaged; names the line.
        """
        if not self.cache.has(self.cache.path(name), self.fingerprint(split)):
            self.read(name, split)

    def read(
        self, name: str, split: classifier_tasks.Split
    ) -> list[classifier_data.Example]:
        """Return the examples of a file; `split` takes the same arguments."""
        if name not in self._examples:
            self._examples[name] = self.examples(split)
        return self._examples[name]

    def examples(
        self, split: classifier_tasks.Split
    ) -> list[classifier_data.Example]:
        """Return the examples of a file; they are not kept in memory."""
        return classifier_data.read_examples(
            self.data_dir,
            split,
            self.task.labels,
            self.task.language,
            self.is_regression,
        )

    def fingerprint(self, split: classifier_tasks.Split) -> dict[str, Any]:
        """Return everything that the records of a file depend on."""
        return {
            **self.file_fingerprint(split),
            **self.text_fingerprint(),
            "labels": self.task.labels,
        }

    def file_fingerprint(self, split: classifier_tasks.Split) -> dict[str, Any]:
        """Return everything that the texts of a file depend on."""
        path = os.path.join(self.data_dir, split.file)
        return {
            "data": file_system.sha256(path),
            "columns": split.columns._asdict(),
            "language": self.task.language,
        }

    def transfer(
        self, texts: classifier_transfer.TransferTexts
    ) -> in_memory.ShortRecords:
        """Return the records of texts without labels; their label_ids are 0."""
        return self.cache.records(
            "transfer",
            self._transfer_fingerprint(texts),
            lambda path: self._write_transfer(path, texts),
        )

    def check_transfer(self, texts: classifier_transfer.TransferTexts) -> None:
        """Read texts to find mistakes, unless their records exist already.

        Raises:
            UserError: a line is damaged; names file and line.
        """
        path = self.cache.path("transfer")
        if not self.cache.has(path, self._transfer_fingerprint(texts)):
            texts.check()

    def _transfer_fingerprint(
        self, texts: classifier_transfer.TransferTexts
    ) -> dict[str, Any]:
        """Return everything that the records of texts depend on."""
        return {
            **texts.fingerprint(),
            **self.text_fingerprint(),
            "is_regression": self.is_regression,
        }

    def label_id(self, label: str | None) -> float:
        """Return the class id or number of a label; 0 if there is none."""
        if label is None:
            return 0.0
        if self.task.labels is None:
            return float(label)
        return float(self.task.labels.index(label))

    def _write(
        self, path: str, name: str, split: classifier_tasks.Split
    ) -> None:
        """Write the record file of a split; log its first examples."""
        examples = self.read(name, split)
        features, num_cut = self._convert(examples)
        self._log_examples(examples[:_SHOWN], features)
        self.write_file(path, [features])
        logging.info(
            "Wrote %d examples to %s, %d of them cut to %d tokens",
            len(examples),
            path,
            num_cut,
            self.max_seq_length,
        )
        del self._examples[name]  # training sets are large

    def _write_transfer(
        self, path: str, texts: classifier_transfer.TransferTexts
    ) -> None:
        """Write the record file of texts without labels, a part at a time."""
        total_cut = 0

        def parts() -> Iterator[dict[str, np.ndarray]]:
            nonlocal total_cut
            with progress.bar(None, "texts", "Converting texts") as bar:
                for number, examples in enumerate(in_parts(texts)):
                    features, num_cut = self._convert(examples)
                    total_cut += num_cut
                    if not number:
                        self._log_examples(examples[:_SHOWN], features)
                    yield features
                    bar.update(len(examples))

        count = self.write_file(path, parts())
        logging.info(
            "Wrote %d texts without a label to %s, %d of them cut to %d tokens",
            count,
            path,
            total_cut,
            self.max_seq_length,
        )

    def _convert(
        self, examples: Sequence[classifier_data.Example]
    ) -> tuple[dict[str, np.ndarray], int]:
        """Return the features of examples, and how many had to be cut."""
        features, num_cut = classifier_data.convert_examples(
            examples, self.label_id, self.max_seq_length, self.tokenizer
        )
        label_type = np.float32 if self.is_regression else np.int64
        features["label_ids"] = features["label_ids"].astype(label_type)
        return features, num_cut

    def _log_examples(
        self,
        examples: Sequence[classifier_data.Example],
        features: Mapping[str, np.ndarray],
    ) -> None:
        """Log the first examples as tokens, with their labels."""
        for row, example in enumerate(examples):
            label_id = features["label_ids"][row]
            text_records.log_example(
                ("guid", example.guid),
                ("tokens", " ".join(self.tokens(features, row))),
                ("label", f"{example.label} (id = {label_id:g})"),
            )


def in_parts(
    examples: Iterable[classifier_data.Example],
) -> Iterator[list[classifier_data.Example]]:
    """Yield the examples as lists of bounded length."""
    source = iter(examples)
    while part := list(itertools.islice(source, _PART)):
        yield part
