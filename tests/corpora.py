"""Text for tests: Python's own manual, which every interpreter carries."""

import pathlib
import re
from collections.abc import Sequence
from pydoc_data.topics import topics

from paths import GOLDEN

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
