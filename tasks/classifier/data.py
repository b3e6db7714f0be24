"""Read the examples of a classification task and turn them into features.

Three kinds of files hold a line per example: .tsv without quoting, as GLUE's
files are; .csv with quotes; .jsonl with a JSON object per line.
"""

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from base import file_system, text_files
from base.errors import UserError

import numpy as np
from absl import logging

import tokenization
from records import tfrecord
from tasks import rows
from tasks.classifier import tasks as classifier_tasks

# XNLI's training files have another name for this label than its other files.
_SYNONYMS = {"contradictory": "contradiction"}

# With more different labels the column most likely holds numbers to predict, or
# the texts themselves.
_MAX_LABELS = 1000

# A user's own files: train.tsv, train.csv, ...
_SPLITS, _ENDINGS = ("train", "dev", "test"), ("tsv", "csv", "jsonl")


class Example(NamedTuple):
    """One sentence or pair and, except in test files, its label."""

    guid: str  # its id in the submission to GLUE
    text_a: str
    text_b: str | None = None
    label: str | None = None


# --- Own files ---------------------------------------------------------------


def find_one_file(data_dir: str, names: Sequence[str]) -> str | None:
    """Return the one file of some names in data_dir; None if there is none.

    Args:
        data_dir: the folder.
        names: candidates, such as train.tsv and train.csv.

    Raises:
        UserError: several exist.
    """
    found = [
        name
        for name in names
        if file_system.exists(os.path.join(data_dir, name))
    ]
    # Not simply the first: a forgotten train.csv would replace train.jsonl.
    if len(found) > 1:
        raise UserError(
            f"--data_dir={data_dir} holds {' and '.join(found)}: found "
            f"{len(found)} files, wanted one; remove the others"
        )
    return found[0] if found else None


def own_file_names() -> list[str]:
    """Return all names that a user's own files may have."""
    return [f"{name}.{ending}" for name in _SPLITS for ending in _ENDINGS]


def own_task(
    data_dir: str,
    text_a_column: str,
    text_b_column: str | None,
    label_column: str,
    is_regression: bool,
    labels: tuple[str, ...] | None = None,
    multi_label: bool = False,
) -> classifier_tasks.Task:
    """Return the task that a user's own train, dev and test files make.

    Args:
        data_dir: holds some of train, dev and test, .tsv, .csv or .jsonl.
        text_a_column: name of the first sentence's column.
        text_b_column: name of the second sentence's; None: no pairs.
        label_column: name of the label's; the test file needs none.
        is_regression: whether labels are numbers to predict.
        labels: of a fine-tuned model; None: the sorted labels of the training
            file, or of the development file without one.
        multi_label: whether an example may have several labels, or none.

    Raises:
        UserError: there is no file, or no label in the file.
    """
    columns = classifier_tasks.Columns(
        text_a_column, text_b_column, label_column
    )
    splits = {}
    for name in _SPLITS:
        names = [f"{name}.{ending}" for ending in _ENDINGS]
        file = find_one_file(data_dir, names)
        if file:
            splits[name] = classifier_tasks.Split(file, columns)
    if not splits:
        raise UserError(
            f"--data_dir={data_dir} holds no train, dev or test file "
            "(.tsv, .csv or .jsonl)"
        )
    if is_regression:
        labels = None
    elif labels is None:
        labels = _labels_in_files(data_dir, splits, multi_label)
    if "test" in splits:  # labels in it, if any, are not read
        unlabeled = columns._replace(label=None)
        splits["test"] = splits["test"]._replace(columns=unlabeled)
    if multi_label:
        metrics = ("micro_f1", "macro_f1", "mean_average_precision")
    elif is_regression:
        metrics = ("pearson", "spearman")
    else:
        metrics = ("accuracy", "macro_f1")
    return classifier_tasks.Task(
        labels,
        splits.get("train"),
        {name: splits[name] for name in ("dev",) if name in splits},
        {name: splits[name] for name in ("test",) if name in splits},
        metrics,
        multi_label=multi_label,
    )


