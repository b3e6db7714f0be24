"""Write what a job gets wrong on its development data.

Each kind of task has a module in this folder with

    FILES                            what it writes to output_dir
    write(job, data, found, report)  found: the predictions that were scored
"""

import importlib
from types import ModuleType

from extras.mistakes.table import Report, titled
from tasks.job import DataSet, FineTuningJob, Scored

# A job's task_name -> the module of its mistakes.
_KINDS = {
    "classifier": "classes",
    "multi_label_classification": "classes",
    "multiple_choice": "choices",
    "embeddings": "pairs",
    "token_classification": "entities",
    "question_answering": "answers",
}


def write(job: FineTuningJob, scored: Scored) -> None:
    """Write the worst mistakes on the development data, and pictures."""
    for data, own in zip(job.dev, scored.predictions, strict=True):
        report = Report(job.settings, _title(job, data))
        _module(job).write(job, data, own.predictions, report)


def files(job: FineTuningJob) -> list[str]:
    """Return the names of the files that `write` writes to output_dir."""
    return [
        titled(name, _title(job, data))
        for data in job.dev
        for name in _module(job).FILES
    ]


def _module(job: FineTuningJob) -> ModuleType:
    return importlib.import_module(f"extras.mistakes.{_KINDS[job.task_name]}")


def _title(job: FineTuningJob, data: DataSet) -> str:
    """Return what is in the names of a set's files: nothing of the first."""
    return "" if data == job.dev[0] else data.title
