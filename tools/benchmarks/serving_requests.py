"""The requests with which the serving benchmark times a model."""

from pathlib import Path
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf

from tasks import graph_tokenizer

MAX_SEQ_LENGTH = 128

SENTENCES_PER_BATCH, MAX_BATCHES = 32, 4

_SHORT_CALLS = 30  # of a short sentence, per turn

_IDS = ("input_ids", "input_mask", "segment_ids")

# Batch and length of the requests of ids: one short text, one long, many.
SHAPES = ((1, 32), (1, 128), (32, 128))


class Case(NamedTuple):
    """A request to time.

    Attributes:
        name: in the table.
        batches: the inputs; one timed call serves all of them.
        calls: how many calls a server makes per turn.
        rows: texts or rows of ids in all batches.
    """

    name: str
    batches: list[dict[str, Any]]
    calls: int
    rows: int


def read_sentences(path: str) -> list[str]:
    """Return the sentences of a file.

    Each line is one, except in a .tsv, such as GLUE's files. A .tsv has a
    header; the columns with "string" or "sentence" in their name hold
    sentences, e.g. "#1 String" of MRPC and "sentence1" of RTE.

    Raises:
        UserError: the file cannot be read, has no such column, or has too few
            sentences for a batch.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--serving_file={path}: {error}") from error
    if path.endswith(".tsv"):
        header, *rows = [line.split("\t") for line in lines] or [[]]
        columns = [
            column
            for column, name in enumerate(header)
            if "string" in name.lower() or "sentence" in name.lower()
        ]
        if not columns:
            raise UserError(
                f"{path}, line 1: no column is named like 'sentence' or "
                f"'#1 String'; found {', '.join(header)[:200]!r}"
            )
        lines = [
            row[column]
            for row in rows
            for column in columns
            if column < len(row)
        ]
    texts = [line.strip() for line in lines if line.strip()]
    if len(texts) < SENTENCES_PER_BATCH:
        raise UserError(
            f"{path}: found {len(texts)} sentences, wanted at least "
            f"{SENTENCES_PER_BATCH}, a batch; give a larger --serving_file"
        )
    return texts


def make_cases(texts: list[str], vocab_size: int) -> list[Case]:
    """Return the requests to time: rows of random ids, then batches of texts.

    Args:
        texts: at least SENTENCES_PER_BATCH.
        vocab_size: bound of the ids.
    """
    rng = np.random.default_rng(0)
    cases = []
    for rows, length in SHAPES:
        shape = [rows, length]
        values = (
            rng.integers(0, vocab_size, shape),
            np.ones(shape, int),
            np.zeros(shape, int),
        )
        batch = {k: v.tolist() for k, v in zip(_IDS, values, strict=True)}
        # Short calls are grouped, else the turns would cost more than they.
        calls = max(1, 512 // (rows * length))
        cases.append(Case(f"ids, {rows} x {length}", [batch], calls, rows))
    size = SENTENCES_PER_BATCH
    count = min(MAX_BATCHES, len(texts) // size)
    batches = [{"text": texts[n * size : (n + 1) * size]} for n in range(count)]
    name = f"text, {count} batches of {size} sentences"
    return [*cases, Case(name, batches, 1, count * size)]


def short_cases(
    texts: list[str], tokenizer: graph_tokenizer.Tokenizer
) -> tuple[Case, Case]:
    """Return two requests for one short sentence: as text and as ids.

    Args:
        texts: sentences; the one nearest to 50 characters is taken.
        tokenizer: makes the ids.
    """
    text = min(texts, key=lambda text: abs(len(text) - 50))
    features = graph_tokenizer.make_features(
        tokenizer, tf.constant([text]), None, MAX_SEQ_LENGTH
    )
    ids = {name: value.numpy().tolist() for name, value in features.items()}
    return (
        Case("text, a short sentence", [{"text": [text]}], _SHORT_CALLS, 1),
        Case("ids, a short sentence", [ids], _SHORT_CALLS, 1),
    )


def padding_share(tokenizer: graph_tokenizer.Tokenizer, case: Case) -> float:
    """Return the share of padding in the batches of a text case."""
    masks = [
        graph_tokenizer.make_features(
            tokenizer, tf.constant(batch["text"]), None, MAX_SEQ_LENGTH
        )["input_mask"].numpy()
        for batch in case.batches
    ]
    return 1 - sum(m.sum() for m in masks) / sum(m.size for m in masks)
