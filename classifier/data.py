"""Read the examples of a sentence task and turn them into features."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from base import file_system, text_files
from base.errors import UserError

import numpy as np

import tokenization
from classifier import tasks as classifier_tasks
from records import tfrecord


class Example(NamedTuple):
    """One sentence or pair and, except in test files, its label."""

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | None = None


# What a training file calls a label that has another name elsewhere.
_SYNONYMS = {"contradictory": "contradiction"}


def own_task(
    data_dir: str,
    text_a_column: str,
    text_b_column: str | None,
    label_column: str,
    is_regression: bool,
    labels: tuple[str, ...] | None = None,
) -> classifier_tasks.Task:
    """Return the task in somebody's own train, dev and test files.

    Each may be .tsv, .csv or .jsonl; labels, where not given, are those of
    the training file, sorted (numbers by value), or of the development file
    without one.

    Raises:
        UserError: no such file, or no label in it.
    """
    columns = classifier_tasks.Columns(
        text_a_column, text_b_column, label_column
    )
    found = {
        name: _own_file(data_dir, name) for name in ("train", "dev", "test")
    }
    if not any(found.values()):
        raise UserError(
            f"--data_dir={data_dir} holds no train, dev or test file "
            "(.tsv, .csv or .jsonl)"
        )
    split = {
        name: classifier_tasks.Split(file, columns)
        for name, file in found.items()
        if file
    }
    if is_regression:
        labels = None
    elif labels is None:
        source = split.get("train") or split.get("dev")
        if not source:
            raise UserError(
                f"--data_dir={data_dir} holds no train or dev file to learn "
                "the labels from, and the model's configuration names none "
                "(id2label)"
            )
        labels = _labels_of(data_dir, source)
    return classifier_tasks.Task(
        labels,
        split.get("train"),
        {"dev": split["dev"]} if "dev" in split else {},
        {
            "test": classifier_tasks.Split(
                found["test"], columns._replace(label=None)
            )
        }
        if "test" in split
        else {},
        ("pearson", "spearman") if is_regression else ("accuracy", "macro_f1"),
    )


def _own_file(data_dir: str, name: str) -> str | None:
    names = [f"{name}.{kind}" for kind in ("tsv", "csv", "jsonl")]
    found = [n for n in names if file_system.exists(f"{data_dir}/{n}")]
    if len(found) > 1:
        raise UserError(
            f"--data_dir={data_dir} holds {' and '.join(found)}: which is "
            "meant? Leave one"
        )
    return found[0] if found else None


def _labels_of(data_dir: str, split: classifier_tasks.Split) -> tuple[str, ...]:
    labels = {
        example.label
        for example in read_examples(data_dir, split, None, None)
        if example.label is not None
    }
    if len(labels) < 2:
        raise UserError(
            f"{data_dir}/{split.file}: column {split.columns.label!r} has "
            f"{len(labels)} different labels ({', '.join(sorted(labels))}); "
            "a classifier needs two or more"
        )
    if len(labels) > 1000:
        raise UserError(
            f"{data_dir}/{split.file}: column {split.columns.label!r} has "
            f"{len(labels)} different labels: numbers to predict want "
            "--regression"
        )
    try:
        return tuple(sorted(labels, key=float))
    except ValueError:
        return tuple(sorted(labels))


# --- Files to examples ------------------------------------------------------


def read_examples(
    data_dir: str,
    split: classifier_tasks.Split,
    labels: Sequence[str] | None,
    language: str | None = None,
    is_regression: bool = False,
) -> list[Example]:
    """Return the examples of a file.

    Args:
        data_dir: where the file lies.
        split: file and columns.
        labels: those a line may have; None: any.
        language: keep lines whose first column says so; None: all.
        is_regression: labels have to be numbers.

    Raises:
        UserError: file missing or empty, a missing column, a ragged line, a
            label nobody knows; names file and line.
    """
    path = f"{data_dir.rstrip('/')}/{split.file}"
    columns = split.columns
    examples = []
    for number, row, at in _rows(path, columns):
        if (
            language
            and "text_a" in row
            and row.get("language")
            not in (
                None,
                language,
            )
        ):
            continue
        label = row.get("label")
        if label is not None:
            label = _SYNONYMS.get(label, label)
            _check_label(label, labels, is_regression, at)
        if not row["text_a"].strip():
            raise UserError(f"{at}: column {columns.text_a!r} is empty")
        examples.append(
            Example(
                row.get("guid") or str(number),
                row["text_a"],
                row.get("text_b"),
                label,
            )
        )
    if not examples:
        raise UserError(
            f"{path} holds no example"
            + (f" in language {language!r}" if language else "")
        )
    return examples


def _check_label(
    label: str, labels: Sequence[str] | None, is_regression: bool, at: str
) -> None:
    if is_regression:
        try:
            if not np.isfinite(float(label)):
                raise ValueError
        except ValueError:
            raise UserError(f"{at}: {label!r} is not a number") from None
    elif labels is not None and label not in labels:
        raise UserError(
            f"{at}: unknown label {label!r}; known are {', '.join(labels)}"
        )


_Row = tuple[int, dict[str, str], str]


def _rows(path: str, columns: classifier_tasks.Columns) -> Iterator[_Row]:
    """Yield (number from 0, part -> text, "file, line n") of each line."""
    lines = text_files.read_text(path)
    if path.endswith(".jsonl"):
        yield from _json_rows(path, lines, columns)
        return
    if path.endswith(".csv"):
        table = text_files.csv_table(path, lines)
    else:
        # GLUE's files are not quoted: a quotation mark is one.
        table = (
            (at, line.removesuffix("\r").split("\t"))
            for at, line in enumerate(lines.split("\n"), 1)
            if line
        )
    header: list[str] | None = None
    places: dict[str, int] = {}
    width = number = 0
    for line, row in table:
        at = f"{path}, line {line}"
        if not width:
            width = len(row)
            header = row if columns.has_header else None
            places = _places(path, columns, header, width)
            if columns.has_header:
                continue
        if len(row) != width:
            raise UserError(
                f"{at}: {len(row)} columns, wanted {width} as in the first line"
            )
        yield number, {part: row[i] for part, i in places.items()}, at
        number += 1


def _places(
    path: str,
    columns: classifier_tasks.Columns,
    header: list[str] | None,
    width: int,
) -> dict[str, int]:
    """Return part -> column number, from names or numbers."""
    places = {}
    for part in ("text_a", "text_b", "label", "guid"):
        column = getattr(columns, part)
        if column is None:
            continue
        if isinstance(column, str):
            if header is None or column not in header:
                raise UserError(
                    f"{path}: no column {column!r}; its header has "
                    f"{', '.join(map(repr, header or []))}"
                )
            column = header.index(column)
        if column >= width:
            raise UserError(
                f"{path}: its first line has {width} columns, {part} should "
                f"be in column {column + 1}"
            )
        places[part] = column
    if header and header[0] == "language":  # XNLI
        places["language"] = 0
    return places


def _json_rows(
    path: str, text: str, columns: classifier_tasks.Columns
) -> Iterator[_Row]:
    objects = text_files.json_objects(path, text)
    for number, (line, value) in enumerate(objects):
        at, row = f"{path}, line {line}", {}
        for name in ("text_a", "text_b", "label", "guid"):
            key = getattr(columns, name)
            if key is None:
                continue
            if key not in value or value[key] is None:
                raise UserError(
                    f"{at}: no key {key!r}; it has "
                    f"{', '.join(map(repr, value))}"
                )
            row[name] = str(value[key])
        yield number, row, at


# --- Examples to features ---------------------------------------------------


def schema(max_seq_length: int, is_regression: bool) -> dict:
    """Return name -> Feature of the records, the original's.

    Regression is new: its labels are floats.
    """
    sequence = tfrecord.Feature("int64", max_seq_length)
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "label_ids": tfrecord.Feature(
            "float32" if is_regression else "int64", 1
        ),
        "is_real_example": tfrecord.Feature("int64", 1),
    }


def convert_examples(
    examples: Sequence[Example],
    label_ids: Callable[[str | None], float],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[dict[str, np.ndarray], int]:
    """Return the features of examples, and how many had to be cut.

    [CLS] a [SEP] or [CLS] a [SEP] b [SEP], zeros up to max_seq_length;
    segment 1 is b and its [SEP].

    Args:
        examples: n of them.
        label_ids: label -> number; None is the label of test files.
        max_seq_length: at least 3, 5 for pairs.
        tokenizer: text to ids.
    """
    count, vocab = len(examples), tokenizer.vocab
    ids = np.zeros([count, max_seq_length], np.int32)
    mask, segments = np.zeros_like(ids), np.zeros_like(ids)
    labels = np.array([label_ids(example.label) for example in examples])
    first, last = vocab["[CLS]"], vocab["[SEP]"]
    num_cut = 0
    for row, example in enumerate(examples):
        a = tokenizer.text_to_ids(example.text_a)
        b = tokenizer.text_to_ids(example.text_b or "")
        if not b:  # no second sentence, or none of any token
            num_cut += len(a) > max_seq_length - 2
            a = a[: max_seq_length - 2]
            pieces = [first, *a, last]
        else:
            kept = tokenization.truncated_lengths(
                len(a), len(b), max_seq_length - 3
            )
            num_cut += kept != (len(a), len(b))
            a, b = a[: kept[0]], b[: kept[1]]
            pieces = [first, *a, last, *b, last]
            segments[row, len(a) + 2 : len(pieces)] = 1
        ids[row, : len(pieces)] = pieces
        mask[row, : len(pieces)] = 1
    features = {
        "input_ids": ids,
        "input_mask": mask,
        "segment_ids": segments,
        "label_ids": labels,
        "is_real_example": np.ones([count], np.int32),
    }
    return features, num_cut
