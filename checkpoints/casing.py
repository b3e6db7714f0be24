"""Whether a vocabulary is that of a cased model.

A wrong casing raises no error anywhere, it only makes a model worse. Where
nothing else tells the casing, the vocabulary does: that of a cased model has
thousands of tokens with capitals, that of an uncased one has the special
tokens alone.
"""

from collections.abc import Collection

from absl import logging

import tokenization

# A vocabulary in which more than this share of the tokens has capitals is
# taken for a cased one.
_CASED_SHARE = 0.02


def looks_cased(vocab: Collection[str]) -> bool:
    """Return whether a vocabulary has the capitals of a cased one.

    One in a script without capitals has none, and looks uncased.

    Args:
        vocab: its tokens.
    """
    # The special tokens have capitals in every vocabulary.
    special = len(tokenization.SPECIAL_TOKENS)
    return _count_capitals(vocab) > _CASED_SHARE * len(vocab) + special


def _count_capitals(vocab: Collection[str]) -> int:
    """Return the number of tokens that have capitals."""
    return sum(token != token.lower() for token in vocab)


def warn_of_contradiction(
    vocab: Collection[str], vocab_file: str, do_lower_case: bool
) -> None:
    """Log a warning if a vocabulary looks as if it had the other casing.

    Args:
        vocab: its tokens.
        vocab_file: its path, for the message.
        do_lower_case: value of the flag.
    """
    is_cased = looks_cased(vocab)
    if is_cased == do_lower_case:
        logging.warning(
            "%s looks %s (%d of %d tokens have capitals), but --do_lower_case "
            "is %s",
            vocab_file,
            "cased" if is_cased else "uncased",
            _count_capitals(vocab),
            len(vocab),
            do_lower_case,
        )


def log_choice(vocab_file: str, do_lower_case: bool) -> None:
    """Log the casing that a vocabulary decided.

    Args:
        vocab_file: its path.
        do_lower_case: False for one that looks cased.
    """
    logging.info(
        "do_lower_case = %s, as %s",
        do_lower_case,
        f"{vocab_file} looks uncased"
        if do_lower_case
        else f"the capitals in {vocab_file} show",
    )
