"""Give new words their ids, and measure what they change.

A new word takes the place of an [unused] token, whose row no text has used.
When these are used up, words are appended. Every other token keeps its id.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from base import text_files

import tokenization
from tools.extending.words import NewWord

_UNUSED = re.compile(r"\[unused\d+\]")


class Extended(NamedTuple):
    """A vocabulary with new words.

    Attributes:
        lines: of vocab.txt.
        ids: of the new words, in their order.
        num_reused: words that replace an [unused] token: the first ones.
    """

    lines: list[str]
    ids: list[int]
    num_reused: int


def extend(vocab_file: str, words: Sequence[NewWord]) -> Extended:
    """Return the vocabulary of a file with more words.

    Args:
        vocab_file: one token per line.
        words: none of them a token of it.
    """
    # Not tokenization.load_vocab, which renames lines that are blank to it,
    # such as one of U+2028 alone. Here they stay as they are.
    lines = text_files.read_text(vocab_file).rstrip("\r\n").split("\n")
    unused = [
        i for i, line in enumerate(lines) if _UNUSED.fullmatch(line.strip())
    ]
    ids = unused[: len(words)]
    num_reused = len(ids)
    ids += range(len(lines), len(lines) + len(words) - num_reused)
    lines += [""] * (len(words) - num_reused)
    for number, word in zip(ids, words, strict=True):
        lines[number] = word.word
    return Extended(lines, ids, num_reused)


def vocab_of(lines: Sequence[str]) -> dict[str, int]:
    """Return token -> id of the lines of a vocabulary."""
    return {line.strip(): number for number, line in enumerate(lines)}


class Change(NamedTuple):
    """How the splitting of a text changes.

    Attributes:
        num_words: words of the text.
        before: pieces in all with the old vocabulary.
        after: the same with the new one.
        others: words that are not added themselves and are split in another
            way, since the longest token that they begin with is new.
        longer: those of them that have more pieces than before, or are
            unknown now.
    """

    num_words: int
    before: int
    after: int
    others: list[str]
    longer: list[str]


def compare(
    counts: Mapping[str, int],
    before: tokenization.WordpieceTokenizer,
    after: tokenization.WordpieceTokenizer,
    new_words: Sequence[NewWord],
) -> Change:
    """Count the pieces of a text's words with the old and a new vocabulary.

    Args:
        counts: word of the text -> occurrences.
        before: has the old vocabulary.
        after: has the new one.
        new_words: what the new one has more.
    """
    added = {word.word for word in new_words}
    total = old_pieces = new_pieces = 0
    others, longer = [], []
    for word, count in counts.items():
        old, new = before.split_word(word), after.split_word(word)
        total += count
        old_pieces += count * len(old)
        new_pieces += count * len(new)
        if old != new and word not in added:
            others.append(word)
            unknown = [after.unk_token]
            if old != unknown and (len(new) > len(old) or new == unknown):
                longer.append(word)
    return Change(total, old_pieces, new_pieces, sorted(others), sorted(longer))


def used_ids(vocab: Mapping[str, int]) -> list[int]:
    """Return the ids of all tokens but the [unused] ones."""
    return [
        number
        for token, number in vocab.items()
        if not _UNUSED.fullmatch(token)
    ]
