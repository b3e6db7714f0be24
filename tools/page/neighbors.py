"""Sentences in memory, to be searched for those nearest to a text."""

from collections.abc import Mapping
from typing import Any

from base import progress, text_files
from base.errors import UserError, naming

from serving.search.index import Sentences
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
    with naming(f"--neighbors_file={path}"):
        return sentences_of(text, MAX_SENTENCES)


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
        what = f"Encoding sentences with {model.name}"
        with progress.Bar(len(self.texts), "sentences", what) as bar:
            self.vectors = model.vectors(self.texts, "document", bar.update)

    def sentence(self, place: int) -> dict[str, Any]:
        """Return id, the line, and text of a sentence."""
        return {"id": self.lines[place], "text": self.texts[place]}
