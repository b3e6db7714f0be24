"""The files, columns, labels and scores of GLUE's tasks and of XNLI.

A `Task` has the names of the training, development and test files, and for each
the columns of the texts and of the label. data.py reads the files.
"""

from collections.abc import Mapping
from typing import NamedTuple

from base.errors import UserError

from absl import logging


class Columns(NamedTuple):
    """The columns of the parts of an example: names, or numbers from 0.

    In a JSONL file the names are keys.
    """

    text_a: int | str
    text_b: int | str | None = None  # None: single sentences
    label: int | str | None = None  # None: a test file
    guid: int | str | None = None  # None: number the examples from 0
    has_header: bool = True


class Split(NamedTuple):
    """A file, relative to the data directory, and its columns.

    Attributes:
        file: its name.
        columns: of the texts and of the label.
        skips_damaged: leave out lines with too many or too few columns, or
            without a first text, and warn. Otherwise they are errors.
    """

    file: str
    columns: Columns
    skips_damaged: bool = False


class Task(NamedTuple):
    """The files, labels and scores of a task.

    Attributes:
        labels: names of the classes in the order of their ids; None for
            regression.
        train: the training file; None if the task has none (ax).
        dev: {name of a development set: file}. The scores of the first one
            are the task's.
        test: {submission name GLUE expects: test file}.
        metrics: names of scores, see classifier.scores.NAMES; the first one
            decides which checkpoint is best.
        language: read only lines of this language (XNLI).
        positive: the label that the score f1 is of; None without that score.
        multi_label: whether an example may have several labels, or none.
    """

    labels: tuple[str, ...] | None
    train: Split | None
    dev: Mapping[str, Split]
    test: Mapping[str, Split]
    metrics: tuple[str, ...] = ("accuracy",)
    language: str | None = None
    positive: str | None = None
    multi_label: bool = False

    @property
    def positive_id(self) -> int:
        """The class id of `positive`; 1 without one."""
        if self.labels is None or self.positive is None:
            return 1
        return self.labels.index(self.positive)

    def label_id(self, label: str | None) -> float:
        """Return the class id or number of a label; 0 if there is none."""
        if label is None:
            return 0
        if self.labels is None:
            return float(label)
        return self.labels.index(label)

    @property
    def takes_pairs(self) -> bool:
        """Whether the texts come in pairs."""
        splits = [self.train, *self.dev.values(), *self.test.values()]
        split = next(split for split in splits if split)
        return split.columns.text_b is not None


# --- The tasks ---------------------------------------------------------------

_PAIR = Columns("sentence1", "sentence2", "label")

# The original's order: the place of a label is its class id, which decides the
# rows of a fine-tuned model's output_weights.
_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_RTE = ("entailment", "not_entailment")


def _labeled(file: str, columns: Columns) -> Split:
    """Return a training or development file of GLUE.

    Lines of the published train.tsv of QQP are damaged: line 97,931 has 3 of 6
    columns. A test file has to be whole: GLUE wants an answer for every line.
    """
    return Split(file, columns, skips_damaged=True)


def _uniform_task(
    columns: Columns, submission: str, labels: tuple[str, ...] | None, **more
) -> Task:
    """Return a task whose train, dev and test files have the same columns."""
    test = columns._replace(label=None, guid="index")
    if columns.text_a == "question1":  # QQP names this column differently
        test = test._replace(guid="id")
    return Task(
        labels,
        _labeled("train.tsv", columns),
        {"dev": _labeled("dev.tsv", columns)},
        {submission: Split("test.tsv", test)},
        **more,
    )


def _cola() -> Task:
    columns = Columns(3, None, 1, has_header=False)
    return Task(
        _BINARY,
        _labeled("train.tsv", columns),
        {"dev": _labeled("dev.tsv", columns)},
        {"CoLA": Split("test.tsv", Columns("sentence", guid="index"))},
        ("matthews_correlation", "accuracy"),
    )


def _mrpc() -> Task:
    # By number, since a byte order mark precedes the first name of the header.
    columns = Columns(3, 4, 0)
    return Task(
        _BINARY,
        _labeled("train.tsv", columns),
        {"dev": _labeled("dev.tsv", columns)},
        {"MRPC": Split("test.tsv", Columns(3, 4, guid=0))},
        ("accuracy", "f1"),
        positive="1",
    )


def _mnli() -> Task:
    columns = Columns("sentence1", "sentence2", "gold_label", "index")
    test = columns._replace(label=None)
    return Task(
        _NLI,
        _labeled("train.tsv", columns),
        {
            "dev_matched": _labeled("dev_matched.tsv", columns),
            "dev_mismatched": _labeled("dev_mismatched.tsv", columns),
        },
        {
            "MNLI-m": Split("test_matched.tsv", test),
            "MNLI-mm": Split("test_mismatched.tsv", test),
        },
    )


