"""The word pieces of an input, and which of them the model does not see."""

from typing import NamedTuple

from base.errors import UserError

import numpy as np

from tasks import rows
from tasks.masked_lm.task import sentence_to_ids
from tasks.rows import Row
from tools.page.models import PageModel


class Piece(NamedTuple):
    """A word piece of an input."""

    token: str
    id: int
    segment: int  # 0 in the first text, 1 in the second
    is_cut: bool  # whether the row has no place for it


def pieces_of(
    model: PageModel, text_a: str, text_b: str = "", at_once: bool = False
) -> list[Piece]:
    """Return all pieces of [CLS] text_a [SEP] text_b [SEP], in order.

    Those that the row has no place for are among them, where they would be. A
    masked LM reads "[MASK]" as one token, other models as any text.

    Args:
        model: its settings have the length of the row.
        text_a: the first text.
        text_b: the second text; blank: there is none.
        at_once: whether a row is as long as the encoder reads, one window.

    Raises:
        UserError: there is no text.
    """
    if not text_a.strip():
        raise UserError("text is empty")
    tokenizer = model.task.tokenizer
    a, b = (_ids_of(model, text) for text in (text_a, text_b))
    settings = model.settings
    length = settings.max_seq_length if at_once else settings.row_length
    kept = rows.kept_lengths(len(a), len(b), length)
    places = [
        set(rows.kept_places(len(ids), number, settings.long_texts.how))
        for ids, number in zip((a, b), kept, strict=True)
    ]
    is_cut = [False, *(at not in places[0] for at in range(len(a))), False]
    if b:
        is_cut += [at not in places[1] for at in range(len(b))]
        is_cut.append(not kept[1])
    whole, _ = rows.row_of_ids(a, b, len(is_cut), tokenizer.vocab)
    ids, segments = whole.input_ids.tolist(), whole.segment_ids.tolist()
    tokens = tokenizer.convert_ids_to_tokens(ids)
    return list(map(Piece, tokens, ids, segments, is_cut))


def _ids_of(model: PageModel, text: str) -> list[int]:
    """Return the ids of a text, without [CLS] and [SEP]."""
    tokenizer = model.task.tokenizer
    if model.settings.task == "masked_lm":
        return sentence_to_ids(text, tokenizer)[1:-1]
    return tokenizer.text_to_ids(text)


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
