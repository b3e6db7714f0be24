r"""errors.tsv: what a model gets wrong on its development data, a line each.

The file has a header and tabs between its cells, without quoting. A tab, a
line break or another control character of a text is written as in Python, so
that each mistake is one line: \t, \n, \x07, \u2028; a backslash is \\.

A classifier also has tables and pictures of its classes: classes.py. What reads
one task's answers is imported for that task alone.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from base import cluster, file_system, logs, pictures

import numpy as np
from absl import logging

from extras import classes
from extras.classes import Cell, Table
from tasks.classifier.data import rows_by_guid
from tasks.classifier.scores import confidence
from tasks.job import DataSet, FineTuningJob, Scored
from tasks.settings import RunSettings

if TYPE_CHECKING:
    from tasks.embeddings.data import Collection
    from tasks.ner.data import Entity, File
    from tasks.squad.data import SquadData
    from tasks.squad.decoding import Candidate
    from tasks.swag.task import Question

ERRORS = "errors.tsv"

# Control characters, what else ends a line somewhere, and halves of surrogate
# pairs, which JSON can hold and UTF-8 cannot.
_ESCAPED = re.compile(r"[\\\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

_CONTEXT = 80  # characters of the paragraph on each side of an answer


class Mistakes(NamedTuple):
    """The mistakes of a model on one data set.

    Attributes:
        header: names of the columns.
        rows: the worst first; numbers are written with four decimals, None as
            an empty cell.
        num_scored: how many answers were scored.
        what: name of what was scored, such as "examples".
    """

    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    num_scored: int
    what: str = "examples"


# --- Files -------------------------------------------------------------------


def write(job: FineTuningJob, scored: Scored) -> None:
    """Write the worst mistakes on each development set.

    Of classes also the tables and, unless --nopictures, the pictures.
    """
    settings = job.settings
    for data, own in zip(job.dev, scored.predictions, strict=True):
        found, name = own.predictions, _name(ERRORS, job, data)
        write_errors(settings, mistakes_of(job, data, found), name)
        if job.task_name not in classes.FILES:
            continue
        temperature = scored.results.get("temperature", 1.0)
        tables, drawn = classes.tables_and_pictures(job, *found, temperature)
        for name, table in tables.items():
            _write_table(settings, _name(name, job, data), table)
        if settings.pictures and cluster.is_chief():
            for name, draw_to in drawn.items():
                name = _name(name, job, data)
                pictures.draw(os.path.join(settings.output_dir, name), draw_to)


def files(job: FineTuningJob) -> list[str]:
    """Return the names of the files that `write` writes to output_dir."""
    names = (ERRORS, *classes.FILES.get(job.task_name, ()))
    return [_name(name, job, data) for data in job.dev for name in names]


def write_errors(
    settings: RunSettings, found: Mistakes, name: str = ERRORS
) -> None:
    """Write --num_errors of the mistakes; say how many there are.

    With --num_errors=0 there is no file.
    """
    if count := settings.num_errors:
        path = _write_table(settings, name, (found.header, found.rows[:count]))
        logs.say(
            "%s mistakes in %s %s; %s lists %s",
            f"{len(found.rows):,}",
            f"{found.num_scored:,}",
            found.what,
            path,
            f"the worst {count:,}" if count < len(found.rows) else "them all",
        )


def _write_table(settings: RunSettings, name: str, table: Table) -> str:
    """Write a table to output_dir, which the chief alone does; return where."""
    path = os.path.join(settings.output_dir, name)
    if cluster.is_chief():
        file_system.write_text(path, "\n".join(lines(*table)) + "\n")
    logging.info("Wrote %s", path)
    return path


def lines(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """Return the lines of a file: the header and a line for each row."""
    return ["\t".join(map(cell, row)) for row in (header, *rows)]


def cell(value: Cell) -> str:
    r"""Return a value as a cell of the file.

    >>> cell("a\tb\\c"), cell(0.98765), cell(None)
    ('a\\tb\\\\c', '0.9877', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4f}"
    return _ESCAPED.sub(
        lambda match: match[0].encode("unicode_escape").decode(), str(value)
    )


