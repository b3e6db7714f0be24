"""Cut paragraphs into windows that fit the model, and make features of them.

A paragraph with more pieces than fit into a sequence is read through several
windows that overlap. With 5 pieces of the paragraph in a window and a
doc_stride of 3, a paragraph of 8 pieces p0 to p7 makes two windows:

    [CLS] who left ? [SEP] p0 p1 p2 p3 p4 [SEP]
    [CLS] who left ? [SEP] p3 p4 p5 p6 p7 [SEP]

Every window is a training example or a sequence to predict of its own. A
piece in two windows is predicted in the one with more context
(decoding.max_context).

The place of an answer is given in words (data.py has the whole example). Here
it becomes pieces: of the words "(Steve Jobs)" the pieces "steve jobs", without
the parentheses, if those spell the answer.

Windows stores only where a window is: ids are stored once per paragraph and
once per question, and the rows of records are built when they are written.
Worker processes import this module, so it must not import TensorFlow.

Dimensions: W windows, E questions (examples), D paragraphs (documents), S
tokens of a row.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from base import workers
from base.errors import UserError

import numpy as np

import tokenization
from records import tfrecord
from tasks.squad.data import Paragraph, SquadData, SquadExample

# The unique_id of the first window, as in the original.
FIRST_UNIQUE_ID = 1_000_000_000

# Paragraphs that a worker converts at once: about a thousand windows.
_CHUNK = 256

# With fewer paragraphs than this, starting processes takes longer than the
# conversion does. SQuAD's training set has 19,000.
_WORTH_WORKERS = 10_000

_ROWS = 2048  # windows written at once; each feature takes a few MB


class Lengths(NamedTuple):
    """Lengths of windows in tokens; fields have the names of flags."""

    max_seq_length: int = 384
    doc_stride: int = 128  # from the start of a window to that of the next
    max_query_length: int = 64  # longer questions are cut

    def check(self) -> None:
        """Check that a window has space for a token of the paragraph.

        Raises:
            UserError: it has none beside the longest question; names the
                flags.
        """
        if self.max_seq_length <= self.max_query_length + 3:
            raise UserError(
                f"--max_seq_length={self.max_seq_length} cannot hold a "
                f"question of --max_query_length={self.max_query_length} "
                "tokens, three special ones and text: it must be greater "
                f"than {self.max_query_length + 3}"
            )


@dataclasses.dataclass(frozen=True)
class Windows:
    """W windows on the paragraphs of E questions, in the order of the files.

    Ragged arrays are flat, with an array of offsets: row i is
    flat[offsets[i]:offsets[i + 1]].
    """

    example: np.ndarray  # [W] index of the question
    doc_start: np.ndarray  # [W] first piece of the paragraph in the window
    doc_length: np.ndarray  # [W] how many pieces of it
    start_positions: np.ndarray  # [W] of the answer, in the row; 0: none
    end_positions: np.ndarray  # [W] inclusive; 0 ([CLS]) where it has none
    paragraph: np.ndarray  # [E] index of the question's paragraph
    query_ids: np.ndarray  # flat, questions, cut to max_query_length
    query_offsets: np.ndarray  # [E + 1]
    doc_ids: np.ndarray  # flat, paragraphs
    doc_words: np.ndarray  # flat, the word of the paragraph of each piece
    doc_offsets: np.ndarray  # [D + 1] of doc_ids and doc_words
    num_cut: np.ndarray  # [1] questions longer than max_query_length

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the arrays."""
        return [field.name for field in dataclasses.fields(cls)]

    def __len__(self) -> int:
        return len(self.example)

    def query_length(self) -> np.ndarray:
        """Return the number of question tokens in each window, [W]."""
        return np.diff(self.query_offsets)[self.example]

    def length(self) -> np.ndarray:
        """Return the number of tokens in each row, without padding, [W]."""
        # [CLS] question [SEP] part of the paragraph [SEP]
        return self.query_length() + self.doc_length + 3

    def doc_place(self) -> np.ndarray:
        """Return where each window's part of doc_ids begins, [W]."""
        return self.doc_offsets[self.paragraph[self.example]] + self.doc_start


# --- Windows of a few paragraphs ---------------------------------------------


