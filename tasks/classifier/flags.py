"""The flags that name a classifier's task and its files."""

import dataclasses
import os

from base.flags import flag

from absl.flags import FlagValues

from tasks.classifier import data as classifier_data
from tasks.classifier import glue

_OWN = {"task_name=tsv": ""}


@dataclasses.dataclass(frozen=True)
class TaskFlags:
    """The task and its files."""

    task_name: str | None = flag(needs={"data_dir": ""})
    """One of {tasks}; tsv: your own files."""

    data_dir: str | None = flag(exists="directory")
    """Directory of the task's files."""

    xnli_language: str = flag("zh")
    """Language of XNLI's examples."""

    text_a_column: str = flag("sentence", needs=_OWN)
    """With --task_name=tsv: column of the sentence, or of the first one."""

    text_b_column: str | None = flag(needs=_OWN)
    """With --task_name=tsv: column of the second sentence, if there is one."""

    label_column: str = flag("label", needs=_OWN)
    """With --task_name=tsv: column of the label."""

    multi_label: bool = flag(
        False,
        needs=_OWN,
        excludes=dict.fromkeys(
            ("regression", "teacher_checkpoint"), "it learns several labels"
        ),
    )
    """With --task_name=tsv: predict any number of labels, which the files
    separate by commas or give as a JSON list. Each label has a least
    probability, tuned on the development set, from which it is predicted."""


WORDS = {"tasks": ", ".join(glue.TASK_NAMES)}  # for the help


def read_files(
    values: FlagValues,
    is_regression: bool,
    labels: tuple[str, ...] | None,
) -> glue.TaskFiles:
    """Return the task of --task_name.

    Raises:
        UserError: the name is unknown, or the user's files are not there.
    """
    if not _is_own(values):
        return glue.find(values.task_name, values.xnli_language)
    columns = glue.Columns(
        values.text_a_column, values.text_b_column, values.label_column
    )
    return classifier_data.own_files(
        values.data_dir, columns, is_regression, labels, values.multi_label
    )


def paths_of(values: FlagValues) -> list[str]:
    """Return the paths of --data_dir that files of --task_name may have."""
    if _is_own(values):
        names = sum(classifier_data.OWN_NAMES.values(), [])
    else:
        files = glue.find(values.task_name, values.xnli_language)
        splits = [files.train, *files.dev.values(), *files.test.values()]
        names = [split.file for split in splits if split]
    return [os.path.join(values.data_dir, name) for name in names]


def _is_own(values: FlagValues) -> bool:
    return (values.task_name or "").lower() == "tsv"
