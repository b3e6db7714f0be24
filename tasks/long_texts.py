"""Texts that are longer than the model reads at once: flags, checks, log."""

import dataclasses
from collections.abc import Sequence

from base.errors import UserError
from base.flags import flag

import numpy as np
from absl.flags import FlagValues

from checkpoints import trained_for
from checkpoints.model import Checkpoint
from checkpoints.trained_for import HEAD_TAIL, TAIL, WINDOWS, LongTexts

_WINDOWS = {f"long_texts={WINDOWS}": ""}


@dataclasses.dataclass(frozen=True)
class LongTextFlags:
    """What is read of a long text."""

    long_texts: str | None = flag(choices=trained_for.HOWS)
    """What is read of a text with more than max_seq_length tokens. cut: its
    beginning. head_tail: a quarter of these tokens from its beginning, the rest
    from its end (Sun et al., arXiv:1905.05583). tail: its end. windows: all of
    it, in windows of max_seq_length tokens that overlap, whose outputs are
    pooled; for single texts, not pairs. Default: as in fine-tuning the model;
    when it is trained, tail if the files of its tokenizer have truncation_side
    left, else cut."""

    doc_stride: int | None = flag(low=1, needs=_WINDOWS)
    """Tokens from the start of a window to the start of the next; default: half
    of a window."""

    max_windows: int = flag(8, 1, 1024, needs=_WINDOWS)
    """Largest number of windows of a text; text after the last is cut."""

    window_pooling: str = flag(
        "mean", choices=trained_for.POOLINGS, needs=_WINDOWS
    )
    """How the outputs of a text's windows are pooled."""


def read(f: FlagValues) -> LongTexts | None:
    """Return what the flags say; None: what the model was trained with."""
    if f.long_texts != WINDOWS:
        return f.long_texts and LongTexts(f.long_texts)
    # The length of a window is not known here; `checked` sets the stride.
    pooling = f.window_pooling if "window_pooling" in f else "mean"
    return LongTexts(f.long_texts, f.doc_stride or 0, f.max_windows, pooling)


def checked(found: LongTexts | None, max_seq_length: int) -> LongTexts:
    """Return the value with a stride that fits a length; None is "cut".

    Raises:
        UserError: it leaves tokens between two windows unread.
    """
    if found is None or found.how != WINDOWS:
        return found or LongTexts()
    pieces = max_seq_length - 2
    found = found._replace(doc_stride=found.doc_stride or max(1, pieces // 2))
    if found.doc_stride > pieces:
        raise UserError(
            f"--doc_stride={found.doc_stride} is more than the {pieces} tokens "
            f"of text in a window of --max_seq_length={max_seq_length}: tokens "
            "between two windows would not be read; give "
            f"--long_texts={WINDOWS} with a smaller one"
        )
    return found


def check_single(found: LongTexts, sentence_pairs: bool) -> None:
    """Raise a UserError if pairs of texts should be read in windows."""
    if sentence_pairs and found.how == WINDOWS:
        raise UserError(
            f"--long_texts={WINDOWS} is for single texts: pairs are cut, or "
            f"read with --long_texts={HEAD_TAIL} or {TAIL}"
        )


def what_is_read(source: Checkpoint, sizes: Sequence[tuple[int, int]]) -> str:
    """Return how many texts were cut, by how much, and what helps.

    Args:
        source: the model that reads them.
        sizes: the tokens of each row, and how many were cut off.
    """
    used, lost = np.array(sizes, int).reshape(-1, 2).T
    share = lost.sum() / max(1, used.sum() + lost.sum())
    found = f"none longer than {source.row_length} tokens"
    if num_cut := np.count_nonzero(lost):
        places = {HEAD_TAIL: "in the middle", TAIL: "at the beginning"}
        where = places.get(source.long_texts.how, "at the end")
        more = "a larger --max_seq_length reads more"
        if source.row_length >= source.config.max_position_embeddings:
            more = f"--long_texts={WINDOWS} reads more of single texts"
        found = (
            f"{num_cut:,} of them ({num_cut / len(lost):.1%}) longer than "
            f"{source.row_length} tokens and cut {where}, which leaves out "
            f"{share:.1%} of all tokens: {more}"
        )
    if source.long_texts.how == WINDOWS:
        num = np.count_nonzero(used > source.max_seq_length)
        found += f", {num} read in windows of {source.max_seq_length}"
    return found
