"""Compute exact match and F1 as SQuAD's official scripts do, digit by digit.

The scripts of versions 1.1 and 2.0 differ in two rules:

                                      1.1             2.0
    F1 of "the" and "an", which       0, as no word   1, as they are equal
    are empty once normalized         is shared
    reference answers that are        are compared    are left out; "" stands
    empty once normalized             like others     for no answer

Data sets in SQuAD's format have scripts of their own (`RULES`):

    squad     F1 counts words; exact match is without articles
    korquad   F1 counts characters, as Korean words have endings
    cmrc      Chinese, CMRC 2018 and DRCD: F1 is of the longest part that two
              answers share, in ideographs and in words of other letters

The module also tunes the null threshold of SQuAD 2.0 (`tune_threshold`).
"""

import difflib
import re
import string
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tasks.squad.data import SquadData

# --- One prediction ----------------------------------------------------------

_ARTICLES = re.compile(r"\b(a|an|the)\b", re.UNICODE)

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(text: str) -> str:
    """Return an answer in lower case without articles and punctuation.

    >>> normalize("The  U.S.A.'s an-Other")
    'usas another'
    """
    text = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


_KOREAN_MARKS = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))


def _normalize_korean(text: str) -> str:
    """Return an answer in lower case without punctuation."""
    text = text.translate(_KOREAN_MARKS).lower().translate(_NO_PUNCTUATION)
    return " ".join(text.split())


_CHINESE_MARKS = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)


def _normalize_chinese(text: str) -> str:
    """Return an answer in lower case without the marks of CMRC's script."""
    return text.lower().strip().translate(_CHINESE_MARKS)


_CHINESE_UNIT = re.compile("[\u4e00-\u9fa5]|[^\\s\u4e00-\u9fa5]+")


def _num_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many units two answers share, in any order."""
    return sum((Counter(a) & Counter(b)).values())


def _longest_run(a: Sequence[str], b: Sequence[str]) -> int:
    """Return how many units the longest part has that two answers share."""
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return matcher.find_longest_match().size


class Rule(NamedTuple):
    """How the script of a data set compares two answers."""

    normalize: Callable[[str], str]  # equal results are an exact match
    units: Callable[[str], Sequence[str]]  # of a normalized answer, for F1
    num_shared: Callable[[Sequence[str], Sequence[str]], int] = _num_common


RULES = {
    "squad": Rule(normalize, str.split),
    "korquad": Rule(_normalize_korean, lambda x: x.replace(" ", "")),
    # The script splits words of other letters with NLTK, not at white space.
    "cmrc": Rule(_normalize_chinese, _CHINESE_UNIT.findall, _longest_run),
}


def f1(
    answer: str,
    prediction: str,
    is_version_2: bool,
    rule: Rule = RULES["squad"],
) -> float:
    """Return the F1 of two answers in units of the rule, SQuAD's are words.

    "the cat sat" and "cat sat down" share 2 words. Precision is 2/3,
    recall 2/2 and F1 their harmonic mean, 4/5.
    """
    wanted, given = (
        rule.units(rule.normalize(text)) for text in (answer, prediction)
    )
    if is_version_2 and not (wanted and given):
        return float(wanted == given)
    shared = rule.num_shared(wanted, given)
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


# --- A file of predictions ---------------------------------------------------


def score(
    data: SquadData,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return the scores the official script prints, in percent.

    Version 1.1: exact_match and f1. Version 2.0: exact, f1 and total; the same
    with the prefixes HasAns_ and NoAns_; with null odds best_exact,
    best_exact_thresh, best_f1 and best_f1_thresh.
    """
    scored = score_each(data, predictions)
    if data.is_version_2:
        return _version_2(scored, predictions, null_odds)
    # Additions in the order of the file and one division, like the official
    # script: another order, or `sum`, which corrects rounding from Python 3.12
    # on, could change the last digit.
    f1_sum = 0.0
    for value in scored.f1.values():
        f1_sum += value
    return {
        "exact_match": 100.0 * sum(scored.exact.values()) / len(scored.f1),
        "f1": 100.0 * f1_sum / len(scored.f1),
    }


