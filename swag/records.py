"""Write questions as records, one row for every choice."""

from collections.abc import Sequence
from typing import Any

from base import file_system

import numpy as np
from absl import logging

import tokenization
from classifier import data as classifier_data
from records import cache as record_cache
from records import in_memory, tfrecord
from swag import data as swag_data

_CHUNK = 8192  # questions converted together

_SHOWN = 3  # questions in the log

# --- Questions to records ---------------------------------------------------


class Questions:
    """The questions of a file with their records, as training takes them.

    Attributes:
        num_records: how many questions: what a batch counts.
        num_choices: C of each; question q's are rows q * C to q * C + C - 1.
        rows: the records of all choices.
    """

    def __init__(
        self,
        questions: Sequence[swag_data.Question],
        rows: in_memory.ShortRecords,
    ):
        self.questions, self.rows = questions, rows
        self.num_records = len(questions)
        self.num_choices = len(questions[0].choices)

    def training(
        self, batch_size: int, seed: int, is_fine: bool
    ) -> in_memory.TrainingBatches:
        """Return batches of whole questions, features [B, C, ...]."""
        return self.rows.training(batch_size, seed, is_fine, self.num_choices)

    def by_question(self, values: np.ndarray) -> np.ndarray:
        """Return what there is for every row as [questions, C]."""
        return values.reshape(self.num_records, self.num_choices)


class SwagRecords:
    """The files of a directory as records.

    Args:
        data_dir: where the files are.
        records_dir: where the records go.
        tokenizer: text to ids.
        vocab_size: of the configuration.
        max_seq_length: longer sequences are cut.
        pad_to_max_length: pad every batch to that length.
    """

    def __init__(
        self,
        data_dir: str,
        records_dir: str,
        tokenizer: tokenization.FullTokenizer,
        vocab_size: int,
        max_seq_length: int,
        pad_to_max_length: bool,
    ):
        self.data_dir, self.tokenizer = data_dir, tokenizer
        self.max_seq_length = max_seq_length
        self._questions: dict[str, list[swag_data.Question]] = {}
        self.cache = record_cache.RecordCache(
            records_dir,
            classifier_data.schema(max_seq_length, is_regression=False),
            vocab_size,
            pad_to_max_length,
        )

    def fingerprint(self, part: str) -> dict[str, Any]:
        """Return all that the records of a part depend on."""
        return {
            "data": file_system.sha256(
                swag_data.find_file(self.data_dir, part)
            ),
            **record_cache.text_fingerprint(
                self.tokenizer, self.max_seq_length
            ),
        }

    def questions(self, part: str) -> list[swag_data.Question]:
        """Return the questions of train, dev or test, read once.

        Raises:
            UserError: names file and line.
        """
        if part not in self._questions:
            self._questions[part] = swag_data.read_questions(
                swag_data.find_file(self.data_dir, part),
                has_labels=part != "test",
            )
        return self._questions[part]

    def split(self, part: str, name: str) -> Questions:
        """Return a part's questions and records.

        Args:
            part: train, dev or test.
            name: of the record file, without .tf_record.
        """
        questions = self.questions(part)
        rows = self.cache.records(
            name,
            self.fingerprint(part),
            lambda path: self._write(path, questions),
        )
        return Questions(questions, rows)

    def _write(
        self, path: str, questions: Sequence[swag_data.Question]
    ) -> None:
        num_cut = 0
        with file_system.atomic_file(path) as file:
            with tfrecord.RecordWriter(file) as writer:
                for at in range(0, len(questions), _CHUNK):
                    rows = self._convert(questions[at : at + _CHUNK])
                    num_cut += rows[1]
                    writer.write_examples(rows[0])
        self._log_questions(questions[:_SHOWN])
        logging.info(
            "Wrote %d questions of %d choices to %s, %d sequences cut to %d "
            "tokens",
            len(questions),
            len(questions[0].choices),
            path,
            num_cut,
            self.max_seq_length,
        )

    def _convert(
        self, questions: Sequence[swag_data.Question]
    ) -> tuple[dict[str, np.ndarray], int]:
        """Return the features of every choice, and how many were cut."""
        examples = [
            classifier_data.Example(
                question.guid,
                question.context,
                choice,
                None if question.label is None else str(question.label),
            )
            for question in questions
            for choice in question.choices
        ]
        features, num_cut = classifier_data.convert_examples(
            examples, _label_id, self.max_seq_length, self.tokenizer
        )
        features["label_ids"] = features["label_ids"].astype(np.int64)
        return features, num_cut

    def _log_questions(self, questions: Sequence[swag_data.Question]) -> None:
        for question in questions:
            features, _ = self._convert([question])
            logging.info("*** Example ***")
            logging.info("guid: %s", question.guid)
            for ids, mask in zip(
                features["input_ids"], features["input_mask"], strict=True
            ):
                used = ids[mask > 0].tolist()
                tokens = self.tokenizer.convert_ids_to_tokens(used)
                logging.info("tokens: %s", " ".join(tokens))
            logging.info("label: %s", question.label)


def _label_id(label: str | None) -> float:
    return 0.0 if label is None else float(label)
