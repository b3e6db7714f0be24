"""Questions and paragraphs to windows of tokens, and windows to records.

A paragraph longer than a sequence is seen through windows that overlap. What
is kept of a window is where it lies: ids are stored once per paragraph and
once per question, and rows of records are put together when they are wanted.
No TensorFlow here: worker processes convert, each some paragraphs.
"""

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from base import file_system, workers
from base.errors import UserError

import numpy as np

import tokenization
from records import tfrecord
from squad.data import Paragraph, SquadData, SquadExample

FIRST_UNIQUE_ID = 1_000_000_000

# Paragraphs a worker converts at once: a thousand windows or so.
_CHUNK = 256

# Below so many paragraphs starting processes costs more than they save.
_WORTH_WORKERS = 10_000


class Lengths(NamedTuple):
    """How windows are cut; every field mirrors a flag."""

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def check(self) -> None:
        """Refuse lengths that leave no room for the paragraph.

        Raises:
            UserError: names the flags.
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
    """W windows on E questions and D paragraphs, in the files' order.

    Ragged arrays are flat with offsets: row i is flat[offsets[i]:
    offsets[i + 1]].
    """

    example: np.ndarray  # [W] number of the question
    doc_start: np.ndarray  # [W] first token of the paragraph seen
    doc_length: np.ndarray  # [W] tokens of it seen
    start_positions: np.ndarray  # [W] in the row; 0, of [CLS]: none
    end_positions: np.ndarray  # [W]
    paragraph: np.ndarray  # [E] number of the question's paragraph
    query_ids: np.ndarray  # flat, cut to max_query_length
    query_offsets: np.ndarray  # [E + 1]
    doc_ids: np.ndarray  # flat
    doc_words: np.ndarray  # flat: which word a token is of
    doc_offsets: np.ndarray  # [D + 1]
    num_cut: np.ndarray  # [1] questions longer than max_query_length

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the arrays."""
        return [field.name for field in dataclasses.fields(cls)]

    def __len__(self) -> int:
        return len(self.example)

    def query_length(self) -> np.ndarray:
        """Return [W] tokens of each window's question."""
        return np.diff(self.query_offsets)[self.example]

    def length(self) -> np.ndarray:
        """Return [W] tokens of each row, special ones among them."""
        return self.query_length() + self.doc_length + 3

    def doc_place(self) -> np.ndarray:
        """Return [W] where in doc_ids each window's paragraph part begins."""
        return self.doc_offsets[self.paragraph[self.example]] + self.doc_start


# --- One chunk of paragraphs ------------------------------------------------