class QuestionScores(NamedTuple):
    """Scores of the questions, {question id: value}, in the data's order."""

    exact: dict[str, float]
    f1: dict[str, float]
    has_answer: dict[str, bool]


def score_each(
    data: SquadData, predictions: Mapping[str, str]
) -> QuestionScores:
    """Return the scores of each question; see the top for the rules."""
    scored, rule = QuestionScores({}, {}, {}), RULES[data.scoring]
    for example in data.examples:
        key = example.qas_id
        scored.has_answer[key] = bool(example.answers)
        answers = example.answers
        if data.is_version_2:
            # A question without an answer has the reference answer "".
            answers = [a for a in answers if rule.normalize(a)] or [""]
        given = predictions[key]
        plain = rule.normalize(given)
        scored.exact[key] = any(rule.normalize(a) == plain for a in answers)
        scored.f1[key] = max(
            (f1(a, given, data.is_version_2, rule) for a in answers),
            default=0.0,
        )
    return scored


def _version_2(
    scored: QuestionScores,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None,
) -> dict[str, float]:
    """Return the scores of SQuAD 2.0."""

    def means(keys: Sequence[str], prefix: str) -> dict[str, float]:
        # 100 * sum / total, not a mean * 100: the last digit would differ.
        total = len(keys)
        return {
            f"{prefix}exact": 100.0 * sum(map(scored.exact.get, keys)) / total,
            f"{prefix}f1": 100.0 * sum(map(scored.f1.get, keys)) / total,
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
    scored: QuestionScores,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> tuple[float, float]:
    """Return the best score and its threshold, as the official script does.

    Starts with "" for every question, then uses the prediction of one
    question after the other, by rising null odds. It takes predictions as they
    are, so one that is "" by the threshold of the run stays "";
    `tune_threshold` does not have that flaw.
    """
    # "" is right for every question without an answer.
    current = best = sum(not has for has in scored.has_answer.values())
    threshold = 0.0
    for key in sorted(null_odds, key=null_odds.get):
        if scored.has_answer[key]:
            current += scores[key]
        else:
            current -= bool(predictions[key])
        if current > best:
            best, threshold = current, null_odds[key]
    return 100.0 * best / len(scores), threshold


# --- The null threshold of SQuAD 2.0 -----------------------------------------


class Tuned(NamedTuple):
    """The null threshold with the best F1, and the scores with it."""

    threshold: float
    f1: float  # in percent
    exact: float


def tune_threshold(
    data: SquadData,
    best_answers: Mapping[str, str],
    null_odds: Mapping[str, float],
) -> Tuned:
    """Return the null threshold with the best F1 (paper section 4.3).

    Sorts the questions by null odds. Every number of questions to answer,
    from none to all, is a candidate, and the cumulative sum of the gains in
    F1 (answer instead of "") shows the best one:

        question   null odds   F1 answered   F1 of ""   gain   sum
        a              1.5         1             0        +1     1
        c              3.0         1             0        +1     2, the best
        b              9.0         0             1        -1     1

    The threshold lies in the middle between the last question to answer and
    the next one, but at most 1 above the former: 4.0 here. Rounding of the
    odds thereby changes no answer. The official script reports the odds of
    the last question themselves, 3.0.

    `best_answers` are the best texts, whatever the null odds.
    """
    answered = score_each(data, best_answers)
    keys = sorted(answered.f1, key=lambda key: null_odds[key])
    odds = [null_odds[key] for key in keys]
    # F1, and exact match, of "" for each question.
    blank = [float(not answered.has_answer[key]) for key in keys]
    gains = [answered.f1[k] - b for k, b in zip(keys, blank, strict=True)]
    best, current, cut = 0.0, 0.0, 0
    for number, gain in enumerate(gains, 1):
        current += gain
        # No threshold separates questions of the same odds.
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
