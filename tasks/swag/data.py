"""Read SWAG's questions, or own ones with any number of choices.

SWAG's files are .csv tables with the columns sent1 (the context), sent2 (the
beginning of every choice), ending0, ending1, ... and label. Own files may
have these columns too, or be .jsonl with an object per line:

    {"context": "He takes the ball.", "start": "Then he",
     "choices": ["eats it.", "throws it."], "label": 1}
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from base import text_files
from base.errors import UserError, counted

from tasks.classifier import data as classifier_data

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
    if count < 2:
        raise UserError(f"{at}: {count} choices; a question needs two or more")
    text_files.check_cell(question.guid, f"{at}: id")
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
    """Return a choice with its beginning; an empty choice stays empty."""
    # Else it would become the beginning alone, which `_check` accepts.
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
    for number, (line, row) in enumerate(table):
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
                row[header.index("")] if "" in header else str(number),
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
    for number, (line, value) in enumerate(objects):
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
                str(value.get("id", number)),
                value["context"],
                tuple(_joined(start, choice) for choice in value["choices"]),
                value["label"] if has_labels else None,
            ),
        )
