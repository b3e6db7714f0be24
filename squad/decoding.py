"""From start and end logits to answers: n-best lists, null odds, ensembles.

What the original decides is decided the same way, ties among them; what it
looped over in Python is array work on some thousand windows at a time.
"""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl import logging

import tokenization
from squad.data import SquadData
from squad.windows import Windows

_CHUNK = 2048  # windows whose candidates are formed together, at 20 x 20

# The odds of a question that nothing but "no answer" is left for.
NOTHING_BUT_NULL = 1e6

_FAR_BELOW = -1e9


class Settings(NamedTuple):
    """How to decode; every field but the last mirrors a flag."""

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    verbose_logging: bool = False
    do_lower_case: bool = True


class Candidate(NamedTuple):
    """One entry of an n-best list."""

    text: str
    probability: float
    start_logit: float
    end_logit: float


class Decoded(NamedTuple):
    """What is known of every question, in order."""

    nbest: dict[str, list[Candidate]]
    null_odds: dict[str, float]  # of SQuAD 2.0, else empty

    def answers(self, threshold: float = 0.0) -> dict[str, str]:
        """Return question id -> answer; "" where the odds of null are higher.

        Without null odds the first of each list.
        """
        if not self.null_odds:
            return {key: found[0].text for key, found in self.nbest.items()}
        return {
            key: "" if self.null_odds[key] > threshold else best_text(found)
            for key, found in self.nbest.items()
        }


def best_text(candidates: Sequence[Candidate]) -> str:
    """Return the first text that is one, "" without any."""
    return next((c.text for c in candidates if c.text), "")


# --- Which window sees a token best -----------------------------------------


def max_context(windows: Windows) -> np.ndarray:
    """Return flat [sum of doc_length]: whether a token is seen best there.

    Of all windows of a question that hold a token, the one with the most
    context on its poorer side, longer windows being a little better; the
    first of equals.
    """
    bounds = np.flatnonzero(np.diff(windows.example, prepend=-1, append=-2))
    found = [np.zeros([0], bool)]
    for first, last in itertools.pairwise(bounds.tolist()):
        found += _seen_best(
            windows.doc_start[first:last].tolist(),
            windows.doc_length[first:last].tolist(),
        )
    return np.concatenate(found)


def _seen_best(starts: list[int], lengths: list[int]) -> list[np.ndarray]:
    """Return for each window on a paragraph which tokens it sees best."""
    if len(starts) == 1:
        return [np.ones([lengths[0]], bool)]
    size = starts[-1] + lengths[-1]
    best, owner = np.full([size], -1.0), np.zeros([size], np.int32)
    spans = [slice(s, s + n) for s, n in zip(starts, lengths, strict=True)]
    for number, (span, length) in enumerate(zip(spans, lengths, strict=True)):
        left = np.arange(length)
        score = np.minimum(left, length - 1 - left) + 0.01 * length
        is_better = score > best[span]
        best[span] = np.where(is_better, score, best[span])
        owner[span] = np.where(is_better, number, owner[span])
    return [owner[span] == number for number, span in enumerate(spans)]


# --- Candidates of many windows at once -------------------------------------


class _Spans(NamedTuple):
    """Candidates in the original's order: window, start's rank, end's."""

    window: np.ndarray
    start: np.ndarray  # in the row
    end: np.ndarray
    start_logit: np.ndarray  # float64
    end_logit: np.ndarray


def _find_spans(
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    windows: Windows,
    part: slice,
    starts_allowed: np.ndarray,
    settings: Settings,
) -> _Spans:
    """Return the spans of some windows that can be answers.

    Args:
        start_logits, end_logits: [n, S].
        windows: all of them.
        part: the n that are meant.
        starts_allowed: flat, see `max_context`, of the n.
        settings: n_best_size, max_answer_length.
    """
    size, width = start_logits.shape
    count = min(settings.n_best_size, width)
    starts = np.argsort(-start_logits, axis=1, kind="stable")[:, :count]
    ends = np.argsort(-end_logits, axis=1, kind="stable")[:, :count]
    lengths = windows.doc_length[part]
    offsets = windows.query_length()[part] + 2
    in_doc = np.zeros([size, width], bool)
    row = np.repeat(np.arange(size), lengths)
    first = np.cumsum(lengths) - lengths
    at = np.arange(len(row)) - np.repeat(first, lengths)
    at += np.repeat(offsets, lengths)
    in_doc[row, at] = True
    may_start = np.zeros_like(in_doc)
    may_start[row, at] = starts_allowed
    each = np.arange(size)[:, None]
    start, end = starts[:, :, None], ends[:, None, :]  # [n, k, 1], [n, 1, k]
    fits = (end >= start) & (end - start < settings.max_answer_length)
    fits &= may_start[each, starts][:, :, None] & in_doc[each, ends][:, None]
    window, i, j = np.nonzero(fits)
    start, end = starts[window, i], ends[window, j]
    return _Spans(
        window + part.start,
        start,
        end,
        start_logits[window, start].astype(np.float64),
        end_logits[window, end].astype(np.float64),
    )


# --- From pieces back to the text -------------------------------------------


