"""Sentences in memory, to be searched for those nearest to a text."""

from collections.abc import Iterator, Mapping
from typing import Any

from base import progress, text_files
from base.errors import UserError

import numpy as np

from tasks import nearest
from tools.page.models import PageModel

# Their vectors stay in memory: 300 MB for Base.
MAX_SENTENCES = 100_000

MAX_PASTED = 200  # encoded again for every search


def read_sentences(path: str) -> dict[int, str]:
    """Return the sentences of a file by their line numbers.

    Raises:
        UserError: the file cannot be read, is not UTF-8 text, has no sentence
            or too many.
    """
    text = text_files.read_text(path)
    try:
        return sentences_of(text, MAX_SENTENCES)
    except UserError as error:
        raise UserError(f"--neighbors_file={path}: {error}") from error


def sentences_of(text: str, most: int = MAX_PASTED) -> dict[int, str]:
    """Return the sentences of a text, one in each line, by line from 1.

    Raises:
        UserError: there is none, or there are too many.
    """
    found = {
        number: line.strip()
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    }
    if not 1 <= len(found) <= most:
        raise UserError(
            f"{len(found):,} sentences, wanted 1 to {most:,}, one in each line"
        )
    return found


class Collection:
    """Sentences with vectors, searched as serving.search.index.Index is.

    Args:
        model: makes the vectors, as search.py does.
        sentences: what `sentences_of` returns.

    Attributes:
        vectors: float32 [n, D], as they are compared.
        similarity: how they are compared; None: by the cosine.
    """

    def __init__(self, model: PageModel, sentences: Mapping[int, str]):
        self.lines, self.texts = [*sentences], [*sentences.values()]
        trained_for = model.task.checkpoint.trained_for
        self.similarity = trained_for.similarity_fn_name
        what = f"Encoding sentences with {model.name}"
        with progress.Bar(len(self.texts), "sentences", what) as bar:
            self.vectors = model.vectors(self.texts, "document", bar.update)

    def search(
        self, queries: np.ndarray, count: int
    ) -> Iterator[list[dict[str, Any]]]:
        """Yield score (the similarity), id (the line), text of the nearest."""
        for places, scores in nearest.nearest(
            self.vectors, queries, count, self.similarity
        ):
            pairs = zip(places.tolist(), scores.tolist(), strict=True)
            yield [
                {"score": s, "id": self.lines[place], "text": self.texts[place]}
                for place, s in pairs
            ]
