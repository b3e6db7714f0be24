"""Multiple choice: files of questions, questions, records.

SWAG is read as its authors distribute it, anybody's questions from JSON lines;
a question has two choices or more, as many as every other one of its file. In
the records each choice is a row of its own, those of a question one after the
other, in the schema of run_classifier.py's records.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from absl import logging

import checkpoints
import classifier_data
import file_system
import length_buckets
import records
import task_records
import text_files
import tokenization
from errors import UserError

_NAMES = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}
_KINDS = ("csv", "jsonl")
_CHUNK = 8192  # questions converted together
_SHOWN = 3  # questions in the log


class Question(NamedTuple):
    """A context, and what may follow it."""

    guid: str
    context: str  # sentence A
    choices: tuple[str, ...]  # each a sentence B
    label: int | None = None  # the number of the right one


# --- Files to questions -----------------------------------------------------


def find_file(data_dir: str, part: str) -> str:
    """Return the path of the train, dev or test file.

    Raises:
        UserError: there is none, or several.
    """
    names = [f"{name}.{kind}" for name in _NAMES[part] for kind in _KINDS]
    found = [
        name
        for name in names
        if tf.io.gfile.exists(checkpoints.join(data_dir, name))
    ]
    if not found:
        raise UserError(f"--data_dir={data_dir} holds no {' or '.join(names)}")
    if len(found) > 1:
        raise UserError(
            f"--data_dir={data_dir} holds {' and '.join(found)}: which is "
            "meant? Leave one"
        )
    return checkpoints.join(data_dir, found[0])


def read_questions(path: str, has_labels: bool = True) -> list[Question]:
    """Return the questions of a file.

    Args:
        path: .csv in SWAG's columns, or .jsonl with an object per line:
            `context`, `choices` (a list), `label` (the number of the right
            one, from 0), and perhaps `start`, which begins every choice, and
            `id`.
        has_labels: whether it has to say what is right.

    Raises:
        UserError: names file and line.
    """
    text = text_files.read_text(path)
    parse = _json_questions if path.endswith(".jsonl") else _csv_questions
    questions: list[Question] = []
    for at, question in parse(path, text, has_labels):
        _check(question, at, questions[0] if questions else question)
        questions.append(question)
    if not questions:
        raise UserError(f"{path} holds no question")
    return questions


def _check(question: Question, at: str, first: Question) -> None:
    count = len(question.choices)
    if count != len(first.choices):
        raise UserError(
            f"{at}: {count} choices, wanted {len(first.choices)} as in the "
            "first question of the file"
        )
    if count < 2:
        raise UserError(f"{at}: {count} choices; a question needs two or more")
    if re.search(r"[\t\n\r]", question.guid):
        raise UserError(
            f"{at}: id {question.guid!r} has a tab or a line end, which "
            "test.tsv cannot hold"
        )
    if not question.context.strip():
        raise UserError(f"{at}: the context is empty")
    for number, choice in enumerate(question.choices):
        if not choice.strip():
            raise UserError(f"{at}: choice {number} is empty")
    if question.label is not None and not 0 <= question.label < count:
        raise UserError(
            f"{at}: label {question.label} is none of the {count} choices, "
            f"which are 0 to {count - 1}"
        )


def _joined(start: str, choice: str) -> str:
    """An empty choice stays one, whatever it begins with."""
    return f"{start} {choice}" if start.strip() and choice.strip() else choice


def _csv_questions(
    path: str, text: str, has_labels: bool
) -> Iterator[tuple[str, Question]]:
    """Yield ("file, line n", question) of SWAG's columns."""
    table = classifier_data.csv_table(path, text)
    _, header = next(table, (0, []))
    count = max(2, sum(name.startswith("ending") for name in header))
    names = [f"ending{number}" for number in range(count)]
    for name in ("sent1", "sent2", *names, *(["label"] if has_labels else [])):
        if header.count(name) != 1:
            found = "more than one" if name in header else "no"
            raise UserError(
                f"{path}: {found} column {name!r}; its header has "
                f"{', '.join(map(repr, header)) or 'nothing'}"
            )
    endings = [header.index(name) for name in names]
    context, start = header.index("sent1"), header.index("sent2")
    for number, (line, row) in enumerate(table):
        at = f"{path}, line {line}"
        if len(row) != len(header):
            raise UserError(
                f"{at}: {len(row)} columns, wanted {len(header)} as in the "
                "header; a text with commas has to stand in quotes"
            )
        label = row[header.index("label")] if has_labels else None
        yield (
            at,
            Question(
                row[header.index("")] if "" in header else str(number),
                row[context],
                tuple(_joined(row[start], row[i]) for i in endings),
                None if label is None else _number(label, at),
            ),
        )