def joined_pieces(tokens: Sequence[str]) -> str:
    """Return the text of word pieces: "un", "##able" is "unable"."""
    return " ".join(
        " ".join(tokens).replace(" ##", "").replace("##", "").split()
    )


def final_text(
    pieces: str,
    words: Sequence[str],
    normal: Callable[[str], str],
    warn: Callable[[str], None] = lambda message: None,
) -> str:
    """Return what a span says in the paragraph's own letters.

    A span of pieces may begin or end inside of a word: of "(Steve" it may be
    "steve" alone. Its place is found in the words as the tokenizer sees them,
    and carried over by counting what is no space; where that fails, as where
    lower-casing changed the number of letters, the whole words are returned.

    Args:
        pieces: see `joined_pieces`.
        words: those the span touches.
        normal: word -> its lower-cased and parted form.
        warn: told of spans that were not found.
    """
    text = " ".join(words)
    seen = " ".join(filter(None, map(normal, words)))
    if pieces == seen:
        return text
    at = seen.find(pieces)
    if at < 0 or not pieces:
        warn(f"Unable to find {pieces!r} in {text!r}")
        return text
    places = [i for i, char in enumerate(text) if char != " "]
    if len(places) != len(seen) - seen.count(" "):
        warn(f"Letters of {text!r} and {seen!r} are not the same in number")
        return text
    first = at - seen.count(" ", 0, at)
    last = first + len(pieces) - pieces.count(" ") - 1
    return text[places[first] : places[last] + 1]


class _Texts:
    """Finds the text of spans."""

    def __init__(
        self,
        data: SquadData,
        windows: Windows,
        tokens: Mapping[int, str],
        settings: Settings,
    ):
        self.windows, self.tokens = windows, tokens
        # From places in a row to places in doc_ids.
        self.shift = windows.doc_place() - windows.query_length() - 2
        self.of_window = windows.paragraph[windows.example]
        basic = tokenization.BasicTokenizer(settings.do_lower_case)
        self.warn = logging.info if settings.verbose_logging else logging.debug
        self.normal = functools.lru_cache(maxsize=2**16)(
            lambda word: " ".join(basic.tokenize(word))
        )
        self.words = functools.lru_cache(maxsize=16)(
            lambda number: data.paragraphs[number].words()
        )

    def text(self, window: int, start: int, end: int) -> str:
        """Return the text of a span of a window's row."""
        shift = int(self.shift[window])
        span = slice(start + shift, end + shift + 1)
        pieces = map(self.tokens.__getitem__, self.windows.doc_ids[span])
        of_words = self.windows.doc_words[span]
        words = self.words(int(self.of_window[window]))
        return final_text(
            joined_pieces(list(pieces)),
            words[of_words[0] : of_words[-1] + 1],
            self.normal,
            self.warn,
        )


# --- N-best lists -----------------------------------------------------------


