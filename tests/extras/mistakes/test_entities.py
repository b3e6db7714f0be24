"""Wrong, invented and missed entities, the surest first."""

import numpy as np
import pytest

from extras.mistakes import entities
from tasks.ner.data import File, Sentence

SENTENCES = [
    Sentence(
        ["Ann", "Lee", "saw", "Paris"],
        ["B-PER", "I-PER", "O", "B-LOC"],
        [1, 2, 3, 4],
        0,
    ),
    Sentence(["In", "May", "UN", "met"], ["O", "O", "B-ORG", "O"], [6] * 4, 0),
]
FILE = File("dev.txt", [], " ", SENTENCES)


def test_every_kind_of_mistake():
    predicted = [["B-PER", "O", "O", "B-PER"], ["O", "B-LOC", "O", "O"]]
    sure = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.95, 0.3, 0.2])
    found = entities.wrong_entities(FILE, predicted, sure)
    texts = [" ".join(sentence.words) for sentence in SENTENCES]
    assert found.rows == [
        (6, "invented", None, "LOC: May", pytest.approx(0.95), texts[1]),
        (1, "other words", "PER: Ann Lee", "PER: Ann", 0.9, texts[0]),
        (4, "other type", "LOC: Paris", "PER: Paris", 0.6, texts[0]),
        (6, "missed", "ORG: UN", None, 0.3, texts[1]),
    ]
    assert found.num_scored == 3
    tags = [sentence.tags for sentence in SENTENCES]
    assert not entities.wrong_entities(FILE, tags, sure).rows
