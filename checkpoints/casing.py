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
    """Return whether tokens have the capitals of a cased vocabulary.

    One in a script without capitals looks uncased.
    """
    # The special tokens have capitals in every vocabulary.
    special = len(tokenization.SPECIAL_TOKENS)
    return _count_capitals(vocab) > _CASED_SHARE * len(vocab) + special


def _count_capitals(vocab: Collection[str]) -> int:
    return sum(token != token.lower() for token in vocab)


def choose(
    vocab: Collection[str], vocab_file: str, do_lower_case: bool | None
) -> bool:
    """Return whether to lower-case: the flag's value, else as the tokens look.

    Logs the choice, or warns where flag and vocabulary contradict each other.
    """
    is_cased = looks_cased(vocab)
    look = "cased" if is_cased else "uncased"
    if do_lower_case is None:
        logging.info(
            "do_lower_case = %s, as %s looks %s", not is_cased, vocab_file, look
        )
        return not is_cased
    if is_cased == do_lower_case:
        logging.warning(
            "%s looks %s (%d of %d tokens have capitals), but --do_lower_case "
            "is %s",
            vocab_file,
            look,
            _count_capitals(vocab),
            len(vocab),
            do_lower_case,
        )
    return do_lower_case
