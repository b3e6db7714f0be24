"""Choose the words to add to a vocabulary, from a list or from text.

A word is what the tokenizer's first steps leave: without spaces, punctuation
marks and, in an uncased vocabulary, capitals and accents. Only such a word can
be one token.
"""

import collections
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from base import text_files
from base.errors import UserError

import tokenization


class NewWord(NamedTuple):
    """A word that becomes a token.

    Attributes:
        word: as the tokenizer's first steps leave it.
        pieces: the tokens that it is split into before.
        count: occurrences in the text; 0 without text.
    """

    word: str
    pieces: tuple[str, ...]
    count: int

    @property
    def cost(self) -> int:
        """How many tokens fewer the text has if the word is one token."""
        return self.count * (len(self.pieces) - 1)


# What can be wrong with a line of a list of words.
SPACES = "contain spaces, and a token is one word"
PUNCTUATION = "are split at punctuation marks or between ideographs"
EMPTY = "have no character that the tokenizer keeps"
TOO_LONG = f"have more than {tokenization.MAX_CHARS_PER_WORD} characters"
KNOWN = "are tokens already"
TWICE = "repeat an earlier line, perhaps in other capitals or accents"
# What is worth knowing about a word that is added.
CHANGED = "are added without their capitals or accents"
UNKNOWN = "were [UNK] before, so they begin with its row"

# Rarer words of a text are not chosen: their rows would hardly be trained.
MIN_FREQUENCY = 2


class Chosen(NamedTuple):
    """The words to add, and what was noticed about others.

    Attributes:
        words: to be added, in their order.
        notes: {what: number of words}.
        examples: {what: the first such word}.
    """

    words: list[NewWord]
    notes: dict[str, int]
    examples: dict[str, str]


def read_list(
    path: str,
    tokenizer: tokenization.FullTokenizer,
    counts: Mapping[str, int],
) -> Chosen:
    """Return the words of a file that can be added.

    Args:
        path: UTF-8, one word per line; blank lines are skipped.
        tokenizer: of the model.
        counts: of the words of a text; empty without one.

    Raises:
        UserError: the file cannot be read, or no line of it can be added.
    """
    lines = [line.strip() for line in text_files.read_text(path).split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise UserError(
            f"--new_words_file={path} is empty: wanted one word per line"
        )
    notes: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    words: dict[str, NewWord] = {}
    for line in lines:
        word, found = _judge(line, tokenizer, words)
        for what in found:
            notes[what] += 1
            examples.setdefault(what, line)
        if word:
            words[word] = _new_word(word, tokenizer, counts.get(word, 0))
    if not words:
        reasons = [f"that {what}: {count}" for what, count in notes.items()]
        raise UserError(
            f"--new_words_file={path}: none of its {len(lines)} words can be "
            f"added: {'; '.join(reasons)}"
        )
    return Chosen(list(words.values()), dict(notes), examples)


def _judge(
    line: str,
    tokenizer: tokenization.FullTokenizer,
    words: Mapping[str, NewWord],
) -> tuple[str | None, list[str]]:
    """Return the word that a line of a list adds, and notes about the line.

    Returns:
        The word, None if it cannot be added; constants such as SPACES.
    """
    parts = tokenizer.basic_tokenizer.tokenize(line)
    problem = None
    if len(line.split()) > 1:
        problem = SPACES
    elif not parts:
        problem = EMPTY
    elif len(parts) > 1:
        problem = PUNCTUATION
    elif len(parts[0]) > tokenization.MAX_CHARS_PER_WORD:
        problem = TOO_LONG
    elif parts[0] in tokenizer.vocab:
        problem = KNOWN
    elif parts[0] in words:
        problem = TWICE
    if problem:
        return None, [problem]
    word = parts[0]
    pieces = tokenizer.wordpiece_tokenizer.split_word(word)
    is_unknown = pieces == [tokenizer.wordpiece_tokenizer.unk_token]
    return word, [CHANGED] * (word != line) + [UNKNOWN] * is_unknown


def choose_from_text(
    counts: Mapping[str, int],
    tokenizer: tokenization.FullTokenizer,
    num_words: int,
    min_frequency: int = MIN_FREQUENCY,
) -> Chosen:
    """Return the words of a text that cost most pieces in all.

    The cost of a word is count * (pieces - 1). Words without a letter, such
    as numbers, are left out: there are very many, each of them rare.

    Args:
        counts: word -> occurrences.
        tokenizer: of the model.
        num_words: words to choose at most.
        min_frequency: rarer words are left out; their rows would hardly be
            trained.

    Raises:
        UserError: no word of the text can be added.
    """
    notes: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    found = []
    for text, count in counts.items():
        word = _new_word(text, tokenizer, count)
        what = _why_not(word, min_frequency)
        if what is None:
            found.append(word)
        elif what:
            notes[what] += 1
            examples[what] = min(text, examples.get(what, text))
    if not found:
        raise UserError(
            f"--input_file: of {len(counts)} different words none is split "
            f"into pieces {min_frequency} times (--min_frequency): there is "
            "nothing to add"
        )
    # Ties in the order of the alphabet: the same words in any order of files.
    found.sort(key=lambda word: (-word.cost, word.word))
    return Chosen(found[:num_words], dict(notes), examples)


def _why_not(word: NewWord, min_frequency: int) -> str | None:
    """Return why a word of a text is not added, None for one that is.

    For a word that is a token already it is "", which is not worth a note.
    """
    if word.pieces == ("[UNK]",):
        return "are [UNK] and not added; --new_words_file can name them"
    if len(word.pieces) == 1:
        return ""
    if not any(map(str.isalpha, word.word)):
        return "are split and have no letter"
    if word.count < min_frequency:
        return f"are split and occur less than {min_frequency} times"
    return None


def _new_word(
    word: str, tokenizer: tokenization.FullTokenizer, count: int
) -> NewWord:
    """Return a word with the pieces it is split into."""
    pieces = tokenizer.wordpiece_tokenizer.split_word(word)
    return NewWord(word, tuple(pieces), count)


def counts_of(words: Sequence[NewWord]) -> dict[str, int]:
    """Return a text, as counts of words, in which each new word occurs once."""
    return {word.word: 1 for word in words}
