"""Find the text of a predicted span, from pieces back to the paragraph."""

import functools
from collections.abc import Callable, Sequence

import numpy as np
from absl import logging

import tokenization
from tasks.squad.data import SquadData
from tasks.squad.windows import Windows


def joined_pieces(tokens: Sequence[str]) -> str:
    """Return the text of word pieces, "unable" for "un", "##able"."""
    return " ".join(
        " ".join(tokens).replace(" ##", "").replace("##", "").split()
    )


def final_place(
    pieces: str, words: Sequence[str], normalize: Callable[[str], str]
) -> tuple[int, int] | None:
    """Return where a span is in its words, joined by blanks: [start, end).

    Pieces are lower-cased, and a span may begin or end inside a word. Its
    place in the words is found by counting characters other than blanks,
    whose number is the same before and after normalization:

        words        (Steve Jobs)      12 characters, 11 without the blank
        normalized   ( steve jobs )    14 characters, 11 without blanks
        pieces       steve jobs        at characters 1 to 9 of the 11
        result       Steve Jobs        characters 1 to 9 of the 11, which are
                                       1 to 10 with the blank: 1, 11

    None if that fails.

    Args:
        pieces: result of `joined_pieces`.
        words: words of the paragraph that the span touches.
        normalize: returns a word lower-cased and split at punctuation.
    """
    text = " ".join(words)
    seen = " ".join(filter(None, map(normalize, words)))
    if pieces == seen:
        return 0, len(text)
    at = seen.find(pieces)
    # Not found, for example, if a piece is [UNK]: no word contains that.
    if at < 0 or not pieces:
        return None
    # Counting fails where normalization changes the number of characters: it
    # splits a Hangul syllable into two or three letters.
    places = [i for i, char in enumerate(text) if char != " "]
    if len(places) != len(seen) - seen.count(" "):
        return None
    # The first and the last of the pieces among the characters without blanks.
    first = at - seen.count(" ", 0, at)
    last = first + len(pieces) - pieces.count(" ") - 1
    return places[first], places[last] + 1


class SpanTexts:
    """Looks up the text and the characters of spans.

    As in the original, the text of a span that cannot be located is that of all
    words it touches. Such spans are logged if is_verbose.
    """

    def __init__(
        self,
        data: SquadData,
        windows: Windows,
        tokenizer: tokenization.FullTokenizer,
        is_verbose: bool = False,
    ):
        self.data, self.windows = data, windows
        self.tokens = tokenizer.inv_vocab
        # [W], plus a position in the row: the position in doc_ids.
        self.shift = windows.doc_place() - windows.query_length() - 2
        self.of_window = windows.paragraph[windows.example]
        split = tokenizer.basic_tokenizer.tokenize
        self.is_verbose = is_verbose
        # The 20 best spans of a question consist of few different words.
        self.normalize = functools.lru_cache(maxsize=2**16)(
            lambda word: " ".join(split(word))
        )
        # Questions on the same paragraph follow one another.
        self.words = functools.lru_cache(maxsize=16)(
            lambda number: data.paragraphs[number].words()
        )

    def text(self, window: int, start: int, end: int) -> str:
        """Return the text from start to end, inclusive, of a window's row."""
        words, _, place = self._find(window, start, end)
        return " ".join(words)[slice(*place)]

    def characters(self, window: int, start: int, end: int) -> tuple[int, int]:
        """Return the characters [start, end) of the paragraph of a span.

        The text between them is that of `text`, except that white space
        between words is that of the paragraph.
        """
        words, number, (first, limit) = self._find(window, start, end)
        sizes = np.array([len(word) + 1 for word in words])
        offsets = np.cumsum(sizes) - sizes  # of each word in the joined ones
        starts = self.data.paragraphs[self.of_window[window]].starts[number:]
        found = []
        for at in (first, limit - 1):
            word = int(np.searchsorted(offsets, at, "right")) - 1
            found.append(int(starts[word] + at - offsets[word]))
        return found[0], found[1] + 1

    def _find(
        self, window: int, start: int, end: int
    ) -> tuple[list[str], int, tuple[int, int]]:
        """Return the words of a span, the first one's number, the place."""
        shift = int(self.shift[window])
        span = slice(start + shift, end + shift + 1)
        pieces = joined_pieces(
            [self.tokens[number] for number in self.windows.doc_ids[span]]
        )
        of_words = self.windows.doc_words[span]
        first, last = int(of_words[0]), int(of_words[-1])
        words = self.words(int(self.of_window[window]))[first : last + 1]
        place = final_place(pieces, words, self.normalize)
        if place is None:
            text = " ".join(words)
            place = 0, len(text)
            if self.is_verbose:
                logging.info("Unable to find %r in %r", pieces, text)
        return words, first, place
