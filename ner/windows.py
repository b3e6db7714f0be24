"""What the model sees of a sentence, and which words it classifies there.

Apart from ner_data.py, which knows files and tags but nothing of word pieces.
Each word is classified once, at its first piece, in the window where it has
the most context; so nothing is cut off, however long a sentence or a word is,
and the answers of all windows in their order are those of the words in theirs.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from ner.data import Sentence, class_ids
from records import tfrecord

IGNORED = -1  # the label of what is not classified


class Window(NamedTuple):
    """What is seen at once of a row of pieces, and what is classified there."""

    start: int
    end: int  # seen: [start, end)
    first: int
    last: int  # classified: [first, last)


def windows(num_pieces: int, limit: int) -> list[Window]:
    """Return the windows over pieces; each piece is classified in one.

    More than `limit` pieces are seen in windows that overlap by half. In the
    overlap a piece belongs to the window where it has more context, that is
    more pieces up to the nearer end; the earlier where that is equal.

    Args:
        num_pieces: at least 1.
        limit: pieces of a window, at least 2.
    """
    stride = limit // 2
    count = 1 + max(0, -(-(num_pieces - limit) // stride))
    starts = [number * stride for number in range(count)]
    # A piece p has limit - 1 - (p - start) to the end of one window and
    # p - (start + stride) from the beginning of the next.
    cuts = [start + (limit + stride + 1) // 2 for start in starts[:-1]]
    return [
        Window(start, min(start + limit, num_pieces), first, last)
        for start, first, last in zip(
            starts, [0, *cuts], [*cuts, num_pieces], strict=True
        )
    ]


def widened(window: Window, num_pieces: int, limit: int) -> Window:
    """Return a window that sees `limit` pieces, or all there are.

    As much is added before as behind, as far as there is something.
    """
    spare = min(limit, num_pieces) - (window.end - window.start)
    behind = min(spare - spare // 2, num_pieces - window.end)
    start = max(0, window.start - (spare - behind))
    end = window.end + spare - (window.start - start)
    return window._replace(start=start, end=end)


# --- Sentences to features --------------------------------------------------


class Pieces(NamedTuple):
    """The pieces of words in a row."""

    ids: np.ndarray  # [pieces]
    starts: np.ndarray  # [words], the first piece of each word
    num_unknown: int  # words without a piece, [UNK] stands for them


def pieces_of(
    words: Sequence[str], tokenizer: tokenization.FullTokenizer
) -> Pieces:
    """Return the pieces of words; every word has at least one.

    A word of control characters alone has none of its own: [UNK].
    """
    ids, offsets = tokenizer.lines_to_ids(words)
    sizes = np.diff(offsets)
    is_empty = sizes == 0
    ids = np.insert(ids, offsets[:-1][is_empty], tokenizer.vocab["[UNK]"])
    sizes = np.maximum(sizes, 1)
    return Pieces(ids, np.cumsum(sizes) - sizes, int(is_empty.sum()))


def schema(max_seq_length: int) -> dict[str, tfrecord.Feature]:
    """Return name -> Feature of the records.

    label_ids is the class of a word at its first piece, where the record is
    to classify it, and -1 elsewhere. Read record by record, those are the
    words of the file in their order, each of them once.
    """
    names = ("input_ids", "input_mask", "segment_ids", "label_ids")
    return {name: tfrecord.Feature("int64", max_seq_length) for name in names}


class Converter:
    """Sentences to features, [CLS] pieces [SEP], and counts of what was odd.

    Args:
        tokenizer: words to pieces.
        labels: the classes.
        max_seq_length: tokens of a record.
        document_context: whether the sentences around fill a record up.
    """

    def __init__(
        self,
        tokenizer: tokenization.FullTokenizer,
        labels: Sequence[str],
        max_seq_length: int,
        document_context: bool,
    ):
        self.tokenizer, self.length = tokenizer, max_seq_length
        self.label_ids = class_ids(labels)
        self.document_context = document_context
        self.num_split = self.num_unknown = 0

    def __call__(
        self, sentences: Sequence[Sentence], size: int = 1024
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yield the features of so many records at a time, in order."""
        rows = [
            row
            for scope in self._scopes(sentences)
            for row in self._rows(scope)
        ]
        for at in range(0, len(rows), size):
            yield self._features(rows[at : at + size])

    def _scopes(
        self, sentences: Sequence[Sentence]
    ) -> Iterator[list[Sentence]]:
        """Yield what may be seen together: a sentence, or a document."""
        scope: list[Sentence] = []
        for sentence in sentences:
            is_same = scope and scope[-1].document == sentence.document
            if scope and not (self.document_context and is_same):
                yield scope
                scope = []
            scope.append(sentence)
        yield scope

    def _rows(
        self, scope: Sequence[Sentence]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (pieces, label of each) of every record of a scope."""
        limit = self.length - 2
        words = [word for sentence in scope for word in sentence.words]
        pieces = pieces_of(words, self.tokenizer)
        self.num_unknown += pieces.num_unknown
        labels = np.full(len(pieces.ids), IGNORED)
        labels[pieces.starts] = [
            self.label_ids[tag]
            for sentence in scope
            for tag in sentence.tags or ["O"] * len(sentence.words)
        ]
        ends = np.cumsum([len(sentence.words) for sentence in scope])
        bounds = [0, *np.append(pieces.starts, len(labels))[ends].tolist()]
        for begin, end in zip(bounds[:-1], bounds[1:], strict=True):
            parts = windows(end - begin, limit)
            self.num_split += len(parts) > 1
            for part in parts:
                part = Window(*(begin + place for place in part))
                if self.document_context:
                    part = widened(part, len(labels), limit)
                targets = np.full(part.end - part.start, IGNORED)
                chosen = slice(part.first - part.start, part.last - part.start)
                targets[chosen] = labels[part.first : part.last]
                # The middle of a word longer than a window begins no word.
                if (targets != IGNORED).any():
                    yield pieces.ids[part.start : part.end], targets

    def _features(
        self, rows: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> dict[str, np.ndarray]:
        ids = np.zeros([len(rows), self.length], np.int32)
        mask, labels = np.zeros_like(ids), np.full_like(ids, IGNORED)
        vocab = self.tokenizer.vocab
        for row, (pieces, targets) in enumerate(rows):
            end = len(pieces) + 1
            ids[row, 0], ids[row, end] = vocab["[CLS]"], vocab["[SEP]"]
            ids[row, 1:end] = pieces
            labels[row, 1:end] = targets
            mask[row, : end + 1] = 1
        return {
            "input_ids": ids,
            "input_mask": mask,
            "segment_ids": np.zeros_like(ids),
            "label_ids": labels,
        }
