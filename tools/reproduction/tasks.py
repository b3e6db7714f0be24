"""The tasks of the tables: their script, data and scores."""

import itertools
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from base import file_system
from base.errors import UserError

# Fewer examples are a sample of a file's layout, not a task.
MIN_EXAMPLES = 10

# The data that flags name: flag -> path, or several paths with commas.
Data = Mapping[str, str]


class Task(NamedTuple):
    """A task that models are fine-tuned on."""

    # Column of a table -> the score in it, a key of eval_results.txt. The first
    # column is in every table, others where the paper's table has them.
    scores: dict[str, str]
    script: str
    inputs: dict[str, str]  # flag of the script -> path, such as "{glue_dir}/A"
    flags: dict[str, Any] = {}  # further ones of the script
    parts: tuple[str, ...] = ()  # files, where the input is a folder
    factor: float = 100.0  # score in the table / score in the file

    @property
    def data_flags(self) -> list[str]:
        """Return the flags that name the data: ["glue_dir"]."""
        values = {**self.inputs, **self.flags}.values()
        return re.findall(r"{(\w+)}", " ".join(map(str, values)))

    def files(self, data: Data) -> list[str]:
        """Return the files of the task, the training files first; may be []."""
        if not data.keys() >= {*self.data_flags}:
            return []
        paths = [path.format(**data) for path in self.inputs.values()]
        if self.parts:
            return [os.path.join(*paths, part) for part in self.parts]
        return ",".join(paths).split(",")


SQUAD, SQUAD_2, SWAG = "SQuAD", "SQuAD2", "SWAG"
NER, NER_FEATURES = "NER", "NER-features"
TRIVIAQA = "TriviaQA"  # trained on, never scored: no column
FEATURE_LAYERS = 4  # that NER-features reads, the last ones (section 5.3)

_MNLI_DEV = ("dev_matched.tsv", "dev_mismatched.tsv")
_NER_FILES = {"train_file": "{ner_train_file}", "dev_file": "{ner_dev_file}"}

# The scores are those of the paper, on the development sets; MRPC has accuracy,
# as in Tables 5 and 6.
TASKS = {
    **{
        name: Task(
            scores,
            "run_classifier.py",
            {"data_dir": f"{{glue_dir}}/{name}"},
            {"task_name": name},
            ("train.tsv", *(_MNLI_DEV if name == "MNLI" else ["dev.tsv"])),
        )
        for name, scores in {
            "MNLI": {
                "MNLI-m": "eval_accuracy",
                "MNLI-mm": "dev_mismatched_accuracy",
            },
            "QNLI": {"QNLI": "eval_accuracy"},
            "MRPC": {"MRPC": "eval_accuracy"},
            "SST-2": {"SST-2": "eval_accuracy"},
            "RTE": {"RTE": "eval_accuracy"},
            "CoLA": {"CoLA": "matthews_correlation"},
            "STS-B": {"STS-B": "spearman"},
            "QQP": {"QQP": "f1"},
            "WNLI": {"WNLI": "eval_accuracy"},
        }.items()
    },
    SQUAD: Task(
        {"SQuAD": "f1", "EM": "exact_match"},
        "run_squad.py",
        {
            "train_file": "{squad_train_file}",
            "predict_file": "{squad_dev_file}",
        },
        {"do_predict": True},
        factor=1.0,
    ),
    SQUAD_2: Task(
        {"SQuAD 2.0": "f1", "EM": "exact"},
        "run_squad.py",
        {
            "train_file": "{squad2_train_file}",
            "predict_file": "{squad2_dev_file}",
        },
        {
            "do_predict": True,
            "version_2_with_negative": True,
            "tune_null_threshold": True,
        },
        factor=1.0,
    ),
    SWAG: Task(
        {"SWAG": "eval_accuracy"},
        "run_swag.py",
        {"data_dir": "{swag_dir}"},
        parts=("train.csv", "val.csv"),
    ),
    NER: Task({"NER": "f1"}, "run_ner.py", _NER_FILES),
    NER_FEATURES: Task(
        {"NER-features": "f1"},
        "run_ner.py",
        _NER_FILES,
        {"feature_based": True},
    ),
    TRIVIAQA: Task(
        {},
        "run_squad.py",
        {"train_file": "{triviaqa_file}"},
        {"triviaqa_evidence_dir": "{triviaqa_evidence_dir}"},
    ),
}
SCORED = [name for name, task in TASKS.items() if task.scores]

# Two data sets of the layout that --ner_train_file has.
_ALIASES = {"conll": NER, "wnut": NER}


def name_of(name: str, place: str) -> str:
    """Return the usual spelling of a task's name, which `place` has."""
    folded = name.strip().lower()
    known = {task.lower(): task for task in SCORED} | _ALIASES
    if folded not in known:
        raise UserError(
            f"{place}: unknown task {name!r}; choose from {', '.join(SCORED)}"
        )
    return known[folded]


def missing(name: str, data: Data) -> str | None:
    """Return why a task cannot run with the data, None if it can."""
    task = TASKS[name]
    files = task.files(data)
    if not files:
        return f"no {' and '.join(f'--{flag}' for flag in task.data_flags)}"
    for path in files:
        if not os.path.isfile(path):
            return f"no {path}"
    if task.data_flags == ["glue_dir"]:
        header = name != "CoLA"  # CoLA's tables have none
        with file_system.open_for_reading(files[0]) as file:
            rows = (line for line in file if line.strip())
            some = itertools.islice(rows, MIN_EXAMPLES + header)
            count = max(0, sum(1 for _ in some) - header)
        if count < MIN_EXAMPLES:
            return f"{files[0]} has {count} examples"
    return None


def check(data: Data) -> None:
    """Check that the files and folders of the flags are there, and complete.

    Raises:
        UserError: names the flag.
    """
    for task in TASKS.values():
        given = [name for name in task.data_flags if name in data]
        lacking = [name for name in task.data_flags if name not in data]
        if given and lacking:
            raise UserError(f"--{given[0]} needs --{lacking[0]}")
    for name, value in data.items():
        if name.endswith("_dir") and not os.path.isdir(value):
            raise UserError(f"--{name}={value} is not a directory")
        if name.endswith("_file"):
            for path in value.split(","):
                if not os.path.isfile(path):
                    raise UserError(f"--{name}={path}: no such file")
    if folder := data.get("glue_dir"):
        glue = (t for t in TASKS.values() if t.data_flags == ["glue_dir"])
        if not any(os.path.isfile(task.files(data)[0]) for task in glue):
            raise UserError(
                f"--glue_dir={folder} has no task: wanted folders such as "
                f"{os.path.join(folder, 'MRPC')} with train.tsv"
            )