def _labels_in_files(
    data_dir: str,
    splits: dict[str, classifier_tasks.Split],
    multi_label: bool,
) -> tuple[str, ...]:
    """Return the different labels of the training or the development file.

    They are sorted, which gives each label its class id.

    Raises:
        UserError: there is no such file, or too few or too many labels.
    """
    # A command that only scores may have a development file alone.
    split = splits.get("train") or splits.get("dev")
    if not split:
        raise UserError(
            f"--data_dir={data_dir} holds no train or dev file to take the "
            "labels from, and the model's configuration has none (id2label)"
        )
    examples = read_examples(
        data_dir, split, labels=None, multi_label=multi_label
    )
    labels = {x.label for x in examples if x.label is not None}
    if multi_label:
        labels = {name for label in labels for name in split_labels(label)}
    found = (
        f"{data_dir}/{split.file}: column {split.columns.label!r} has "
        f"{len(labels)} different labels"
    )
    if len(labels) < 2:
        raise UserError(
            f"{found} ({', '.join(sorted(labels))}); a classifier needs two "
            "or more"
        )
    if len({label.strip() for label in labels}) < len(labels):
        raise UserError(f"{found}, some of which differ in white space alone")
    if len(labels) > _MAX_LABELS:
        raise UserError(
            f"{found}, wanted at most {_MAX_LABELS}; numbers to predict need "
            "--regression"
        )
    # Sorted, so that a class id does not depend on the order of the lines; by
    # value if all labels are numbers, since as text "10" comes before "9".
    if all(map(_is_finite, labels)):
        return tuple(sorted(labels, key=lambda label: (float(label), label)))
    return tuple(sorted(labels))


def _is_finite(text: str, dtype: type = np.float64) -> bool:
    """Return whether a text is a finite number that a type can hold."""
    try:
        return abs(float(text)) <= float(np.finfo(dtype).max)
    except ValueError:
        return False


def split_labels(text: str) -> tuple[str, ...]:
    """Return the labels of an example with several, or none.

    >>> split_labels("sport, politics"), split_labels('["a, b"]')
    (('sport', 'politics'), ('a, b',))

    Args:
        text: labels separated by commas, or a JSON list of strings.

    Raises:
        ValueError: it begins like a JSON list and is none of strings.
    """
    text = text.strip()
    if not text.startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    found = json.loads(text)
    if not all(isinstance(name, str) for name in found):
        raise ValueError("wanted a list of strings")
    return tuple(found)


# --- Files to examples -------------------------------------------------------


def read_examples(
    data_dir: str,
    split: classifier_tasks.Split,
    labels: Sequence[str] | None,
    language: str | None = None,
    is_regression: bool = False,
    multi_label: bool = False,
) -> list[Example]:
    """Return the examples of a file; warn of lines that are left out.

    Args:
        data_dir: the folder of the file.
        split: file and columns, and whether damaged lines are left out.
        labels: the known labels; None: every label is accepted.
        language: keep the lines of this language, in files that have a
            column of languages (XNLI); None: keep all.
        is_regression: whether labels have to be numbers.
        multi_label: whether an example has any number of labels.

    Raises:
        UserError: the file is missing or empty, a column is missing, a line
            has too many or too few columns, a label is unknown; the error
            names file and line.
    """
    path = f"{data_dir.rstrip('/')}/{split.file}"
    examples, damaged = [], []
    text = text_files.read_text(path)
    for number, row, at in _rows(path, text, split.columns, multi_label):
        # XNLI's development and test files have this column, for 15 languages.
        if language and row.get("language", language) != language:
            continue
        if problem := _problem(row, split.columns):
            damaged.append(f"{at}: {problem}")
            if split.skips_damaged:
                continue
            raise UserError(damaged[0])
        label = row.get("label")
        if label is not None:
            label = _SYNONYMS.get(label, label)
            if multi_label:
                _check_labels(label, labels, at)
            else:
                _check_label(label, labels, is_regression, at)
        guid = row.get("guid") or str(number)
        text_files.check_cell(guid, f"{at}: id")
        examples.append(Example(guid, row["text_a"], row.get("text_b"), label))
    if not examples:
        of = f" in language {language!r}" if language else ""
        raise UserError(
            damaged[0] if damaged else f"{path} holds no example{of}"
        )
    if damaged:
        _warn_of_damaged(damaged[0], len(damaged))
    return examples