def convert(
    paragraphs: Sequence[Paragraph],
    examples: Sequence[SquadExample],
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
) -> Windows:
    """Return the windows of some questions.

    Args:
        paragraphs: example.paragraph is an index into these.
        examples: the questions.
        tokenizer: converts words to ids.
        lengths: of the windows.
    """
    queries, query_offsets, num_cut = _query_ids(examples, tokenizer, lengths)
    doc_ids, doc_words, doc_offsets = _paragraph_ids(paragraphs, tokenizer)
    doc_lengths = np.diff(doc_offsets)
    # A tuple per window: the first five arrays of Windows.
    cells: list[tuple[int, int, int, int, int]] = []
    for number, example in enumerate(examples):
        query_length = int(query_offsets[number + 1] - query_offsets[number])
        # 3 places are for [CLS] and two [SEP].
        max_doc_pieces = lengths.max_seq_length - query_length - 3
        place = doc_offsets[example.paragraph]
        ids = doc_ids[place : doc_offsets[example.paragraph + 1]]
        answer = answer_pieces(
            example, ids, doc_words[place : place + len(ids)], tokenizer
        )
        for start, length in spans(
            int(doc_lengths[example.paragraph]),
            max_doc_pieces,
            lengths.doc_stride,
        ):
            first, last = in_window(answer, start, length, query_length + 2)
            cells.append((number, start, length, first, last))
    table = np.array(cells, np.int32).reshape(-1, 5)
    paragraph = [example.paragraph for example in examples]
    return Windows(
        *table.T,
        np.array(paragraph, np.int32),
        queries,
        query_offsets,
        doc_ids,
        doc_words,
        doc_offsets,
        np.array([num_cut]),
    )


