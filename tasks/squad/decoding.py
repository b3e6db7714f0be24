"""Decode start and end logits into n-best lists and null odds.

The model gives every token of a window a start logit and an end logit. The
score of a span is the start logit of its first token plus the end logit of its
last one; the best span of all windows is the answer (paper section 4.2). In
SQuAD 2.0 [CLS] stands for "no answer" (section 4.3), with

    null score = start logit of [CLS] + end logit of [CLS]
    null odds  = null score - score of the best span

and a question has no answer if its null odds exceed a threshold. The paper's
tau is that threshold with the other sign. The steps, for each question:

1. Take the n_best_size best starts and ends of each window; pair them.
2. Drop pairs that are no answer: outside of the paragraph, end before start,
   longer than max_answer_length, start in a window that has less context for
   it than another one (`max_context`).
3. Sort the pairs of all windows by score, find their text (`SpanTexts`),
   keep the first n_best_size different texts.
4. Softmax over the scores of these, which gives their probabilities.

Results are those of the original, ties included, if ignore_padding is off. It
loops over pairs in Python; here steps 1 and 2 are array operations on about
2,000 windows at once.

Dimensions: W windows, S tokens of a row, n windows of a block, k best starts
and ends of a window.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

from base.flags import flag

import numpy as np

import tokenization
from tasks.squad.data import split_words
from tasks.squad.windows import Windows
from tasks.task import softmax

# Windows decoded at once if n_best_size is 20, so 400 pairs each; fewer for a
# larger n_best_size, so that memory stays the same.
_BLOCK = 2048

# Null odds of a question without any span: more than every threshold. The
# original ends with an error there.
NOTHING_BUT_NULL = 1e6

_FAR_BELOW = np.float32(-1e9)  # less than every logit


@dataclasses.dataclass(frozen=True)
class AnswerOptions:
    """How answers are found."""

    n_best_size: int = flag(20, low=1)
    """Answers to list for each question; also starts and ends to try in each
    window."""

    max_answer_length: int = flag(30, low=1)
    """Largest number of tokens in an answer."""

    null_score_diff_threshold: float | None = flag(
        excludes={"tune_null_threshold": "that finds the threshold"}
    )
    """A question has no answer if the score of no answer exceeds that of the
    best answer by more than this; default: the tuned threshold, else 0."""

    tune_null_threshold: bool = flag(
        False, needs={"version_2_with_negative": "", "predict_file": ""}
    )
    """Find the threshold with the best F1 on predict_file, store it and use
    it."""

    # Keep padding out of the k best starts and ends. The original does not, so
    # its answers depend on how far a row is padded.
    ignore_padding: bool = True


class Span(NamedTuple):
    """Where an answer is in its paragraph."""

    piece: int  # its first piece
    start: int  # characters [start, end)
    end: int


class Candidate(NamedTuple):
    """One entry of an n-best list."""

    text: str  # "": no answer
    # Over the list; None for an answer that is not in the list.
    probability: float | None
    start_logit: float
    end_logit: float
    span: Span | None = None  # None: no answer


class Decoded(NamedTuple):
    """N-best lists and null odds, {question id: value} in the file's order."""

    nbest: dict[str, list[Candidate]]
    null_odds: dict[str, float]  # empty for SQuAD 1.1

    def chosen(self, threshold: float = 0.0) -> dict[str, Candidate]:
        """Return {question id: answer}.

        SQuAD 1.1: the first of each list. SQuAD 2.0: that without a text if
        the null odds exceed the threshold, else the best text.
        """
        if not self.null_odds:
            return {key: found[0] for key, found in self.nbest.items()}
        return {
            key: best_answer(found, self.null_odds[key] > threshold)
            for key, found in self.nbest.items()
        }


def best_answer(
    candidates: Sequence[Candidate], is_null: bool = False
) -> Candidate:
    """Return the first candidate with a text; if is_null, the one without.

    If there is no such candidate, the answer has no text.
    """
    for has_text in (not is_null, False):
        for candidate in candidates:
            if bool(candidate.text) == has_text:
                return candidate
    return Candidate("", None, 0.0, 0.0)