def _number(label: str, at: str) -> int:
    try:
        return int(label)
    except ValueError:
        raise UserError(
            f"{at}: label {label!r} is not the number of a choice"
        ) from None


def _json_questions(
    path: str, text: str, has_labels: bool
) -> Iterator[tuple[str, Question]]:
    """Yield ("file, line n", question) of JSON lines."""
    objects = text_files.json_objects(path, text)
    for number, (line, value) in enumerate(objects):
        at = f"{path}, line {line}"
        wanted = {"context": str, "choices": list}
        if has_labels:
            wanted["label"] = int
        for key, kind in wanted.items():
            if type(value.get(key)) is not kind:
                found = repr(value[key])[:40] if key in value else "nothing"
                raise UserError(
                    f"{at}: key {key!r} has to be of type {kind.__name__}, "
                    f"found {found}"
                )
        start = value.get("start", "")
        if not all(isinstance(x, str) for x in (start, *value["choices"])):
            raise UserError(f"{at}: start and all choices have to be texts")
        yield (
            at,
            Question(
                str(value.get("id", number)),
                value["context"],
                tuple(_joined(start, choice) for choice in value["choices"]),
                value["label"] if has_labels else None,
            ),
        )


# --- Questions to records ---------------------------------------------------


class Questions:
    """The questions of a file with their records, as training takes them.

    Attributes:
        num_records: how many questions: what a batch counts.
        num_choices: C of each; question q's are rows q * C to q * C + C - 1.
        rows: the records of all choices.
    """

    def __init__(
        self, questions: Sequence[Question], rows: length_buckets.ShortRecords
    ):
        self.questions, self.rows = questions, rows
        self.num_records = len(questions)
        self.num_choices = len(questions[0].choices)

    def training(
        self, batch_size: int, seed: int, is_fine: bool
    ) -> length_buckets.TrainingBatches:
        """Return batches of whole questions, features [B, C, ...]."""
        return self.rows.training(batch_size, seed, is_fine, self.num_choices)

    def by_question(self, values: np.ndarray) -> np.ndarray:
        """Return what there is for every row as [questions, C]."""
        return values.reshape(self.num_records, self.num_choices)


class Data:
    """The files of a directory as records.

    Args:
        data_dir: where the files are.
        records_dir: where the records go.
        tokenizer: text to ids.
        vocab_size: of the configuration.
        max_seq_length: longer sequences are cut.
        is_padding: pad every batch to that length.
    """

    def __init__(
        self,
        data_dir: str,
        records_dir: str,
        tokenizer: tokenization.FullTokenizer,
        vocab_size: int,
        max_seq_length: int,
        is_padding: bool,
    ):
        self.data_dir, self.tokenizer = data_dir, tokenizer
        self.max_seq_length = max_seq_length
        self._questions: dict[str, list[Question]] = {}
        self.cache = task_records.RecordCache(
            records_dir,
            classifier_data.schema(max_seq_length, is_regression=False),
            vocab_size,
            is_padding,
        )

    def made_of(self, part: str) -> dict[str, Any]:
        """Return all that the records of a part depend on."""
        return {
            "data": task_records.sha256(find_file(self.data_dir, part)),
            **task_records.text_identity(self.tokenizer, self.max_seq_length),
        }

    def questions(self, part: str) -> list[Question]:
        """Return the questions of train, dev or test, read once.

        Raises:
            UserError: names file and line.
        """
        if part not in self._questions:
            self._questions[part] = read_questions(
                find_file(self.data_dir, part), has_labels=part != "test"
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
            self.made_of(part),
            lambda path: self._write(path, questions),
        )
        return Questions(questions, rows)

    def _write(self, path: str, questions: Sequence[Question]) -> None:
        num_cut = 0
        with file_system.atomic_file(path) as file:
            with records.RecordWriter(file) as writer:
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
        self, questions: Sequence[Question]
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

    def _log_questions(self, questions: Sequence[Question]) -> None:
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
