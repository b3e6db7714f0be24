"""Functions of the original's tokenization.py that ours does without."""

from collections.abc import Iterable, Mapping

from base.errors import UserError

import tokenization
from checkpoints import casing

# The original encodes in Python 2, which had another type of text to print.
printable_text = tokenization.convert_to_unicode


def convert_tokens_to_ids(
    vocab: Mapping[str, int], tokens: Iterable[str]
) -> list[int]:
    """Return the id of each token; see tokenization.convert_by_vocab."""
    return tokenization.convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(
    inv_vocab: Mapping[int, str], ids: Iterable[int]
) -> list[str]:
    """Return the token of each id; see tokenization.convert_by_vocab."""
    return tokenization.convert_by_vocab(inv_vocab, ids)


def validate_case_matches_checkpoint(
    do_lower_case: bool, init_checkpoint: str | None
) -> None:
    """Raise a UserError if a released model has the other casing."""
    wanted = casing.casing_of_checkpoint(init_checkpoint)
    if wanted not in (None, do_lower_case):
        raise UserError(
            f"{init_checkpoint} is {'un' if wanted else ''}cased: found "
            f"do_lower_case {do_lower_case}, wanted {wanted}"
        )
