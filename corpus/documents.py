"""Turn a page, a line of JSON, a row or a text into a document.

This is most of the work: `make_document` takes one item of the input and
returns its sentences, or why there is no document. It depends on its arguments
alone, so that any engine may call it in any order.
"""

import functools
import json
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

from base.hashing import hash64

from corpus import (
    cleaning,
    dumps,
    items,
    paragraphs,
    sentences,
    site,
    wikitext,
)
from corpus.items import CorpusFlags, Item, Problem, Source

TRAIN, HELDOUT = "train", "heldout"

_KEY = struct.Struct("<Q")


class Document(NamedTuple):
    """A document of the corpus.

    Attributes:
        key: 64-bit hash of its text. Documents of equal text have equal keys.
            The key decides the shard and the place in it.
        split: TRAIN or HELDOUT; depends on the key alone.
        text: UTF-8, one sentence per line, with \\n at the end of each.
    """

    key: int
    split: str
    text: bytes


class Outcome(NamedTuple):
    """The result for an item: a document, or why there is none.

    Attributes:
        document: None if the item gave none.
        counts: numbers to add up over all items, by name; see
            corpus/summary.py. They say why there is no document.
        problem: None unless the item cannot be read.
    """

    document: Document | None
    counts: dict[str, int]
    problem: Problem | None = None


def make_document(item: Item, flags: CorpusFlags) -> Outcome:
    """Return the document of an item, or why there is none."""
    if item.problem:
        return Outcome(None, {item.problem.reason: 1}, item.problem)
    try:
        lines, counts = _sentences_of(item, flags)
    except _Unusable as unusable:
        problem = _problem(item, unusable)
        counts = {**unusable.counts, problem.reason: 1}
        return Outcome(None, counts, problem)
    if lines is None:
        return Outcome(None, counts)
    lines = [line for line in map(cleaning.clean_line, lines) if line]
    counts["input_characters"] = num_characters = sum(map(len, lines))
    if not lines:
        counts["without_text"] = 1
    elif num_characters < flags.min_document_chars:
        counts["too_short"] = 1
    else:
        document = document_of(lines, flags.heldout_fraction)
        return Outcome(document, counts)
    return Outcome(None, counts)


def document_of(lines: list[str], heldout_fraction: float) -> Document:
    """Return the document of some sentences.

    White space is left out of the hash. So the key, and with it whether the
    document is held out, does not change when a sentence is split otherwise.

    Args:
        lines: clean sentences.
        heldout_fraction: share of all keys that are held out. What is held out
            at 0.01 is held out at 0.02 too.
    """
    text = "".join(f"{line}\n" for line in lines)
    key = hash64("".join(text.split()))
    # A second hash: with the key itself, all held-out documents would have
    # small keys, and keys decide the shard.
    is_heldout = hash64("heldout", key) < heldout_fraction * 2**64
    return Document(key, HELDOUT if is_heldout else TRAIN, text.encode())


# --- Documents of many items -------------------------------------------------


def add_text(texts: dict[Any, bytes], key: Any, text: bytes) -> bool:
    """Add a document; return whether one with this key was there already.

    The texts of two documents with equal keys may differ in white space. The
    smaller one is kept, whichever comes first.
    """
    known = texts.get(key)
    texts[key] = text if known is None else min(text, known)
    return known is not None


def to_value(key: int, text: bytes) -> bytes:
    """Return the key and text of a document as bytes."""
    return _KEY.pack(key) + text


def distinct_texts(values: Iterable[bytes]) -> tuple[list[bytes], int]:
    """Return the texts in values by their keys, and how many others.

    Args:
        values: of `to_value`, in any order.
    """
    texts: dict[int, bytes] = {}
    num_duplicates = 0
    for value in values:
        (key,) = _KEY.unpack_from(value)
        num_duplicates += add_text(texts, key, value[_KEY.size :])
    return [texts[key] for key in sorted(texts)], num_duplicates


# --- Sentences of an item ----------------------------------------------------


class _Unusable(ValueError):
    """An item that cannot be read: its reason, and counts before that."""

    def __init__(self, reason: str, detail: str, counts: dict | None = None):
        super().__init__(detail)
        self.reason, self.detail = reason, detail
        self.counts = counts or {}


def _problem(item: Item, unusable: _Unusable) -> Problem:
    """Return the problem of an item, with the place where it stands."""
    place = f"{items.ITEM_NAMES[item.source.kind]} {item.number}"
    if item.source.kind == items.DUMP:
        title = dumps.title_of(item.data)
        place += f" {title!r}" if title else ""
    return Problem(unusable.reason, item.source.path, place, unusable.detail)


