"""Find the text of a predicted span, from pieces back to the paragraph."""

import functools
from collections.abc import Sequence

import numpy as np

import tokenization
from tasks.squad.data import SquadData, split_words
from tasks.squad.windows import Windows


def joined_pieces(tokens: Sequence[str]) -> str:
    """Return the text of word pieces, "unable" for "un", "##able"."""
    return " ".join(
        " ".join(tokens).replace(" ##", "").replace("##", "").split()
    )


class SpanTexts:
    """Looks up the characters and the text of spans.

    They are those that the pieces were made of. The original searches the words
    of a span for the text of the pieces, takes the first place, and returns all
    of the words where there is none.
    """

    def __init__(
        self,
        data: SquadData,
        windows: Windows,
        tokenizer: tokenization.FullTokenizer,
    ):
        self.data, self.windows = data, windows
        # [W], plus a position in the row: the position in doc_ids.
        self.shift = windows.doc_place() - windows.query_length() - 2
        self.of_window = windows.paragraph[windows.example]
        # Which piece of its word each piece of doc_ids is.
        words, at = windows.doc_words, np.arange(len(windows.doc_words))
        is_first = np.ones(len(at) + 1, bool)
        is_first[1:-1] = words[1:] != words[:-1]
        is_first[windows.doc_offsets] = True
        first = np.maximum.accumulate(np.where(is_first[:-1], at, 0))
        self.in_word = at - first
        # The 20 best spans of a question consist of few different words.
        self.pieces_in = functools.lru_cache(maxsize=2**12)(tokenizer.spans)

    def find(
        self, window: int, start: int, end: int
    ) -> tuple[str, tuple[int, int]]:
        """Return a span's text and its characters [start, end).

        The span is from start to end, inclusive, of a window's row. Its text
        has a blank between words, whatever the paragraph has there.
        """
        shift = int(self.shift[window])
        paragraph = self.data.paragraphs[self.of_window[window]]
        found = []
        for at in (start + shift, end + shift):
            word = self.windows.doc_words[at]
            begins = int(paragraph.starts[word])
            pieces = self.pieces_in(
                paragraph.text[begins : paragraph.ends[word]]
            )
            found += [begins + x for x in pieces[self.in_word[at]]]
        first, last = found[0], found[-1]
        return " ".join(split_words(paragraph.text[first:last])), (first, last)
