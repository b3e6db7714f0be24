"""The flags that name a classifier's task and its files."""

import os

from base.errors import UserError

from absl import flags

from tasks.classifier import data as classifier_data
from tasks.classifier import glue

flags.disclaim_key_flags()  # --help of a script shows what is defined here


def define_task_flags() -> None:
    """Define --task_name, --data_dir and the columns of a user's files."""
    flags.DEFINE_string(
        "task_name",
        None,
        f"One of {', '.join(glue.TASK_NAMES)}; tsv: your own files.",
    )
    flags.DEFINE_string("data_dir", None, "Directory of the task's files.")
    flags.DEFINE_string("xnli_language", "zh", "Language of XNLI's examples.")
    flags.DEFINE_string(
        "text_a_column",
        "sentence",
        "With --task_name=tsv: column of the sentence, or of the first one.",
    )
    flags.DEFINE_string(
        "text_b_column",
        None,
        "With --task_name=tsv: column of the second sentence, if there is one.",
    )
    flags.DEFINE_string(
        "label_column", "label", "With --task_name=tsv: column of the label."
    )
    flags.DEFINE_bool(
        "multi_label",
        False,
        "With --task_name=tsv: predict any number of labels, which the files "
        "separate by commas or give as a JSON list. Each label has a least "
        "probability, tuned on the development set, from which it is "
        "predicted.",
    )


def read_files(
    values: flags.FlagValues,
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


def paths_of(values: flags.FlagValues) -> list[str]:
    """Return the paths of --data_dir that files of --task_name may have."""
    if _is_own(values):
        names = sum(classifier_data.OWN_NAMES.values(), [])
    else:
        files = glue.find(values.task_name, values.xnli_language)
        splits = [files.train, *files.dev.values(), *files.test.values()]
        names = [split.file for split in splits if split]
    return [os.path.join(values.data_dir, name) for name in names]


def check_own_only(values: flags.FlagValues, *more: str) -> None:
    """Raise a UserError if flags of a user's own files are given for others.

    `more` are such flags of the script itself.
    """
    names = ("text_a_column", "text_b_column", "label_column", "multi_label")
    for name in () if _is_own(values) else (*names, *more):
        if values[name].present:
            raise UserError(f"--{name} is for --task_name=tsv")


def _is_own(values: flags.FlagValues) -> bool:
    return (values.task_name or "").lower() == "tsv"
