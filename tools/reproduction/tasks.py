"""The tasks of the tables: their data, their column and the score in it."""

import itertools
import os
from typing import NamedTuple

from base import file_system
from base.errors import UserError

# Fewer examples are a sample of a file's layout, not a task.
MIN_EXAMPLES = 10


class Task(NamedTuple):
    """A task of a table."""

    column: str  # its header, the paper's where it has one
    key: str  # the score, of eval_results.txt
    data: str = "glue"  # or "squad", "ner", ...: the flags that name its files
    factor: float = 100.0  # score in the table / score in the file
    dev: tuple[str, ...] = ("dev.tsv",)  # of GLUE, beside train.tsv


FEATURE_LAYERS = 4  # that NER-features reads, the last ones (section 5.3)
SQUAD, SQUAD_2, SWAG = "SQuAD", "SQuAD2", "SWAG"
NER, NER_FEATURES = "NER", "NER-features"
TRIVIAQA = "TriviaQA"  # trained on, never scored: no column

# The scores are those of the paper, on the development sets; MRPC has accuracy,
# as in Tables 5 and 6.
TASKS = {
    "MNLI": Task(
        "MNLI-m",
        "eval_accuracy",
        dev=("dev_matched.tsv", "dev_mismatched.tsv"),
    ),
    **{n: Task(n, "eval_accuracy") for n in ("QNLI", "MRPC", "SST-2", "RTE")},
    "CoLA": Task("CoLA", "matthews_correlation"),
    "STS-B": Task("STS-B", "spearman"),
    "QQP": Task("QQP", "f1"),
    "WNLI": Task("WNLI", "eval_accuracy"),
    SQUAD: Task("SQuAD", "f1", "squad", factor=1.0),
    SQUAD_2: Task("SQuAD 2.0", "f1", "squad2", factor=1.0),
    SWAG: Task("SWAG", "eval_accuracy", "swag"),
    NER: Task("NER", "f1", "ner"),
    NER_FEATURES: Task("NER-features", "f1", "ner"),
}

# Other names of the tasks, in lower case. CoNLL and WNUT are two data sets of
# the layout that --ner_train_file has.
_ALIASES = {
    "mnli-m": "MNLI",
    "sst2": "SST-2",
    "sst": "SST-2",
    "sts": "STS-B",
    "stsb": "STS-B",
    "squad1.1": SQUAD,
    "squad2.0": SQUAD_2,
    "squad-2.0": SQUAD_2,
    "conll": NER,
    "wnut": NER,
    "ner_features": NER_FEATURES,
}


def name_of(name: str, place: str) -> str:
    """Return the usual spelling of a task's name, which `place` has."""
    folded = name.strip().lower()
    known = {task.lower(): task for task in TASKS} | _ALIASES
    if folded not in known:
        raise UserError(
            f"{place}: unknown task {name!r}; choose from {', '.join(TASKS)}"
        )
    return known[folded]


class Data(NamedTuple):
    """The data that the flags name; None where they name none."""

    glue_dir: str | None = None
    squad_train_file: str | None = None
    squad_dev_file: str | None = None
    squad2_train_file: str | None = None
    squad2_dev_file: str | None = None
    triviaqa_file: str | None = None
    triviaqa_evidence_dir: str | None = None
    swag_dir: str | None = None
    ner_train_file: str | None = None
    ner_dev_file: str | None = None

    def files(self, name: str) -> list[str]:
        """Return the files of a task, the training files first; may be []."""
        if name == TRIVIAQA:
            return self.triviaqa_file.split(",") if self.triviaqa_file else []
        task = TASKS[name]
        if task.data == "swag":
            names = ("train.csv", "val.csv") if self.swag_dir else ()
            return [os.path.join(self.swag_dir, name) for name in names]
        if task.data == "glue":
            if not self.glue_dir:
                return []
            folder = os.path.join(self.glue_dir, name)
            return [os.path.join(folder, n) for n in ("train.tsv", *task.dev)]
        pair = [
            getattr(self, f"{task.data}_{p}_file") for p in ("train", "dev")
        ]
        return ",".join(pair).split(",") if all(pair) else []

    def missing(self, name: str) -> str | None:
        """Return why a task cannot run with these data, None if it can."""
        files = self.files(name)
        data = "triviaqa" if name == TRIVIAQA else TASKS[name].data
        if not files:
            flags = {
                "glue": "--glue_dir",
                "swag": "--swag_dir",
                "triviaqa": "--triviaqa_file and --triviaqa_evidence_dir",
            }.get(data, f"--{data}_train_file and --{data}_dev_file")
            return f"no {flags}"
        for path in files:
            if not os.path.isfile(path):
                return f"no {path}"
        if data == "glue":
            header = name != "CoLA"  # CoLA's tables have none
            with file_system.open_for_reading(files[0]) as file:
                rows = (line for line in file if line.strip())
                some = itertools.islice(rows, MIN_EXAMPLES + header)
                count = max(0, sum(1 for _ in some) - header)
            if count < MIN_EXAMPLES:
                return f"{files[0]} has {count} examples"
        return None

    def check(self) -> None:
        """Check that the files and folders of the flags are there."""
        if self.glue_dir is not None:
            if not os.path.isdir(self.glue_dir):
                raise UserError(
                    f"--glue_dir={self.glue_dir} is not a directory"
                )
            glue = (name for name in TASKS if TASKS[name].data == "glue")
            if not any(os.path.isfile(self.files(name)[0]) for name in glue):
                raise UserError(
                    f"--glue_dir={self.glue_dir} has no task: wanted folders "
                    f"such as {os.path.join(self.glue_dir, 'MRPC')} with "
                    "train.tsv"
                )
        for name in ("swag_dir", "triviaqa_evidence_dir"):
            if (folder := getattr(self, name)) and not os.path.isdir(folder):
                raise UserError(f"--{name}={folder} is not a directory")
        for pair in (
            *(
                (f"{kind}_train_file", f"{kind}_dev_file")
                for kind in ("squad", "squad2", "ner")
            ),
            ("triviaqa_file", "triviaqa_evidence_dir"),
        ):
            given = [name for name in pair if getattr(self, name)]
            if len(given) == 1:
                (other,) = {*pair} - {*given}
                raise UserError(f"--{given[0]} needs --{other}")
            for name in (n for n in given if n.endswith("_file")):
                for path in getattr(self, name).split(","):
                    if not os.path.isfile(path):
                        raise UserError(f"--{name}={path}: no such file")
