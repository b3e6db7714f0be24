"""Multiple choice: the questions of files, and predictions for questions.

SWAG's files are .csv tables with the columns sent1 (the context), sent2 (the
beginning of every choice), ending0, ending1, ... and label. Own files may
have these columns too, or be .jsonl with an object per line:

    {"context": "He takes the ball.", "start": "Then he",
     "choices": ["eats it.", "throws it."], "label": 1}

A prediction has the likeliest choice. The model reads a row for each.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from base import text_files
from base.errors import UserError, counted

import numpy as np

from tasks.classifier import data as classifier_data
from tasks.rows import Unit
from tasks.task import (
    BadInput,
    Encoded,
    Input,
    Outputs,
    Place,
    Prediction,
    RowTask,
    number,
    text_of,
)

if TYPE_CHECKING:
    import modeling
    from tasks.swag import model

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
    found = classifier_data.find_one_file(data_dir, names)
    if not found:
        raise UserError(f"--data_dir={data_dir} holds no {' or '.join(names)}")
    return os.path.join(data_dir, found)


def read_questions(path: str, has_labels: bool = True) -> list[Question]:
    """Return the questions of a file.

    It is a .csv in SWAG's columns; or .jsonl with an object per line:
    `context`, `choices` (a list), `label` (the number of the right choice, from
    0), and optionally `start`, which begins every choice, and `id`.

    Raises:
        UserError: a question is incomplete, lacks a label that it needs, or is
            malformed; names file and line.
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
    """Raise UserError unless a question can be used."""
    count = len(question.choices)
    if count != len(first.choices):
        # A batch is one array [B, C, S]: C cannot vary.
        raise UserError(
            f"{at}: {count} choices, wanted {len(first.choices)} as in the "
            "first question of the file"
        )
    text_files.check_cell(question.guid, f"{at}: id")
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


# --- CSV ---------------------------------------------------------------------


def _csv_questions(
    path: str, text: str, has_labels: bool
) -> Iterator[tuple[str, Question]]:
    """Yield ("file, line n", question) of a table in SWAG's columns."""
    table = text_files.csv_table(path, text)
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
    for index, (line, row) in enumerate(table):
        at = f"{path}, line {line}"
        if len(row) != len(header):
            raise UserError(
                f"{at}: {counted(len(row), 'column')}, wanted "
                f"{len(header)} as in the header; put texts with commas in "
                "quotes"
            )
        label = row[header.index("label")] if has_labels else None
        yield (
            at,
            Question(
                # SWAG's column of numbers has no name.
                row[header.index("")] if "" in header else str(index),
                row[context],
                tuple(_joined(row[start], row[i]) for i in endings),
                None if label is None else _number(label, at),
            ),
        )


def _number(label: str, at: str) -> int:
    """Return the number in a CSV label."""
    try:
        return int(label)
    except ValueError:
        raise UserError(
            f"{at}: label {label!r} is not the number of a choice"
        ) from None


# --- JSON lines --------------------------------------------------------------


def _json_questions(
    path: str, text: str, has_labels: bool
) -> Iterator[tuple[str, Question]]:
    """Yield ("file, line n", question) of JSON lines."""
    objects = text_files.json_objects(path, text)
    for index, (line, value) in enumerate(objects):
        at = f"{path}, line {line}"
        wanted = {"context": str, "choices": list}
        if has_labels:
            wanted["label"] = int
        for key, kind in wanted.items():
            # Not isinstance: true is an instance of int.
            if type(value.get(key)) is not kind:
                found = repr(value[key])[:40] if key in value else "nothing"
                raise UserError(
                    f"{at}: key {key!r} has to be of type {kind.__name__}, "
                    f"found {found}"
                )
        start = value.get("start", "")
        if not all(isinstance(x, str) for x in (start, *value["choices"])):
            raise UserError(f"{at}: start and all choices have to be strings")
        yield (
            at,
            Question(
                str(value.get("id", index)),
                value["context"],
                tuple(_joined(start, choice) for choice in value["choices"]),
                value["label"] if has_labels else None,
            ),
        )


# --- The task ----------------------------------------------------------------


class MultipleChoice(RowTask):
    """The likeliest of several choices to continue a context."""

    name = "multiple_choice"
    graph_class = ("tasks.swag.model", "MultipleChoiceGraph")
    required = "^(bert|bilstm|output_)"
    text_names = ("context", "choices")
    is_grouped = True

    def texts_of_line(self, cells: list[str]) -> dict[str, Any]:
        """Return context and choices, separated by tabs."""
        return {"context": cells[0], "choices": cells[1:]}

    def texts_of_object(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return context and choices; `start` begins every choice."""
        context, choices = self.names
        found = value.get(choices)
        if not isinstance(found, list):
            raise BadInput(f"field {choices!r} is not a list of strings")
        start = "" if value.get("start") is None else text_of(value, "start")
        return {
            "context": text_of(value, context),
            "choices": [
                _joined(start, text_of({choices: text}, choices))
                for text in found
            ],
        }

    def check(self, texts: Mapping[str, Any]) -> None:
        """Raise BadInput for fewer than two choices, or an empty text."""
        if problem := _problem(texts["context"], texts["choices"]):
            raise BadInput(problem)

    def parse(self, place: Place, data: bytes, kind: str) -> Input:
        """Return the input of a line; records hold single choices."""
        if kind == "tfrecord":
            raise BadInput(
                "a record holds one choice, and not the number of choices: "
                "give JSON lines"
            )
        return super().parse(place, data, kind)

    def encode(self, inputs: Sequence[Input]) -> Encoded:
        """Return a unit of several rows for each question."""
        units, left_out = [], []
        for item in inputs:
            context = item.texts["context"]
            found = [self.row(context, c) for c in item.texts["choices"]]
            units.append([row for row, _ in found])
            left_out.append(sum(lost for _, lost in found))
        return Encoded(units, left_out)

    def prediction(self, unit: Unit, outputs: Outputs) -> Prediction:
        """Return the number of the likeliest choice, and probabilities."""
        shares = outputs["probabilities"]
        return {
            "answer": int(shares.argmax()),
            "probabilities": [number(share) for share in shares.tolist()],
        }

    # --- Model ---------------------------------------------------------------

    def create_model(
        self, config: "modeling.BertConfig", dtype: str
    ) -> "model.BertForMultipleChoice":
        """Return the encoder with one vector that scores a choice."""
        from tasks import bilstm
        from tasks.swag import model

        return model.BertForMultipleChoice(
            config, dtype, bilstm.size_in(self.settings.trained_for)
        )

    def answers(self, numbers: Outputs) -> Outputs:
        """Return the probability of every choice, and the likeliest one."""
        logits = numbers["logits"]  # [B, C]
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        return {"probabilities": shares, "answer": shares.argmax(-1)}
