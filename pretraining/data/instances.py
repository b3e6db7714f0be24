"""Draw the segments A and B of all pre-training instances of some documents.

An instance is a pair of segments (paper sections 3.1 and A.2): A is a run of
sentences; B is the run after it or, half of the time, comes from another
document. Each document is cut into chunks of whole sentences, as long as a
sequence, and each chunk into A and B at a random sentence. For example, with
max_seq_length 19, so space for 16 tokens besides [CLS] and twice [SEP], and a
document with these sentences and numbers of tokens:

    s0 5   s1 7   s2 4   s3 9   s4 6

the first chunk is s0 s1 s2 (5 + 7 + 4 = 16). A is s0 or s0 s1, both equally
likely; say s0.

    true next     A = s0, B = s1 s2; the next chunk starts at s3
    random next   A = s0, B = sentences of another document with the missing
                  11 tokens; s1 and s2 are unused and given back: the next
                  chunk starts at s1, or much of the text would be lost

A chunk of one sentence has no true B, so its B is always random. This is why
more than half of all labels are 1, as in the original. Where there is no other
document, B is always the true one: chunks have two sentences at least, and a
single sentence at the end of the document is left out.

Sequences shorter than max_seq_length waste computation, but are what
fine-tuning has. So the length to reach is the full one or, with probability
short_seq_prob, a random one from 2 up. It is drawn for every chunk (the
original draws it once per document and pass). As chunks end with a sentence,
most of them are too long. Then tokens are cut off the longer segment, at its
front or its back (see _truncate).

The original makes one instance after the other; here each step is done for all
instances at once, on arrays. masking.py continues with them. Worker
processes import this file: it reads no files and parses no command line, and
does not import TensorFlow.

Dimensions: N instances.
"""

from typing import NamedTuple

import numpy as np

import tokenization
from pretraining.data.schema import InstanceConfig


class Documents(NamedTuple):
    """Tokenized documents, one after the other.

    For example two documents, the first of two sentences:

        ids        [7, 8, 9, 4, 5, 6, 6]   tokens of all sentences
        sentences  [0, 3, 5, 7]            [7 8 9] [4 5] [6 6]
        bounds     [0, 2, 3]               sentences 0 and 1, sentence 2
        numbers    [0, 1]

    Attributes:
        ids: int32, the tokens of all sentences.
        sentences: offsets of the sentences in `ids`, with the end.
        bounds: offsets of the documents in `sentences`, with the end.
        numbers: the document's number in the corpus. A long document comes
            in several parts, next to each other and with the same number.
    """

    ids: np.ndarray
    sentences: np.ndarray
    bounds: np.ndarray
    numbers: np.ndarray


class Instances(NamedTuple):
    """Places of A and B in `Documents.ids`: seven columns [N].

    Attributes:
        duplicate: which of the `dupe_factor` passes the instance belongs to.
        a_start: first token of A.
        a_length: number of tokens of A.
        b_start: first token of B.
        b_length: number of tokens of B.
        is_random_next: whether B is from another document.
        num_truncated: number of tokens cut off to make A and B fit.
    """

    duplicate: np.ndarray
    a_start: np.ndarray
    a_length: np.ndarray
    b_start: np.ndarray
    b_length: np.ndarray
    is_random_next: np.ndarray
    num_truncated: np.ndarray

    def take(self, rows: np.ndarray | slice) -> "Instances":
        """Return the instances at `rows`, in that order."""
        return Instances(*(column[rows] for column in self))


class _Chunks(NamedTuple):
    """Runs of sentences, each to be cut into A and B: columns [N].

    Attributes:
        duplicate: which of the `dupe_factor` passes.
        document: index in `Documents.bounds`.
        begin: first sentence of A.
        middle: end of A, first sentence of the true B.
        end: end of the true B.
        target: wanted number of tokens of A and B together.
        is_random_next: whether sentences of another document replace B.
    """

    duplicate: np.ndarray
    document: np.ndarray
    begin: np.ndarray
    middle: np.ndarray
    end: np.ndarray
    target: np.ndarray
    is_random_next: np.ndarray


