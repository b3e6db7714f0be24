"""Turn a page, a line of JSON, a row or a text into a document.

This is most of the work: `make_document` takes one item of the input and
returns its sentences, or why there is no document. It depends on its arguments
alone, so that any engine may call it in any order.
"""

import collections
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
        key: 64-bit hash of its text; decides the shard and the place in it.
        split: TRAIN or HELDOUT; depends on the key alone.
        text: UTF-8, one sentence per line, with \\n at the end of each.
    """

    key: int
    split: str
    text: bytes


class Outcome(NamedTuple):
    """The result for an item: a document, or why there is none.

    The numbers by name are added up over all items; see corpus/summary.py. They
    say why there is no document. A problem is an item that cannot be read.
    """

    document: Document | None
    counts: dict[str, int]
    problem: Problem | None = None


class _Unusable(ValueError):
    """An item that cannot be read: the reason and the detail of its problem."""


def make_document(item: Item, flags: CorpusFlags) -> Outcome:
    """Return the document of an item, or why there is none."""
    if item.problem:
        return Outcome(None, {item.problem.reason: 1}, item.problem)
    source, counts = item.source, collections.Counter()
    try:
        if source.kind == items.DUMP:
            lines = _sentences_of_page(item, counts)
        else:
            lines = _sentences_of_text(item, flags, counts)
    except _Unusable as unusable:
        reason, detail = unusable.args
        counts[reason] = 1
        place = f"{items.ITEM_NAMES[source.kind]} {item.number}"
        if source.kind == items.DUMP:
            place = dumps.page_place(item.number, item.data)
        problem = Problem(reason, source.path, place, detail)
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
    """Return the document of clean sentences.

    White space is left out of the hash. So the key, and with it whether the
    document is held out, does not change when a sentence is split otherwise.
    What is held out at a heldout_fraction of 0.01 is held out at 0.02 too.
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

_JSON_TYPES = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _sentences_of_text(
    item: Item, flags: CorpusFlags, counts: collections.Counter
) -> list[str]:
    """Return the sentences of a line of JSON, a row or a text; count it.

    Raises:
        _Unusable: the item cannot be read.
    """
    kind, data = item.source.kind, item.data
    names = {items.JSON_LINES: "json_lines", items.PARQUET: "rows"}
    counts[names.get(kind, "texts")] = 1
    try:
        errors = "replace" if kind == items.PARQUET else "strict"
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        detail = (
            f"is not UTF-8: byte 0x{data[error.start]:02x} in its line {line}"
        )
        raise _Unusable("not_utf8", detail) from None
    if kind == items.JSON_LINES:
        text = _text_of_json(text, flags.text_column)
    # Before the sentences are split: a control character hides the end of a
    # sentence.
    text = cleaning.clean_text(text)
    lines = []
    for paragraph in paragraphs.split_paragraphs(text, flags.line_breaks):
        try:
            lines += sentences.split(paragraph, item.source.language)
        except sentences.SplitError as error:
            raise _Unusable("refused_text", str(error)) from error
    return lines


def _text_of_json(line: str, column: str) -> str:
    """Return the text of a line of JSON, "" for null.

    Raises:
        _Unusable: not JSON, not an object, or no text under this key.
    """
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        # Not all are JSONDecodeError: a number of 5,000 digits raises a plain
        # ValueError, deep nesting RecursionError.
        detail = f"is not JSON: {getattr(error, 'msg', error)}"
        raise _Unusable("broken_item", detail) from None
    if not isinstance(value, dict):
        detail = f"is {_JSON_TYPES[type(value)]}; wanted a JSON object"
        raise _Unusable("broken_item", detail)
    if column not in value:
        names = ", ".join(list(value)[:10])
        detail = f"has no {column!r}, but {names}; name one by --text_column"
        raise _Unusable("broken_item", detail)
    text = value[column]
    if text is not None and not isinstance(text, str):
        detail = f"has {_JSON_TYPES[type(text)]} as {column!r}; wanted text"
        raise _Unusable("broken_item", detail)
    return text or ""


@functools.lru_cache(maxsize=64)
def _site_of(source: Source) -> site.Site:
    """Return the site of a dump; one for all of its pages."""
    return site.from_namespaces(source.language, dict(source.namespaces))


def _sentences_of_page(
    item: Item, counts: collections.Counter
) -> list[str] | None:
    """Return the sentences of a page, None if it is not an article; count it.

    Raises:
        _Unusable: the XML is broken, or the parser refuses the wikitext.
    """
    counts["pages"] = 1
    try:
        page = dumps.parse_page(item.data)
    except dumps.PageError as error:
        raise _Unusable("broken_item", str(error)) from error
    wiki = _site_of(item.source)
    reason = "articles"
    if page.namespace != 0:
        reason = "other_namespaces"
    elif page.is_redirect or site.is_redirect(page.text):
        reason = "redirects"
    elif page.model != "wikitext":
        reason = "not_wikitext"
    elif site.is_disambiguation(page.text, page.title, wiki):
        reason = "disambiguations"
    counts[reason] = 1
    if reason != "articles":
        return None
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
        raise _Unusable("refused_page", detail) from error
    for name, number in more.items():
        counts[f"wikitext_{name}"] = number
    return lines
