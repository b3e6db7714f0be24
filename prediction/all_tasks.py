"""The tasks by name, in processes without TensorFlow too."""

import tokenization
from prediction.choices import MultipleChoice
from prediction.entities import Entities
from prediction.question_answering import QuestionAnswering
from prediction.tasks import (
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

# The names of Settings that the description of an exported model may have.
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
