"""Multiple choice: the questions of files, and predictions for questions.

SWAG's files are .csv tables with the columns sent1 (the context), sent2 (the
beginning of every choice), ending0, ending1, ... and label. Own files may
have these columns too, or be .jsonl with an object per line:

    {"context": "He takes the ball.", "start": "Then he",
     "choices": ["eats it.", "throws it."], "label": 1}

A prediction has the likeliest choice. The model reads a row for each.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import tables
from base.errors import UserError

from tasks.rows import Unit
from tasks.task import (
    TEXT_COLUMNS,
    Input,
    Outputs,
    Prediction,
    RowTask,
    number,
    softmax,
)

_NAMES = {"train": ("train",), "dev": ("val", "dev"), "test": ("test",)}

_KINDS = ("csv", "jsonl")


class Question(NamedTuple):
    """A context and the choices for its continuation."""

    guid: str
    context: str  # sentence A
    choices: tuple[str, ...]  # each a sentence B
    label: int | None = None  # number of the right choice, from 0


# --- Files to questions ------------------------------------------------------


def find_file(data_dir: str, part: str) -> str:
    """Return the path of the train, dev or test file.

    Raises:
        UserError: there is none, or several.
    """
    names = [f"{name}.{kind}" for name in _NAMES[part] for kind in _KINDS]
    found = tables.find_one_file(data_dir, names)
    if not found:
        raise UserError(f"--data_dir={data_dir} holds no {' or '.join(names)}")
    return os.path.join(data_dir, found)


def read_questions(path: str, has_labels: bool = True) -> list[Question]:
    """Return the questions of a file.

    It is a .csv or .jsonl as above; `start` and `id` may be missing.

    Raises:
        UserError: a question is incomplete, lacks a label that it needs, or is
            malformed; names file and line.
    """
    columns, is_table = [], path.endswith(".csv")
    if is_table:
        columns = ["sent1", "sent2", *(["label"] if has_labels else [])]
    questions: list[Question] = []
    for index, (at, row) in enumerate(tables.rows(path, columns)):
        value = _object_of(row, at, has_labels) if is_table else row
        texts = texts_of(value, at=at)
        question = Question(
            str(value.get("id", index)),
            texts["context"],
            tuple(texts["choices"]),
            tables.require(value, "label", int, at) if has_labels else None,
        )
        _check(question, at, questions[0] if questions else question)
        questions.append(question)
    if not questions:
        raise UserError(f"{path} holds no question")
    return questions


def _check(question: Question, at: str, first: Question) -> None:
    """Raise UserError unless a question can be used."""
    count = len(question.choices)
    if count != len(first.choices):
        # A batch is one array [B, C, S]: C cannot vary.
        raise UserError(
            f"{at}: {count} choices, wanted {len(first.choices)} as in the "
            "first question of the file"
        )
    tables.check_cell(question.guid, f"{at}: id")
    if problem := _problem(question.context, question.choices):
        raise UserError(f"{at}: {problem}")
    if question.label is not None and not 0 <= question.label < count:
        raise UserError(
            f"{at}: label {question.label} is none of the {count} choices, "
            f"which are 0 to {count - 1}"
        )


def _problem(context: str, choices: Sequence[str]) -> str | None:
    """Return why there is nothing to choose; None if there is."""
    if not context.strip():
        return "the context is empty"
    if len(choices) < 2:
        return f"{len(choices)} choices, wanted two or more"
    for place, choice in enumerate(choices):
        if not choice.strip():
            return f"choice {place} is empty"
    return None


def _joined(start: str, choice: str) -> str:
    """Return a choice with its beginning; an empty choice stays empty."""
    # It would become the beginning alone, which `_problem` accepts.
    return f"{start} {choice}" if start.strip() and choice.strip() else choice


def _object_of(row: tables.Row, at: str, has_label: bool) -> dict[str, Any]:
    """Return a row in SWAG's columns as an object of JSON lines."""
    count = max(2, sum(name.startswith("ending") for name in row))
    endings = (f"ending{number}" for number in range(count))
    value = {
        "context": row["sent1"],
        "start": row["sent2"],
        "choices": [tables.require(row, name, str, at) for name in endings],
    }
    if "" in row:  # SWAG's column of numbers has no name
        value["id"] = row[""]
    if has_label:
        try:
            value["label"] = int(row["label"])
        except ValueError:
            raise UserError(
                f"{at}: label {row['label']!r} is not the number of a choice"
            ) from None
    return value


def texts_of(
    value: Mapping[str, Any],
    names: Sequence[str] = ("context", "choices"),
    at: str = "",
    hint: str = "",
) -> dict[str, Any]:
    """Return context and choices of an object; `start` begins every choice.

    `names` are its names of the two; `at` and `hint` are for errors, see
    tables.require.
    """
    context, choices = names
    start = ""
    if value.get("start") is not None:
        start = tables.require(value, "start", str, at)
    found = tables.require_strings(value, choices, at, hint)
    return {
        "context": tables.require(value, context, str, at, hint),
        "choices": [_joined(start, choice) for choice in found],
    }


# --- The task ----------------------------------------------------------------


class MultipleChoice(RowTask):
    """The likeliest of several choices to continue a context."""

    name = "multiple_choice"
    model = "swag.model.BertForMultipleChoice"
    graph = "swag.model.MultipleChoiceGraph"
    head = "output_weights"
    # The head of a regression has the same shape.
    trained_as = (name,)
    text_names = ("context", "choices")
    is_grouped = True
    predicted = ("answer", "probabilities")
    why_no_records = (
        "a record holds one choice, and not the number of choices: give JSON "
        "lines"
    )

    def texts_of_line(self, cells: list[str]) -> dict[str, Any]:
        """Return context and choices, separated by tabs."""
        return {"context": cells[0], "choices": cells[1:]}

    def texts_of_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return context and choices; `start` begins every choice."""
        return texts_of(value, self.names, hint=TEXT_COLUMNS)

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise UserError for fewer than two choices, or an empty text."""
        if problem := _problem(texts["context"], texts["choices"]):
            raise UserError(problem)

    def unit(self, item: Input) -> Unit:
        """Return a row for each choice of a question."""
        context, choices = item.texts["context"], item.texts["choices"]
        return [self.row(context, choice) for choice in choices]

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the number of the likeliest choice, and probabilities."""
        shares = outputs["probabilities"]
        return {
            "answer": int(shares.argmax()),
            "probabilities": [number(share) for share in shares.tolist()],
        }

    def outputs_of(self, numbers: Outputs) -> Outputs:
        """Return the probability of every choice, and the likeliest one."""
        shares = softmax(numbers["logits"])  # [B, C]
        return {"probabilities": shares, "answer": shares.argmax(-1)}
