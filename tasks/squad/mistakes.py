"""What is answered wrong: errors.tsv, and scores by the answers' length."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import cluster, pictures

from tasks import mistakes
from tasks.mistakes import Mistakes
from tasks.squad import scores as squad_scores
from tasks.squad.data import SquadData, SquadExample
from tasks.squad.scores import QuestionScores

PICTURE = "f1_by_answer_length.png"

NO_ANSWER = "no\nanswer"

# Longest answers of each bar but the last, in words.
_LENGTHS = (1, 2, 3, 4, 6, 10, 15)

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


class Options(NamedTuple):
    """Where and what `write` writes; fields have the names of flags."""

    output_dir: str
    num_errors: int
    pictures: bool


def write(
    data: SquadData,
    predictions: Mapping[str, str],
    confidences: Mapping[str, float],
    is_version_2: bool,
    options: Options,
) -> None:
    """Write errors.tsv; draw the scores by the length of the answers.

    Args:
        data: questions with their reference answers.
        predictions: {question id: answer}, "" for none.
        confidences: {question id: probability of the answer}; may lack some.
        is_version_2: whether to score by the rules of SQuAD 2.0.
        options: where and what to write.
    """
    scores = squad_scores.score_each(data, predictions, is_version_2)
    if options.num_errors:
        found = wrong_answers(
            data, predictions, confidences, scores, options.num_errors
        )
        mistakes.write(os.path.join(options.output_dir, mistakes.NAME), found)
    if options.pictures and cluster.is_chief():
        bars = by_length(data, scores)
        pictures.draw(
            os.path.join(options.output_dir, PICTURE),
            lambda path: draw_bars(bars, path),
        )


# --- The worst mistakes ------------------------------------------------------


def wrong_answers(
    data: SquadData,
    predictions: Mapping[str, str],
    confidences: Mapping[str, float],
    scores: QuestionScores,
    count: int,
) -> Mistakes:
    """Return the questions without an exact match.

    Those of F1 0 come first, the surest answer of each first.

    Args:
        data: questions with their reference answers.
        predictions: {question id: answer}, "" for none.
        confidences: {question id: probability of the answer}; may lack some.
        scores: of the questions.
        count: of mistakes to list.
    """
    wrong = [
        example
        for example in data.examples
        if example.qas_id in scores.exact and not scores.exact[example.qas_id]
    ]
    wrong.sort(
        key=lambda example: (
            scores.f1[example.qas_id] > 0,
            -confidences.get(example.qas_id, 0.0),
        )
    )
    rows = [
        (
            example.qas_id,
            example.question_text,
            " | ".join(dict.fromkeys(example.answers)),
            predictions.get(example.qas_id, ""),
            float(scores.f1[example.qas_id]),
            0,
            confidences.get(example.qas_id),
            context_of(
                data.paragraphs[example.paragraph].text,
                (*example.answers, predictions.get(example.qas_id, "")),
            ),
        )
        for example in wrong[:count]
    ]
    return Mistakes(
        _HEADER, rows, len(wrong), len(scores.exact), what="questions"
    )


def context_of(paragraph: str, texts: Sequence[str]) -> str:
    """Return a part of a paragraph around the first text that is in it.

    It is the first place of the text, which is not always the one that is
    meant. Without such a text it is the beginning of the paragraph.

    >>> context_of("a " * 90 + "Paris fell." + " b" * 90, ["Rome", "Paris"])[:9]
    '... a a a'
    """
    places = ((paragraph.find(text), len(text)) for text in texts if text)
    start, size = next((pair for pair in places if pair[0] >= 0), (0, 0))
    first = max(0, start - _CONTEXT)
    last = min(len(paragraph), start + size + _CONTEXT)
    before = "... " if first else ""
    after = " ..." if last < len(paragraph) else ""
    return f"{before}{paragraph[first:last].strip()}{after}"


# --- Scores by length --------------------------------------------------------


class Bar(NamedTuple):
    """The mean scores of the questions whose answers have some length.

    Attributes:
        name: the lengths in words, such as "5-6".
        count: of questions.
        f1: in percent.
        exact: in percent.
    """

    name: str
    count: int
    f1: float
    exact: float


def by_length(data: SquadData, scores: QuestionScores) -> list[Bar]:
    """Return the scores by the number of words of the first right answer.

    Questions without an answer come last. Lengths without a question are left
    out.

    Args:
        data: questions with their reference answers.
        scores: of the questions.
    """
    groups: dict[str, list[str]] = {name: [] for name in _names()}
    for example in data.examples:
        if example.qas_id in scores.f1:
            groups[_name_of(example)].append(example.qas_id)
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


def _names() -> list[str]:
    """Return the names of the bars, the shortest answers first."""
    names, first = [], 1
    for last in _LENGTHS:
        names.append(f"{first}-{last}" if last > first else f"{last}")
        first = last + 1
    return [*names, f"{first}+", NO_ANSWER]


def _name_of(example: SquadExample) -> str:
    """Return the name of the bar that a question belongs to."""
    if not example.answers:
        return NO_ANSWER
    words = max(1, len(example.answers[0].split()))
    return _names()[sum(words > last for last in _LENGTHS)]


def draw_bars(bars: Sequence[Bar], path: str) -> None:
    """Draw the scores by length; see `bars_figure`.

    Raises:
        ImportError: matplotlib is not installed.
    """
    pictures.save(bars_figure(bars), path)


def bars_figure(bars: Sequence[Bar]) -> Any:
    """Return the picture of the scores by length.

    Raises:
        ImportError: matplotlib is not installed.
    """
    figure = pictures.new_figure(max(4.5, 1.5 + 0.75 * len(bars)), 4.0)
    axes = figure.subplots()
    places = range(len(bars))
    white = {"edgecolor": pictures.BLACK, "hatch": "//", "lw": 0.8}
    for shift, name, label, style in (
        (-0.2, "f1", "F1", {"color": pictures.GREY}),
        (0.2, "exact", "exact match", {"color": "white", **white}),
    ):
        axes.bar(
            [place + shift for place in places],
            [getattr(bar, name) for bar in bars],
            width=0.4,
            label=label,
            **style,
        )
    for place, bar in enumerate(bars):
        axes.annotate(
            f"{bar.count:,}",
            (place, max(bar.f1, bar.exact)),
            (0, 3),
            textcoords="offset points",
            ha="center",
            fontsize=pictures.SMALL,
        )
    axes.set_xticks(places, [bar.name for bar in bars])
    axes.set(
        xlabel="words of the right answer; numbers on the bars: questions",
        ylabel="%",
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
