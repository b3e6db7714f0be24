"""The entities that a tagger gets wrong: errors.tsv.

A line is an entity that was found and is not right, or one that was missed:

    kind         truth         prediction    such as
    missed       LOC: Paris                  nothing was found there
    invented                   LOC: May      there is no entity
    other type   LOC: Paris    PER: Paris    the same words
    other words  LOC: New York LOC: York     words of a right entity
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tasks.mistakes import Mistakes
from tasks.ner.data import File
from tasks.ner.scores import by_sentence

_HEADER = (
    "line",
    "kind",
    "truth",
    "prediction",
    "confidence",
    "sentence",
)


class Entity(NamedTuple):
    """An entity of a sentence: its first and last word, and its type."""

    first: int
    last: int
    kind: str

    def overlaps(self, other: "Entity") -> bool:
        """Return whether both have a word in common."""
        return self.first <= other.last and other.first <= self.last

    def text(self, words: Sequence[str]) -> str:
        """Return the type and the words."""
        return f"{self.kind}: {' '.join(words[self.first : self.last + 1])}"


def entities(tags: Sequence[str]) -> list[Entity]:
    """Return the entities of a sentence.

    >>> entities(["B-LOC", "I-LOC", "O", "B-PER"])
    [Entity(first=0, last=1, kind='LOC'), Entity(first=3, last=3, kind='PER')]

    Args:
        tags: IOB2, every entity begins with B-.
    """
    found: list[Entity] = []
    for place, tag in enumerate(tags):
        if tag[:1] == "B":
            found.append(Entity(place, place, tag[2:]))
        elif tag[:1] == "I":
            found[-1] = found[-1]._replace(last=place)
    return found


def pairs(
    gold: Sequence[Entity], predicted: Sequence[Entity]
) -> list[tuple[str, Entity | None, Entity | None]]:
    """Return (kind of mistake, right entity, predicted one) of a sentence.

    Args:
        gold: the right entities.
        predicted: those of the model.
    """
    found = []
    for entity in predicted:
        if entity in gold:
            continue
        other = next((right for right in gold if right.overlaps(entity)), None)
        if other is None:
            found.append(("invented", None, entity))
        else:
            same = other[:2] == entity[:2]
            kind = "other type" if same else "other words"
            found.append((kind, other, entity))
    found += [
        ("missed", right, None)
        for right in gold
        if not any(right.overlaps(entity) for entity in predicted)
    ]
    return found


def wrong_entities(
    file: File,
    predicted: Sequence[Sequence[str]],
    probabilities: np.ndarray,
    count: int,
) -> Mistakes:
    """Return the entities that are wrong or missed, the surest first.

    Args:
        file: with tags in IOB2.
        predicted: the tags of each sentence, in IOB2.
        probabilities: of the predicted tag of every word of the file [words].
            The confidence of a mistake is the lowest of its words: of those
            predicted, or missed.
        count: of mistakes to list.
    """
    rows = []
    num_entities = 0
    for sentence, tags, sure in zip(
        file.sentences,
        predicted,
        by_sentence(file, probabilities),
        strict=True,
    ):
        gold = entities(sentence.tags)
        num_entities += len(gold)
        for kind, right, found in pairs(gold, entities(tags)):
            first, last, _ = found or right
            rows.append(
                (
                    sentence.lines[min(first, len(sentence.lines) - 1)],
                    kind,
                    right.text(sentence.words) if right else None,
                    found.text(sentence.words) if found else None,
                    float(min(sure[first : last + 1])),
                    " ".join(sentence.words),
                )
            )
    rows.sort(key=lambda row: -row[4])
    return Mistakes(
        _HEADER, rows[:count], len(rows), num_entities, "right entities"
    )