def max_context(
    question: np.ndarray, start: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """Return whether each piece of each window has most context in that one.

    A piece in several windows of a question is a possible start in one of
    them only: where the smaller of its left and right contexts is largest.
    Each piece of the window adds 0.01, and the first of equals wins. For the
    windows p0 to p4 and p3 to p7

        piece   in the first window             in the second window
        p3      min(3, 1) + 0.05 = 1.05, best   min(0, 4) + 0.05 = 0.05
        p4      min(4, 0) + 0.05 = 0.05         min(1, 3) + 0.05 = 1.05, best

    and the result is 1 1 1 1 0, 0 1 1 1 1.

    Arguments are the index of each window's question, ascending, and the first
    piece and the number of pieces of each window [n]. The result is flat: one
    window after the other, `length` values each.
    """
    window = np.repeat(np.arange(len(length)), length)
    before = np.cumsum(length) - length  # pieces of the windows before
    left = np.arange(len(window)) - before[window]
    score = np.minimum(left, length[window] - 1 - left)
    score = score + 0.01 * length[window]
    # Equal numbers are the same piece of the same question: a paragraph has
    # no more pieces than its windows together.
    first = before[np.searchsorted(question, question)]
    piece = (first + start)[window] + left
    best = np.zeros(len(window))
    np.maximum.at(best, piece, score)
    (is_best,) = np.nonzero(score == best[piece])
    owner = np.zeros(len(window), int)
    is_best = is_best[::-1]  # of several values for a piece the last one stays
    owner[piece[is_best]] = window[is_best]
    return owner[piece] == window


# --- Spans of many windows at once -------------------------------------------


class _Spans(NamedTuple):
    """Spans of a block, sorted by window, rank of start, rank of end."""

    window: np.ndarray
    start: np.ndarray  # position in the row
    end: np.ndarray
    start_logit: np.ndarray  # float64, as in the original
    end_logit: np.ndarray


def _find_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    windows: Windows,
    part: slice,
    options: AnswerOptions,
) -> _Spans:
    """Return the spans of a block of windows that can be answers.

    `part` selects the n windows that the logits [n, S] belong to.
    """
    size, width = start_logits.shape
    at = np.arange(width) - windows.doc_offset[part, None]  # [n, S]
    lengths = windows.doc_length[part, None]  # [n, 1]
    if options.ignore_padding:
        is_padding = at > lengths  # the piece behind the last is [SEP]
        start_logits = np.where(is_padding, _FAR_BELOW, start_logits)
        end_logits = np.where(is_padding, _FAR_BELOW, end_logits)
    count = min(options.n_best_size, width)  # k
    # Stable: of equal logits the first comes first, as in the original.
    starts = np.argsort(-start_logits, axis=1, kind="stable")[:, :count]
    ends = np.argsort(-end_logits, axis=1, kind="stable")[:, :count]  # [n, k]
    in_doc = (at >= 0) & (at < lengths)
    may_start = np.zeros_like(in_doc)
    may_start[in_doc] = max_context(
        windows.example[part], windows.doc_start[part], lengths[:, 0]
    )
    each = np.arange(size)[:, None]  # [n, 1]
    start, end = starts[:, :, None], ends[:, None, :]  # [n, k, 1], [n, 1, k]
    fits = (end >= start) & (end - start < options.max_answer_length)
    fits &= may_start[each, starts][:, :, None]
    fits &= in_doc[each, ends][:, None]  # [n, k, k]
    # In the order in which the original collects spans, by the ranks i and j.
    # It decides which of several spans with the same score comes first.
    window, i, j = np.nonzero(fits)
    start, end = starts[window, i], ends[window, j]
    return _Spans(
        window + part.start,
        start,
        end,
        start_logits[window, start].astype(np.float64),
        end_logits[window, end].astype(np.float64),
    )


# --- The text of a span, from pieces back to the paragraph -------------------


class SpanTexts:
    """Looks up the characters and the text of spans.

    They are those that the pieces were made of. The original searches the words
    of a span for the text of the pieces, takes the first place, and returns all
    of the words where there is none.
    """

    def __init__(self, windows: Windows, tokenizer: tokenization.FullTokenizer):
        self.windows = windows
        # The 20 best spans of a question consist of few different words.
        self.pieces_in = functools.lru_cache(maxsize=2**12)(tokenizer.spans)

    def find(self, window: int, start: int, end: int) -> tuple[str, Span]:
        """Return a span's text and where it is.

        The span is from start to end, inclusive, of a window's row. Its text
        has a blank between words, whatever the paragraph has there.
        """
        windows = self.windows
        number = windows.data.examples[windows.example[window]].paragraph
        paragraph = windows.data.paragraphs[number]
        of_word = windows.words[number]  # [pieces of the paragraph]
        shift = int(windows.doc_start[window] - windows.doc_offset[window])
        found = []
        for piece in (start + shift, end + shift):
            word = of_word[piece]
            begins = int(paragraph.starts[word])
            pieces = self.pieces_in(
                paragraph.text[begins : paragraph.ends[word]]
            )
            in_word = piece - int(np.searchsorted(of_word, word))
            found += [begins + x for x in pieces[in_word]]
        first, last = found[0], found[-1]
        text = " ".join(split_words(paragraph.text[first:last]))
        return text, Span(start + shift, first, last)


