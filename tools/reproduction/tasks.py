"""The tasks of the tables: their command, data and scores."""

import os
import re
import string
from collections.abc import Mapping
from typing import NamedTuple

from base.errors import UserError

# The data that flags name: flag -> path, or several paths with commas.
Data = Mapping[str, str]


class Task(NamedTuple):
    """A task that models are fine-tuned on; $ names a flag of data."""

    # Column of a table -> the score in it, a key of eval_results.txt. The first
    # column is in every table, others where the paper's table has them.
    scores: dict[str, str]
    command: str  # the script, and the flags that are its own
    reads: str  # files, with commas
    factor: float = 100.0  # score in the table / score in the file

    @property
    def data_flags(self) -> list[str]:
        """Return the flags that name the data: ["glue_dir"]."""
        return list(dict.fromkeys(re.findall(r"\$(\w+)", self.command)))

    def files(self, data: Data) -> list[str]:
        """Return the files of the task, the training files first."""
        return string.Template(self.reads).substitute(data).split(",")


SQUAD, SQUAD_2, SWAG = "SQuAD", "SQuAD2", "SWAG"
NER, NER_FEATURES = "NER", "NER-features"
TRIVIAQA = "TriviaQA"  # trained on, never scored: no column
FEATURE_LAYERS = 4  # that NER-features reads, the last ones (section 5.3)


def _glue(name: str, scores: dict[str, str], *dev: str) -> Task:
    """Return a task of GLUE, which has one or several development sets."""
    files = [f"$glue_dir/{name}/{part}.tsv" for part in ("train", *dev)]
    command = f"run_classifier.py --data_dir=$glue_dir/{name}"
    return Task(scores, f"{command} --task_name={name}", ",".join(files))


def _squad(data: str, column: str, exact: str, flags: str = "") -> Task:
    """Return a version of SQuAD, whose flags begin with `data`."""
    train, dev = f"${data}_train_file", f"${data}_dev_file"
    command = f"run_squad.py --train_file={train} --predict_file={dev}"
    scores = {column: "f1", "EM": exact}
    return Task(
        scores, f"{command} --do_predict {flags}", f"{train},{dev}", 1.0
    )


_NER = "run_ner.py --train_file=$ner_train_file --dev_file=$ner_dev_file"
_NER_FILES = "$ner_train_file,$ner_dev_file"

# The scores are those of the paper, on the development sets; MRPC has accuracy,
# as in Tables 5 and 6.
TASKS = {
    "MNLI": _glue(
        "MNLI",
        {"MNLI-m": "eval_accuracy", "MNLI-mm": "dev_mismatched_accuracy"},
        "dev_matched",
        "dev_mismatched",
    ),
    **{
        name: _glue(name, {name: key}, "dev")
        for name, key in {
            **dict.fromkeys(("QNLI", "MRPC", "SST-2", "RTE"), "eval_accuracy"),
            "CoLA": "matthews_correlation",
            "STS-B": "spearman",
            "QQP": "f1",
            "WNLI": "eval_accuracy",
        }.items()
    },
    SQUAD: _squad("squad", "SQuAD", "exact_match"),
    SQUAD_2: _squad(
        "squad2",
        "SQuAD 2.0",
        "exact",
        "--version_2_with_negative --tune_null_threshold",
    ),
    SWAG: Task(
        {"SWAG": "eval_accuracy"},
        "run_swag.py --data_dir=$swag_dir",
        "$swag_dir/train.csv,$swag_dir/val.csv",
    ),
    NER: Task({"NER": "f1"}, _NER, _NER_FILES),
    NER_FEATURES: Task(
        {"NER-features": "f1"}, f"{_NER} --feature_based", _NER_FILES
    ),
    TRIVIAQA: Task(
        {},
        "run_squad.py --train_file=$triviaqa_file "
        "--triviaqa_evidence_dir=$triviaqa_evidence_dir",
        "$triviaqa_file",
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


def missing(name: str, data: Data) -> str:
    """Return why a task cannot run with the data, "" if it can."""
    task = TASKS[name]
    if any(flag not in data for flag in task.data_flags):
        return f"no {' and '.join(f'--{flag}' for flag in task.data_flags)}"
    lost = [path for path in task.files(data) if not os.path.isfile(path)]
    return f"no {lost[0]}" if lost else ""


def check(data: Data) -> None:
    """Check that the files and folders of the flags are there.

    Raises:
        UserError: names the flag.
    """
    for name, value in data.items():
        for path in value.split(","):
            if not os.path.exists(path):
                raise UserError(f"--{name}={path}: no such file or folder")
