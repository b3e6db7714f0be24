"""Sentences in memory, to be searched for those nearest to a text."""

from collections.abc import Mapping
from typing import Any

from base.errors import UserError

from serving.search.index import Sentences
from tools.page.models import PageModel

_MOST = 200  # encoded again for every search


def sentences_of(text: str) -> dict[int, str]:
    """Return the sentences of a text, one in each line, by line from 1.

    Raises:
        UserError: there is none, or there are too many.
    """
    found = {
        number: line.strip()
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    }
    if not 1 <= len(found) <= _MOST:
        raise UserError(
            f"{len(found):,} sentences, wanted 1 to {_MOST}, one in each line"
        )
    return found


class Collection(Sentences):
    """Sentences in memory.

    Args:
        model: makes the vectors, as search.py does.
        sentences: what `sentences_of` returns.
    """

    def __init__(self, model: PageModel, sentences: Mapping[int, str]):
        self.lines, self.texts = [*sentences], [*sentences.values()]
        trained_for = model.task.checkpoint.trained_for
        self.similarity = trained_for.similarity_fn_name
        self.vectors = model.vectors(self.texts, "document")

    def sentence(self, place: int) -> dict[str, Any]:
        """Return id, the line, and text of a sentence."""
        return {"id": self.lines[place], "text": self.texts[place]}