def decode(
    data: SquadData,
    windows: Windows,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    tokens: Mapping[int, str],
    settings: Settings,
    ignores_padding: bool = True,
    progress: Callable[[int], Any] = lambda count: None,
) -> Decoded:
    """Return the n-best lists and, for SQuAD 2.0, the odds of no answer.

    Args:
        data: the questions.
        windows: on them, W.
        start_logits, end_logits: [W, S].
        tokens: id -> token.
        settings: see there.
        ignores_padding: logits behind a row's last token are no candidates.
            The original lets them take places among the n best starts and
            ends, where they crowd out others.
        progress: called with the number of questions done since.
    """
    texts = _Texts(data, windows, tokens, settings)
    allowed = max_context(windows)
    allowed_at = np.cumsum([0, *windows.doc_length])
    result = Decoded({}, {})
    questions = np.arange(len(data.examples) + 1)
    bounds = np.searchsorted(windows.example, questions)
    chunk = max(1, _CHUNK * 400 // settings.n_best_size**2)
    for low, high in _blocks(bounds, chunk):
        part = slice(bounds[low], bounds[high])
        starts, ends = start_logits[part], end_logits[part]
        if ignores_padding:
            lengths = windows.length()[part]
            starts, ends = _cut(starts, lengths), _cut(ends, lengths)
        seen_best = allowed[allowed_at[part.start] : allowed_at[part.stop]]
        spans = _find_spans(starts, ends, windows, part, seen_best, settings)
        cuts = np.searchsorted(spans.window, bounds[low : high + 1])
        rows = bounds[low : high + 1] - part.start
        for number in range(high - low):
            mine = slice(*cuts[number : number + 2])
            own = slice(*rows[number : number + 2])
            _add_question(
                result,
                data.examples[low + number].qas_id,
                _Spans(*(field[mine] for field in spans)),
                _null(starts[own, 0], ends[own, 0]),
                texts,
                settings,
            )
        progress(high - low)
    return result


def _cut(logits: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Push what lies behind each row's last token below everything."""
    is_padding = np.arange(logits.shape[1]) >= lengths[:, None]
    return np.where(is_padding, np.float32(_FAR_BELOW), logits)


def _blocks(bounds: np.ndarray, chunk: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of questions of about `chunk` windows."""
    low, last = 0, len(bounds) - 1
    while low < last:
        high = int(np.searchsorted(bounds, bounds[low] + chunk, "right")) - 1
        high = min(max(high, low + 1), last)
        yield low, high
        low = high


def _null(starts: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Return the logits of [CLS] where a question's windows want it least."""
    if not len(starts):
        return 0.0, 0.0
    starts, ends = starts.astype(np.float64), ends.astype(np.float64)
    least = int(np.argmin(starts + ends))
    return float(starts[least]), float(ends[least])


def _add_question(
    result: Decoded,
    qas_id: str,
    spans: _Spans,
    null: tuple[float, float],
    texts: _Texts,
    settings: Settings,
) -> None:
    """Make the n-best list of one question."""
    scores = spans.start_logit + spans.end_logit
    if settings.version_2_with_negative:  # behind its equals
        scores = np.append(scores, sum(null))
    best: list[tuple[str, float, float]] = []
    seen: set[str] = set()
    for at in np.argsort(-scores, kind="stable").tolist():
        if len(best) >= settings.n_best_size:
            break
        if at == len(spans.window):
            text, pair = "", null
        else:
            text = texts.text(
                int(spans.window[at]), int(spans.start[at]), int(spans.end[at])
            )
            if text in seen:
                continue
            pair = float(spans.start_logit[at]), float(spans.end_logit[at])
        seen.add(text)
        best.append((text, *pair))
    if settings.version_2_with_negative and "" not in seen:
        best.append(("", *null))
    if not best:  # the original answers with the word "empty"
        best.append(("", 0.0, 0.0))
    result.nbest[qas_id] = _with_probabilities(best)
    if settings.version_2_with_negative:
        result.null_odds[qas_id] = _null_odds(best, null)


def _with_probabilities(
    best: Sequence[tuple[str, float, float]],
) -> list[Candidate]:
    scores = np.array([start + end for _, start, end in best])
    shares = np.exp(scores - scores.max())
    shares = (shares / shares.sum()).tolist()
    return [
        Candidate(text, share, start, end)
        for (text, start, end), share in zip(best, shares, strict=True)
    ]


def _null_odds(
    best: Sequence[tuple[str, float, float]], null: tuple[float, float]
) -> float:
    """Return by how much no answer is likelier than the best one."""
    found = next((entry for entry in best if entry[0]), None)
    if found is None:
        return NOTHING_BUT_NULL
    return null[0] + null[1] - found[1] - found[2]


# --- Several runs together --------------------------------------------------


def combine(parts: Sequence[Decoded], n_best_size: int) -> Decoded:
    """Return the mean of n-best lists, for runs whose windows differ.

    A text's probability is the mean over the runs, 0 where a run has it not;
    its logits are those of the run that believes in it most. A run that found
    nothing to say of a question has no part in its answer, unless none did.

    Args:
        parts: the same questions in each.
        n_best_size: how long the lists may become.
    """
    result = Decoded({}, {})
    for key in parts[0].nbest:
        telling = [part for part in parts if best_text(part.nbest[key])]
        telling = telling or list(parts)
        lists = [part.nbest[key] for part in telling]
        result.nbest[key] = _merged(lists)[:n_best_size]
        if parts[0].null_odds:
            odds = [part.null_odds[key] for part in telling]
            result.null_odds[key] = sum(odds) / len(odds)
    return result


def _merged(lists: Sequence[Sequence[Candidate]]) -> list[Candidate]:
    found: dict[str, list[Candidate]] = {}
    for candidate in itertools.chain(*lists):
        found.setdefault(candidate.text, []).append(candidate)
    merged = [
        max(same, key=lambda c: c.probability)._replace(
            probability=sum(c.probability for c in same) / len(lists)
        )
        for same in found.values()
    ]
    return sorted(merged, key=lambda c: -c.probability)


# --- Files ------------------------------------------------------------------


def nbest_json(nbest: Mapping[str, Sequence[Candidate]]) -> str:
    """Return nbest_predictions.json as json.dumps(indent=4) would, sooner."""
    entry = (
        '        {{\n            "text": {},\n            "probability": {!r},'
        '\n            "start_logit": {!r},\n            "end_logit": {!r}'
        "\n        }}"
    )
    lists = [
        f"    {json.dumps(key)}: [\n"
        + ",\n".join(entry.format(json.dumps(c[0]), *c[1:]) for c in candidates)
        + "\n    ]"
        for key, candidates in nbest.items()
    ]
    return "{\n" + ",\n".join(lists) + "\n}"


def from_json(nbest: Mapping, null_odds: Mapping | None = None) -> Decoded:
    """Return what nbest_predictions.json and null_odds.json hold.

    Raises:
        KeyError, TypeError, ValueError: they hold something else.
    """
    lists = {
        key: [
            Candidate(
                entry["text"] + "",
                float(entry["probability"]),
                float(entry["start_logit"]),
                float(entry["end_logit"]),
            )
            for entry in entries
        ]
        for key, entries in nbest.items()
    }
    odds = {key: float(value) for key, value in (null_odds or {}).items()}
    return Decoded(lists, odds)