def _problem(
    row: dict[str, str], columns: classifier_tasks.Columns
) -> str | None:
    """Return what is wrong with the texts of a row, None if nothing is."""
    if "problem" in row:
        return row["problem"]
    if not row["text_a"].strip():
        return f"column {columns.text_a!r} is empty"
    return None


@functools.cache  # a run reads some files twice
def _warn_of_damaged(first: str, count: int) -> None:
    """Warn of damaged lines.

    Args:
        first: file and line of the first one, and what is wrong with it.
        count: how many lines are damaged.
    """
    logging.warning("%s; damaged lines are left out, %d in all", first, count)


def _check_label(
    label: str, labels: Sequence[str] | None, is_regression: bool, at: str
) -> None:
    """Raise a UserError unless a label is a number or one of the labels."""
    if not label.strip():
        raise UserError(f"{at}: the label is empty")
    text_files.check_cell(label, f"{at}: label")
    if is_regression:
        # Labels are stored in 32 bits. float() takes "1_0", too.
        if "_" in label or not _is_finite(label, np.float32):
            raise UserError(f"{at}: {label!r} is not a number in float32")
    elif labels is not None and label not in labels:
        raise UserError(
            f"{at}: unknown label {label!r}; known are {', '.join(labels)}"
        )


def _check_labels(text: str, labels: Sequence[str] | None, at: str) -> None:
    """Raise a UserError unless a text is a list of labels, maybe empty."""
    try:
        found = split_labels(text)
    except ValueError as error:
        raise UserError(
            f"{at}: the labels {text!r} are no JSON list of strings ({error}); "
            "separate labels by commas, or mend the list"
        ) from None
    for label in found:
        _check_label(label, labels, False, at)


# (number of the row from 0, {field of Columns: text}, "file, line n"). The
# dictionary of an XNLI row also has the key "language", that of a row with too
# many or too few columns only the key "problem".
_Row = tuple[int, dict[str, str], str]


def _rows(
    path: str, text: str, columns: classifier_tasks.Columns, multi_label: bool
) -> Iterator[_Row]:
    """Yield the parts of each example that `columns` names.

    Args:
        path: its ending tells the format; for messages.
        text: of the file.
        columns: names or numbers.
        multi_label: whether a label in JSON may be a list.
    """
    if path.endswith(".jsonl"):
        yield from _json_rows(path, text, columns, multi_label)
    elif path.endswith(".csv"):
        yield from _table_rows(path, text_files.csv_table(path, text), columns)
    else:
        yield from _table_rows(path, _tsv_table(text), columns)