def _sentences_of(
    item: Item, flags: CorpusFlags
) -> tuple[list[str] | None, dict[str, int]]:
    """Return sentences and counts of an item; None if it is not a document.

    Raises:
        _Unusable: the item cannot be read.
    """
    if item.source.kind == items.DUMP:
        return _sentences_of_page(item)
    if item.source.kind == items.JSON_LINES:
        counts = {"json_lines": 1}
        text = _text_of_json(item.data, flags.text_column)
    elif item.source.kind == items.PARQUET:
        counts = {"rows": 1}
        text = item.data.decode("utf-8", "replace")
    else:
        counts = {"texts": 1}
        text = _decode(item.data, counts)
    # Before the sentences are split: a control character hides the end of a
    # sentence.
    text = cleaning.clean_text(text)
    language = item.source.language
    lines = []
    for paragraph in paragraphs.split_paragraphs(text, flags.line_breaks):
        try:
            lines += sentences.split(paragraph, language)
        except sentences.SplitError as error:
            raise _Unusable("refused_text", str(error), counts) from error
    return lines, counts


def _decode(data: bytes, counts: dict[str, int]) -> str:
    """Return the text of UTF-8 bytes.

    Raises:
        _Unusable: they are not UTF-8.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        detail = (
            f"is not UTF-8: byte 0x{data[error.start]:02x} in its line {line}"
        )
        raise _Unusable("not_utf8", detail, counts) from None


def _text_of_json(line: bytes, column: str) -> str:
    """Return the text of a line of JSON, "" for null.

    Raises:
        _Unusable: not JSON, not an object, or no text under this key.
    """
    counts = {"json_lines": 1}
    text = _decode(line, counts)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        # Not all are JSONDecodeError: a number of 5,000 digits raises a plain
        # ValueError, deep nesting RecursionError.
        detail = f"is not JSON: {getattr(error, 'msg', error)}"
        raise _Unusable("broken_item", detail, counts) from None
    if not isinstance(value, dict):
        detail = f"is {_json_type(value)}; wanted a JSON object"
        raise _Unusable("broken_item", detail, counts)
    if column not in value:
        names = ", ".join(map(str, list(value)[:10]))
        detail = f"has no {column!r}, but {names}; name one by --text_column"
        raise _Unusable("broken_item", detail, counts)
    text = value[column]
    if text is not None and not isinstance(text, str):
        detail = f"has {_json_type(text)} as {column!r}; wanted text"
        raise _Unusable("broken_item", detail, counts)
    return text or ""


def _json_type(value: object) -> str:
    """Return what JSON calls a value, with its article."""
    names = {bool: "a boolean", str: "a string", list: "an array"}
    if isinstance(value, dict):
        return "an object"
    return names.get(type(value), "null" if value is None else "a number")


# --- Pages -------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _site_of(source: Source) -> site.Site:
    """Return the site of a dump; one for all of its pages."""
    return site.from_namespaces(source.language, dict(source.namespaces))


def _sentences_of_page(item: Item) -> tuple[list[str] | None, dict[str, int]]:
    """Return sentences and counts of a page; None if it is not an article.

    Raises:
        _Unusable: the XML is broken, or the parser refuses the wikitext.
    """
    counts = {"pages": 1}
    try:
        page = dumps.parse_page(item.data)
    except dumps.PageError as error:
        raise _Unusable("broken_item", str(error), counts) from error
    wiki = _site_of(item.source)
    reason = None
    if page.namespace != 0:
        reason = "other_namespaces"
    elif page.is_redirect or site.is_redirect(page.text):
        reason = "redirects"
    elif page.model != "wikitext":
        reason = "not_wikitext"
    elif site.is_disambiguation(page.text, page.title, wiki):
        reason = "disambiguations"
    if reason:
        return None, {**counts, reason: 1}
    counts["articles"] = 1
    try:
        lines, more = wikitext.to_sentences(
            page.text, wiki, item.source.language
        )
    except Exception as error:
        # A page that no one has tried may raise anything; it must not end a
        # run of days. It is counted and named, and --strict ends the run.
        kind = f"{type(error).__name__}: "
        if isinstance(error, wikitext.PageError):
            kind = ""
        detail = f"cannot be parsed: {kind}{error}"
        raise _Unusable("refused_page", detail, counts) from error
    for name, number in more.items():
        counts[f"wikitext_{name}"] = number
    return lines, counts