def draw_instances(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> Instances:
    """Draw the instances of all `dupe_factor` passes over the documents.

    Returns:
        Instances in no particular order; the caller shuffles them.
    """
    chunks = _draw_chunks(documents, config, rng)
    offsets, is_random_next = documents.sentences, chunks.is_random_next
    # From places of sentences to places of tokens.
    a_start = offsets[chunks.begin]
    a_length = offsets[chunks.middle] - a_start
    b_begin, b_end = chunks.middle, chunks.end
    if is_random_next.any():
        rows = np.flatnonzero(is_random_next)
        missing = chunks.target[rows] - a_length[rows]
        b_begin, b_end = b_begin.copy(), b_end.copy()
        b_begin[rows], b_end[rows] = _draw_random_next(
            documents, chunks.document[rows], missing, rng
        )
    drawn = Instances(
        chunks.duplicate,
        a_start,
        a_length,
        offsets[b_begin],
        offsets[b_end] - offsets[b_begin],
        is_random_next,
        np.zeros(len(a_start), np.int64),
    )
    return _truncate(drawn, config.max_tokens, rng)


def _draw_chunks(
    documents: Documents, config: InstanceConfig, rng: np.random.Generator
) -> _Chunks:
    """Cut every document into chunks, and every chunk into A and B."""
    # Where a chunk starts depends on the chunk before. Different documents and
    # different passes are independent, though. So each document of each pass is
    # a lane, and one step of the loop draws the next chunk of all lanes.
    offsets, max_tokens = documents.sentences, config.max_tokens
    has_others = bool((documents.numbers != documents.numbers[0]).any())
    # Columns of the lanes that are not at the end of their document, [L].
    num_documents = len(documents.numbers)
    lane_document = np.tile(np.arange(num_documents), config.dupe_factor)
    lane_pass = np.repeat(np.arange(config.dupe_factor), num_documents)
    stop = documents.bounds[lane_document + 1]
    begin = documents.bounds[lane_document]
    steps = []
    while lane_document.size:
        draws = rng.random((4, lane_document.size))  # [4, L], in [0, 1)
        # Uniform in 2, 3, ..., max_tokens.
        shorter = 2 + (draws[1] * (max_tokens - 1)).astype(np.int64)
        target = np.where(draws[0] < config.short_seq_prob, shorter, max_tokens)
        # Sentences until the target is reached, or to the end of the document.
        end = np.searchsorted(offsets, offsets[begin] + target)
        if not has_others:
            end = np.maximum(end, begin + 2)
        end = np.minimum(end, stop)
        size = end - begin  # sentences
        # Uniform in begin + 1, ..., end - 1: at least one sentence each.
        middle = begin + 1 + (draws[2] * np.maximum(size - 1, 0)).astype(int)
        # One sentence only: there is no true B.
        is_random_next = has_others & ((size == 1) | (draws[3] < 0.5))
        steps.append(
            _Chunks(
                lane_pass,
                lane_document,
                begin,
                middle,
                end,
                target,
                is_random_next,
            )
        )
        # The sentences of the true B are unused if B is random: the next chunk
        # starts with them.
        begin = np.where(is_random_next, middle, end)
        # Drop the lanes that have come to the end of their document.
        more = begin < stop
        if not more.all():
            lane_document, lane_pass = lane_document[more], lane_pass[more]
            stop, begin = stop[more], begin[more]
    chunks = _Chunks(*map(np.concatenate, zip(*steps, strict=True)))
    has_b = (chunks.middle < chunks.end) | chunks.is_random_next
    return _Chunks(*(column[has_b] for column in chunks))


def _draw_random_next(
    documents: Documents,
    document: np.ndarray,
    missing: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw the sentences that replace the true B: first and end, both [M].

    They start at a random sentence of a random document other than A's, and
    end when they have `missing` tokens or the document ends. At least one
    sentence is taken. There are at least two different documents.
    """
    numbers, bounds = documents.numbers, documents.bounds
    # The original draws from all documents, and tries ten times to get another
    # one than A's. If it fails, it takes A's, and the label is wrong. Here the
    # document is always another one. The parts of a long document are neighbors
    # and count as the same document. So the parts of A's document are left out
    # when parts are numbered for the draw. For example, numbers [0, 0, 5, 7]
    # and a part of document 0: there are 4 - 2 others; draw 0 or 1 and add 2,
    # since the parts left out come first.
    changes = np.flatnonzero(np.diff(numbers)) + 1
    starts = np.concatenate([[0], changes])
    sizes = np.diff(starts, append=len(numbers))
    same_start = np.repeat(starts, sizes)[document]  # [M]
    same_size = np.repeat(sizes, sizes)[document]  # [M]
    draws = rng.random((2, document.size))
    other = (draws[0] * (len(numbers) - same_size)).astype(np.int64)
    other += np.where(other >= same_start, same_size, 0)
    # A random sentence of it, and the sentences up to the missing length.
    size = bounds[other + 1] - bounds[other]
    begin = bounds[other] + (draws[1] * size).astype(np.int64)
    # If A alone has as many tokens as wanted, B is one sentence, not none.
    wanted = documents.sentences[begin] + np.maximum(missing, 1)
    end = np.searchsorted(documents.sentences, wanted)
    return begin, np.minimum(end, bounds[other + 1])


def _truncate(
    instances: Instances, max_tokens: int, rng: np.random.Generator
) -> Instances:
    """Cut tokens off A and B so that they have at most `max_tokens`.

    `tokenization.truncated_lengths` says how many. Each comes off the front or
    the back with equal probability, so that segments do not always begin with
    a sentence.
    """
    a_length, b_length = tokenization.truncated_lengths(
        instances.a_length,
        instances.b_length,
        max_tokens,
        np.minimum,
        np.maximum,
    )
    a_cut = instances.a_length - a_length
    b_cut = instances.b_length - b_length
    # The number of tokens cut off the front is the number of heads in as many
    # tosses of a coin as tokens are cut off: a binomial distribution.
    return instances._replace(
        a_start=instances.a_start + rng.binomial(a_cut, 0.5),
        a_length=a_length,
        b_start=instances.b_start + rng.binomial(b_cut, 0.5),
        b_length=b_length,
        num_truncated=a_cut + b_cut,
    )
