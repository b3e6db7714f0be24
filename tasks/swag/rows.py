"""Turn multiple-choice questions into rows of ids, a row per choice."""

from collections.abc import Sequence

import numpy as np

import tokenization
from tasks.classifier import data as classifier_data
from tasks.swag.data import Question


def features(
    questions: Sequence[Question],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[dict[str, np.ndarray], int]:
    """Return the features of every choice, and how many had to be cut.

    A choice is a pair of the classifier: context and choice, with the
    question's label in every row. A test file has no labels; 0 stands for
    them. With C choices, question q has rows q * C to q * C + C - 1.

    Args:
        questions: with the same number of choices each.
        max_seq_length: context and choice are cut to so many tokens.
        tokenizer: text to ids.
    """
    examples = [
        classifier_data.Example(question.guid, question.context, choice)
        for question in questions
        for choice in question.choices
    ]
    labels = iter(
        question.label or 0 for question in questions for _ in question.choices
    )
    return classifier_data.convert_examples(
        examples, lambda _: next(labels), max_seq_length, tokenizer
    )
