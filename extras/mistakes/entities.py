"""The entities that a tagger gets wrong: errors.tsv.

A line is an entity that was found and is not right, or one that was missed:

    kind         truth         prediction    such as
    missed       LOC: Paris                  nothing was found there
    invented                   LOC: May      there is no entity
    other type   LOC: Paris    PER: Paris    the same words
    other words  LOC: New York LOC: York     words of a right entity
"""

from collections.abc import Sequence

import numpy as np

from extras.mistakes.table import ERRORS, Mistakes, Report
from tasks.classifier.scores import confidence
from tasks.job import DataSet
from tasks.ner.data import Entity, File, entities
from tasks.ner.job import NerJob
from tasks.ner.scores import by_sentence

_HEADER = ("line", "kind", "truth", "prediction", "confidence", "sentence")

FILES = (ERRORS,)


def write(
    job: NerJob,
    data: DataSet,
    found: np.ndarray,  # logits of the words
    report: Report,
) -> None:
    """Write errors.tsv of the development file."""
    file, sure = job.examples(data), confidence(found)
    report.errors(wrong_entities(file, job.tags(file, found), sure))


def pairs(
    gold: Sequence[Entity], predicted: Sequence[Entity]
) -> list[tuple[str, Entity | None, Entity | None]]:
    """Return (kind of mistake, right entity, predicted one) of a sentence."""

    def overlaps(one: Entity, other: Entity) -> bool:
        return one.first <= other.last and other.first <= one.last

    found = []
    for entity in predicted:
        if entity in gold:
            continue
        other = next((right for right in gold if overlaps(right, entity)), None)
        if other is None:
            kind = "invented"
        else:
            same = other[:2] == entity[:2]
            kind = "other type" if same else "other words"
        found.append((kind, other, entity))
    found += [
        ("missed", right, None)
        for right in gold
        if not any(overlaps(right, entity) for entity in predicted)
    ]
    return found


def wrong_entities(
    file: File,
    predicted: Sequence[Sequence[str]],
    probabilities: np.ndarray,
) -> Mistakes:
    """Return the entities that are wrong or missed, the surest first.

    The confidence of a mistake is the lowest probability of the predicted tags
    of its words, which are those of the predicted entity or the missed one.
    """
    rows = []
    num_entities = 0
    for sentence, tags, sure in zip(
        file.sentences,
        predicted,
        by_sentence(file, probabilities),
        strict=True,
    ):

        def text(entity: Entity | None, words: list = sentence.words):
            if entity is None:
                return None
            return f"{entity.type}: {' '.join(words[entity.words])}"

        gold = entities(sentence.tags)
        num_entities += len(gold)
        for kind, right, found in pairs(gold, entities(tags)):
            place = found or right
            rows.append(
                (
                    sentence.lines[place.first],
                    kind,
                    text(right),
                    text(found),
                    float(min(sure[place.words])),
                    " ".join(sentence.words),
                )
            )
    rows.sort(key=lambda row: -row[4])
    return Mistakes(_HEADER, rows, num_entities, "right entities")
