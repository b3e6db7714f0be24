"""The tasks of the tables: their data, their column and the score in it."""

import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

from base import file_system
from base.errors import UserError

# Fewer examples are a sample of a file's layout, not a task.
MIN_EXAMPLES = 10


class Task(NamedTuple):
    """A task of a table.

    Attributes:
        name: as --tasks and scales.toml have it.
        column: the header of its column, the paper's where it has one.
        key: the score, a key of eval_results.txt.
        factor: the score in the table is this times that of the file.
        metric: what the score is, in words.
        train, dev: files in the task's folder (GLUE).
        also_scored: further files of it that have to be there.
    """

    name: str
    column: str
    key: str
    factor: float
    metric: str
    train: str = "train.tsv"
    dev: str = "dev.tsv"
    also_scored: tuple[str, ...] = ()


def _glue(name: str, key: str = "eval_accuracy", metric: str = "accuracy"):
    return Task(name, name, key, 100.0, metric)


# The scores are those of the paper's Table 1, on the development sets; MRPC
# has accuracy, as in Tables 5 and 6.
GLUE: dict[str, Task] = {
    task.name: task
    for task in (
        _glue("MNLI")._replace(
            column="MNLI-m",
            dev="dev_matched.tsv",
            also_scored=("dev_mismatched.tsv",),
        ),
        _glue("QNLI"),
        _glue("MRPC"),
        _glue("SST-2"),
        _glue("RTE"),
        _glue("CoLA", "matthews_correlation", "Matthews correlation"),
        _glue("STS-B", "spearman", "Spearman correlation"),
        _glue("QQP", "f1", "F1"),
        _glue("WNLI"),
    )
}

FEATURE_LAYERS = 4  # that NER-features reads, the last ones (section 5.3)
SQUAD, NER, NER_FEATURES = "SQuAD", "NER", "NER-features"
OTHERS: dict[str, Task] = {
    SQUAD: Task(SQUAD, "SQuAD", "f1", 1.0, "F1 of the answers"),
    NER: Task(NER, "NER", "f1", 100.0, "F1 of the entities"),
    NER_FEATURES: Task(
        NER_FEATURES,
        "NER-features",
        "f1",
        100.0,
        "F1 of the entities, a BiLSTM on the frozen last four layers",
    ),
}
TASKS = GLUE | OTHERS

# Other names of the tasks, in lower case. CoNLL and WNUT are two data sets of
# the layout that --ner_train_file has.
_ALIASES = {
    "mnli-m": "MNLI",
    "sst2": "SST-2",
    "sst": "SST-2",
    "sts": "STS-B",
    "stsb": "STS-B",
    "squad1.1": SQUAD,
    "conll": NER,
    "wnut": NER,
    "ner_features": NER_FEATURES,
}


def name_of(name: str, place: str) -> str:
    """Return a task's name in its usual spelling.

    Args:
        name: in upper or lower case, or another name of it.
        place: the flag or file it comes from, for messages.

    Raises:
        UserError: unknown.
    """
    folded = name.strip().lower()
    for known in TASKS:
        if known.lower() == folded:
            return known
    if folded in _ALIASES:
        return _ALIASES[folded]
    raise UserError(
        f"{place}: unknown task {name!r}; choose from {', '.join(TASKS)}"
    )


class Data(NamedTuple):
    """The data that the flags name; None where they name none."""

    glue_dir: str | None = None
    squad_train_file: str | None = None
    squad_dev_file: str | None = None
    ner_train_file: str | None = None
    ner_dev_file: str | None = None

    def files(self, name: str) -> list[str]:
        """Return the files of a task, the training files first; may be []."""
        task = TASKS[name]
        if name in GLUE:
            if not self.glue_dir:
                return []
            folder = os.path.join(self.glue_dir, name)
            return [os.path.join(folder, f) for f in (task.train, task.dev)]
        pair = (self.squad_train_file, self.squad_dev_file)
        if name != SQUAD:
            pair = (self.ner_train_file, self.ner_dev_file)
        if not all(pair):
            return []
        return [path for part in pair for path in (part or "").split(",")]


def missing(name: str, data: Data) -> str | None:
    """Return why a task cannot run with these data, None if it can."""
    files = data.files(name)
    if not files:
        if name in GLUE:
            return "no --glue_dir"
        kind = "squad" if name == SQUAD else "ner"
        return f"no --{kind}_train_file and --{kind}_dev_file"
    folder = os.path.dirname(files[0])
    also = [os.path.join(folder, f) for f in TASKS[name].also_scored]
    for path in (*files, *also):
        if not os.path.isfile(path):
            return f"no {path}"
    if name in GLUE:
        count = count_rows(name, files[0], MIN_EXAMPLES)
        if count < MIN_EXAMPLES:
            return f"{files[0]} has {count} examples"
    return None


def count_rows(name: str, path: str, most: int = 1 << 60) -> int:
    """Return the number of examples in a table of a GLUE task.

    Args:
        name: of the task; CoLA's tables have no header.
        path: of the table.
        most: stop reading at this number.
    """
    headers = 0 if name == "CoLA" else 1
    with file_system.open_for_reading(path) as file:
        rows = (line for line in file if line.strip())
        return sum(1 for _ in itertools.islice(rows, headers, most + headers))


def check_files(data: Data) -> None:
    """Check that the files and folders of the flags are there.

    Raises:
        UserError: names the flag.
    """
    if data.glue_dir is not None:
        if not os.path.isdir(data.glue_dir):
            raise UserError(f"--glue_dir={data.glue_dir} is not a directory")
        if not any(os.path.isfile(data.files(n)[0]) for n in GLUE):
            raise UserError(
                f"--glue_dir={data.glue_dir} has no task: wanted folders such "
                f"as {os.path.join(data.glue_dir, 'MRPC')} with train.tsv"
            )
    for kind in ("squad", "ner"):
        pair = {
            f"{kind}_{part}_file": getattr(data, f"{kind}_{part}_file")
            for part in ("train", "dev")
        }
        given = [name for name, value in pair.items() if value]
        if len(given) == 1:
            other = next(name for name in pair if name not in given)
            raise UserError(f"--{given[0]} needs --{other}")
        for name, value in pair.items():
            for path in (value or "").split(",") if value else ():
                if not os.path.isfile(path):
                    raise UserError(f"--{name}={path}: no such file")


def choose(names: Sequence[str], extra: Sequence[str]) -> list[str]:
    """Return a table's tasks and then the extra ones, each once."""
    return list(dict.fromkeys([*names, *extra]))
