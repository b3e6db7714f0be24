"""The files, columns, labels and scores of a classification task.

`TaskFiles` names the training, development and test files of a task, and for
each the columns of the texts and of the label. data.py reads the files.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import file_system, text_files
from base.errors import UserError, check_choice

import numpy as np
from absl import logging


class Columns(NamedTuple):
    """The columns of the parts of an example: their names in the header.

    In a JSONL file the names are keys, in one without a header numbers from 0.
    """

    text_a: int | str
    text_b: int | str | None = None  # None: single sentences
    label: int | str | None = None  # None: a test file
    guid: int | str | None = None  # None: number the examples from 0
    has_header: bool = True


class Example(NamedTuple):
    """One sentence or pair and, except in test files, its label."""

    guid: str  # its id in the submission to GLUE
    text_a: str
    text_b: str | None = None
    label: str | None = None


def split_labels(text: str) -> tuple[str, ...]:
    """Return the labels of an example with several, or none.

    They are separated by commas, or a JSON list of strings.

    >>> split_labels("sport, politics"), split_labels('["a, b"]')
    (('sport', 'politics'), ('a, b',))

    Raises:
        ValueError: it begins like a JSON list and is none of strings.
    """
    text = text.strip()
    if not text.startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    found = text_files.parse_json(text)
    if not all(isinstance(name, str) for name in found):
        raise ValueError("wanted a list of strings")
    return tuple(found)


class DataFile(NamedTuple):
    """A file, relative to the data directory, and its columns.

    Attributes:
        path: of the file; of TASKS its name in their folder.
        columns: of the texts and of the label.
        skips_damaged: leave out lines with too many or too few columns, or
            without a first text, and warn. Otherwise they are errors.
        examples: those that are used, where they are not all of a file.
        part: what is in the names of their records, such as fold1of5.
        drawn: what `examples` are, and how they were drawn; None: they are all
            of the file.
    """

    path: str
    columns: Columns
    skips_damaged: bool = False
    examples: Sequence[Example] | None = None
    part: str = ""
    drawn: Mapping[str, Any] | None = None

    @property
    def identity(self) -> Mapping[str, Any]:
        """What decides the examples: the content and the columns of a file."""
        return self.drawn or {
            "data": file_system.sha256(self.path),
            "columns": self.columns._asdict(),
        }

    def in_folder(self, folder: str) -> "DataFile":
        """Return the file in a folder."""
        return self._replace(path=os.path.join(folder, self.path))


class TaskFiles(NamedTuple):
    """The files, labels and scores of a task.

    Attributes:
        labels: in the order of their class ids; None for regression.
        train: None if the task has no training file (ax).
        dev: {name of a development set: file}. The scores of the first one
            are the task's.
        test: {submission name GLUE expects: test file}.
        metrics: names of scores.score; the first one decides which checkpoint
            is best.
        language: read only lines of this language (XNLI).
        positive: the label that the score f1 is of.
        multi_label: whether an example may have several labels, or none.
        class_names: what GLUE calls the classes whose labels are numbers; see
            `names`.
        output_activation: that of a regression's model that is used as it is,
            as in TrainedFor.
        is_own: whether the user's flags name the columns.
    """

    labels: tuple[str, ...] | None
    train: DataFile | None
    dev: Mapping[str, DataFile]
    test: Mapping[str, DataFile]
    metrics: tuple[str, ...] = ("accuracy",)
    language: str | None = None
    positive: str | None = None
    multi_label: bool = False
    class_names: tuple[str, ...] | None = None
    output_activation: str | None = None
    is_own: bool = False

    def in_folder(self, folder: str) -> "TaskFiles":
        """Return the task of the files in a folder."""
        dev, test = (
            {name: file.in_folder(folder) for name, file in part.items()}
            for part in (self.dev, self.test)
        )
        train = self.train and self.train.in_folder(folder)
        return self._replace(train=train, dev=dev, test=test)

    @property
    def names(self) -> tuple[str, ...] | None:
        """What a model calls its outputs: the labels, or names for numbers."""
        return self.class_names or self.labels

    @property
    def positive_id(self) -> int:
        """The class id of `positive`; 1 without one."""
        has_one = self.labels and self.positive
        return self.labels.index(self.positive) if has_one else 1

    def label_id(self, label: str | None) -> Any:
        """Return the class id or number of a label; 0 if there is none.

        Of several labels it is 1 for each label of an example, else 0, [K].
        """
        if self.multi_label:
            own = split_labels(label or "")
            return np.array([int(name in own) for name in self.labels])
        if label is None:
            return 0
        if self.labels is None:
            return float(label)
        return self.labels.index(label)

    @property
    def takes_pairs(self) -> bool:
        """Whether the texts come in pairs."""
        files = self.train, *self.dev.values(), *self.test.values()
        return next(filter(None, files)).columns.text_b is not None


def of_parts(
    labels: tuple[str, ...],
    parts: Mapping[str, DataFile],
    metrics: tuple[str, ...],
    **more: Any,
) -> TaskFiles:
    """Return the task of the files train, dev and test that there are."""
    dev, test = (
        {name: parts[name]} if name in parts else {} for name in ("dev", "test")
    )
    return TaskFiles(labels, parts.get("train"), dev, test, metrics, **more)


# The original's order: the place of a label is its class id, which decides the
# rows of a fine-tuned model's output_weights.
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_RTE = ("entailment", "not_entailment")


def _glue(
    labels: tuple[str, ...] | None,
    columns: Columns,
    tests: Mapping[str, str],
    test_columns: Columns | None = None,
    devs: Sequence[str] = ("dev",),
    **more: Any,
) -> TaskFiles:
    """Return a task with train.tsv, a file for each of `devs`, and test files.

    Lines of the published train.tsv of QQP are damaged: line 97,931 has 3 of 6
    columns. A test file has to be whole: GLUE wants an answer for every line.
    """
    test_columns = test_columns or columns._replace(label=None, guid="index")
    return TaskFiles(
        labels,
        DataFile("train.tsv", columns, skips_damaged=True),
        {n: DataFile(f"{n}.tsv", columns, skips_damaged=True) for n in devs},
        {name: DataFile(file, test_columns) for name, file in tests.items()},
        **more,
    )


_PAIR = Columns("sentence1", "sentence2", "label")
_TEST_PAIR = _PAIR._replace(label=None, guid="index")

TASKS: dict[str, TaskFiles] = {
    "cola": _glue(
        _BINARY,
        Columns(3, None, 1, has_header=False),
        {"CoLA": "test.tsv"},
        Columns("sentence", guid="index"),
        metrics=("matthews_correlation", "accuracy"),
        class_names=("unacceptable", "acceptable"),
    ),
    "sst-2": _glue(
        _BINARY,
        Columns("sentence", None, "label"),
        {"SST-2": "test.tsv"},
        class_names=("negative", "positive"),
    ),
    "mrpc": _glue(
        _BINARY,
        Columns("#1 String", "#2 String", "Quality"),
        {"MRPC": "test.tsv"},
        metrics=("accuracy", "f1"),
        positive="1",
        class_names=("not_equivalent", "equivalent"),
    ),
    "sts-b": _glue(
        None,
        _PAIR._replace(label="score"),
        {"STS-B": "test.tsv"},
        metrics=("pearson", "spearman"),
    ),
    "qqp": _glue(
        _BINARY,
        Columns("question1", "question2", "is_duplicate"),
        {"QQP": "test.tsv"},
        Columns("question1", "question2", guid="id"),
        metrics=("accuracy", "f1"),
        positive="1",
        class_names=("not_duplicate", "duplicate"),
    ),
    "mnli": _glue(
        _NLI,
        Columns("sentence1", "sentence2", "gold_label", "index"),
        {"MNLI-m": "test_matched.tsv", "MNLI-mm": "test_mismatched.tsv"},
        devs=("dev_matched", "dev_mismatched"),
    ),
    "qnli": _glue(
        _RTE, Columns("question", "sentence", "label"), {"QNLI": "test.tsv"}
    ),
    "rte": _glue(_RTE, _PAIR, {"RTE": "test.tsv"}),
    "wnli": _glue(
        _BINARY,
        _PAIR,
        {"WNLI": "test.tsv"},
        class_names=("not_entailment", "entailment"),
    ),
    "ax": TaskFiles(
        _NLI,
        None,
        {},
        {"AX": DataFile("diagnostic.tsv", _TEST_PAIR)},
    ),
}

TASK_NAMES = (*TASKS, "xnli", "tsv")  # tsv: see data.own_files


def find(name: str, xnli_language: str = "en") -> TaskFiles:
    """Return the task of a name such as MRPC or mrpc.

    As in the original, a model of XNLI is trained on the machine translation
    of MultiNLI into the language, and scored on the examples in it.

    Raises:
        UserError: the name is unknown; the error lists the known names.
    """
    name = name.lower()
    check_choice("--task_name: unknown", name, TASK_NAMES)
    if name == "xnli":
        columns = Columns("sentence1", "sentence2", "gold_label")
        train = f"multinli/multinli.train.{xnli_language}.tsv"
        return TaskFiles(
            _NLI,
            DataFile(train, Columns("premise", "hypo", "label"), True),
            {"dev": DataFile("xnli.dev.tsv", columns, True)},
            {f"XNLI-{xnli_language}": DataFile("xnli.test.tsv", columns)},
            language=xnli_language,
        )
    return TASKS[name]


# --- The task of a fine-tuned model ------------------------------------------


def with_labels_of(
    files: TaskFiles, labels: tuple[str, ...] | None, model: str
) -> TaskFiles:
    """Return the task with its labels in the order of a fine-tuned model.

    A model's outputs are in the order of its own labels, or of the names of
    classes, which need not be the task's: models of NLI in the format of
    Hugging Face have several. Two kinds of models keep the task's order, with
    a warning: those without names (LABEL_0, LABEL_1, ...), and those with
    other names than GLUE's for the classes of a task that has numbers.

    Raises:
        UserError: they are not the task's labels.
    """
    ours = files.labels
    if ours is None:
        return files
    for known in (files.names, ours):
        if labels and sorted(labels) == sorted(known):
            if labels != known:
                logging.info(
                    "The classes are in the order of %s: %s",
                    model,
                    ", ".join(labels),
                )
            order = [known.index(label) for label in labels]
            names = files.class_names
            return files._replace(
                labels=tuple(ours[at] for at in order),
                class_names=names and tuple(names[at] for at in order),
            )
    count = range(len(ours))
    unnamed = labels is None or labels == tuple(f"LABEL_{n}" for n in count)
    numbered = ours == tuple(map(str, count))
    if unnamed or (
        numbered and len(labels) == len(ours) and not set(labels) & set(ours)
    ):
        known = f"names its classes {', '.join(labels or ())}"
        logging.warning(
            "%s %s: its outputs are taken for %s, in this order",
            model,
            "does not name its labels (id2label)" if unnamed else known,
            ", ".join(ours),
        )
        return files
    raise UserError(
        f"the task has the labels {', '.join(ours)}, but {model} was "
        f"fine-tuned on {', '.join(labels)}: use a model of the same labels, "
        "or correct id2label in its configuration"
    )


def check_pairs(files: TaskFiles, is_pair: bool | None, model: str) -> None:
    """Raise a UserError if just one of model and task reads pairs of texts.

    `is_pair` is None if the model does not say what it reads.
    """
    if is_pair not in (None, files.takes_pairs):
        kinds = ("single texts", "pairs")
        raise UserError(
            f"the task has {kinds[files.takes_pairs]}, but {model} was "
            f"fine-tuned on {kinds[is_pair]}: use a model of "
            f"{kinds[files.takes_pairs]}, or correct sentence_pairs in its "
            "configuration"
        )
