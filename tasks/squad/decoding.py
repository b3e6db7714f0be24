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
3. Sort the pairs of all windows by score, find their text (texts.py),
   keep the first n_best_size different texts.
4. Softmax over the scores of these, which gives their probabilities.

Results are those of the original, ties included, if ignore_padding is off. It
loops over pairs in Python; here steps 1 and 2 are array operations on about
2,000 windows at once.

Dimensions: W windows, S tokens of a row, n windows of a block, k best starts
and ends of a window.
"""

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from base import progress

import numpy as np
from absl import logging

from tasks.squad.data import SquadData
from tasks.squad.texts import SpanTexts
from tasks.squad.windows import Windows

# Windows decoded at once if n_best_size is 20, so 400 pairs each; fewer for a
# larger n_best_size, so that memory stays the same.
_BLOCK = 2048

# Null odds of a question without any span: more than every threshold. The
# original ends with an error there.
NOTHING_BUT_NULL = 1e6

_FAR_BELOW = -1e9  # less than every logit


class DecodingOptions(NamedTuple):
    """Options of decoding; the first four have the names of flags."""

    n_best_size: int = 20
    max_answer_length: int = 30  # in word pieces
    version_2_with_negative: bool = False
    verbose_logging: bool = False  # log spans that are not found in the text
    do_lower_case: bool = True  # of the tokenizer
    # Keep padding out of the k best starts and ends. The original does not, so
    # its answers depend on how far a row is padded.
    ignore_padding: bool = True


class Candidate(NamedTuple):
    """One entry of an n-best list."""

    text: str  # "": no answer
    probability: float  # over the list
    start_logit: float
    end_logit: float
    # Window, first and last position in its row; None: no answer.
    span: tuple[int, int, int] | None = None


class Decoded(NamedTuple):
    """N-best lists and null odds, {question id: value} in the file's order."""

    nbest: dict[str, list[Candidate]]
    null_odds: dict[str, float]  # empty for SQuAD 1.1

    def answers(self, threshold: float = 0.0) -> dict[str, str]:
        """Return {question id: answer}.

        SQuAD 1.1: the first text of each list. SQuAD 2.0: "" if the null odds
        exceed the threshold, else the first text that is not "".
        """
        if not self.null_odds:
            return {key: found[0].text for key, found in self.nbest.items()}
        return {
            key: "" if self.null_odds[key] > threshold else best_text(found)
            for key, found in self.nbest.items()
        }

    def confidences(self, answers: Mapping[str, str]) -> dict[str, float]:
        """Return {question id: probability of its answer}.

        It is that of the n-best list. An answer that is not in the list, as
        "" where all candidates have a text, has none.
        """
        found = {}
        for key, text in answers.items():
            same = (c.probability for c in self.nbest[key] if c.text == text)
            probability = next(same, None)
            if probability is not None:
                found[key] = float(probability)
        return found


def best_text(candidates: Sequence[Candidate]) -> str:
    """Return the first text that is not empty, "" without one."""
    return next((c.text for c in candidates if c.text), "")


def places(
    decoded: Decoded, answers: Mapping[str, str], windows: Windows
) -> dict[str, int]:
    """Return the piece of the paragraph that each answer begins with.

    Args:
        decoded: the n-best lists that the answers are from.
        answers: {question id: answer}; "" is left out.
        windows: of all questions.
    """
    offsets = windows.doc_start - windows.query_length() - 2  # [W]
    found = {}
    for key, text in answers.items():
        if text:
            best = next(c for c in decoded.nbest[key] if c.text == text)
            window, first, _ = best.span
            found[key] = int(offsets[window]) + first
    return found


# --- The window with the most context ----------------------------------------


def max_context(windows: Windows) -> np.ndarray:
    """Return whether each piece of each window has most context in that one.

    A piece in several windows of a question is a possible start in one of
    them only: where the smaller of its left and right contexts is largest.
    Each piece of the window adds 0.01, and the first of equals wins. For the
    windows p0 to p4 and p3 to p7

        piece   in the first window             in the second window
        p3      min(3, 1) + 0.05 = 1.05, best   min(0, 4) + 0.05 = 0.05
        p4      min(4, 0) + 0.05 = 0.05         min(1, 3) + 0.05 = 1.05, best

    and the result is 1 1 1 1 0, 0 1 1 1 1.

    Returns:
        bool, flat: window after window, doc_length values each.
    """
    bounds = np.flatnonzero(np.diff(windows.example, prepend=-1, append=-2))
    found = [np.zeros([0], bool)]
    for first, last in itertools.pairwise(bounds.tolist()):  # of a question
        found += has_max_context(
            windows.doc_start[first:last].tolist(),
            windows.doc_length[first:last].tolist(),
        )
    return np.concatenate(found)


