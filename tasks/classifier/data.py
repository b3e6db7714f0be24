"""Read the examples of a classification task.

Three kinds of files hold a line per example: .tsv without quoting, as GLUE's
files are; .csv with quotes; .jsonl with a JSON object per line. base/tables.py
reads their rows.
"""

import json
import os
from collections.abc import Mapping, Sequence

from base import file_system, logs, tables, text_files
from base.errors import UserError, counted

import numpy as np
from absl import logging

from tasks.classifier import task_files
from tasks.classifier.task_files import (
    Columns,
    DataFile,
    Example,
    TaskFiles,
    split_labels,
)

# XNLI's training files have another name for this label than its other files.
_SYNONYMS = {"contradictory": "contradiction"}

# What SNLI and MultiNLI have in place of a label without a majority.
_UNDECIDED = "-"

# With more different labels the column most likely holds numbers to predict, or
# the texts themselves.
_MAX_LABELS = 1000

# The flags that choose columns, which --task_name=tsv alone takes.
_FLAGS = {
    "text_a": "--text_a_column",
    "text_b": "--text_b_column",
    "label": "--label_column",
}
_HINT = " (your own file: --task_name=tsv)"


# --- Own files ---------------------------------------------------------------


def own_files(
    data_dir: str,
    columns: Columns,
    is_regression: bool = False,
    labels: tuple[str, ...] | None = None,
    multi_label: bool = False,
    given: Mapping[str, str | None] = {},
) -> TaskFiles:
    """Return the task that a user's own train, dev and test files make.

    They are .tsv, .csv or .jsonl: those of data_dir, or without a data_dir
    those that are `given` by part. The test file needs no labels; if it has
    some, they are not read. Without `labels`, those of a fine-tuned model, they
    are read from the training file, or else the development file, and sorted.

    Raises:
        UserError: there is no file, or too few or too many labels.
    """
    parts = {}
    for part in ("train", "dev", "test"):
        own = columns._replace(label=None) if part == "test" else columns
        file = given.get(part)
        if not file and data_dir:
            names = [f"{part}.{ending}" for ending in ("tsv", "csv", "jsonl")]
            file = tables.find_one_file(data_dir, names)
        if file:
            parts[part] = DataFile(os.path.join(data_dir, file), own)
    if not parts:
        raise UserError(
            f"--data_dir={data_dir} holds no train, dev or test file "
            "(.tsv, .csv or .jsonl)"
        )
    metrics = ("accuracy", "macro_f1")
    if is_regression:
        metrics = ("pearson", "spearman")
    if multi_label:
        metrics = ("micro_f1", "macro_f1", "mean_average_precision")
    labels = None if is_regression else labels or ()
    files = task_files.of_parts(
        labels, parts, metrics, multi_label=multi_label, is_own=True
    )
    if labels == ():
        return files._replace(labels=_read_labels(files))
    return files


def _read_labels(files: TaskFiles) -> tuple[str, ...]:
    """Return the different labels of the training or the development file."""
    # A command that only scores may have a development file alone.
    file = files.train or files.dev.get("dev")
    if not file:
        raise UserError(
            "there is no training or development file to take the labels "
            "from (--train_file, --dev_file, or those in --data_dir), and the "
            "model's configuration has none (id2label)"
        )
    examples = read_examples(file, files, any_label=True)
    labels = {example.label for example in examples}
    if files.multi_label:
        labels = {name for label in labels for name in split_labels(label)}
    if "entailment" in labels:
        labels.discard(_UNDECIDED)
    # Is there a label that says that there is none? "+" and "-" are two, and
    # -1, 0 and 1 three classes, but 0, 1, 2, ... are all classes without -1.
    missing = None if "+" in labels else _UNDECIDED
    are_numbers = all(map(_is_finite, labels))
    if are_numbers and len(labels) > 3:
        if {*map(float, labels)} == {*range(-1, len(labels) - 1)}:
            missing = min(labels, key=float)
    if none := [x.guid for x in examples if x.label == missing in labels]:
        of, (line, _) = counted(len(none), "row"), rows_by_guid(file)[none[0]]
        raise UserError(
            f"{file.path}: the label {missing!r} of {of} (first: line {line}) "
            "may be a class, or say that there is none: give the class a name, "
            "or delete the rows"
        )
    found = (
        f"{file.path}: column {file.columns.label!r} has {len(labels)} "
        "different labels"
    )
    if len(labels) < 2:
        raise UserError(
            f"{found} ({', '.join(sorted(labels))}); a classifier needs two "
            "or more"
        )
    if len(labels) > _MAX_LABELS:
        raise UserError(
            f"{found}, wanted at most {_MAX_LABELS}; numbers to predict need "
            "--regression"
        )
    if len({label.lower() for label in labels}) < len(labels):
        logging.warning("%s, some of which differ in case alone", found)
    # Sorted, so that a class id does not depend on the order of the lines; by
    # value if all labels are numbers, since as text "10" comes before "9".
    ordered = sorted(labels)
    return tuple(sorted(ordered, key=float) if are_numbers else ordered)


def read_class_weights(path: str, labels: Sequence[str]) -> list[float]:
    """Return the weights of the labels, in their order, from a JSON file.

    Raises:
        UserError: the file does not have a positive number for each label.
    """
    if not file_system.exists(path):
        raise UserError(
            f"--class_weights={path}: no such file, wanted balanced, or a JSON "
            'file {"label": weight, ...}'
        )
    found = text_files.read_json_object(path)
    if sorted(found) != sorted(labels):
        raise UserError(
            f"--class_weights={path} has weights of "
            f"{', '.join(found) or 'no class'}, wanted a JSON object with a "
            f"number for each of {', '.join(labels)}"
        )
    for label, weight in found.items():
        is_number = isinstance(weight, (int, float)) and weight is not True
        if not is_number or not 0 < weight < 1e6:
            raise UserError(
                f"--class_weights={path}: the weight of {label!r} is {weight}, "
                "wanted a number above 0 and below a million"
            )
    return [float(found[label]) for label in labels]


