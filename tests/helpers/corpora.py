"""Text and documents for tests.

The text is Python's own manual, which every interpreter carries.
"""

import itertools
import pathlib
import random
import re
from collections.abc import Sequence
from pydoc_data.topics import topics

import numpy as np
from paths import GOLDEN

from pretraining.data.instances import Documents

VOCAB_FILE = str(GOLDEN / "vocab" / "uncased.txt")
_SENTENCE_END = re.compile(r"(?<=[.:!?])\s+|\n\s*\n")


def manual(num_documents: int) -> list[list[str]]:
    """Return pages of the manual, each a list of sentences."""
    pages = [
        [" ".join(part.split()) for part in _SENTENCE_END.split(text)]
        for _, text in sorted(topics.items())
    ]
    return [[line for line in page if line] for page in pages][:num_documents]


def write(path: pathlib.Path, documents: Sequence[Sequence[str]]) -> str:
    """Write documents as create_pretraining_data.py reads them."""
    text = "\n\n".join("\n".join(document) for document in documents)
    path.write_text(text + "\n", encoding="utf-8")
    return str(path)


def documents_of(
    texts: list[list[list[int]]], numbers: Sequence[int] | None = None
) -> Documents:
    """Return as arrays what is given as document -> sentence -> ids."""
    sentences = [sentence for document in texts for sentence in document]
    return Documents(
        np.array(list(itertools.chain(*sentences)), np.int32),
        np.cumsum([0, *map(len, sentences)]),
        np.cumsum([0, *map(len, texts)]),
        np.arange(len(texts)) if numbers is None else np.array(numbers),
    )


def toy_texts(num_documents: int, seed: int = 0) -> list[list[list[int]]]:
    """Return document -> sentence -> ids, every token a different number."""
    rng, count = random.Random(seed), itertools.count(1000)
    return [
        [
            [next(count) for _ in range(rng.choice([1, 3, 9, 20, 40]))]
            for _ in range(rng.choice([1, 2, 5, 30]))
        ]
        for _ in range(num_documents)
    ]