def _tsv_table(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number from 1, cells) of tab-separated text; skip blanks."""
    # Not the csv module: GLUE's files are not quoted, and a text may begin with
    # a quotation mark that no other one closes. Not splitlines(): a text may
    # hold U+2028, which would end its line.
    for number, line in enumerate(text.split("\n"), 1):
        if line := line.removesuffix("\r"):
            yield number, line.split("\t")


def _table_rows(
    path: str,
    table: Iterator[tuple[int, list[str]]],
    columns: classifier_tasks.Columns,
) -> Iterator[_Row]:
    """Yield the rows of a table of (line number, cells)."""
    places: dict[str, int] = {}
    width = number = 0
    for line, cells in table:
        at = f"{path}, line {line}"
        if not width:  # the first line
            width = len(cells)
            header = cells if columns.has_header else None
            places = _places(path, columns, header, width)
            if columns.has_header:
                continue
        # A tab inside a text would shift the columns after it: the label would
        # be read from the wrong one.
        if len(cells) == width:
            row = {part: cells[i] for part, i in places.items()}
        else:
            words = f"{len(cells)} columns, wanted {width} as in the first line"
            row = {"problem": words}
        yield number, row, at
        number += 1


def _places(
    path: str,
    columns: classifier_tasks.Columns,
    header: list[str] | None,
    width: int,
) -> dict[str, int]:
    """Return {field of Columns: number of its column in the file}.

    A field that is None in `columns` is left out.

    Args:
        path: for messages.
        columns: by name or by number.
        header: names of the file's columns, if it has them.
        width: how many columns the file has.
    """
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
            if header.count(column) > 1:
                raise UserError(f"{path}: more than one column {column!r}")
            column = header.index(column)
        if column >= width:
            raise UserError(
                f"{path}: its first line has {width} columns, {part} should "
                f"be in column {column + 1}"
            )
        places[part] = column
    if header and header[0] == "language":  # XNLI, see read_examples
        places["language"] = 0
    return places


def _json_rows(
    path: str, text: str, columns: classifier_tasks.Columns, multi_label: bool
) -> Iterator[_Row]:
    """Yield the rows of JSON lines; the names in `columns` are keys."""
    objects = text_files.json_objects(path, text)
    # The number is a guid, so it counts examples, not lines: blank lines are
    # skipped.
    for number, (line, value) in enumerate(objects):
        at, row = f"{path}, line {line}", {}
        for part in ("text_a", "text_b", "label", "guid"):
            key = getattr(columns, part)
            if key is None:
                continue
            if key not in value:
                raise UserError(
                    f"{at}: no key {key!r}; it has "
                    f"{', '.join(map(repr, value))}"
                )
            found = value[key]
            if part == "label" and multi_label and isinstance(found, list):
                found = json.dumps(found, ensure_ascii=False)
            row[part] = _json_text(found, key, part == "label", at)
        yield number, row, at


def _json_text(value: Any, key: str, is_label: bool, at: str) -> str:
    """Return the text or the label that a JSON value is.

    Raises:
        UserError: it is neither.
    """
    # A label may be a number: 1 is the class "1". True is an int.
    if isinstance(value, (str, int, float) if is_label else str):
        return str(value)
    wanted = "a string, number or boolean" if is_label else "a string"
    raise UserError(
        f"{at}: key {key!r}: found {type(value).__name__}, wanted {wanted}"
    )


# --- Examples to features ----------------------------------------------------


def schema(
    max_seq_length: int, is_regression: bool
) -> dict[str, tfrecord.Feature]:
    """Return {feature name: type and length} of the original's records.

    The original has no regression; labels are floats there.
    """
    # The original writes every feature as int64, ids and masks too.
    sequence = tfrecord.Feature("int64", max_seq_length)
    label_type = "float32" if is_regression else "int64"
    return {
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "label_ids": tfrecord.Feature(label_type, 1),
        "is_real_example": tfrecord.Feature("int64", 1),
    }


def convert_examples(
    examples: Sequence[Example],
    label_id: Callable[[str | None], float],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[dict[str, np.ndarray], int]:
    """Return the features of examples, and how many had to be cut.

    A sentence becomes [CLS] a [SEP], a pair [CLS] a [SEP] b [SEP]. Segment 1
    is b with its [SEP]; all features are 0 in the padding:

        tokens:      [CLS] the dog [SEP] a cat sat [SEP] [PAD]
        segment_ids:   0    0   0    0   1  1   1    1     0
        input_mask:    1    1   1    1   1  1   1    1     0

    Args:
        examples: n of them.
        label_id: returns the number of a label; None stands for the missing
            label of test files.
        max_seq_length: S; at least 3, or 5 for pairs.
        tokenizer: text to ids.

    Returns:
        Features [n, S], but label_ids and is_real_example [n]; and the number
        of examples that were longer than S.
    """
    found = [
        rows.row_of_texts(x.text_a, x.text_b, max_seq_length, tokenizer)
        for x in examples
    ]
    features = rows.pad([row for row, _ in found], max_seq_length) | {
        "label_ids": np.array([label_id(x.label) for x in examples]),
        # Always 1. In the original's records it is 0 for examples that fill up
        # the last batch on a TPU.
        "is_real_example": np.ones([len(examples)], np.int32),
    }
    return features, sum(is_cut for _, is_cut in found)
