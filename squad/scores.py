"""Exact match and F1 as SQuAD's official scripts count them.

Version 1.1 and 2.0 differ in more than unanswerable questions: how empty
answers compare, what becomes of questions without a prediction, the order in
which floats are added. Each is followed to the last digit.
"""

import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from base.errors import UserError

from absl import logging

from squad.data import SquadData

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Return an answer in lower case without articles and punctuation."""
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact(answer: str, prediction: str) -> bool:
    """Whether two answers are the same once normalized."""
    return normalize(answer) == normalize(prediction)


def f1(answer: str, prediction: str, is_version_2: bool) -> float:
    """Return the F1 of two answers as bags of words."""
    wanted, given = normalize(answer).split(), normalize(prediction).split()
    if is_version_2 and not (wanted and given):
        return float(wanted == given)
    shared = sum((Counter(wanted) & Counter(given)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


class _Scored(NamedTuple):
    """Question id -> score, in the file's order, of those predicted."""

    exact: dict[str, float]
    f1: dict[str, float]
    has_answer: dict[str, bool]  # of every question


def score(
    data: SquadData,
    predictions: Mapping[str, str],
    is_version_2: bool,
    null_odds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return what the official script prints.

    Version 1.1: exact_match, f1. Version 2.0: exact, f1 and total, the same
    of HasAns_ and NoAns_, and with null odds best_exact, best_exact_thresh,
    best_f1, best_f1_thresh.

    Raises:
        UserError: the file has no answers, or none of them is predicted.
    """
    if not data.has_answers():
        raise UserError(
            "the file to predict has no answers: there is nothing to score"
        )
    missing = [e.qas_id for e in data.examples if e.qas_id not in predictions]
    if len(missing) == len(data.examples):
        raise UserError(
            "no question of the file is in the predictions: another data set?"
        )
    if missing:
        logging.warning(
            "%d of %d questions have no prediction (%s), the first: %s",
            len(missing),
            len(data.examples),
            "left out, as the official script of 2.0 does"
            if is_version_2
            else "scored 0",
            missing[0],
        )
    if is_version_2:
        return _version_2(data, predictions, null_odds)
    return _version_1(data, predictions)


def _version_1(
    data: SquadData, predictions: Mapping[str, str]
) -> dict[str, float]:
    exact_sum = f1_sum = 0.0
    for example in data.examples:
        given = predictions.get(example.qas_id)
        if given is None:
            continue
        exact_sum += max((exact(a, given) for a in example.answers), default=0)
        f1_sum += max((f1(a, given, False) for a in example.answers), default=0)
    total = len(data.examples)
    return {
        "exact_match": 100.0 * exact_sum / total,
        "f1": 100.0 * f1_sum / total,
    }


def _score_each(data: SquadData, predictions: Mapping[str, str]) -> _Scored:
    scored = _Scored({}, {}, {})
    for example in data.examples:
        key = example.qas_id
        scored.has_answer[key] = bool(example.answers)
        if key not in predictions:
            continue
        answers = [a for a in example.answers if normalize(a)] or [""]
        given = predictions[key]
        scored.exact[key] = max(exact(a, given) for a in answers)
        scored.f1[key] = max(f1(a, given, True) for a in answers)
    return scored


def _version_2(
    data: SquadData,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None,
) -> dict[str, float]:
    scored = _score_each(data, predictions)

    def means(keys: Sequence[str], prefix: str) -> dict[str, float]:
        total = len(keys)
        return {
            prefix + "exact": 100.0
            * sum(scored.exact[k] for k in keys)
            / total,
            f"{prefix}f1": 100.0 * sum(scored.f1[k] for k in keys) / total,
            f"{prefix}total": total,
        }

    results = means(list(scored.exact), "")
    for prefix, wanted in (("HasAns_", True), ("NoAns_", False)):
        keys = [k for k in scored.exact if scored.has_answer[k] == wanted]
        if keys:
            results |= means(keys, prefix)
    if null_odds:
        for name in ("exact", "f1"):
            best, threshold = _best_threshold(
                getattr(scored, name), scored, predictions, null_odds
            )
            results[f"best_{name}"] = best
            results[f"best_{name}_thresh"] = threshold
    return results


def _best_threshold(
    scores: Mapping[str, float],
    scored: _Scored,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """Return the best score, and the odds up to which to answer for it.

    From answering nothing to answering everything, by rising odds of null.
    """
    current = best = sum(not has for has in scored.has_answer.values())
    threshold = 0.0
    for key in sorted(null_odds, key=null_odds.get):
        if key not in scores:
            continue
        if scored.has_answer[key]:
            current += scores[key]
        else:
            current -= bool(predictions[key])
        if current > best:
            best, threshold = current, null_odds[key]
    return 100.0 * best / len(scores), threshold


class Tuned(NamedTuple):
    """What --tune_null_threshold finds and stores."""

    threshold: float
    f1: float
    exact: float


def tune(
    data: SquadData,
    best_answers: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> Tuned:
    """Return the threshold with the best F1, from none answered to all.

    It lies between the odds of two questions, so that no rounding decides;
    the official script names the odds of a question themselves.

    Args:
        data: questions and answers.
        best_answers: question id -> best answer, whatever the odds of null.
        null_odds: of the same questions.
    """
    answered = _score_each(data, best_answers)
    keys = sorted(answered.f1, key=lambda key: null_odds[key])
    odds = [null_odds[key] for key in keys]
    blank = [float(not answered.has_answer[key]) for key in keys]
    # For a question that is answered: what its F1 gains over a blank.
    gains = [answered.f1[k] - b for k, b in zip(keys, blank, strict=True)]
    best, current, cut = 0.0, 0.0, 0
    for number, gain in enumerate(gains, 1):
        current += gain
        is_tie = number < len(odds) and odds[number] == odds[number - 1]
        if current > best and not is_tie:
            best, cut = current, number
    if cut == 0:
        threshold = odds[0] - 1.0
    else:
        gap = odds[cut] - odds[cut - 1] if cut < len(odds) else 2.0
        threshold = odds[cut - 1] + min(1.0, gap / 2)
    exact = [answered.exact[key] for key in keys[:cut]] + blank[cut:]
    f1s = [answered.f1[key] for key in keys[:cut]] + blank[cut:]
    count = len(keys)
    return Tuned(
        threshold, 100.0 * sum(f1s) / count, 100.0 * sum(exact) / count
    )
