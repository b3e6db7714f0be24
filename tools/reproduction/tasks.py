"""The tasks of the tables: their command, data and scores."""

import os
import re
import string
from collections.abc import Mapping
from typing import NamedTuple

# What the user gives to read: flag -> path, or several paths with commas.
Data = Mapping[str, str]


class Task(NamedTuple):
    """A task that models are fine-tuned on.

    In its command $ names a flag of data, {} a value of [finetuning].
    """

    # Column of a table -> the score in it, a key of eval_results.txt. The first
    # column is in every table, others where the paper's table has them.
    scores: dict[str, str]
    command: str  # the script, and the flags that are its own
    reads: str  # files, with commas
    factor: float = 100.0  # score in the table / score in the file


SQUAD, TRIVIAQA = "SQuAD", "TriviaQA"  # the latter is never scored: no column
NER, NER_FEATURES = "NER", "NER-features"

_EVALUATE = "--do_eval --eval_batch_size={eval_batch_size}"


def _glue(name: str, scores: dict[str, str], *dev: str) -> Task:
    """Return a task of GLUE, which has one or several development sets."""
    files = [f"$glue_dir/{name}/{part}.tsv" for part in ("train", *dev)]
    command = f"run_classifier.py --data_dir=$glue_dir/{name} {_EVALUATE}"
    return Task(scores, f"{command} --task_name={name}", ",".join(files))


def _squad(data: str, column: str, exact: str, flags: str = "") -> Task:
    """Return a version of SQuAD, whose flags begin with `data`."""
    files = f"${data}_train_file,${data}_dev_file"
    train, dev = files.split(",")
    command = (
        f"run_squad.py --train_file={train} --predict_file={dev} --do_predict "
        "--do_eval --predict_batch_size={eval_batch_size} "
        "--doc_stride={doc_stride} "
    )
    return Task({column: "f1", "EM": exact}, command + flags, files, 1.0)


_NER = (
    "run_ner.py --train_file=$ner_train_file --dev_file=$ner_dev_file "
    + _EVALUATE
)
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
    "SQuAD2": _squad(
        "squad2",
        "SQuAD 2.0",
        "exact",
        "--version_2_with_negative --tune_null_threshold",
    ),
    "SWAG": Task(
        {"SWAG": "eval_accuracy"},
        f"run_swag.py --data_dir=$swag_dir {_EVALUATE}",
        "$swag_dir/train.csv,$swag_dir/val.csv",
    ),
    NER: Task({"NER": "f1"}, _NER, _NER_FILES),
    NER_FEATURES: Task(
        {"NER-features": "f1"},
        _NER + " --feature_based --lstm_units={lstm_units}",
        _NER_FILES,
    ),
    TRIVIAQA: Task(
        {},
        "run_squad.py --train_file=$triviaqa_file --doc_stride={doc_stride} "
        "--triviaqa_evidence_dir=$triviaqa_evidence_dir",
        "$triviaqa_file",
    ),
}
SCORED = [name for name, task in TASKS.items() if task.scores]


def missing(name: str, data: Data) -> str:
    """Return why a task cannot run with the data, "" if it can."""
    task = TASKS[name]
    flags = dict.fromkeys(re.findall(r"\$(\w+)", task.command))
    if not flags.keys() <= data.keys():
        return f"no {' and '.join(f'--{flag}' for flag in flags)}"
    files = string.Template(task.reads).substitute(data).split(",")
    lost = [path for path in files if not os.path.isfile(path)]
    return f"no {lost[0]}" if lost else ""