def _query_ids(
    examples: Sequence[SquadExample],
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the ids of the questions, their offsets and how many were cut."""
    ids, offsets = tokenizer.lines_to_ids([e.question_text for e in examples])
    whole = np.diff(offsets)
    kept = np.minimum(whole, lengths.max_query_length)
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], whole)  # in its query
    return (
        ids[place < lengths.max_query_length],
        np.concatenate([[0], np.cumsum(kept)]),
        int((kept < whole).sum()),
    )


def _paragraph_ids(
    paragraphs: Sequence[Paragraph], tokenizer: tokenization.FullTokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the ids of the paragraphs, the word of each id, and offsets."""
    # Words are tokenized one by one, so that the word of each piece is known.
    # The ids are those of the whole text: the tokenizer too splits at white
    # space first.
    words = [paragraph.words() for paragraph in paragraphs]
    ids, offsets = tokenizer.lines_to_ids(itertools.chain(*words))
    counts = [len(part) for part in words]
    number = np.concatenate([np.arange(n) for n in counts] or [[]])
    of_word = np.repeat(number.astype(np.int32), np.diff(offsets))
    ends = np.cumsum([0, *counts])
    return ids, of_word, offsets[ends]


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
    example: SquadExample,
    ids: np.ndarray,
    of_word: np.ndarray,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[int, int] | None:
    """Return the first and the last piece of an answer, None without one.

    Args:
        example: has the words of the answer.
        ids: [pieces] of the paragraph.
        of_word: [pieces] the word of each piece, ascending.
        tokenizer: converts the answer to ids.
    """
    if example.start_position < 0:
        return None
    first = int(np.searchsorted(of_word, example.start_position))
    last = int(np.searchsorted(of_word, example.end_position, "right")) - 1
    # The words of an answer may hold more than the answer. Of the words
    #
    #     (Steve   Jobs)       with the pieces   ( steve jobs )
    #
    # only "steve jobs" is to be predicted if the answer is "Steve Jobs". So the
    # pieces of the words are searched for those of the answer.
    wanted = tokenizer.text_to_ids(example.orig_answer_text)
    found, size = ids[first : last + 1].tolist(), len(wanted)
    for at in range(len(found) - size + 1 if size else 0):
        if found[at : at + size] == wanted:
            return first + at, first + at + size - 1
    # They are not found if the answer ends inside a piece: "Japan" in the word
    # "Japanese", which is one piece. All pieces of the words are returned then.
    return first, last


def in_window(
    answer: tuple[int, int] | None, start: int, length: int, offset: int
) -> tuple[int, int]:
    """Return where an answer begins and ends in the row of a window.

    (0, 0), the position of [CLS], if the window does not hold all of it.

    Args:
        answer: first and last piece in the paragraph.
        start: first piece of the paragraph in the window.
        length: number of its pieces in the window.
        offset: where in the row those begin.
    """
    if answer and answer[0] >= start and answer[1] < start + length:
        return answer[0] - start + offset, answer[1] - start + offset
    # As in the original, a window without the answer is trained on with [CLS]
    # for an answer, in SQuAD 1.1 too.
    return 0, 0


# --- Windows of all paragraphs, in several processes -------------------------


class _WorkerArguments(NamedTuple):
    """Arguments of every worker process."""

    vocab_file: str
    do_lower_case: bool
    lengths: Lengths


class _Job(NamedTuple):
    """A chunk of paragraphs with their questions."""

    number: int
    paragraphs: list[Paragraph]
    examples: list[SquadExample]  # example.paragraph counts from 0 again


def convert_all(
    data: SquadData,
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
    num_workers: int = 0,
) -> Windows:
    """Return the windows of all questions, in processes for large data.

    They do not depend on the number of workers.

    Args:
        data: paragraphs and questions.
        tokenizer: converts words to ids.
        lengths: of the windows.
        num_workers: number of processes. 1: convert in this process. 0: one
            per core for large data, else 1.
    """
    jobs = list(_jobs(data))
    if not num_workers and len(data.paragraphs) < _WORTH_WORKERS:
        num_workers = 1
    if num_workers == 1:
        parts = [
            convert(job.paragraphs, job.examples, tokenizer, lengths)
            for job in jobs
        ]
        return _concatenate(parts)
    arguments = _WorkerArguments(
        tokenizer.vocab_file, tokenizer.basic_tokenizer.do_lower_case, lengths
    )
    found: dict[int, Windows] = {}
    count = min(num_workers or workers.num_cores(), len(jobs))
    with workers.WorkerPool(count, _set_up, arguments, _work) as pool:
        for event in pool.run(jobs):
            if isinstance(event, workers.Done):
                found[event.job.number] = event.result
    return _concatenate([found[job.number] for job in jobs])


def _jobs(data: SquadData) -> Iterator[_Job]:
    """Yield the data in chunks of paragraphs."""
    # Questions are in the order of their paragraphs: a chunk's are neighbors.
    numbers = np.array([example.paragraph for example in data.examples])
    for number, first in enumerate(range(0, len(data.paragraphs), _CHUNK)):
        low, high = np.searchsorted(numbers, [first, first + _CHUNK])
        yield _Job(
            number,
            data.paragraphs[first : first + _CHUNK],
            [
                example._replace(paragraph=example.paragraph - first)
                for example in data.examples[low:high]
            ],
        )


def _set_up(
    arguments: _WorkerArguments,
) -> tuple[tokenization.FullTokenizer, Lengths]:
    """Return what a worker process keeps between jobs."""
    tokenizer = tokenization.FullTokenizer(
        arguments.vocab_file, arguments.do_lower_case
    )
    return tokenizer, arguments.lengths


def _work(state, job: _Job, report) -> Windows:
    """Convert one chunk in a worker process."""
    return convert(job.paragraphs, job.examples, *state)


def _concatenate(parts: Sequence[Windows]) -> Windows:
    """Return the windows of consecutive chunks as one Windows."""
    # Indices and offsets count from 0 in every chunk. Those of a chunk grow by
    # the number of rows in the chunks before it: if the first chunk has 2
    # questions, question 0 of the second one becomes question 2.

    def renumber(name: str, counted: str) -> np.ndarray:
        """Return the indices `name` into the rows of the field `counted`."""
        sizes = [len(getattr(part, counted)) for part in parts]
        if counted.endswith("offsets"):  # one longer than its rows
            sizes = [size - 1 for size in sizes]
        bases = np.cumsum([0, *sizes])
        values = [getattr(part, name) for part in parts]
        return np.concatenate(
            [value + base for value, base in zip(values, bases, strict=False)]
        ).astype(np.int32)

    def join_offsets(name: str) -> np.ndarray:
        """Return the offsets `name` of the concatenated flat arrays."""
        sizes = np.concatenate([np.diff(getattr(p, name)) for p in parts])
        return np.concatenate([[0], np.cumsum(sizes)])

    plain = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Windows.names()
    }
    return Windows(
        **plain
        | {
            "example": renumber("example", "paragraph"),
            "paragraph": renumber("paragraph", "doc_offsets"),
            "query_offsets": join_offsets("query_offsets"),
            "doc_offsets": join_offsets("doc_offsets"),
            "num_cut": np.array([sum(int(p.num_cut[0]) for p in parts)]),
        }
    )


