"""Read MediaWiki XML dumps: siteinfo, page boundaries, pages.

The reading process finds page boundaries by searching for the bytes <page>
and </page>, and the workers give every page to mwxml. Reading the whole dump
with mwxml would not do. An XML parser cannot continue after the first error, so
a single bad byte would lose the rest of the dump. The parser keeps an empty
element for every page that it has read, some GB for a whole Wikipedia. And at
68 MB/s it would take from the reading process what decompression needs. The
search reads 2,400 MB/s. It is exact, as `<` in a page is written `&lt;`.

Tags are compared without their XML namespace, which differs between the
versions 0.8 to 0.11 of the schema.
"""

import collections
import html
import io
import re
from collections.abc import Iterable, Iterator

import mwxml

from corpus.items import HEAD_BYTES, Unusable

_END = b"</page>"
_TAG = re.compile(rb"(<page[\s>]|</page>)")
_LANGUAGE = re.compile(r"""<mediawiki\b[^>]*\bxml:lang=["']([^"']*)["']""")
_NAMESPACE = re.compile(
    r"""<namespace\s[^>]*\bkey=["'](-?\d+)["'][^>]*>([^<]+)</namespace>"""
)

_NO_END = "does not end (no </page>) before the next page"

# The longest part of a tag that a block may end with: "</page".
_TAG_BYTES = 6


def read_header(head: bytes) -> tuple[str, tuple[tuple[int, str], ...]]:
    """Return language and namespaces with names, (number, name), of a dump.

    A part of a dump that begins with a page has none. The language is "" where
    none is named. The header need not be whole, nor well-formed.
    """
    text = re.split(rb"<page[\s>]", head, maxsplit=1)[0]
    text = text.decode("utf-8", "replace")
    language = _LANGUAGE.search(text)
    found = _NAMESPACE.findall(text)
    namespaces = tuple((int(key), html.unescape(name)) for key, name in found)
    return (language[1] if language else ""), namespaces


def split_pages(
    blocks: Iterable[bytes], max_bytes: int
) -> Iterator[tuple[bytes, str]]:
    """Yield (page, "") and (beginning of what cannot be used, problem).

    Memory holds one block, which is UTF-8, and one page. What is yielded comes
    in the order of the dump: the bytes from <page> to </page>; pages of more
    than max_bytes ("too_long"); a page without an end, or an end without a
    page, with a message that says so; and a last piece ("truncated") if the
    dump ends within a page or has no </mediawiki> for its <mediawiki>.
    """
    page, rest, tail, has_root = None, b"", b"", None
    for block in blocks:
        if has_root is None:
            has_root = b"<mediawiki" in block
        tail = (tail + block)[-HEAD_BYTES:]
        *pieces, rest = _TAG.split(rest + block)
        # A tag may stand across the end of a block.
        pieces += rest[:-_TAG_BYTES], b""
        rest = rest[-_TAG_BYTES:]
        for text, tag in zip(pieces[::2], pieces[1::2], strict=True):
            if page is not None:
                page += text
                # Of a page that is too long the beginning is enough.
                page = page[: max_bytes + HEAD_BYTES]
            if tag == _END:
                if page is None:
                    yield b"", "has </page> without <page>"
                elif len(page) + len(tag) > max_bytes:
                    yield page[:HEAD_BYTES], "too_long"
                else:
                    yield page + tag, ""
                page = None
            elif tag:
                if page is not None:
                    yield page[:HEAD_BYTES], _NO_END
                page = tag
    if page is not None:
        yield (page + rest)[:HEAD_BYTES], "truncated"
    elif has_root and b"</mediawiki>" not in tail:
        yield b"", "truncated"


def parse_page(data: bytes) -> tuple[mwxml.Page, str, str]:
    """Return a page, and the model and the text of its newest revision.

    The bytes are those from <page> to </page>.

    Raises:
        Unusable: the XML is broken, or tags are not those of a dump.
    """
    try:
        text = data.decode("utf-8")
        xml = f"<mediawiki><siteinfo/>{text}</mediawiki>"
        page = next(iter(mwxml.Dump.from_file(io.StringIO(xml))))
        revisions = collections.deque(page, maxlen=1)
        models = [each.slots.contents["main"].model for each in revisions]
    except Exception as error:
        # UnicodeDecodeError, ParseError, MalformedXML, ValueError of int(), ...
        detail = f"{type(error).__name__}: {error}"
        raise Unusable("broken_item", detail) from error
    if not revisions:
        raise Unusable("broken_item", "no revision")
    (newest,) = revisions
    return page, models[0] or "wikitext", newest.text or ""
