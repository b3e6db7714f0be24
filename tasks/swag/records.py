"""Convert multiple-choice questions to record files, a row per choice."""

from collections.abc import Iterator, Sequence
from typing import Any

from base import file_system

import numpy as np
from absl import logging

import tokenization
from records import in_memory, text_records
from tasks.classifier import data as classifier_data
from tasks.swag import data as swag_data

_CHUNK = 8192  # questions converted together

_SHOWN = 3  # questions in the log


class Questions:
    """The questions of a file and their records, to train on or to score.

    Attributes:
        questions: in the order of the file.
        rows: the records, one for every choice. The choices of a question
            are neighbors: with C choices, question q has rows q * C to
            q * C + C - 1.
        num_records: number of questions, since batches count questions.
        num_choices: C, the same for every question.
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
        """Return batches of whole questions, features [B, C, ...].

        Args:
            batch_size: B, questions.
            seed: draws the order.
            is_fine: see `in_memory.bucket_lengths`.
        """
        return self.rows.training(batch_size, seed, is_fine, self.num_choices)

    def by_question(self, values: np.ndarray) -> np.ndarray:
        """Return values of every row [questions * C] as [questions, C]."""
        return values.reshape(self.num_records, self.num_choices)


class SwagRecords(text_records.TextRecords):
    """The record files of a folder of questions.

    Args:
        data_dir: the folder of train, val (or dev) and test.
        records_dir: where the records go.
        tokenizer: text to ids.
        vocab_size: of the configuration.
        max_seq_length: context and choice are cut to so many tokens.
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
        super().__init__(
            records_dir,
            classifier_data.schema(max_seq_length, is_regression=False),
            tokenizer,
            vocab_size,
            max_seq_length,
            pad_to_max_length,
        )
        self.data_dir = data_dir
        self._questions: dict[str, list[swag_data.Question]] = {}

    def questions(self, part: str) -> list[swag_data.Question]:
        """Return the questions of train, dev or test; a file is read once.

        Raises:
            UserError: the file is missing or damaged; names file and line.
        """
        if part not in self._questions:
            self._questions[part] = swag_data.read_questions(
                swag_data.find_file(self.data_dir, part),
                has_labels=part != "test",
            )
        return self._questions[part]

    def split(self, part: str, name: str) -> Questions:
        """Return the questions of a part and their records.

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

    def fingerprint(self, part: str) -> dict[str, Any]:
        """Return everything that the records of a part depend on."""
        path = swag_data.find_file(self.data_dir, part)
        return {"data": file_system.sha256(path), **self.text_fingerprint()}

    def _write(
        self, path: str, questions: Sequence[swag_data.Question]
    ) -> None:
        """Write the record file of some questions; log the first ones."""
        num_cut = 0

        def parts() -> Iterator[dict[str, np.ndarray]]:
            nonlocal num_cut
            for at in range(0, len(questions), _CHUNK):
                features, cut = self._convert(questions[at : at + _CHUNK])
                num_cut += cut
                yield features

        self.write_file(path, parts())
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
        """Return the features of every choice, and how many were cut.

        A choice is a pair for the classifier: context and choice, with the
        question's label in every row.
        """
        examples = [
            classifier_data.Example(question.guid, question.context, choice)
            for question in questions
            for choice in question.choices
        ]
        features, num_cut = classifier_data.convert_examples(
            examples, lambda _: 0, self.max_seq_length, self.tokenizer
        )
        # A test file has no labels; 0 stands for them.
        labels = [question.label or 0 for question in questions]
        num_choices = len(questions[0].choices)
        features["label_ids"] = np.repeat(
            np.array(labels, np.int64), num_choices
        )
        return features, num_cut

    def _log_questions(self, questions: Sequence[swag_data.Question]) -> None:
        """Log questions as the tokens of their choices, with the label."""
        for question in questions:
            features, _ = self._convert([question])
            choices = [
                ("tokens", " ".join(self.tokens(features, row)))
                for row in range(len(question.choices))
            ]
            text_records.log_example(
                ("guid", question.guid), *choices, ("label", question.label)
            )