def _diagnostic() -> Task:
    columns = Columns("sentence1", "sentence2", guid="index")
    return Task(_NLI, None, {}, {"AX": Split("diagnostic.tsv", columns)})


TASKS: dict[str, Task] = {
    "cola": _cola(),
    "sst-2": _uniform_task(
        Columns("sentence", None, "label"), "SST-2", _BINARY
    ),
    "mrpc": _mrpc(),
    "sts-b": _uniform_task(
        Columns("sentence1", "sentence2", "score"),
        "STS-B",
        None,
        metrics=("pearson", "spearman"),
    ),
    "qqp": _uniform_task(
        Columns("question1", "question2", "is_duplicate"),
        "QQP",
        _BINARY,
        metrics=("accuracy", "f1"),
        positive="1",
    ),
    "mnli": _mnli(),
    "qnli": _uniform_task(
        Columns("question", "sentence", "label"), "QNLI", _RTE
    ),
    "rte": _uniform_task(_PAIR, "RTE", _RTE),
    "wnli": _uniform_task(_PAIR, "WNLI", _BINARY),
    "ax": _diagnostic(),
}


def xnli(language: str) -> Task:
    """Return XNLI in a language.

    As in the original, a model is trained on the machine translation of
    MultiNLI into the language, and scored on the development examples in it.
    """
    columns = Columns(6, 7, 1)
    return Task(
        _NLI,
        Split(f"multinli/multinli.train.{language}.tsv", Columns(0, 1, 2)),
        {"dev": Split("xnli.dev.tsv", columns)},
        {f"XNLI-{language}": Split("xnli.test.tsv", columns)},
        language=language,
    )


# --- Tasks by name -----------------------------------------------------------

TASK_NAMES = (*TASKS, "xnli", "tsv")  # tsv: see classifier.data.own_task

_ALIASES = {"sst2": "sst-2", "stsb": "sts-b", "sst": "sst-2", "sts": "sts-b"}


def task_of(name: str, xnli_language: str = "en") -> Task:
    """Return the task of a name such as MRPC or mrpc.

    Args:
        name: of TASKS, an alias, or xnli; upper or lower case.
        xnli_language: the language of xnli, a column value of its files.

    Raises:
        UserError: the name is unknown; the error lists the known names.
    """
    name = name.lower()
    name = _ALIASES.get(name, name)
    if name == "xnli":
        return xnli(xnli_language)
    if name not in TASKS:
        raise UserError(
            f"--task_name={name}: unknown; choose from {', '.join(TASK_NAMES)}"
        )
    return TASKS[name]


# --- The task of a fine-tuned model ------------------------------------------


def with_labels_of(
    task: Task, labels: tuple[str, ...] | None, model: str
) -> Task:
    """Return the task with its labels in the order of a fine-tuned model.

    A model's outputs are in the order of its own labels, which need not be
    the task's: models of NLI in the format of Hugging Face have several. Two
    kinds of models keep the task's order, with a warning: those without names
    (LABEL_0, LABEL_1, ...), and those with names for the classes of a task
    that has numbers, such as "not_equivalent" and "equivalent" for MRPC.

    Args:
        task: with the labels of its files.
        labels: of the model, in the order of its outputs; None: its
            configuration has none.
        model: its path, for messages.

    Raises:
        UserError: they are not the task's labels.
    """
    ours = task.labels
    if ours is None or labels == ours:
        return task
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
        return task
    if sorted(labels) != sorted(ours):
        raise UserError(
            f"the task has the labels {', '.join(ours)}, but {model} was "
            f"fine-tuned on {', '.join(labels)}: use a model of the same "
            "labels, or correct id2label in its configuration"
        )
    logging.info(
        "The classes are in the order of %s: %s", model, ", ".join(labels)
    )
    return task._replace(labels=labels)


def check_pairs(task: Task, is_pair: bool, model: str) -> None:
    """Check that a fine-tuned model reads what the task has: texts or pairs.

    Args:
        task: its files.
        is_pair: whether the model was fine-tuned on pairs.
        model: its path, for messages.

    Raises:
        UserError: it was fine-tuned on the other.
    """
    if task.takes_pairs != is_pair:
        kinds = ("single texts", "pairs")
        raise UserError(
            f"the task has {kinds[task.takes_pairs]}, but {model} was "
            f"fine-tuned on {kinds[is_pair]}: use a model of "
            f"{kinds[task.takes_pairs]}, or correct sentence_pairs in its "
            "configuration"
        )
