"""Sentences that are pasted into the page, to be searched for the nearest."""

from typing import Any

from base.errors import UserError

from serving.search.index import Sentences
from tools.page.models import PageModel

_MOST = 200  # encoded again for every search


class Pasted(Sentences):
    """The sentences of a text, one in each line; their ids are its lines.

    Args:
        model: makes the vectors, as search.py does.
        text: the text.

    Raises:
        UserError: it has no sentence, or too many.
    """

    def __init__(self, model: PageModel, text: str):
        lines = enumerate(map(str.strip, text.split("\n")), 1)
        self.found = [(number, line) for number, line in lines if line]
        if not 1 <= len(self.found) <= _MOST:
            raise UserError(
                f"{len(self.found):,} sentences, wanted 1 to {_MOST}, one in "
                "each line"
            )
        trained_for = model.task.checkpoint.trained_for
        self.similarity = trained_for.similarity_fn_name
        texts = [line for _, line in self.found]
        self.vectors = model.vectors(texts, "document")

    def sentence(self, place: int) -> dict[str, Any]:
        """Return id, the line, and text of a sentence."""
        number, line = self.found[place]
        return {"id": number, "text": line}
