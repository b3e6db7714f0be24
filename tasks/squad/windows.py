"""Cut paragraphs into windows that fit the model, and make features of them.

    QuestionReader   files -> questions with their windows
    convert          questions -> windows
    rows             windows -> ids

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
Worker processes import this module, so it must not import TensorFlow.

Dimensions: W windows, E questions (examples), D paragraphs (documents), S
tokens of a row.
"""

import bisect
import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from base import file_system, workers
from base.errors import UserError
from base.flags import flag

import numpy as np
from absl import logging

import tokenization
from records import tfrecord
from tasks import rows as task_rows
from tasks.squad import data as squad_data
from tasks.squad import scores as squad_scores
from tasks.squad import triviaqa
from tasks.squad.data import Paragraph, SquadData, SquadExample

# The unique_id of the first window, as in the original.
FIRST_UNIQUE_ID = 1_000_000_000

# Paragraphs converted at once, in a worker for large data: about a thousand
# windows.
_CHUNK = 256

# With fewer paragraphs than this, starting processes takes longer than the
# conversion does. SQuAD's training set has 19,000.
_WORTH_WORKERS = 10_000


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
    left_out: np.ndarray  # [E] tokens of a question beyond max_query_length

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


# --- Paragraphs to windows ---------------------------------------------------


def convert(
    data: SquadData,
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
    num_workers: int = 1,
) -> Windows:
    """Return the windows of all questions.

    They do not depend on the number of worker processes. 0: one per core for
    large data, else none; 1: none.
    """
    if not num_workers and len(data.paragraphs) < _WORTH_WORKERS:
        num_workers = 1
    # Questions are in the order of their paragraphs: a chunk's are neighbors.
    numbers = np.array([example.paragraph for example in data.examples])
    chunks = []
    for first in range(0, max(1, len(data.paragraphs)), _CHUNK):
        low, high = np.searchsorted(numbers, [first, first + _CHUNK]).tolist()
        paragraphs = data.paragraphs[first : first + _CHUNK]
        examples = data.examples[low:high]
        chunks.append(_Chunk(low, first, examples, paragraphs))
    if num_workers == 1:
        parts = [_convert_chunk((tokenizer, lengths), c) for c in chunks]
    else:
        count = min(num_workers or workers.num_cores(), len(chunks))
        with workers.WorkerPool(
            count, tuple, (tokenizer, lengths), _convert_chunk
        ) as pool:
            done = sorted(pool.run(chunks), key=lambda x: x.job.first_paragraph)
        parts = [each.result for each in done]
    cells, queries, query_sizes, left_out, ids, words, sizes = map(
        np.concatenate, zip(*parts, strict=True)
    )
    return Windows(
        *cells.T,
        numbers.astype(np.int32),
        queries,
        np.cumsum([0, *query_sizes]),
        ids,
        words,
        np.cumsum([0, *sizes]),
        left_out,
    )


class _Chunk(NamedTuple):
    """Consecutive paragraphs with their questions."""

    first_example: int  # index in SquadData
    first_paragraph: int
    examples: list[SquadExample]
    paragraphs: list[Paragraph]


def _convert_chunk(
    state: tuple[tokenization.FullTokenizer, Lengths],
    chunk: _Chunk,
) -> tuple[np.ndarray, ...]:
    """Return the arrays of Windows of a chunk, with sizes for offsets.

    The first five are one table with a row per window.
    """
    tokenizer, lengths = state
    ids, offsets = tokenizer.lines_to_ids(
        [example.question_text for example in chunk.examples]
    )
    whole = np.diff(offsets)
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], whole)  # in its query
    queries = ids[place < lengths.max_query_length]
    query_sizes = np.minimum(whole, lengths.max_query_length)
    # Words are tokenized one by one, so that the word of each piece is known.
    # The ids are those of the whole text: the tokenizer too splits at white
    # space first.
    words = [paragraph.words() for paragraph in chunk.paragraphs]
    doc_ids, offsets = tokenizer.lines_to_ids(itertools.chain(*words))
    counts = [len(part) for part in words]
    number = np.concatenate([np.arange(n) for n in counts] or [[]])
    of_word = np.repeat(number.astype(np.int32), np.diff(offsets))
    offsets = offsets[np.cumsum([0, *counts])]  # of the paragraphs
    pieces_in = functools.lru_cache(maxsize=2**12)(tokenizer.spans)
    cells: list[tuple[int, int, int, int, int]] = []
    for at, (example, query_size) in enumerate(
        zip(chunk.examples, query_sizes.tolist(), strict=True)
    ):
        own = example.paragraph - chunk.first_paragraph
        part = slice(offsets[own], offsets[own + 1])
        answer = example.place and answer_pieces(
            example.place, chunk.paragraphs[own], of_word[part], pieces_in
        )
        for start, length in spans(
            int(part.stop - part.start),
            lengths.max_seq_length - query_size - 3,  # [CLS], two [SEP]
            lengths.doc_stride,
        ):
            # As in the original, a window without all of the answer is trained
            # on with [CLS] for an answer, in SQuAD 1.1 too.
            first = last = 0
            if answer and start <= answer[0] and answer[1] < start + length:
                shift = query_size + 2 - start
                first, last = answer[0] + shift, answer[1] + shift
            cells.append((chunk.first_example + at, start, length, first, last))
    table = np.array(cells, np.int32).reshape(-1, 5)
    left_out = whole - query_sizes
    sizes = np.diff(offsets)
    return table, queries, query_sizes, left_out, doc_ids, of_word, sizes


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
    return task_rows.schema(max_seq_length, **dict.fromkeys(own, "int64"))


