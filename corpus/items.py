"""What is read from input files: pages, lines, rows and texts, in chunks.

All types are plain values, which are pickled and sent to worker processes.
"""

import dataclasses
import html
import re
from typing import NamedTuple

from base.flags import flag

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

# How much is kept of a page that cannot be used, for its title.
HEAD_BYTES = 2**12

_TITLE = re.compile(rb"<title>([^<]*)</title>")


@dataclasses.dataclass(frozen=True)
class CorpusFlags:
    """The flags of prepare_corpus.py, except files, that decide its output."""

    language: str = flag("")
    """Language of the text, such as en, de or zh: decides where sentences end,
    and which words a wiki uses for links to files and the like. Default: the
    one that each dump names; required for other input."""

    text_column: str = flag("text")
    """Column of parquet, or key of JSON lines."""

    document_separator: str = flag("file", choices=("file", "blank_line"))
    """What a document is in plain text: a whole file, in which blank lines
    separate paragraphs; or what stands between blank lines."""

    line_breaks: str = flag("auto", choices=("auto", "join", "keep"))
    """What a line break within a paragraph means in plain text, JSON and
    parquet. join: nothing, as lines were wrapped at a fixed width and a
    sentence may span several. keep: it ends a sentence. auto: join for
    documents whose lines are about equally long and at most 100 characters,
    keep for others."""

    # A worker process needs some twenty times the largest.
    max_document_mb: int = flag(8, 1, 256)
    """Skip pages, lines and texts larger than this, which bounds the memory
    needed. The largest page that Wikipedia allows has 2 MB."""

    min_document_chars: int = flag(0, low=0)
    """Drop documents with fewer characters of text."""

    heldout_fraction: float = flag(0.0, 0, 1)
    """Share of the documents to put into heldout/, by the hash of their
    text."""

    num_shards: int = flag(64, 1, 99999)
    """Training files to write."""

    @property
    def num_heldout_shards(self) -> int:
        """The number of files in heldout/, as large as those of training."""
        if not self.heldout_fraction:
            return 0
        return max(1, round(self.num_shards * self.heldout_fraction))

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


# Reasons that concern a file, not one of its items.
_OF_FILES = ("unreadable_file", "damaged_file")


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
    data: bytes = b""
    problem: Problem | None = None

    @property
    def place(self) -> str:
        """The place in the file: "line 3", or "page 12 'Title'" of a dump."""
        place = f"{ITEM_NAMES[self.source.kind]} {self.number}"
        is_page = self.source.kind == DUMP
        if is_page and (match := _TITLE.search(self.data[:HEAD_BYTES])):
            title = html.unescape(match[1].decode("utf-8", "replace"))
            place += f" {title!r}" if title else ""
        return place

    def unusable(self, reason: str, detail: str) -> "Item":
        """Return the item as a problem, for some reasons of the whole file."""
        place = "" if reason in _OF_FILES else self.place
        problem = Problem(self.source.path, self.number, place, detail, reason)
        return self._replace(data=b"", problem=problem)


class Chunk(NamedTuple):
    """Consecutive items of the input: the unit of work of a worker process.

    `num_bytes` of the input files, as they are on the disk, were read for it.
    """

    items: list[Item]
    num_bytes: int
