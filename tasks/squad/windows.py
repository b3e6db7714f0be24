"""Cut paragraphs into windows that fit the model, and make features of them.

    convert          questions -> windows
    records          windows -> ids

A paragraph with more pieces than fit into a sequence is read through several
windows that overlap. With 5 pieces of the paragraph in a window and a
doc_stride of 3, a paragraph of 8 pieces p0 to p7 makes two windows:

    [CLS] who left ? [SEP] p0 p1 p2 p3 p4 [SEP]
    [CLS] who left ? [SEP] p3 p4 p5 p6 p7 [SEP]

Every window is a training example or a sequence to predict of its own. A
piece in two windows is predicted in the one with more context
(decoding.max_context).

The place of an answer is given in characters (data.py has the whole example).
Here it becomes the pieces that these are in.

Windows stores only where a window is: ids are stored once per paragraph and
once per question, and the rows of records are built when they are written.

Dimensions: W windows, E questions (examples), D paragraphs (documents), S
tokens of a row.
"""

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence

from base.errors import UserError
from base.flags import flag

import numpy as np

import tokenization
from records import tfrecord
from tasks import rows
from tasks.squad.data import Paragraph, SquadData

# The unique_id of the first window, as in the original.
FIRST_UNIQUE_ID = 1_000_000_000


def query_length(max_seq_length: int) -> int:
    """Return the default of --max_query_length.

    It is 64 as in the original, but a quarter of a window that is too short
    for a question of 64 tokens.
    """
    return 64 if max_seq_length > 64 + 3 else max_seq_length // 4


@dataclasses.dataclass(frozen=True)
class Lengths:
    """Lengths of windows in tokens.

    Raises:
        UserError: the longest question leaves no space for the paragraph.
    """

    max_seq_length: int = 384

    doc_stride: int = flag(128, low=1)
    """Tokens from the start of a window to the start of the next."""

    max_query_length: int = flag(64, low=1)
    """Largest number of tokens of a question; longer questions are cut."""

    def __post_init__(self):
        if self.max_seq_length <= self.max_query_length + 3:
            raise UserError(
                f"--max_seq_length={self.max_seq_length} cannot hold a "
                f"question of --max_query_length={self.max_query_length} "
                "tokens, three special ones and text: it must be greater "
                f"than {self.max_query_length + 3}"
            )


@dataclasses.dataclass(frozen=True)
class Windows:
    """W windows on the paragraphs of E questions, in the order of the files."""

    data: SquadData
    queries: list[np.ndarray]  # E, the ids of each, cut to max_query_length
    left_out: np.ndarray  # [E] tokens of a question beyond max_query_length
    documents: list[np.ndarray]  # D, the ids of each paragraph
    words: list[np.ndarray]  # D, the word of the paragraph of each piece
    example: np.ndarray  # [W] index of the question
    doc_offset: np.ndarray  # [W] position in the row of the first piece
    doc_start: np.ndarray  # [W] index of that piece in the paragraph
    doc_length: np.ndarray  # [W] how many pieces of it
    start_positions: np.ndarray  # [W] of the answer, in the row; 0: none
    end_positions: np.ndarray  # [W] inclusive; 0 ([CLS]) where it has none

    def __len__(self) -> int:
        return len(self.example)


# --- Paragraphs to windows ---------------------------------------------------