def rows(
    windows: Windows,
    vocab: Mapping[str, int],
    max_seq_length: int,
    part: slice = slice(None),
    examples: Sequence[SquadExample] | None = None,
) -> dict[str, np.ndarray]:
    """Return the features of some windows, n of them.

    They are unique_ids [n]; input_ids, input_mask and segment_ids [n, S]; with
    the examples also what these are trained on, start_positions, end_positions
    and is_impossible [n].
    """
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
    features = {
        "unique_ids": FIRST_UNIQUE_ID + np.arange(len(windows))[part],
        "input_ids": ids,
        "input_mask": is_token.astype(np.int32),
        "segment_ids": (is_token & (at >= query + 2)).astype(np.int32),
    }
    if examples is not None:
        own = (examples[number] for number in windows.example[part])
        features |= {
            "start_positions": windows.start_positions[part],
            "end_positions": windows.end_positions[part],
            "is_impossible": np.array([int(x.is_impossible) for x in own]),
        }
    return features


# --- Files to windows --------------------------------------------------------


class Questions(NamedTuple):
    """Questions with their windows and the fingerprint of these."""

    data: SquadData
    windows: Windows
    fingerprint: dict[str, Any]


@dataclasses.dataclass
class QuestionReader:
    """Reads the files of SQuAD or TriviaQA and cuts them into windows.

    With triviaqa_evidence_dir the training files are TriviaQA's; questions to
    answer are always SQuAD's.
    """

    lengths: Lengths
    tokenizer: tokenization.FullTokenizer

    version_2_with_negative: bool = flag(False)
    """Questions may have no answer: SQuAD 2.0."""

    strict: bool = flag(False)
    """Stop at an answer that is not at its answer_start, instead of warning."""

    triviaqa_evidence_dir: str | None = flag()
    """Directory with TriviaQA's folders wikipedia/ and web/, whose questions
    are in train_file."""

    triviaqa_max_tokens: int = flag(400, low=1)
    """Words to read from the beginning of each TriviaQA document."""

    scoring: str = flag("squad", choices=sorted(squad_scores.RULES))
    """Whose official script scores the answers. F1 counts words for squad,
    characters for korquad, and for cmrc, which is for Chinese, the longest run
    of characters that two answers share."""

    num_workers: int = flag(0, 0, 1024)
    """Processes that cut paragraphs into windows; 0: one per core for large
    files, else 1. The windows do not depend on it."""

    _fingerprints: dict[tuple, dict] = dataclasses.field(default_factory=dict)

    def fingerprint(self, files: Sequence[str], is_training: bool) -> dict:
        """Return everything that the windows of some files depend on."""
        key = (*files, is_training)
        if key not in self._fingerprints:  # reads the files, lists evidence
            evidence = is_training and self.triviaqa_evidence_dir
            self._fingerprints[key] = {
                "data": [file_system.sha256(path) for path in files],
                "is_training": is_training,
                "version_2_with_negative": self.version_2_with_negative,
                "triviaqa": evidence
                and {
                    "evidence": triviaqa.evidence_in(evidence),
                    "max_tokens": self.triviaqa_max_tokens,
                },
                "lengths": dataclasses.asdict(self.lengths),
                **task_rows.text_fingerprint(
                    self.tokenizer, self.lengths.max_seq_length
                ),
            }
            if is_training:  # they were once found by a search
                self._fingerprints[key]["labels"] = "by character"
        return self._fingerprints[key]

    def read(self, files: Sequence[str], is_training: bool) -> SquadData:
        """Return the questions of files; errors name file and place."""
        if is_training and self.triviaqa_evidence_dir:
            return triviaqa.read_triviaqa(
                files, self.triviaqa_evidence_dir, self.triviaqa_max_tokens
            )
        data = squad_data.read_squad(
            files, is_training, self.version_2_with_negative, self.strict
        )
        return data._replace(scoring=self.scoring)

    def questions(
        self, files: Sequence[str], is_training: bool = False
    ) -> Questions:
        """Return the questions of files with their windows; log how many."""
        data = self.read(files, is_training)
        windows = convert(data, self.tokenizer, self.lengths, self.num_workers)
        logging.info(
            "%d questions make %d windows", len(data.examples), len(windows)
        )
        if windows.left_out.any():
            logging.warning(
                "%d questions are cut to max_query_length = %d tokens",
                (windows.left_out > 0).sum(),
                self.lengths.max_query_length,
            )
        lost = sum(x.place is not None for x in data.examples) - len(
            np.unique(windows.example[windows.end_positions > 0])
        )
        if is_training and lost:
            logging.warning(
                "%d questions are trained on as if they had no answer: no "
                "window of max_seq_length = %d, doc_stride = %d has all of it",
                lost,
                self.lengths.max_seq_length,
                self.lengths.doc_stride,
            )
        if not len(windows):
            raise UserError(
                f"the paragraphs of the {len(data.examples)} questions are "
                "empty: there is nothing to read"
            )
        return Questions(data, windows, self.fingerprint(files, is_training))
