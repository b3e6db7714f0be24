"""What is answered wrong: errors.tsv, and scores by the answers' length."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import pictures

import numpy as np

from extras.mistakes.table import ERRORS, Mistakes, Report
from tasks.job import DataSet
from tasks.squad import scores as squad_scores
from tasks.squad.answers import Answered
from tasks.squad.data import SquadData
from tasks.squad.decoding import Candidate
from tasks.squad.job import SquadJob
from tasks.squad.scores import QuestionScores

_PICTURE = "f1_by_answer_length.png"

FILES = (ERRORS, _PICTURE)

NO_ANSWER = "no\nanswer"

# Bars and the longest answers of each, in words.
_BARS = {
    "1": 1,
    "2": 2,
    "3": 3,
    "4": 4,
    "5-6": 6,
    "7-10": 10,
    "11-15": 15,
    "16+": float("inf"),
}

_CONTEXT = 80  # characters of the paragraph on each side of an answer

_HEADER = (
    "id",
    "question",
    "answers",
    "prediction",
    "f1",
    "exact",
    "confidence",
    "context",
)


def write(
    job: SquadJob,
    data: DataSet,
    found: Answered,
    report: Report,
) -> None:
    """Write the mistakes of a run, which has a single development set."""
    del data
    write_answers(job.questions.data, found.chosen, report)


def write_answers(
    data: SquadData,
    found: Mapping[str, Candidate],  # by question id
    report: Report,
) -> None:
    """Write errors.tsv; draw the scores by the length of the answers."""
    answers = {key: candidate.text for key, candidate in found.items()}
    scores = squad_scores.score_each(data, answers)
    report.errors(wrong_answers(data, found, scores))
    bars = by_length(data, scores)
    report.draw(_PICTURE, lambda path: pictures.save(bars_figure(bars), path))


# --- The worst mistakes ------------------------------------------------------


def wrong_answers(
    data: SquadData,
    found: Mapping[str, Candidate],
    scores: QuestionScores,
) -> Mistakes:
    """Return the questions without an exact match.

    Those of F1 0 come first, the surest answer of each first.
    """
    nothing = Candidate("", None, 0.0, 0.0)
    rows = []
    for example in data.examples:
        key = example.qas_id
        if scores.exact.get(key, True):
            continue
        given = found.get(key, nothing)
        place = example.place or (given.span[1:] if given.span else (0, 0))
        rows.append(
            (
                key,
                example.question_text,
                " | ".join(dict.fromkeys(example.answers)),
                given.text,
                float(scores.f1[key]),
                0,
                given.probability,
                context_of(data.paragraphs[example.paragraph].text, place),
            )
        )
    rows.sort(key=lambda row: (row[4] > 0, -(row[6] or 0.0)))
    return Mistakes(_HEADER, rows, len(scores.exact), "questions")


def context_of(paragraph: str, place: tuple[int, int]) -> str:
    """Return a part of a paragraph around the characters [start, end).

    >>> context_of("a " * 90 + "Paris fell." + " b" * 90, (180, 185))[:9]
    '... a a a'
    """
    first = max(0, place[0] - _CONTEXT)
    last = min(len(paragraph), place[1] + _CONTEXT)
    before = "... " if first else ""
    after = " ..." if last < len(paragraph) else ""
    return f"{before}{paragraph[first:last].strip()}{after}"


# --- Scores by length --------------------------------------------------------


class Bar(NamedTuple):
    """The mean scores of the questions whose answers have some length."""

    name: str  # the lengths in words, such as "5-6"
    count: int  # of questions
    f1: float  # in percent
    exact: float


def by_length(data: SquadData, scores: QuestionScores) -> list[Bar]:
    """Return the scores by the number of words of the first right answer.

    Questions without an answer come last. Lengths without a question are left
    out.
    """
    groups: dict[str, list[str]] = {name: [] for name in (*_BARS, NO_ANSWER)}
    for example in data.examples:
        if example.qas_id in scores.f1:
            name = NO_ANSWER
            if example.answers:
                words = len(example.answers[0].split())
                name = next(name for name, n in _BARS.items() if words <= n)
            groups[name].append(example.qas_id)
    return [
        Bar(
            name,
            len(keys),
            100.0 * sum(scores.f1[key] for key in keys) / len(keys),
            100.0 * sum(scores.exact[key] for key in keys) / len(keys),
        )
        for name, keys in groups.items()
        if keys
    ]


def bars_figure(bars: Sequence[Bar]) -> Any:
    """Return the picture of the scores by length."""
    figure = pictures.new_figure(max(4.5, 1.5 + 0.75 * len(bars)), 4.0)
    axes = figure.subplots()
    places, wide = np.arange(len(bars)), {"width": 0.4}
    f1, exact = [bar.f1 for bar in bars], [bar.exact for bar in bars]
    drawn = axes.bar(places - 0.2, f1, label="F1", color=pictures.BLUE, **wide)
    axes.bar(
        places + 0.2,
        exact,
        label="exact match",
        color=pictures.ORANGE,
        hatch="//",
        **wide,
    )
    counts = [f"{bar.count:,}" for bar in bars]
    axes.bar_label(drawn, counts, padding=3, fontsize=pictures.SMALL)
    axes.set_xticks(places, [bar.name for bar in bars])
    axes.set(
        xlabel="words of the right answer; numbers on the bars: questions",
        ylabel="score, points",
        ylim=(0, 108),
    )
    axes.grid(alpha=0.3, axis="y")
    axes.set_axisbelow(True)
    axes.legend(
        fontsize=pictures.SMALL,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=2,
        frameon=False,
    )
    return figure