def _is_finite(text: str, dtype: type = np.float64) -> bool:
    """Return whether a text is a finite number that a type can hold."""
    try:
        return abs(float(text)) <= float(np.finfo(dtype).max)
    except ValueError:
        return False


# --- Files to examples -------------------------------------------------------


def read_examples(
    file: DataFile, files: TaskFiles, any_label: bool = False
) -> list[Example]:
    """Return the examples of a file; warn of lines that are left out.

    Labels have to be those of the task. With `any_label` they are not known
    yet, and each has to have one spelling.

    Raises:
        UserError: the file is missing or empty, a column is missing, a line
            has too many or too few columns, a text or a label is empty, a
            label is unknown; the error names file and line.
    """
    columns = {
        part: column
        for part, column in file.columns._asdict().items()
        if column is not None and part != "has_header"
    }
    spellings = {} if any_label else None
    examples: list[Example] = []
    damaged: list[str] = []
    needed = ["text_a"]
    # Of a test file, GLUE wants an answer to every pair.
    if "text_b" in columns and (files.is_own or file.skips_damaged):
        needed.append("text_b")
    if "label" in columns and not files.multi_label:
        needed.append("label")
    # A label of JSON may be a number: 1 is the class "1".
    label_kinds = (str, int, float, bool, *[list] * files.multi_label)
    is_answered = files.is_own and "label" not in columns
    empty: dict[str, list[str]] = {}  # part of an example: lines without it
    found = tables.rows(
        file.path,
        {column: _FLAGS.get(part, "") for part, column in columns.items()},
        "" if files.is_own else _HINT,
        has_header=file.columns.has_header,
        damaged=damaged if file.skips_damaged else None,
        whole=is_answered,
    )
    for number, (at, row) in enumerate(found):
        # XNLI's development and test files have 15 languages.
        language = row.get("language") if files.language else None
        if not row or language not in (None, files.language):
            continue
        values: dict[str, str] = {}
        for part, column in columns.items():
            kinds = label_kinds if part == "label" else str
            hint = f" ({_FLAGS[part]})" if part in _FLAGS else ""
            value = tables.require(row, column, kinds, at, hint)
            if isinstance(value, list):
                value = json.dumps(value, ensure_ascii=False)
            values[part] = str(value)
        lacking = next((n for n in needed if not values[n].strip()), None)
        if lacking in ("text_a", "text_b") and file.skips_damaged:
            damaged.append(f"{at}: column {columns[lacking]!r} is empty")
            continue
        if lacking:
            empty.setdefault(lacking, []).append(at.rpartition(" ")[2])
            if not is_answered:
                continue
        if "label" in values:
            values["label"] = _SYNONYMS.get(values["label"], values["label"])
            is_nli = "entailment" in (files.labels or ())
            if values["label"] == _UNDECIDED and is_nli:
                damaged.append(
                    f"{at}: label {_UNDECIDED!r}, no agreement on one"
                )
                continue
            _check_label(values["label"], files, spellings, at)
        values["guid"] = values.get("guid") or str(number)
        tables.check_cell(values["guid"], f"{at}: id")
        examples.append(Example(**values))
    for part, lines in empty.items():
        problem = (
            f"{file.path}: column {columns[part]!r} is empty in "
            f"{len(lines):,} of {number + 1:,} rows (first: line {lines[0]}): "
        )
        if not is_answered or len(lines) == len(examples):
            raise UserError(problem + "fill these, or delete the rows")
        logs.warn_once(problem + "their answers are empty")
    if not examples:
        of = f" in language {files.language!r}" if files.language else ""
        raise UserError(
            damaged[0] if damaged else f"{file.path} holds no example{of}"
        )
    if damaged:  # a run reads some files twice
        logs.warn_once(
            f"{damaged[0]}; such lines are left out, {len(damaged)} in all"
        )
    return examples


def rows_by_guid(file: DataFile) -> dict[str, tuple[int, tables.Row]]:
    """Return {guid of an example: (line, all columns)} of a file's rows."""
    has_header, guid = file.columns.has_header, file.columns.guid
    found = tables.rows(file.path, has_header=has_header, damaged=[])
    return {
        row.get(guid) or str(number): (int(at.rpartition(" ")[2]), row)
        for number, (at, row) in enumerate(found)
    }


def _check_label(
    label: str, files: TaskFiles, spellings: dict | None, at: str
) -> None:
    """Raise a UserError unless the task has this label."""
    names = [label]
    if files.multi_label:
        try:
            names = split_labels(label)
        except ValueError as error:
            raise UserError(
                f"{at}: the labels {label!r} are no JSON list of strings "
                f"({error}); separate labels by commas, or mend the list"
            ) from None
    for name in names:
        if not name.strip():
            raise UserError(f"{at}: the label is empty")
        tables.check_cell(name, f"{at}: label")
        if files.labels is None:
            # Labels are stored in 32 bits. float() takes "1_0", too.
            if "_" in name or not _is_finite(name, np.float32):
                raise UserError(f"{at}: {name!r} is not a number in float32")
        elif spellings is not None:
            tables.check_spelling(name, at, spellings)
        elif name not in files.labels:
            raise UserError(
                f"{at}: unknown label {name!r}; known are "
                f"{', '.join(files.labels)}"
            )
