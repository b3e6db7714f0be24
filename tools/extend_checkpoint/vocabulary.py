"""Choose new words of a vocabulary, give them ids, measure what they change.

A word is what the tokenizer's first steps leave: without spaces, punctuation
marks and, in an uncased vocabulary, capitals and accents. Only such a word can
be one token. It takes the place of an [unused] token, whose row no text has
used; when these are used up, words are appended. Every other token keeps its
id.
"""

import collections
import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from base import text_files
from base.errors import UserError

import tokenization

# What is said of words, the predicate of a sentence, -> these words.
Notes = dict[str, list[str]]

# Words of a note that are shown.
_SHOWN = 3

UNUSED = re.compile(r"\[unused\d+\]")


class NewWord(NamedTuple):
    """A word that becomes a token."""

    word: str  # as the tokenizer's first steps leave it
    pieces: tuple[str, ...]  # the tokens that it is split into before
    count: int  # occurrences in the text; 0 without text

    @property
    def cost(self) -> int:
        """How many tokens fewer the text has if the word is one token."""
        return self.count * (len(self.pieces) - 1)


# --- Words -------------------------------------------------------------------


def read_list(
    path: str,
    tokenizer: tokenization.FullTokenizer,
    counts: Mapping[str, int],
) -> tuple[list[NewWord], Notes, Notes]:
    """Return the words of a file, one a line, that can be added.

    After them come what is said of the lines that are left out, and of others.
    `counts` are those of the words of a text; empty without one.

    Raises:
        UserError: the file cannot be read, or no line of it can be added.
    """
    lines = [line.strip() for line in text_files.read_text(path).split("\n")]
    lines = [line for line in lines if line]
    if not lines:
        raise UserError(
            f"--new_words_file={path} is empty: wanted one word per line"
        )
    left_out: Notes = collections.defaultdict(list)
    notes: Notes = collections.defaultdict(list)
    words: dict[str, NewWord] = {}
    for line in lines:
        parts = tokenizer.basic_tokenizer.tokenize(line)
        problem = _problem(line, parts, tokenizer, words)
        if problem:
            left_out[problem].append(line)
            continue
        new = _new_word(parts[0], tokenizer, counts.get(parts[0], 0))
        words[new.word] = new
        if new.word != line:
            notes["are added without their capitals or accents"].append(line)
        if new.pieces == ("[UNK]",):
            what = "were [UNK] before, so they begin with its row"
            notes[what].append(line)
    if not words:
        raise UserError(
            f"--new_words_file={path}: none of its {len(lines)} words can be "
            f"added, as they {in_words(left_out)}"
        )
    return list(words.values()), left_out, notes


def in_words(notes: Notes) -> str:
    """Return what is said of how many words, and the first ones."""
    return "; ".join(
        f"{what} ({len(words):,}: {', '.join(map(repr, words[:_SHOWN]))}"
        f"{', ...' * (len(words) > _SHOWN)})"
        for what, words in notes.items()
    )


def _problem(
    line: str,
    parts: Sequence[str],
    tokenizer: tokenization.FullTokenizer,
    words: Collection[str],
) -> str | None:
    """Return why a line with these words cannot be added; None if it can."""
    if len(line.split()) > 1:
        return "contain spaces, and a token is one word"
    if not parts:
        return "have no character that the tokenizer keeps"
    if len(parts) > 1:
        return "are split at punctuation marks or between ideographs"
    longest = tokenizer.wordpiece_tokenizer.max_input_chars_per_word
    if len(parts[0]) > longest:
        return f"have more than {longest} characters"
    if parts[0] in tokenizer.vocab:
        return "are tokens already"
    if parts[0] in words:
        return "repeat an earlier line, perhaps in other capitals or accents"
    return None


def choose_from_text(
    counts: Mapping[str, int],
    tokenizer: tokenization.FullTokenizer,
    num_words: int,
    min_frequency: int,
) -> tuple[list[NewWord], Notes, Notes]:
    """Return the words of a text, {word: count}, that cost most extra pieces.

    After them comes what is said of others, as by `read_list`. The cost of a
    word is count * (pieces - 1). Words without a letter, such as numbers, are
    left out: there are very many, each of them rare.

    Raises:
        UserError: no word of the text can be added.
    """
    left_out: Notes = collections.defaultdict(list)
    found = []
    for text in sorted(counts):
        word = _new_word(text, tokenizer, counts[text])
        if word.pieces == ("[UNK]",):
            what = "are [UNK] and not added; --new_words_file can name them"
            left_out[what].append(text)
        elif len(word.pieces) == 1:  # a token already, which needs no note
            continue
        elif not any(map(str.isalpha, text)):
            left_out["are split and have no letter"].append(text)
        elif word.count < min_frequency:
            what = f"are split and occur less than {min_frequency} times"
            left_out[what].append(text)
        else:
            found.append(word)
    if not found:
        raise UserError(
            f"--input_file: none of the {len(counts)} different words occurs "
            f"{min_frequency} times (--min_frequency) and is split into "
            "pieces: there is nothing to add"
        )
    # Words of one cost stay in the order of the alphabet.
    found.sort(key=lambda word: -word.cost)
    if rest := [word.word for word in found[num_words:]]:
        left_out["cost fewer extra pieces (--num_new_words)"] = rest
    return found[:num_words], left_out, {}


def _new_word(
    word: str, tokenizer: tokenization.FullTokenizer, count: int
) -> NewWord:
    pieces = tokenizer.wordpiece_tokenizer.pieces_of(word)
    return NewWord(word, tuple(pieces), count)


# --- Vocabulary --------------------------------------------------------------


def extend(
    vocabulary: tokenization.Vocabulary, words: Sequence[NewWord]
) -> tuple[list[str], list[int]]:
    """Return the lines of a vocabulary with more words, and the words' ids."""
    # Not its tokens: blank lines have other names there.
    lines = vocabulary.content.decode().split("\n")[:-1]
    ids = [i for i, line in enumerate(lines) if UNUSED.fullmatch(line.strip())]
    ids = ids[: len(words)]
    num_appended = len(words) - len(ids)
    ids += range(len(lines), len(lines) + num_appended)
    lines += [""] * num_appended
    for number, word in zip(ids, words, strict=True):
        lines[number] = word.word
    return lines, ids


def compare(
    counts: Mapping[str, int],
    before: tokenization.WordpieceTokenizer,
    after: tokenization.WordpieceTokenizer,
) -> tuple[float, float, list[str]]:
    """Compare how an old and a new vocabulary split the words of a text.

    Returns:
        Pieces per word with the old one; with the new one; and the words that
        have more pieces than before, or are unknown now, since the longest
        token that they begin with is new.
    """
    old_pieces = new_pieces = 0
    longer = []
    for word, count in counts.items():
        old, new = before.pieces_of(word), after.pieces_of(word)
        old_pieces += count * len(old)
        new_pieces += count * len(new)
        is_lost = new == [after.unk_token] != old
        if len(new) > len(old) or is_lost:
            longer.append(word)
    total = sum(counts.values())
    return old_pieces / total, new_pieces / total, sorted(longer)