# --- Records -----------------------------------------------------------------


def schema(max_seq_length: int) -> dict[str, tfrecord.Feature]:
    """Return {name: Feature} of the records, which are the original's.

    Records to predict lack start_positions, end_positions and is_impossible.
    """
    sequence = tfrecord.Feature("int64", max_seq_length)
    one = tfrecord.Feature("int64", 1)
    return {
        "unique_ids": one,
        "input_ids": sequence,
        "input_mask": sequence,
        "segment_ids": sequence,
        "start_positions": one,
        "end_positions": one,
        "is_impossible": one,
    }


def rows(
    windows: Windows,
    first: int,
    last: int,
    vocab: Mapping[str, int],
    max_seq_length: int,
) -> dict[str, np.ndarray]:
    """Return the features of windows first to last - 1, n of them.

    Returns:
        unique_ids [n]; input_ids, input_mask and segment_ids [n, S].
    """
    part = slice(first, last)
    query = windows.query_length()[part][:, None]  # [n, 1]
    query_place = windows.query_offsets[windows.example[part]][:, None]
    doc = windows.doc_length[part][:, None]  # [n, 1]
    doc_place = windows.doc_place()[part][:, None]
    # A row is [CLS] question [SEP] part of the paragraph [SEP] and zeros. With
    # a question of 2 tokens and 3 pieces:
    #
    #     at           0      1  2  3      4   5   6   7      8
    #     token        [CLS]  q  q  [SEP]  p   p   p   [SEP]  0
    #     segment_ids  0      0  0  0      1   1   1   1      0
    at = np.arange(max_seq_length)[None]  # [1, S]
    in_query = (at > 0) & (at <= query)  # [n, S]
    in_doc = (at >= query + 2) & (at < query + 2 + doc)  # [n, S]
    is_token = at < query + doc + 3  # [n, S]
    ids = np.zeros([len(query), max_seq_length], np.int32)
    ids[:, 0] = vocab["[CLS]"]
    ids[(at == query + 1) | (at == query + 2 + doc)] = vocab["[SEP]"]
    ids[in_query] = windows.query_ids[(query_place + at - 1)[in_query]]
    ids[in_doc] = windows.doc_ids[(doc_place + at - query - 2)[in_doc]]
    return {
        "unique_ids": FIRST_UNIQUE_ID + np.arange(first, first + len(query)),
        "input_ids": ids,
        "input_mask": is_token.astype(np.int32),
        "segment_ids": (is_token & (at >= query + 2)).astype(np.int32),
    }


def record_features(
    windows: Windows,
    examples: Sequence[SquadExample],
    vocab: Mapping[str, int],
    max_seq_length: int,
    is_training: bool,
) -> Iterator[dict[str, np.ndarray]]:
    """Yield the features of windows, of some at a time.

    Args:
        windows: of the questions.
        examples: the questions, for is_impossible.
        vocab: {token: id}.
        max_seq_length: S.
        is_training: whether the features have the answers too.
    """
    impossible = np.array([example.is_impossible for example in examples])
    for first in range(0, len(windows), _ROWS):
        last = min(first + _ROWS, len(windows))
        part = rows(windows, first, last, vocab, max_seq_length)
        if is_training:
            of = windows.example[first:last]
            part |= {
                "start_positions": windows.start_positions[first:last],
                "end_positions": windows.end_positions[first:last],
                "is_impossible": impossible[of].astype(np.int32),
            }
        yield part
