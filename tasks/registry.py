"""The tasks by name: one line each. This module imports no TensorFlow."""

import inspect
import types
from collections.abc import Mapping
from typing import Any, get_args, get_origin, get_type_hints

from base.errors import UserError

from checkpoints.casing import TokenizerFiles
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor, id2label_of
from tasks.task import Task, TaskSettings, imported
from tokenization import TokenizerSettings, Vocabulary

# Name of a task -> its class below tasks/, imported when it is needed. In the
# order in which a checkpoint's head is looked for.
TASKS = {
    "classifier": "classifier.task.Classification",
    "multi_label_classification": "classifier.task.MultiLabel",
    "question_answering": "squad.task.QuestionAnswering",
    "token_classification": "ner.task.Entities",
    "multiple_choice": "swag.task.MultipleChoice",
    "masked_lm": "masked_lm.task.MaskedTokens",
    "sentence_score": "masked_lm.task.SentenceScore",
    "embeddings": "embeddings.task.Embeddings",
    "encoder": "encoder.task.Vectors",
}

# Flags of the files of a checkpoint, and options that are fixed when a model is
# exported.
FILES = ("bert_config_file", "vocab_file", "do_lower_case")
_OF_EXPORT = (
    "max_seq_length",
    "long_texts",
    "top_k",
    "score_whole_words",
    "embedding_size",
    "prompt_name",
    "dtype",
)


def find(name: str) -> type[Task]:
    """Return the class of a task; `name` is a key of TASKS."""
    return imported(TASKS[name])


def create_task(settings: TaskSettings) -> Task:
    """Return the task of a model.

    Raises:
        UserError: the vocabulary lacks a token, or lengths do not fit.
    """
    return find(settings.task)(settings)


def task_of_options() -> dict[str, str]:
    """Return {name of an option: the task that alone has it}."""
    return {
        name: task for task in TASKS for name in find(task).options_type._fields
    }


def with_options(
    settings: TaskSettings, given: Mapping[str, Any]
) -> TaskSettings:
    """Return the settings with the options that the user gave.

    They are fields of the settings, of their task's options and of their
    checkpoint's `trained_for`; the options of other tasks are left out.
    """
    known = {*settings._fields, *TrainedFor._fields, *task_of_options()}
    if unknown := given.keys() - known:
        raise TypeError(f"no task has the options {unknown}")

    def fields(value: Any) -> dict[str, Any]:
        return {name: given[name] for name in value._fields if name in given}

    return settings._replace(
        checkpoint=settings.checkpoint.changed(**fields(TrainedFor)),
        options=settings.options._replace(**fields(settings.options)),
        **fields(settings),
    )


def of_export(
    settings: TaskSettings, task: str | None, given: Mapping[str, Any]
) -> TaskSettings:
    """Return the settings of an exported model, with the user's options.

    Args:
        settings: those of the export.
        task: the task that the user named, or None.
        given: the options that the user gave.

    Raises:
        UserError: an option is fixed in an export, or the task is another one.
    """
    path = settings.checkpoint.prefix
    for name in (*FILES, *_OF_EXPORT):
        if name in given:
            raise UserError(
                f"--{name} is for checkpoints; the exported model {path} has "
                "its own: leave the flag out"
            )
    if task and task != settings.task:
        raise UserError(
            f"--task={task}, but {path} was exported with --task="
            f"{settings.task}: export it with --task={task}"
        )
    return with_options(settings, given)


def described(
    found: Mapping[str, Any], place: str, path: str, vocabulary: Vocabulary
) -> TaskSettings:
    """Return the settings of an exported model by its export.json.

    Args:
        found: the content of that file.
        place: the file, for messages.
        path: of the model.
        vocabulary: the model's.

    Raises:
        UserError: it names no task, or lacks what every task needs.
    """
    task = found.get("task")
    if not isinstance(task, str) or task not in TASKS:
        raise UserError(
            f"{place}: task is {task!r}, wanted one of {', '.join(TASKS)}"
        )
    options, known = find(task).options_type, find(task).described
    names = {*known, *TokenizerSettings._fields} & found.keys()
    kinds = (
        get_type_hints(options)
        | get_type_hints(TokenizerSettings)
        | {"max_seq_length": int, "labels": tuple[str, ...] | None}
    )
    needed = {*Task.described, "do_lower_case", *names} & kinds.keys()
    check_types(found, {name: kinds[name] for name in needed}, place)
    labels = found.get("labels")
    id2label = id2label_of(labels) if labels else None
    # `task` is another one there, see TrainedFor.
    keys = {**found, "id2label": id2label, "task": None}
    trained_for = TrainedFor.from_dict(keys, place)

    def parts(kind: type) -> dict[str, Any]:
        return {name: found[name] for name in kind._fields if name in names}

    files = TokenizerFiles(
        vocabulary=vocabulary,
        known=TokenizerSettings.of(**parts(TokenizerSettings)),
    )
    checkpoint = Checkpoint(path, None, trained_for, files)
    return TaskSettings(checkpoint, task, options(**parts(options)))


def check_types(
    found: Mapping[str, Any], kinds: Mapping[str, Any], place: str
) -> None:
    """Check that an object of JSON has values of these types.

    An int has to be positive. A tuple is a list in JSON.

    Raises:
        UserError: a value is missing or of another type.
    """
    if lacking := kinds.keys() - found.keys():
        raise UserError(f"{place} lacks {', '.join(sorted(lacking))}")
    for name, kind in kinds.items():
        if not _is_of_type(found[name], kind):
            raise UserError(
                f"{place}: {name} is {str(found[name])[:100]!r}, wanted "
                f"{inspect.formatannotation(kind)}"
            )


def _is_of_type(value: Any, kind: Any) -> bool:
    if isinstance(kind, types.UnionType):
        return any(_is_of_type(value, one) for one in get_args(kind))
    if get_origin(kind) is tuple:
        item, _ = get_args(kind)
        return isinstance(value, list) and all(
            _is_of_type(one, item) for one in value
        )
    if kind is int:
        return type(value) is int and value > 0
    return type(value) in ((int, float) if kind is float else (kind,))


def check_task(
    found: str | None, wanted: str | None, prefix: str, reader: str
) -> None:
    """Check that a head is used for the task it was fine-tuned on.

    Its shape does not show the task: the heads of a regression and of multiple
    choice are both [1, H]. So `found`, `task` of the configuration beside the
    checkpoint (None for a classifier, a regression or a span head), is compared
    with that of the `reader`, a script or flag.

    Raises:
        UserError: they differ.
    """
    if found != wanted:
        raise UserError(
            f"{prefix} was fine-tuned on another task: task in its "
            f"configuration is {found or 'not set'}, {reader} needs "
            f"{wanted or 'none'}; use the script it was fine-tuned with, or "
            "mend `task` in the configuration if that is wrong"
        )