def _name(name: str, job: FineTuningJob, data: DataSet) -> str:
    """Return the name of a set's file: errors_TITLE.tsv for errors.tsv.

    The files of the first development set have no title.
    """
    base, ending = os.path.splitext(name)
    return name if data == job.dev[0] else f"{base}_{data.title}{ending}"


# --- What is wrong, task by task ---------------------------------------------


def mistakes_of(job: Any, data: DataSet, found: Any) -> Mistakes:
    """Return the mistakes in a job's predictions for a development set.

    `found` are Scored.predictions of the set.
    """
    match job.task_name:
        case "classifier" | "multi_label_classification":
            return wrong_examples(job, data, *found)
        case "multiple_choice":
            return wrong_choices(job.examples(data), *found)
        case "token_classification":
            file, sure = job.examples(data), confidence(found)
            return wrong_entities(file, job.tags(file, found), sure)
        case "question_answering":
            return wrong_answers(job.questions.data, found.chosen)
    if isinstance(found, tuple):
        return failed_queries(*found)
    # Distances and products are of another scale than the scores.
    examples, has_scale = job.examples(data), not job.similarity
    return wrong_scores(examples, found, has_scale)


def worst(
    header: Sequence[str],
    names: Iterable[Cell],
    columns: Sequence[np.ndarray],
    texts: Iterable[Sequence[Cell]],
    what: str = "examples",
) -> Mistakes:
    """Return the mistakes, where the prediction is not the truth.

    The columns are truths, predictions, and sizes of mistakes, such as the
    confidence; the largest comes first. The header names them after the names,
    but for truth and prediction, and before the texts.
    """
    cells = zip(*(values.tolist() for values in columns), strict=True)
    rows = [
        (name, *own, *more)
        for name, own, more in zip(names, cells, texts, strict=True)
    ]
    wrong = [row for row in rows if row[1] != row[2]]
    wrong.sort(key=lambda row: -abs(row[3]))
    header = (header[0], "truth", "prediction", *header[1:])
    return Mistakes(header, wrong, len(rows), what)


def wrong_examples(
    job: Any, data: DataSet, found: np.ndarray, labels: np.ndarray
) -> Mistakes:
    """Return a classifier's mistakes.

    Wrong classes, of logits [n, K], begin with the surest; numbers [n] with the
    most wrong one; any number of labels, of probabilities [n, K], with the most
    wrong labels. A mistake has the line of its file, or the id that it has
    there.
    """
    size, names = "confidence", np.array(job.files.labels, object)
    if labels.ndim == 2:
        predicted = job.predicted(found)
        truths, given = (
            np.array([job.names(row) for row in rows], object)
            for rows in (labels, predicted)
        )
        size, sizes = "wrong_labels", (predicted != labels).sum(axis=1)
    elif job.is_regression:
        truths, given = labels, found
        size, sizes = "difference", np.abs(found - labels)
    else:
        truths, given = names[labels], names[found.argmax(-1)]
        sizes = confidence(found)
    examples, name = job.examples(data), "guid"
    places = [example.guid for example in examples]
    if data.source.columns.guid is None:
        rows, name = rows_by_guid(data.source), "line"
        places = [rows[guid][0] for guid in places]
    return worst(
        (name, size, "text_a", "text_b"),
        places,
        (truths, given, sizes),
        [(example.text_a, example.text_b) for example in examples],
    )


def wrong_choices(
    questions: Sequence[Question], scores: np.ndarray, labels: np.ndarray
) -> Mistakes:
    """Return the wrong choices, the surest first, of scores [n, C]."""
    predicted = scores.argmax(-1)
    answered = zip(questions, labels, predicted, strict=True)
    texts = [
        (question.context, question.choices[truth], question.choices[given])
        for question, truth, given in answered
    ]
    header = ("guid", "confidence", "context", "right_choice")
    return worst(
        (*header, "predicted_choice"),
        [question.guid for question in questions],
        (labels, predicted, confidence(scores)),
        texts,
        "questions",
    )


# --- Sentence vectors --------------------------------------------------------


