"""Turn a page, a line of JSON, a row or a text into a document.

This is most of the work: `make_document` takes one item of the input and
returns its sentences, or why there is no document. It depends on its arguments
alone, so that any engine may call it in any order.
"""

import collections
import html
import re
import unicodedata
from collections.abc import Iterable
from typing import Any, NamedTuple

from base import tables, text_files
from base.errors import UserError
from base.hashing import hash64

from corpus import dumps, items, paragraphs, sentences, site, wikitext
from corpus.items import CorpusFlags, Item, Unusable

TRAIN, HELDOUT = "train", "heldout"


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


def make_document(
    item: Item, flags: CorpusFlags, counts: collections.Counter[str]
) -> Document | None:
    """Return the document of an item; None: it has none, or is no article.

    What was read and what was left out is counted; see corpus/summary.py.

    Raises:
        Unusable: the item cannot be used.
    """
    if item.source.kind == items.DUMP:
        lines = _sentences_of_page(item, counts)
    else:
        lines = _sentences_of_text(item, flags, counts)
    if lines is None:
        return None
    lines = [line for line in map(clean_line, lines) if line]
    if lines and sum(map(len, lines)) >= flags.min_document_chars:
        return document_of(lines, flags.heldout_fraction)
    counts["too_short" if lines else "without_text"] += 1
    return None


def key_of(text: str) -> int:
    """Return the 64-bit hash of a document's text.

    White space is left out, so that the key does not change when a sentence is
    split otherwise.
    """
    return hash64("".join(text.split()))


def document_of(lines: list[str], heldout_fraction: float) -> Document:
    """Return the document of clean sentences.

    What is held out at a fraction of 0.01 is held out at 0.02 too.
    """
    text = "".join(f"{line}\n" for line in lines)
    key = key_of(text)
    # A second hash: with the key itself, all held-out documents would have
    # small keys, and keys decide the shard.
    is_heldout = hash64("heldout", key) < heldout_fraction * 2**64
    return Document(key, HELDOUT if is_heldout else TRAIN, text.encode())


def distinct_texts(texts: Iterable[bytes]) -> tuple[list[bytes], int]:
    """Return a text for each key, sorted by key, and how many were left out.

    The texts of two documents with equal keys may differ in white space. The
    smaller one is kept, whichever comes first.
    """
    by_key: dict[int, bytes] = {}
    num_texts = 0
    for text in texts:
        num_texts += 1
        key = key_of(text.decode())
        by_key[key] = min(text, by_key.get(key, text))
    return [by_key[key] for key in sorted(by_key)], num_texts - len(by_key)


# Removed: control characters (C0, DEL, C1) that are not white space, soft
# hyphens, marks of text direction, byte order marks, surrogates and
# noncharacters. Zero-width joiners and non-joiners stay, since Persian and
# Hindi words need them. White space, which has U+0085, U+2028 and U+2029 in
# it, becomes a space.
_REMOVED = re.compile(
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200e\u200f\u202a-\u202e"
    "\u2066-\u2069\ufeff\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]"
)


def clean_text(text: str) -> str:
    r"""Return text in NFC without control characters; \n, \t and so on stay.

    The same characters may be written in several ways: "é" is one code point
    or an "e" and an accent. In NFC it is always one.
    """
    return unicodedata.normalize("NFC", _REMOVED.sub("", text))


def clean_line(text: str) -> str:
    """Return clean text with single spaces for all white space, stripped."""
    return " ".join(clean_text(text).split())


_COUNTED_AS = {items.JSON_LINES: "json_lines", items.PARQUET: "rows"}


def _sentences_of_text(
    item: Item, flags: CorpusFlags, counts: collections.Counter
) -> list[str]:
    """Return the sentences of a line of JSON, a row or a text; count it."""
    kind, data = item.source.kind, item.data
    counts[_COUNTED_AS.get(kind, "texts")] += 1
    try:
        errors = "replace" if kind == items.PARQUET else "strict"
        text = data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Unusable(
            "not_utf8",
            f"is not UTF-8: byte 0x{data[error.start]:02x} in its line {line}",
        ) from None
    if kind == items.JSON_LINES:
        text = _text_of_json(text, flags.text_column)
    elif kind == items.EXTRACTED:
        text = _text_of_extracted(text)
    # Before the sentences are split: a control character hides the end of a
    # sentence.
    text = clean_text(text)
    return [
        sentence
        for paragraph in paragraphs.split_paragraphs(text, flags.line_breaks)
        for sentence in sentences.split(paragraph, item.source.language)
    ]


_EXTRACTED = re.compile(r"\A\s*<doc\s([^\n]*)>(.*)</doc>\s*", re.DOTALL)
_TITLE = re.compile(r'\btitle="([^\n]*)"')


def _text_of_extracted(text: str) -> str:
    """Return the text of a document of WikiExtractor, without its title.

    WikiExtractor writes &lt; for <, and the title as the first line.
    """
    match = _EXTRACTED.fullmatch(text)
    if match is None:
        raise Unusable("broken_item", "does not end (no </doc>)")
    named = _TITLE.search(match[1])
    title = html.unescape(named[1]) if named else ""
    return _without_title(html.unescape(match[2]), title)


def _without_title(text: str, title: Any) -> str:
    """Return a text without its first line if that is the title."""
    first, _, rest = text.strip().partition("\n")
    return rest if first.strip() == title else text


def _text_of_json(line: str, column: str) -> str:
    """Return the text of a line of JSON, "" for null."""
    try:
        row = text_files.parse_json(line)
        if isinstance(row, dict) and row.get(column, "") is None:
            return ""
        hint = "; name one by --text_column"
        text = tables.require(row, column, str, hint=hint)
    except UserError as error:
        raise Unusable("broken_item", str(error)) from None
    except ValueError as error:
        raise Unusable("broken_item", f"is not JSON: {error}") from None
    return _without_title(text, row.get("title"))


def _sentences_of_page(
    item: Item, counts: collections.Counter
) -> list[str] | None:
    """Return the sentences of a page, None if it is no article; count it."""
    counts["pages"] += 1
    page, model, text = dumps.parse_page(item.data)
    wiki = site.from_namespaces(item.source.language, item.source.namespaces)
    reason = "articles"
    if page.namespace != 0:
        reason = "other_namespaces"
    elif page.redirect is not None or site.is_redirect(text):
        reason = "redirects"
    elif model != "wikitext":
        reason = "not_wikitext"
    elif site.is_disambiguation(text, page.title, wiki):
        reason = "disambiguations"
    counts[reason] += 1
    if reason != "articles":
        return None
    try:
        lines, more = wikitext.to_sentences(text, wiki)
    except Unusable:
        raise
    except Exception as error:
        # A page that no one has tried may raise anything; it must not end a
        # run of days. It is counted and named, and --strict ends the run.
        words = " ".join(str(error).split())
        detail = f"cannot be parsed: {type(error).__name__}: {words}"
        raise Unusable("refused_page", detail) from error
    for name, number in more.items():
        prefix = "" if name.startswith("sentences_") else "removed_"
        counts[f"{prefix}{name}"] += number
    return lines
