"""Sentences in memory, to be searched for those nearest to a text."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from base import progress, text_files
from base.errors import UserError

import numpy as np

from serving.search.build import task_for, vectors_of
from tasks import nearest
from tools.page.models import PageModel
from tools.page.predictions import parsed

# A float32 vector of each stays in memory: 300 MB for Base.
MAX_SENTENCES = 100_000

MAX_PASTED = 200  # encoded again for every search


class Sentences(NamedTuple):
    """The lines of a text that are not blank."""

    lines: list[int]  # number of each in the text, from 1
    texts: list[str]


def read_sentences(path: str) -> Sentences:
    """Return the sentences of a text file, one in each line.

    Raises:
        UserError: the file cannot be read, is not UTF-8 text, has no text or
            too many lines.
    """
    text = text_files.read_text(path)
    if "\0" in text:
        raise UserError(
            f"--neighbors_file={path} holds zero bytes: wanted UTF-8 text, one "
            "sentence per line"
        )
    try:
        return sentences_of(text, MAX_SENTENCES)
    except UserError as error:
        raise UserError(f"--neighbors_file={path}: {error}") from error


def sentences_of(text: str, most: int = MAX_PASTED) -> Sentences:
    """Return the sentences of a text, one in each line.

    Raises:
        UserError: there is none, or there are too many.
    """
    found = [
        (number, line.strip())
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if not 1 <= len(found) <= most:
        raise UserError(
            f"{len(found):,} sentences, wanted 1 to {most:,}, one in each line"
        )
    return Sentences([n for n, _ in found], [line for _, line in found])


class Collection:
    """Sentences with vectors, searched as serving.search.index.Index is.

    Args:
        model: makes the vectors, as search.py does.
        sentences: of the collection.

    Attributes:
        vectors: float32 [n, D], of length 1.
        num_cut: sentences of more tokens than the model reads.
    """

    def __init__(self, model: PageModel, sentences: Sentences):
        self.sentences = sentences
        settings, run = model.of_vectors()
        task = task_for(settings, "document")
        inputs = [parsed(task, text=text) for text in sentences.texts]
        left_out = task.encode(inputs).left_out
        self.num_cut = sum(lost > 0 for lost in left_out)
        what = f"Encoding sentences with {model.name}"
        with progress.Bar(len(inputs), "sentences", what) as bar:
            self.vectors = vectors_of(task, run, inputs, bar.update)

    def search(
        self, queries: np.ndarray, count: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield score (the cosine), id (the line) and text of the nearest."""
        lines, texts = self.sentences
        for found in nearest.nearest(self.vectors, queries, count):
            yield [
                {"score": score, "id": lines[place], "text": texts[place]}
                for place, score in zip(
                    *map(np.ndarray.tolist, found), strict=True
                )
            ]
