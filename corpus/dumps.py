"""Read MediaWiki XML dumps: siteinfo, page boundaries, pages.

The reading process finds page boundaries by searching for the bytes <page>
and </page>, and the workers give every page to mwxml. Reading the whole dump
with mwxml would not do. An XML parser cannot continue after the first error, so
a single bad byte would lose the rest of the dump. The parser keeps an empty
element for every page that it has read, some GB for a whole Wikipedia. And at
68 MB/s it would take from the reading process what decompression needs. The
search reads 2,700 MB/s. It is exact, as `<` in a page is written `&lt;`.

Tags are compared without their XML namespace, which differs between the
versions 0.8 to 0.11 of the schema.
"""

import collections
import html
import io
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import mwxml

from corpus.items import Unusable

_BEGIN = re.compile(rb"<page[\s>]")
_END = b"</page>"
_TAG = re.compile(_BEGIN.pattern + b"|" + _END)
_TITLE = re.compile(rb"<title>([^<]*)</title>")
_LANGUAGE = re.compile(r"""<mediawiki\b[^>]*\bxml:lang=["']([^"']*)["']""")
_NAMESPACE = re.compile(
    r"""<namespace\s[^>]*\bkey=["'](-?\d+)["'][^>]*>([^<]+)</namespace>"""
)

# The longest part of a tag that a block may end with: "</page".
_TAG_BYTES = 6

# How much is kept of a page that cannot be used, for its title.
_HEAD_BYTES = 2**12


class Page(NamedTuple):
    """A page of a dump, with its newest text; articles are of namespace 0."""

    title: str
    namespace: int
    is_redirect: bool
    model: str
    text: str


def read_header(head: bytes) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return language and namespaces with names, (number, name), of a dump.

    A part of a dump that begins with a page has none. The language is "" where
    none is named. The header need not be whole, nor well-formed.
    """
    first = _BEGIN.search(head)
    text = head[: first.start() if first else len(head)]
    text = text.decode("utf-8", "replace")
    language = _LANGUAGE.search(text)
    namespaces = (
        (int(number), html.unescape(name))
        for number, name in _NAMESPACE.findall(text)
    )
    return (language[1] if language else ""), tuple(namespaces)


def split_pages(
    blocks: Iterable[bytes], max_bytes: int
) -> Iterator[tuple[bytes, str]]:
    """Yield (page, "") and (beginning of what cannot be used, problem).

    Memory holds one block, which is UTF-8, and one page. What is yielded comes
    in the order of the dump: the bytes from <page> to </page>; pages of more
    than max_bytes ("too_long"); pages that do not end before the next one
    begins ("broken_page"); and a last piece ("truncated") if the dump ends
    within a page or has no </mediawiki> for its <mediawiki>.
    """
    # `begin` is where the open page begins in the buffer, -1 without one. Of a
    # page that is too long only `head` is kept.
    buffer, searched, begin, head = b"", 0, -1, b""
    is_first, has_root, tail = True, False, b""
    for block in blocks:
        has_root = has_root or (is_first and b"<mediawiki" in block)
        is_first, tail = False, (tail + block)[-_HEAD_BYTES:]
        buffer += block
        while match := _TAG.search(buffer, searched):
            searched = match.end()
            if match[0] != _END:
                if begin >= 0:
                    broken = head or buffer[begin : match.start()]
                    yield broken[:_HEAD_BYTES], "broken_page"
                begin, head = match.start(), b""
            else:
                page = buffer[max(begin, 0) : searched]
                if begin < 0:
                    yield b"", "broken_page"
                elif head or len(page) > max_bytes:
                    yield head or page[:_HEAD_BYTES], "too_long"
                else:
                    yield page, ""
                begin, head = -1, b""
        if begin >= 0 and len(buffer) - begin > max_bytes:
            head = head or buffer[begin : begin + _HEAD_BYTES]
        # A tag may stand across the end of a block. Complete tags have been
        # found, so the bytes kept hold none.
        keep = len(buffer) - _TAG_BYTES
        if begin >= 0 and not head:
            keep = begin
        keep = max(keep, 0)
        searched = max(searched, len(buffer) - _TAG_BYTES) - keep
        buffer, begin = buffer[keep:], min(begin, 0)
    if begin >= 0:
        yield (head or buffer)[:_HEAD_BYTES], "truncated"
    elif has_root and b"</mediawiki>" not in tail:
        yield b"", "truncated"


def page_place(number: int, data: bytes) -> str:
    """Return "page 12 'Title'" for the XML of a page."""
    match = _TITLE.search(data[:_HEAD_BYTES])
    title = match and html.unescape(match[1].decode("utf-8", "replace"))
    return f"page {number} {title!r}" if title else f"page {number}"


def parse_page(data: bytes) -> Page:
    """Return the page in the bytes from <page> to </page>.

    Raises:
        Unusable: the XML is broken, or tags are not those of a dump.
    """
    try:
        text = data.decode("utf-8")
        xml = f"<mediawiki><siteinfo/>{text}</mediawiki>"
        page = next(iter(mwxml.Dump.from_file(io.StringIO(xml))))
        revisions = collections.deque(page, maxlen=1)
    except Exception as error:
        # UnicodeDecodeError, ParseError, MalformedXML, ValueError of int(), ...
        detail = f"{type(error).__name__}: {error}"
        raise Unusable("broken_item", detail) from error
    if not revisions:
        raise Unusable("broken_item", "no revision")
    (newest,) = revisions
    return Page(
        page.title,
        page.namespace,
        page.redirect is not None,
        newest.slots.contents["main"].model or "wikitext",
        newest.text or "",
    )