def convert(
    paragraphs: Sequence[Paragraph],
    examples: Sequence[SquadExample],
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
) -> Windows:
    """Cut the windows of some questions.

    Args:
        paragraphs: those the examples count from 0.
        examples: questions in order.
        tokenizer: text to ids.
        lengths: see there.
    """
    queries, query_offsets, num_cut = _queries(examples, tokenizer, lengths)
    doc_ids, doc_words, doc_offsets = _documents(paragraphs, tokenizer)
    doc_lengths = np.diff(doc_offsets)
    cells: list[tuple[int, int, int, int, int]] = []
    for number, example in enumerate(examples):
        query_length = int(query_offsets[number + 1] - query_offsets[number])
        room = lengths.max_seq_length - query_length - 3
        place = doc_offsets[example.paragraph]
        ids = doc_ids[place : doc_offsets[example.paragraph + 1]]
        answer = answer_tokens(
            example, ids, doc_words[place : place + len(ids)], tokenizer
        )
        for start, length in spans(
            int(doc_lengths[example.paragraph]), room, lengths.doc_stride
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


def _queries(
    examples: Sequence[SquadExample],
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
) -> tuple[np.ndarray, np.ndarray, int]:
    ids, offsets = tokenizer.lines_to_ids([e.question_text for e in examples])
    whole = np.diff(offsets)
    kept = np.minimum(whole, lengths.max_query_length)
    place = np.arange(len(ids)) - np.repeat(offsets[:-1], whole)
    return (
        ids[place < lengths.max_query_length],
        np.concatenate([[0], np.cumsum(kept)]),
        int((kept < whole).sum()),
    )


def _documents(
    paragraphs: Sequence[Paragraph], tokenizer: tokenization.FullTokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, the word each is of, and the paragraphs' offsets."""
    words = [paragraph.words() for paragraph in paragraphs]
    ids, offsets = tokenizer.lines_to_ids(itertools.chain(*words))
    counts = [len(part) for part in words]
    number = np.concatenate([np.arange(n) for n in counts] or [[]])
    of_word = np.repeat(number.astype(np.int32), np.diff(offsets))
    ends = np.cumsum([0, *counts])
    return ids, of_word, offsets[ends]


def spans(length: int, room: int, stride: int) -> Iterator[tuple[int, int]]:
    """Yield (first token, tokens) of the windows on a paragraph."""
    start = 0
    while start < length:
        seen = min(length - start, room)
        yield start, seen
        if start + seen == length:
            break
        start += min(seen, stride)


def answer_tokens(
    example: SquadExample,
    ids: np.ndarray,
    of_word: np.ndarray,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[int, int] | None:
    """Return first and last token of an answer, None without one.

    Words are coarser than answers: of "(1895-1943)." only the tokens that
    spell the answer "1895" are kept, where some do.
    """
    if example.start_position < 0:
        return None
    first = int(np.searchsorted(of_word, example.start_position))
    last = int(np.searchsorted(of_word, example.end_position, "right")) - 1
    wanted = tokenizer.text_to_ids(example.orig_answer_text)
    found, size = ids[first : last + 1].tolist(), len(wanted)
    for at in range(len(found) - size + 1 if size else 0):
        if found[at : at + size] == wanted:
            return first + at, first + at + size - 1
    return first, last


def in_window(
    answer: tuple[int, int] | None, start: int, length: int, offset: int
) -> tuple[int, int]:
    """Return an answer's place in a window's row; 0, 0 where it is not."""
    if answer and answer[0] >= start and answer[1] < start + length:
        return answer[0] - start + offset, answer[1] - start + offset
    return 0, 0


# --- All of them, by several processes --------------------------------------


class _Settings(NamedTuple):
    vocab_file: str
    do_lower_case: bool
    lengths: Lengths


class _Job(NamedTuple):
    number: int
    paragraphs: list[Paragraph]
    examples: list[SquadExample]


def convert_all(
    data: SquadData,
    tokenizer: tokenization.FullTokenizer,
    lengths: Lengths,
    num_workers: int = 0,
) -> Windows:
    """Cut the windows of all questions; the same for any number of workers.

    Args:
        data: what to convert.
        tokenizer: text to ids.
        lengths: see there.
        num_workers: processes; 0: as many as pay, 1: this one.
    """
    jobs = list(_jobs(data))
    if not num_workers and len(data.paragraphs) < _WORTH_WORKERS:
        num_workers = 1
    if num_workers == 1:
        parts = [
            convert(job.paragraphs, job.examples, tokenizer, lengths)
            for job in jobs
        ]
        return _joined(parts)
    settings = _Settings(
        tokenizer.vocab_file, tokenizer.basic_tokenizer.do_lower_case, lengths
    )
    found: dict[int, Windows] = {}
    count = min(num_workers or workers.num_cores(), len(jobs))
    with workers.WorkerPool(count, _set_up, settings, _work) as pool:
        for event in pool.run(jobs):
            if isinstance(event, workers.Done):
                found[event.job.number] = event.result
    return _joined([found[job.number] for job in jobs])


def _jobs(data: SquadData) -> Iterator[_Job]:
    """Cut the data where a chunk of paragraphs ends; examples are in order."""
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
    settings: _Settings,
) -> tuple[tokenization.FullTokenizer, Lengths]:
    tokenizer = tokenization.FullTokenizer(
        settings.vocab_file, settings.do_lower_case
    )
    return tokenizer, settings.lengths


def _work(state, job: _Job, report) -> Windows:
    return convert(job.paragraphs, job.examples, *state)


def _joined(parts: Sequence[Windows]) -> Windows:
    """Return the windows of chunks as one, numbers counted through."""

    def counted(name: str, offsets: str) -> np.ndarray:
        """Numbers that count what another field has rows of."""
        sizes = [len(getattr(part, offsets)) for part in parts]
        if offsets.endswith("offsets"):
            sizes = [size - 1 for size in sizes]
        bases = np.cumsum([0, *sizes])
        values = [getattr(part, name) for part in parts]
        return np.concatenate(
            [value + base for value, base in zip(values, bases, strict=False)]
        ).astype(np.int32)

    def ragged(name: str) -> np.ndarray:
        sizes = np.concatenate([np.diff(getattr(p, name)) for p in parts])
        return np.concatenate([[0], np.cumsum(sizes)])

    plain = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in Windows.names()
    }
    return Windows(
        **plain
        | {
            "example": counted("example", "paragraph"),
            "paragraph": counted("paragraph", "doc_offsets"),
            "query_offsets": ragged("query_offsets"),
            "doc_offsets": ragged("doc_offsets"),
            "num_cut": np.array([sum(int(p.num_cut[0]) for p in parts)]),
        }
    )


# --- Windows to rows --------------------------------------------------------


def schema(max_seq_length: int) -> dict[str, tfrecord.Feature]:
    """Return name -> Feature of the records, the original's.

    start_positions, end_positions and is_impossible are those of training.
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
    """Return the features of windows [first, last).

    [CLS] question [SEP] part of the paragraph [SEP], zeros to the end;
    segment 1 is the part and its [SEP].
    """
    part = slice(first, last)
    query = windows.query_length()[part][:, None]  # [n, 1]
    query_place = windows.query_offsets[windows.example[part]][:, None]
    doc = windows.doc_length[part][:, None]
    doc_place = windows.doc_place()[part][:, None]
    at = np.arange(max_seq_length)[None]  # [1, S]
    in_query = (at > 0) & (at <= query)
    in_doc = (at >= query + 2) & (at < query + 2 + doc)
    ids = np.zeros([len(query), max_seq_length], np.int32)
    ids[:, 0] = vocab["[CLS]"]
    ids[(at == query + 1) | (at == query + 2 + doc)] = vocab["[SEP]"]
    ids[in_query] = windows.query_ids[(query_place + at - 1)[in_query]]
    ids[in_doc] = windows.doc_ids[(doc_place + at - query - 2)[in_doc]]
    return {
        "unique_ids": FIRST_UNIQUE_ID + np.arange(first, first + len(query)),
        "input_ids": ids,
        "input_mask": (at < query + doc + 3).astype(np.int32),
        "segment_ids": ((at >= query + 2) & (at < query + doc + 3)).astype(
            np.int32
        ),
    }


def write_records(
    path: str,
    windows: Windows,
    examples: Sequence[SquadExample],
    vocab: Mapping[str, int],
    max_seq_length: int,
    is_training: bool,
) -> None:
    """Write windows as the original's records; they appear whole."""
    impossible = np.array([example.is_impossible for example in examples])
    with file_system.atomic_file(path) as file:
        with tfrecord.RecordWriter(file) as writer:
            for first in range(0, len(windows), 2048):
                last = min(first + 2048, len(windows))
                part = rows(windows, first, last, vocab, max_seq_length)
                if is_training:
                    of = windows.example[first:last]
                    part |= {
                        "start_positions": windows.start_positions[first:last],
                        "end_positions": windows.end_positions[first:last],
                        "is_impossible": impossible[of].astype(np.int32),
                    }
                writer.write_examples(part)
