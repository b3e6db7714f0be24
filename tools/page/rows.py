"""The word pieces of an input, and which of them the model does not see."""

from typing import NamedTuple

from base.errors import UserError

import numpy as np

import tokenization
from tasks import rows
from tasks.masked_lm import masked_sentences
from tasks.ner.task import characters_of_words
from tasks.rows import Row
from tasks.task import Task
from tools.page.models import PageModel
from tools.page.predictions import check_size


class Piece(NamedTuple):
    """A word piece of an input."""

    token: str
    id: int
    segment: int  # 0 in the first text, 1 in the second
    is_cut: bool  # whether the row has no place for it


def pieces_of(model: PageModel, text_a: str, text_b: str = "") -> list[Piece]:
    """Return all pieces of [CLS] text_a [SEP] text_b [SEP], in order.

    Those that the row has no place for are among them, where they would be. A
    masked LM reads "[MASK]" as one token, other models as any text.

    Args:
        model: its max_seq_length is the length of the row.
        text_a: the first text.
        text_b: the second text; blank: there is none.

    Raises:
        UserError: there is no text, or too much.
    """
    check_size({"text_a": text_a, "text_b": text_b})
    if not text_a.strip():
        raise UserError("text is empty")
    task = model.task
    a, b = _ids_of(task, text_a), _ids_of(task, text_b)
    kept = rows.kept_lengths(len(a), len(b), model.settings.max_seq_length)
    vocab, names = task.tokenizer.vocab, task.tokenizer.inv_vocab

    def pieces(ids: list[int], segment: int, count: int) -> list[Piece]:
        return [
            Piece(names[id_], id_, segment, place >= count)
            for place, id_ in enumerate(ids)
        ]

    separator = [vocab["[SEP]"]]
    found = pieces([vocab["[CLS]"]], 0, 1)
    found += pieces(a, 0, kept[0]) + pieces(separator, 0, 1)
    if b:
        found += pieces(b, 1, kept[1]) + pieces(separator, 1, int(kept[1] > 0))
    return found


def row_of(pieces: list[Piece]) -> Row:
    """Return the model's input: the pieces that are not cut."""
    seen = [piece for piece in pieces if not piece.is_cut]
    return Row(
        np.array([piece.id for piece in seen], np.int32),
        np.array([piece.segment for piece in seen], np.int32),
    )


def features_of(row: Row) -> dict[str, np.ndarray]:
    """Return a row as a batch, int32 [1, S] each."""
    return rows.pad([row], len(row.input_ids))


def _ids_of(task: Task, text: str) -> list[int]:
    """Return the ids of a text, without [CLS] and [SEP]."""
    if task.settings.task == "masked_lm":
        return masked_sentences.sentence_to_ids(text, task.tokenizer)[1:-1]
    return task.tokenizer.text_to_ids(text)


# --- Text that was cut -------------------------------------------------------


class Part(NamedTuple):
    """A text in two parts: what the model sees of it, and the rest."""

    read: str
    cut: str


def parts_of(
    texts: list[str], max_seq_length: int, tokenizer: tokenization.FullTokenizer
) -> list[Part]:
    """Return what a row of one or two texts has of each.

    Args:
        texts: one or two.
        max_seq_length: of the row.
        tokenizer: of the model.
    """
    sizes = [len(tokenizer.text_to_ids(text)) for text in texts]
    kept = rows.kept_lengths(sizes[0], sum(sizes[1:]), max_seq_length)
    return [
        part_of(text, count, tokenizer)
        for text, count in zip(texts, kept, strict=False)
    ]


def part_of(
    text: str, num_pieces: int, tokenizer: tokenization.FullTokenizer
) -> Part:
    """Cut a text behind the word that its first pieces end in.

    Args:
        text: any text.
        num_pieces: that the model sees.
        tokenizer: of the model.
    """
    words = tokenization.BasicTokenizer(do_lower_case=False).tokenize(text)
    places = characters_of_words(text, words)
    _, offsets = tokenizer.lines_to_ids(words)
    # Words [0, count) begin before piece `num_pieces`.
    count = int(np.searchsorted(offsets[:-1], num_pieces))
    if count >= len(words):
        return Part(text, "")
    end = places[count - 1][1] if count else 0
    return Part(text[:end], text[end:])
