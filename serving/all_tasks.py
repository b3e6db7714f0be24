"""The tasks of predictions, by name. This module imports no TensorFlow."""

from collections.abc import Mapping
from typing import Any

from base.errors import UserError

import tokenization
from serving.choices import MultipleChoice
from serving.entities import Entities
from serving.question_answering import QuestionAnswering
from serving.tasks import (
    Classification,
    MaskedTokens,
    Settings,
    Task,
    Vectors,
)

TASKS: dict[str, type[Task]] = {
    "classifier": Classification,
    "question_answering": QuestionAnswering,
    "token_classification": Entities,
    "multiple_choice": MultipleChoice,
    "masked_lm": MaskedTokens,
    "encoder": Vectors,
}

TASK_NAMES = tuple(TASKS)

# The fields of Settings that the export.json of an exported model may have.
DESCRIBED = (
    "task",
    "max_seq_length",
    "do_lower_case",
    "labels",
    "sentence_pairs",
    "doc_stride",
    "max_query_length",
    "max_answer_length",
    "null_threshold",
    "top_k",
)


def described_settings(found: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the fields of Settings that an export.json has.

    Args:
        found: its content.
        place: where it is, for messages.

    Raises:
        UserError: it names no task, or lacks what every task needs.
    """
    if found.get("task") not in TASKS:
        raise UserError(
            f"{place}: task is {found.get('task')!r}, wanted one of "
            f"{', '.join(TASKS)}"
        )
    fields = {name: found[name] for name in DESCRIBED if name in found}
    lacking = {"max_seq_length", "do_lower_case"} - set(fields)
    if lacking:
        raise UserError(f"{place} lacks {', '.join(sorted(lacking))}")
    if fields.get("labels") is not None:
        fields["labels"] = tuple(fields["labels"])
    return fields


def create_task(settings: Settings) -> Task:
    """Return the task of a model.

    Raises:
        UserError: the vocabulary lacks a token, or lengths do not fit.
    """
    needed = ["[CLS]", "[SEP]"]
    if settings.task == "masked_lm":
        needed.append("[MASK]")
    tokenization.validate_special_tokens(
        tokenization.load_vocab(settings.vocab_file),
        needed,
        settings.vocab_file,
    )
    return TASKS[settings.task](settings)