def convert(
    data: SquadData, tokenizer: tokenization.FullTokenizer, lengths: Lengths
) -> Windows:
    """Return the windows of all questions."""
    documents, words = [], []
    for paragraph in data.paragraphs:
        # Words are tokenized one by one, so that the word of each piece is
        # known. The ids are those of the whole text: the tokenizer too splits
        # at white space first.
        ids, offsets = tokenizer.lines_to_ids(paragraph.words())
        documents.append(ids)
        sizes = np.diff(offsets)
        words.append(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    ids, offsets = tokenizer.lines_to_ids(
        example.question_text for example in data.examples
    )
    queries = [
        ids[start:end][: lengths.max_query_length]
        for start, end in itertools.pairwise(offsets.tolist())
    ]
    pieces_in = functools.lru_cache(maxsize=2**12)(tokenizer.spans)
    cells: list[tuple[int, ...]] = []  # a row per window
    for number, example in enumerate(data.examples):
        of_word = words[example.paragraph]
        answer = example.place and answer_pieces(
            example.place,
            data.paragraphs[example.paragraph],
            of_word,
            pieces_in,
        )
        offset = len(queries[number]) + 2  # behind [CLS] and [SEP]
        for start, length in spans(
            len(of_word),
            lengths.max_seq_length - offset - 1,  # the last [SEP]
            lengths.doc_stride,
        ):
            # As in the original, a window without all of the answer is trained
            # on with [CLS] for an answer, in SQuAD 1.1 too.
            first = last = 0
            if answer and start <= answer[0] and answer[1] < start + length:
                first, last = (offset - start + piece for piece in answer)
            cells.append((number, offset, start, length, first, last))
    left_out = np.diff(offsets) - [len(query) for query in queries]
    table = np.array(cells, np.int32).reshape(-1, 6)
    return Windows(data, queries, left_out, documents, words, *table.T)


def spans(
    num_pieces: int, max_doc_pieces: int, stride: int
) -> Iterator[tuple[int, int]]:
    """Yield the (first piece, number of pieces) of a paragraph's windows.

    The last window ends where the paragraph ends. It may be shorter than the
    others: it starts at a multiple of the stride like them.

    >>> list(spans(8, 5, 3))
    [(0, 5), (3, 5)]
    >>> list(spans(9, 5, 3))
    [(0, 5), (3, 5), (6, 3)]
    """
    start = 0
    while start < num_pieces:
        seen = min(num_pieces - start, max_doc_pieces)
        yield start, seen
        if start + seen == num_pieces:
            break
        # As in the original, no piece is skipped if doc_stride is longer than
        # a window.
        start += min(seen, stride)


def answer_pieces(
    place: tuple[int, int],
    paragraph: Paragraph,
    of_word: np.ndarray,
    pieces_in: Callable[[str], Sequence[tuple[int, int]]],
) -> tuple[int, int] | None:
    """Return the first and the last piece of an answer.

    They are the pieces that its first and its last character are in. None if
    the answer has no piece: the tokenizer drops all of its characters.

    Args:
        place: the characters [start, end) of the paragraph.
        paragraph: its text and words.
        of_word: [pieces] the word of each piece of the paragraph.
        pieces_in: returns the characters [start, end) of each piece of a word.
    """
    start, end = place
    first_word, last_word = paragraph.words_in(start, end)
    if last_word < first_word:
        return None

    def pieces(word: int) -> tuple[int, Sequence[tuple[int, int]]]:
        at = int(paragraph.starts[word])
        return at, pieces_in(paragraph.text[at : paragraph.ends[word]])

    # In "(Steve Jobs)", "steve" is the second piece of its word, and "jobs" the
    # last but one. The pieces of a word are looked at where it has several.
    first = bisect.bisect_left(of_word, first_word)
    last = bisect.bisect(of_word, last_word, first) - 1
    if of_word[first : first + 2].tolist() == [first_word] * 2:
        at, own = pieces(first_word)
        first += bisect.bisect(own, start - at, key=lambda piece: piece[1])
    if of_word[last - 1 : last + 1].tolist() == [last_word] * 2:
        at, own = pieces(last_word)
        last -= len(own)
        last += bisect.bisect_left(own, end - at, key=lambda piece: piece[0])
    return (first, last) if first <= last else None


# --- Records -----------------------------------------------------------------


def schema(max_seq_length: int) -> dict[str, tfrecord.Feature]:
    """Return {name: Feature} of the records, which are the original's.

    Records to predict lack start_positions, end_positions and is_impossible.
    """
    own = ("unique_ids", "start_positions", "end_positions", "is_impossible")
    return rows.schema(max_seq_length, **dict.fromkeys(own, "int64"))


def records(
    windows: Windows, vocab: Mapping[str, int], is_training: bool = False
) -> Iterator[rows.Record]:
    """Yield the record of each window: question and part of the paragraph.

    It has unique_ids; for training also start_positions, end_positions and
    is_impossible.
    """
    first, end = [vocab["[CLS]"]], [vocab["[SEP]"]]
    for number, question in enumerate(windows.example):
        example = windows.data.examples[question]
        document = windows.documents[example.paragraph]
        start = windows.doc_start[number]
        pieces = document[start : start + windows.doc_length[number]]
        query = windows.queries[question]
        ids = np.concatenate([first, query, end, pieces, end])
        labels = {"unique_ids": FIRST_UNIQUE_ID + number}
        if is_training:
            labels["start_positions"] = windows.start_positions[number]
            labels["end_positions"] = windows.end_positions[number]
            labels["is_impossible"] = example.is_impossible
        yield rows.make_row(ids, windows.doc_offset[number]), labels
