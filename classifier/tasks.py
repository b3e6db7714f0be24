"""The files, columns, labels and scores of GLUE's tasks and of own data."""

from collections.abc import Mapping
from typing import NamedTuple

from base.errors import UserError


class Columns(NamedTuple):
    """Where the parts of an example stand: by name, or by number from 0."""

    text_a: int | str
    text_b: int | str | None = None
    label: int | str | None = None
    guid: int | str | None = None  # None: the line's number, from 0
    has_header: bool = True


class Split(NamedTuple):
    """A file and its columns."""

    file: str
    columns: Columns


class Task(NamedTuple):
    """What there is to know of a task.

    Attributes:
        labels: in the order of their ids; None for regression.
        train: the training file; None where there is none (ax).
        dev: name of each development set -> file. The first one's scores are
            the task's.
        test: name of each test set, as GLUE's server wants the submission's
            file called -> file.
        metrics: names of scores, see metrics.py; the first one
            decides which checkpoint is best.
        language: keep only lines of this language (column 0).
    """

    labels: tuple[str, ...] | None
    train: Split | None
    dev: Mapping[str, Split]
    test: Mapping[str, Split]
    metrics: tuple[str, ...] = ("accuracy",)
    language: str | None = None


def _plain(
    columns: Columns, submission: str, labels: tuple[str, ...] | None, **more
) -> Task:
    """A task with train.tsv, dev.tsv and test.tsv of the same columns."""
    test = columns._replace(label=None, guid="index")
    if columns.text_a == "question1":  # QQP
        test = test._replace(guid="id")
    return Task(
        labels,
        Split("train.tsv", columns),
        {"dev": Split("dev.tsv", columns)},
        {submission: Split("test.tsv", test)},
        **more,
    )


_PAIR = Columns("sentence1", "sentence2", "label")

_BINARY = ("0", "1")

_NLI = ("contradiction", "entailment", "neutral")

_RTE = ("entailment", "not_entailment")


def _mnli() -> Task:
    columns = Columns("sentence1", "sentence2", "gold_label", "index")
    test = columns._replace(label=None)
    return Task(
        _NLI,
        Split("train.tsv", columns),
        {
            "dev_matched": Split("dev_matched.tsv", columns),
            "dev_mismatched": Split("dev_mismatched.tsv", columns),
        },
        {
            "MNLI-m": Split("test_matched.tsv", test),
            "MNLI-mm": Split("test_mismatched.tsv", test),
        },
    )


def _cola() -> Task:
    columns = Columns(3, None, 1, has_header=False)
    return Task(
        _BINARY,
        Split("train.tsv", columns),
        {"dev": Split("dev.tsv", columns)},
        {"CoLA": Split("test.tsv", Columns("sentence", guid="index"))},
        ("matthews_correlation", "accuracy"),
    )


def _mrpc() -> Task:
    # By number: the first name of the header hides behind a byte order mark.
    columns = Columns(3, 4, 0)
    return Task(
        _BINARY,
        Split("train.tsv", columns),
        {"dev": Split("dev.tsv", columns)},
        {"MRPC": Split("test.tsv", Columns(3, 4, guid=0))},
        ("accuracy", "f1"),
    )


def xnli(language: str) -> Task:
    """Return XNLI in a language: train on translations, test on its own."""
    columns = Columns(6, 7, 1)
    return Task(
        _NLI,
        Split(f"multinli/multinli.train.{language}.tsv", Columns(0, 1, 2)),
        {"dev": Split("xnli.dev.tsv", columns)},
        {f"XNLI-{language}": Split("xnli.test.tsv", columns)},
        language=language,
    )


TASKS: dict[str, Task] = {
    "cola": _cola(),
    "sst-2": _plain(Columns("sentence", None, "label"), "SST-2", _BINARY),
    "mrpc": _mrpc(),
    "sts-b": _plain(
        Columns("sentence1", "sentence2", "score"),
        "STS-B",
        None,
        metrics=("pearson", "spearman"),
    ),
    "qqp": _plain(
        Columns("question1", "question2", "is_duplicate"),
        "QQP",
        _BINARY,
        metrics=("accuracy", "f1"),
    ),
    "mnli": _mnli(),
    "qnli": _plain(Columns("question", "sentence", "label"), "QNLI", _RTE),
    "rte": _plain(_PAIR, "RTE", _RTE),
    "wnli": _plain(_PAIR, "WNLI", _BINARY),
    "ax": Task(
        _NLI,
        None,
        {},
        {
            "AX": Split(
                "diagnostic.tsv",
                Columns("sentence1", "sentence2", guid="index"),
            )
        },
    ),
}

# Other ways people write the names.
_ALIASES = {"sst2": "sst-2", "stsb": "sts-b", "sst": "sst-2", "sts": "sts-b"}

TASK_NAMES = (*TASKS, "xnli", "tsv")


def task_of(name: str, xnli_language: str = "en") -> Task:
    """Return the task of that name, in any case.

    Raises:
        UserError: unknown; lists the known ones.
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