def wrong_scores(
    examples: Sequence[Any], found: np.ndarray, has_scale: bool
) -> Mistakes:
    """Return the pairs furthest off their scores.

    Without `has_scale` similarities and scores are compared in standard
    deviations from their means.
    """
    wanted = np.array([example.score for example in examples])
    errors = found - wanted
    if not has_scale:
        one, other = (
            (values - values.mean()) / max(values.std(), 1e-12)
            for values in (found, wanted)
        )
        errors = one - other
    return worst(
        ("row", "error", "text_a", "text_b"),
        range(len(examples)),
        (wanted, found, errors),
        [example.texts for example in examples],
    )


def failed_queries(
    collection: Collection, ranked: Sequence[Sequence[str]]
) -> Mistakes:
    """Return the queries whose first document is not relevant, worst first.

    Queries without any relevant document are none of them. The rank is that of
    the first relevant document, None beyond the depth.
    """
    listed = []
    for (query, text), found in zip(
        collection.queries.items(), ranked, strict=True
    ):
        wanted = collection.relevant[query]
        ranks = [n for n, name in enumerate(found, 1) if name in wanted]
        rank = ranks[0] if ranks else None
        if wanted and rank != 1:
            first = collection.documents[found[0]] if found else ""
            best = max(wanted, key=wanted.get)
            right = collection.documents[best]
            listed.append((query, rank, text, right, first))
    listed.sort(key=lambda row: -(row[1] or math.inf))
    header = ("query", "rank", "text", "relevant", "found_first")
    return Mistakes(header, listed, len(ranked), "queries")


# --- Entities ----------------------------------------------------------------


def wrong_entities(
    file: File, predicted: Sequence[Sequence[str]], probabilities: np.ndarray
) -> Mistakes:
    """Return the entities that are wrong or missed, the surest first.

    The confidence of a mistake is the lowest probability of the predicted tags
    of its words, which are those of the predicted entity or the missed one.
    """
    from tasks.ner.data import entities
    from tasks.ner.scores import by_sentence

    rows, num_entities = [], 0
    for sentence, tags, sure in zip(
        file.sentences, predicted, by_sentence(file, probabilities), strict=True
    ):
        gold, given = entities(sentence.tags), entities(tags)
        num_entities += len({*gold, *given})
        for kind, right, found in _pairs(gold, given):
            place, words = found or right, sentence.words
            texts = (
                entity and f"{entity.type}: {' '.join(words[entity.words])}"
                for entity in (right, found)
            )
            least = float(min(sure[place.words]))
            line = sentence.lines[place.first]
            rows.append((line, kind, *texts, least, " ".join(words)))
    rows.sort(key=lambda row: -row[4])
    header = ("line", "kind", "truth", "prediction", "confidence", "sentence")
    return Mistakes(header, rows, num_entities, "right or predicted entities")


def _pairs(
    gold: Sequence[Entity], predicted: Sequence[Entity]
) -> list[tuple[str, Entity | None, Entity | None]]:
    """Return (kind, right entity, predicted one) of a sentence's mistakes.

    kind         truth         prediction    such as
    missed       LOC: Paris                  nothing was found there
    invented                   LOC: May      there is no entity
    other type   LOC: Paris    PER: Paris    the same words
    other words  LOC: New York LOC: York     words of a right entity
    """

    def overlaps(one: Entity, other: Entity) -> bool:
        return one.first <= other.last and other.first <= one.last

    found = []
    for entity in predicted:
        if entity in gold:
            continue
        other = next((right for right in gold if overlaps(right, entity)), None)
        kind = "other words" if other else "invented"
        if other and other[:2] == entity[:2]:
            kind = "other type"
        found.append((kind, other, entity))
    found += [
        ("missed", right, None)
        for right in gold
        if not any(overlaps(right, entity) for entity in predicted)
    ]
    return found


# --- Answers -----------------------------------------------------------------


def wrong_answers(
    data: SquadData,
    found: Mapping[str, Candidate],  # by question id
) -> Mistakes:
    """Return the questions without an exact match.

    Those of F1 0 come first, the surest answer of each first.
    """
    from tasks.squad.scores import score_each

    scores = score_each(data, {key: given.text for key, given in found.items()})
    rows = []
    for example in data.examples:
        key = example.qas_id
        if scores.exact[key]:
            continue
        given = found[key]
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
    header = ("id", "question", "answers", "prediction", "f1", "exact")
    header = (*header, "confidence", "context")
    return Mistakes(header, rows, len(scores.exact), "questions")


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