def has_max_context(starts: list[int], lengths: list[int]) -> list[np.ndarray]:
    """Return `max_context` of the windows of one question, an array each.

    Args:
        starts: first piece of each window.
        lengths: number of pieces of each window.
    """
    if len(starts) == 1:
        return [np.ones([lengths[0]], bool)]
    size = starts[-1] + lengths[-1]  # pieces of the paragraph
    best, owner = np.full([size], -1.0), np.zeros([size], np.int32)
    spans = [slice(s, s + n) for s, n in zip(starts, lengths, strict=True)]
    for number, (span, length) in enumerate(zip(spans, lengths, strict=True)):
        left = np.arange(length)
        score = np.minimum(left, length - 1 - left) + 0.01 * length
        is_better = score > best[span]  # ">": the first of equals wins
        best[span] = np.where(is_better, score, best[span])
        owner[span] = np.where(is_better, number, owner[span])
    return [owner[span] == number for number, span in enumerate(spans)]


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
    may_start: np.ndarray,
    options: DecodingOptions,
) -> _Spans:
    """Return the spans of a block of windows that can be answers.

    Args:
        start_logits: [n, S].
        end_logits: [n, S].
        windows: all windows.
        part: the n of them that the logits are of.
        may_start: flat, `max_context` of the n windows.
        options: n_best_size and max_answer_length.
    """
    size, width = start_logits.shape
    count = min(options.n_best_size, width)  # k
    # Stable: of equal logits the first comes first, as in the original.
    starts = np.argsort(-start_logits, axis=1, kind="stable")[:, :count]
    ends = np.argsort(-end_logits, axis=1, kind="stable")[:, :count]  # [n, k]
    lengths = windows.doc_length[part]
    offsets = windows.query_length()[part] + 2
    # Row and position of every piece of the paragraph, flat like may_start.
    row = np.repeat(np.arange(size), lengths)
    first = np.cumsum(lengths) - lengths
    at = np.arange(len(row)) - np.repeat(first, lengths)
    at += np.repeat(offsets, lengths)
    in_doc = np.zeros([size, width], bool)  # [n, S]
    in_doc[row, at] = True
    start_allowed = np.zeros_like(in_doc)  # [n, S]
    start_allowed[row, at] = may_start
    each = np.arange(size)[:, None]  # [n, 1]
    start, end = starts[:, :, None], ends[:, None, :]  # [n, k, 1], [n, 1, k]
    fits = (end >= start) & (end - start < options.max_answer_length)
    fits &= start_allowed[each, starts][:, :, None]
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


# --- N-best lists ------------------------------------------------------------


