"""Turn sentences into features: windows of word pieces, one label per word.

A word is classified at its first piece (paper section 5.3). The other pieces,
[CLS], [SEP] and the padding have the label IGNORED:

    words       Johanson lives in Oslo
    tags        B-PER    O     O  B-LOC
    tokens      [CLS]  Johan  ##son  lives  in  Oslo   [SEP]
    labels        -    B-PER    -      O    O   B-LOC    -

A sentence that is longer than the model's input is split into windows that
overlap. Each word is classified in one of them, the one with most context
around the word. So nothing is cut off, however long a sentence or a word is,
and the labels of all windows in their order are those of the words in theirs.

With document context, every window is filled up with the neighboring pieces
of the document, "the maximal document context provided by the data" of the
paper. Neighbors are context alone: each sentence is classified in windows of
its own.
"""

import itertools
import operator
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from records import tfrecord
from tasks import rows
from tasks.ner.data import Sentence, as_classes, class_ids
from tasks.rows import Row

IGNORED = -1  # the label of positions that are not classified


# --- Windows over pieces -----------------------------------------------------


class Window(NamedTuple):
    """Pieces [start, end) of a row, of which [first, last) are classified."""

    start: int
    end: int
    first: int
    last: int


def split_into_windows(num_pieces: int, limit: int) -> list[Window]:
    """Return the windows over the pieces of a sentence.

    More than `limit` pieces are read through windows that overlap by half. In
    the overlap a piece is classified in the window where it has more context,
    counted as pieces up to the nearer end; in the earlier one on a tie. Here
    are the windows of 7 pieces with a limit of 4. Brackets enclose the pieces
    that a window classifies; piece 2 has one piece behind it in window 1, but
    none before it in window 2:

        window 1   [0 1 2]3
        window 2        2[3 4]5
        window 3            4[5 6]

    Args:
        num_pieces: at least 1.
        limit: pieces of a window, at least 2.
    """
    stride = limit // 2
    # Beyond the first window every stride, or part of one, needs another. The
    # two minus signs round up.
    count = 1 + max(0, -(-(num_pieces - limit) // stride))
    starts = [number * stride for number in range(count)]
    # Piece p has limit - 1 - (p - start) pieces behind it in one window and
    # p - (start + stride) before it in the next. The next window has more
    # from p = start + (limit + stride) / 2, rounded up.
    cuts = [start + (limit + stride + 1) // 2 for start in starts[:-1]]
    return [
        Window(start, min(start + limit, num_pieces), first, last)
        for start, first, last in zip(
            starts, [0, *cuts], [*cuts, num_pieces], strict=True
        )
    ]


def widened(window: Window, num_pieces: int, limit: int) -> Window:
    """Return a window extended by neighboring pieces of the document.

    Half of the missing pieces come from before the window, half from behind
    it (one more if they are odd). Where one side has fewer, the other side
    gives more. In a document of 10 pieces, with a limit of 6, the sentence of
    pieces 1 and 2 lacks 4 pieces. Piece 0 is all there is before it, so 3
    come from behind:

        0 1 2 3 4 5 6 7 8 9
          [ ]                   the sentence
        [         ]             its window, from 0 to 5

    Args:
        window: from `split_into_windows`; what it classifies stays the same.
        num_pieces: pieces of the document.
        limit: most pieces of a window.
    """
    missing = min(limit, num_pieces) - (window.end - window.start)
    behind = min(missing - missing // 2, num_pieces - window.end)
    start = max(0, window.start - (missing - behind))
    # What was not found before the window is taken from behind.
    end = window.end + missing - (window.start - start)
    return window._replace(start=start, end=end)


# --- Words to pieces ---------------------------------------------------------


def to_word_pieces(
    words: Sequence[str], tokenizer: tokenization.FullTokenizer
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the pieces of words, [pieces]; every word has at least one.

    Then the place of each word's first piece, [words], and how many words have
    no piece of their own.

    The tokenizer deletes control characters. A word that has no other
    characters gets the piece [UNK], so that it is classified too.
    """
    ids, offsets = tokenizer.lines_to_ids(words)
    sizes = np.diff(offsets)
    is_empty = sizes == 0
    # np.insert takes places in the array before any insertion.
    ids = np.insert(ids, offsets[:-1][is_empty], tokenizer.vocab["[UNK]"])
    sizes = np.maximum(sizes, 1)
    return ids, np.cumsum(sizes) - sizes, int(is_empty.sum())


# --- Sentences to features ---------------------------------------------------


def schema(max_seq_length: int) -> dict[str, tfrecord.Feature]:
    """Return {feature name: type and length} of the records.

    label_ids is the class of a word at its first piece, in the one record
    that classifies the word, and IGNORED elsewhere. Read record by record,
    the others are the words of the file in their order.
    """
    label_ids = tfrecord.Feature("int64", max_seq_length)
    return rows.schema(max_seq_length) | {"label_ids": label_ids}


class Converter:
    """Converts sentences to rows, [CLS] pieces [SEP].

    With `document_context` a row is filled with the sentences around.

    Attributes:
        num_split: how many sentences needed several windows so far.
        num_unknown: how many words had no piece of their own.
    """

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        labels: Sequence[str],
        max_seq_length: int,
        document_context: bool,
    ):
        self.tokenizer, self.length = tokenizer, max_seq_length
        self.labels, self.label_ids = labels, class_ids(labels)
        self.document_context = document_context
        self.num_split = self.num_unknown = 0

    def __call__(
        self, sentences: Sequence[Sentence]
    ) -> Iterator[tuple[Row, np.ndarray]]:
        """Yield the row of each record, and the labels of its pieces, [S]."""
        # Sentences that may be in one window: a document's, or a single one.
        key = operator.attrgetter("document") if self.document_context else id
        for _, scope in itertools.groupby(sentences, key):
            yield from self._rows(list(scope))

    def _rows(
        self, scope: Sequence[Sentence]
    ) -> Iterator[tuple[Row, np.ndarray]]:
        limit = self.length - 2  # without [CLS] and [SEP]
        words = [word for sentence in scope for word in sentence.words]
        ids, starts, num_unknown = to_word_pieces(words, self.tokenizer)
        self.num_unknown += num_unknown
        labels = np.full(len(ids), IGNORED)
        labels[starts] = [
            self.label_ids[tag]
            for sentence in scope
            # Without tags any label will do: it marks the piece to classify.
            for tag in (
                as_classes(sentence.tags, self.labels)
                if sentence.tags
                else ["O"] * len(sentence.words)
            )
        ]
        # Sentence s has the pieces from bounds[s] to bounds[s + 1].
        ends = np.cumsum([len(s.words) for s in scope], dtype=np.int64)
        bounds = [0, *np.append(starts, len(labels))[ends].tolist()]
        for begin, end in itertools.pairwise(bounds):
            windows = split_into_windows(end - begin, limit)
            self.num_split += len(windows) > 1
            for window in windows:
                # From places in the sentence to places in the scope.
                window = Window(*(begin + place for place in window))
                if self.document_context:
                    window = widened(window, len(labels), limit)
                # Other windows classify the words ignored here.
                targets = np.full(self.length, IGNORED)
                own = slice(window.first, window.last)
                at = 1 + window.first - window.start  # behind [CLS]
                targets[at : at + own.stop - own.start] = labels[own]
                # A window in the middle of a word longer than a window has
                # no first piece to classify: no record.
                if (targets != IGNORED).any():
                    seen = ids[window.start : window.end]
                    row = rows.row_of_ids(seen, (), self.length, self.tokenizer)
                    yield row, targets