# --- N-best lists ------------------------------------------------------------


def decode(
    windows: Windows,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    tokenizer: tokenization.FullTokenizer,
    options: AnswerOptions,
) -> Decoded:
    """Return the n-best lists and, for SQuAD 2.0, the null odds.

    Logits are [W, S], of the windows of all questions.
    """
    texts, data = SpanTexts(windows, tokenizer), windows.data
    result = Decoded({}, {})
    count = len(data.examples)
    # Question q has the windows from bounds[q] to bounds[q + 1]: none if its
    # paragraph is empty.
    bounds = np.searchsorted(windows.example, np.arange(count + 1))
    # The arrays of `_find_spans` grow with n_best_size ** 2 pairs per window.
    block = max(1, _BLOCK * 400 // options.n_best_size**2)
    low = 0
    while low < count:
        high = np.searchsorted(bounds, bounds[low] + block, "right") - 1
        # At least one question, however many windows it has.
        high = min(max(int(high), low + 1), count)
        part = slice(bounds[low], bounds[high])
        spans = _find_spans(
            start_logits[part], end_logits[part], windows, part, options
        )
        # Spans are sorted by window, so those of a question are neighbors.
        cuts = np.searchsorted(spans.window, bounds[low : high + 1])
        for number in range(low, high):
            own = slice(*cuts[number - low : number - low + 2])
            rows = slice(*bounds[number : number + 2])
            _add_question(
                result,
                data.examples[number].qas_id,
                _Spans(*(field[own] for field in spans)),
                _null_logits(start_logits[rows, 0], end_logits[rows, 0]),
                texts,
                options,
            )
        low = high
    return result


def _null_logits(starts: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Return the [CLS] logits of a question, from those of its windows."""
    if not len(starts):
        return 0.0, 0.0
    # Those with the lowest sum: [CLS] scores high in every window without the
    # answer, so the window where it scores least decides.
    starts, ends = starts.astype(np.float64), ends.astype(np.float64)
    least = int(np.argmin(starts + ends))
    return float(starts[least]), float(ends[least])


def _add_question(
    result: Decoded,
    qas_id: str,
    spans: _Spans,
    null: tuple[float, float],
    texts: SpanTexts,
    options: AnswerOptions,
) -> None:
    """Add the n-best list and the null odds of a question to `result`."""
    is_version_2 = texts.windows.data.is_version_2
    scores = spans.start_logit + spans.end_logit
    if is_version_2:
        scores = np.append(scores, sum(null))  # last, so last of equals
    best: list[Candidate] = []
    seen: set[str] = set()
    for at in np.argsort(-scores, kind="stable").tolist():
        if len(best) >= options.n_best_size:
            break
        if at == len(spans.window):
            text, pair, span = "", null, None
        else:
            text, span = texts.find(*(int(field[at]) for field in spans[:3]))
            # As in the original, spans of the same text count once. Scores
            # fall, so the first one has the best.
            if text in seen:
                continue
            pair = float(spans.start_logit[at]), float(spans.end_logit[at])
        seen.add(text)
        best.append(Candidate(text, 0.0, *pair, span))
    # As in the original, a list of SQuAD 2.0 always has "". It may thereby
    # have one entry more than n_best_size.
    if is_version_2 and "" not in seen:
        best.append(Candidate("", 0.0, *null))
    if not best:  # the original answers with the word "empty"
        best.append(Candidate("", 0.0, 0.0, 0.0))
    shares = softmax(np.array([c.start_logit + c.end_logit for c in best]))
    result.nbest[qas_id] = [
        candidate._replace(probability=share)
        for candidate, share in zip(best, shares.tolist(), strict=True)
    ]
    if is_version_2:
        found, odds = best_answer(best), NOTHING_BUT_NULL
        if found.text:
            odds = null[0] + null[1] - found.start_logit - found.end_logit
        result.null_odds[qas_id] = odds