def decode(
    data: SquadData,
    windows: Windows,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    tokens: Mapping[int, str],
    options: DecodingOptions,
    has_bar: bool = True,
) -> Decoded:
    """Return the n-best lists and, for SQuAD 2.0, the null odds.

    Args:
        data: the questions.
        windows: of all questions, W.
        start_logits: [W, S].
        end_logits: [W, S].
        tokens: {id: token}.
        options: lengths of lists and answers, version of SQuAD.
        has_bar: show the progress.
    """
    warn = logging.info if options.verbose_logging else logging.debug
    texts = SpanTexts(data, windows, tokens, options.do_lower_case, warn)
    may_start = max_context(windows)
    may_start_at = np.cumsum([0, *windows.doc_length])  # [W + 1]
    result = Decoded({}, {})
    # Question q has the windows from bounds[q] to bounds[q + 1]: none if its
    # paragraph is empty.
    questions = np.arange(len(data.examples) + 1)
    bounds = np.searchsorted(windows.example, questions)
    # The arrays of `_find_spans` grow with n_best_size ** 2 pairs per window.
    block = max(1, _BLOCK * 400 // options.n_best_size**2)
    with _bar(len(data.examples) if has_bar else 0) as shown:
        for low, high in _blocks(bounds, block):  # questions
            part = slice(bounds[low], bounds[high])  # windows
            allowed = slice(may_start_at[part.start], may_start_at[part.stop])
            found = _spans_by_question(
                start_logits[part],
                end_logits[part],
                windows,
                bounds[low : high + 1],
                may_start[allowed],
                options,
            )
            examples = data.examples[low:high]
            for example, own in zip(examples, found, strict=True):
                _add_question(result, example.qas_id, *own, texts, options)
            if shown:
                shown.update(high - low)
    return result


def _bar(total: int) -> contextlib.AbstractContextManager:
    """Return the progress bar of so many questions; none for 0."""
    if not total:
        return contextlib.nullcontext()
    return progress.Bar(total, "questions", "Decoding")


def _spans_by_question(
    starts: np.ndarray,
    ends: np.ndarray,
    windows: Windows,
    bounds: np.ndarray,
    may_start: np.ndarray,
    options: DecodingOptions,
) -> Iterator[tuple[_Spans, tuple[float, float]]]:
    """Yield the spans and the [CLS] logits of each question of a block.

    Args:
        starts: start logits [n, S] of the block.
        ends: end logits [n, S].
        windows: all windows.
        bounds: first window of each question; last, the end of the block.
        may_start: flat, `max_context` of the block.
        options: as for `decode`.
    """
    part = slice(bounds[0], bounds[-1])
    if options.ignore_padding:
        lengths = windows.length()[part]
        starts, ends = (_mask_padding(x, lengths) for x in (starts, ends))
    spans = _find_spans(starts, ends, windows, part, may_start, options)
    # Spans are sorted by window, so those of a question are neighbors.
    cuts = np.searchsorted(spans.window, bounds)
    for (low, high), (first, last) in zip(
        itertools.pairwise(cuts),
        itertools.pairwise(bounds - bounds[0]),
        strict=True,
    ):
        yield (
            _Spans(*(field[low:high] for field in spans)),
            _null_logits(starts[first:last, 0], ends[first:last, 0]),
        )


def _mask_padding(logits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return logits [n, S], very low behind the lengths [n] of the rows."""
    is_padding = np.arange(logits.shape[1]) >= lengths[:, None]
    return np.where(is_padding, np.float32(_FAR_BELOW), logits)


def _blocks(bounds: np.ndarray, block: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) of questions with about `block` windows."""
    low, last = 0, len(bounds) - 1
    while low < last:
        high = int(np.searchsorted(bounds, bounds[low] + block, "right")) - 1
        # At least one question, however many windows it has.
        high = min(max(high, low + 1), last)
        yield low, high
        low = high


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
    options: DecodingOptions,
) -> None:
    """Add the n-best list and the null odds of a question to `result`."""
    scores = spans.start_logit + spans.end_logit
    if options.version_2_with_negative:
        scores = np.append(scores, sum(null))  # last, so last of equals
    best: list[Candidate] = []
    seen: set[str] = set()
    for at in np.argsort(-scores, kind="stable").tolist():
        if len(best) >= options.n_best_size:
            break
        if at == len(spans.window):
            text, pair, span = "", null, None
        else:
            span = tuple(int(field[at]) for field in spans[:3])
            text = texts.text(*span)
            # As in the original, spans of the same text count once. Scores
            # fall, so the first one has the best.
            if text in seen:
                continue
            pair = float(spans.start_logit[at]), float(spans.end_logit[at])
        seen.add(text)
        best.append(Candidate(text, 0.0, *pair, span))
    # As in the original, a list of SQuAD 2.0 always has "". It may thereby
    # have one entry more than n_best_size.
    if options.version_2_with_negative and "" not in seen:
        best.append(Candidate("", 0.0, *null))
    if not best:  # the original answers with the word "empty"
        best.append(Candidate("", 0.0, 0.0, 0.0))
    result.nbest[qas_id] = _with_probabilities(best)
    if options.version_2_with_negative:
        result.null_odds[qas_id] = _null_odds(best, null)


def _with_probabilities(best: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of one list with their probabilities."""
    scores = np.array([c.start_logit + c.end_logit for c in best])
    # Without the largest score exp() could overflow; the shares are the same.
    shares = np.exp(scores - scores.max())
    shares = (shares / shares.sum()).tolist()
    return [
        candidate._replace(probability=share)
        for candidate, share in zip(best, shares, strict=True)
    ]


def _null_odds(best: Sequence[Candidate], null: tuple[float, float]) -> float:
    """Return the null score minus the score of the best text."""
    found = next((candidate for candidate in best if candidate.text), None)
    if found is None:
        return NOTHING_BUT_NULL
    return null[0] + null[1] - found.start_logit - found.end_logit
