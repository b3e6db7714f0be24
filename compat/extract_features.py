"""The original's extract_features.py: lines of text as features."""

import dataclasses
from collections.abc import Sequence

from base import text_files

import tokenization
from tasks import rows
from tasks.encoder.lines import split_pair


@dataclasses.dataclass
class InputExample:
    """A line: a text, or a pair."""

    unique_id: int
    text_a: str
    text_b: str | None


@dataclasses.dataclass
class InputFeatures:
    """What the model reads of a line; tokens are without padding."""

    unique_id: int
    tokens: list[str]
    input_ids: list[int]
    input_mask: list[int]
    input_type_ids: list[int]


def read_examples(input_file: str) -> list[InputExample]:
    """Return an example for each line, a text or `first ||| second`."""
    lines = text_files.read_text(input_file).removesuffix("\n").split("\n")
    pairs = [split_pair(line.strip()) for line in lines]
    return [InputExample(n, a, b or None) for n, (a, b) in enumerate(pairs)]


def convert_examples_to_features(
    examples: Sequence[InputExample],
    seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> list[InputFeatures]:
    """Return the features of all lines, padded to seq_length."""
    found = []
    for example in examples:
        row = rows.row_of_texts(
            example.text_a, example.text_b, seq_length, tokenizer
        )
        # input_ids, input_mask and segment_ids, the original's input_type_ids.
        padded = rows.pad([row], seq_length).values()
        found.append(
            InputFeatures(
                example.unique_id,
                tokenizer.convert_ids_to_tokens(row.input_ids.tolist()),
                *(values[0].tolist() for values in padded),
            )
        )
    return found
