"""What is read from input files: pages, lines, rows and texts, in chunks.

All types are plain values, which are pickled and sent to worker processes.
"""

from typing import NamedTuple

# The kinds of input files, as corpus/sources.py finds them by content.
DUMP, JSON_LINES, PARQUET, TEXT = "dump", "json_lines", "parquet", "text"
# WikiExtractor's <doc id="1" url="..." title="...">, text, </doc>.
EXTRACTED = "extracted"

# What an item of each kind is called in messages, with its number.
ITEM_NAMES = {
    DUMP: "page",
    JSON_LINES: "line",
    PARQUET: "row",
    TEXT: "document",
    EXTRACTED: "document",
}


class CorpusFlags(NamedTuple):
    """The flags of prepare_corpus.py, except files, that decide its output.

    An empty language stands for the one that each dump names.
    """

    language: str = ""
    text_column: str = "text"
    document_separator: str = "file"
    line_breaks: str = "auto"
    min_document_chars: int = 0
    max_document_mb: int = 8
    heldout_fraction: float = 0.0
    num_shards: int = 64

    @property
    def max_item_bytes(self) -> int:
        """The size above which pages, lines and texts are a problem."""
        return self.max_document_mb * 10**6


class Source(NamedTuple):
    """An input file; `kind` is "" if it cannot be read.

    `namespaces` are (number, name) of the wiki's namespaces, by its dump.
    """

    path: str
    kind: str
    language: str
    namespaces: tuple[tuple[int, str], ...] = ()


class Unusable(ValueError):
    """A part of the input that cannot be used: a reason and its detail.

    Reasons are the keys of `summary.REASONS`, by which they are counted.
    """


class Problem(NamedTuple):
    """A part of the input that cannot be used; problems sort by their place.

    Attributes:
        number: the item's number.
        place: "page 12 'Title'", "line 3"; "" for the whole file.
        detail: what was found there, for a message.
        reason: a key of `summary.REASONS`.
    """

    path: str
    number: int
    place: str
    detail: str
    reason: str

    def line(self) -> str:
        """Return the message of a warning or an error."""
        place = f", {self.place}" if self.place else ""
        return f"{self.path}{place}: {self.detail}"


class Item(NamedTuple):
    """A page, a line of JSON, a row or a text, as it stands in the file.

    Attributes:
        number: from 1 within the file; line numbers count blank lines.
        data: UTF-8 bytes: the XML from <page> to </page>, the line, the text.
        problem: what the reader could not read here; `data` is empty then.
    """

    source: Source
    number: int
    data: bytes
    problem: Problem | None = None


class Chunk(NamedTuple):
    """Consecutive items of the input: the unit of work of a worker process.

    Attributes:
        end: (index of a file, number of its items that are read) where the
            next chunk begins.
        num_bytes: bytes of the input files, as they are on the disk, that were
            read for it.
    """

    items: list[Item]
    end: tuple[int, int]
    num_bytes: int
