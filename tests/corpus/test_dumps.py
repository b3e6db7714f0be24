"""corpus/dumps.py: page boundaries, headers, pages, and their damage."""

import hypothesis
import pytest
from corpus_runs import dump, page
from hypothesis import strategies

from corpus import dumps
from corpus.items import Unusable

HEAD = b"<mediawiki xml:lang='en'>\n"


def pieces(*blocks: bytes, max_bytes: int = 10**6) -> list[tuple[bytes, str]]:
    return list(dumps.split_pages(blocks, max_bytes))


@hypothesis.given(
    strategies.lists(
        strategies.sampled_from(
            [b"<page>", b"<page xml:space='x'>", b"</page>", b"a<b>", b"</pa"]
        )
    ),
    strategies.integers(1, 9),
    strategies.sampled_from([10, 25, 1000]),
)
def test_any_order_of_tags_is_the_same_in_any_blocks(parts, size, max_bytes):
    """Even where pages are broken or too long, and nothing is lost unsaid."""
    data = b"".join(parts)
    blocks = [data[i : i + size] for i in range(0, len(data), size)]
    whole, found = (
        # How much is kept of a page that is not used may differ.
        [(data if not problem else bool(data), problem) for data, problem in p]
        for p in (
            pieces(data, max_bytes=max_bytes),
            pieces(*blocks, max_bytes=max_bytes),
        )
    )
    assert found == whole
    begins = sum(part.startswith(b"<page") for part in parts)
    assert sum(bool(data) for data, _ in whole) == begins


def test_memory_is_bounded_though_a_page_never_ends():
    """A buffer of all blocks would be copied 300 times, for a minute."""
    block = b"x" * 2**20
    blocks = [HEAD + b"<page><title>T</title>"] + [block] * 300
    found = list(dumps.split_pages(iter(blocks), 10**6))
    assert [(len(data) < 5000, problem) for data, problem in found] == [
        (True, "truncated")
    ]


def test_a_dump_that_is_cut_between_pages_is_noticed():
    assert pieces(HEAD + b"<page>a</page>")[-1] == (b"", "truncated")
    assert pieces(HEAD + b"<page>a</page></mediawiki>\n")[-1][1] == ""
    # A single stream of a multistream dump has no root element.
    assert pieces(b"<page>a</page>")[-1][1] == ""


@pytest.mark.parametrize("version", ["0.8", "0.9", "0.10", "0.11"])
def test_header_of_any_schema(version):
    head = dump([page("A", "b")], "de", version).encode()
    assert dumps.read_header(
        b"<?xml version='1.0' encoding='x'?>\n" + head
    ) == ("de", ((-1, "Spezial"), (6, "Datei")))


@pytest.mark.parametrize(
    "head, language",
    [
        (b"<mediawiki xml:lang='fr'>\n<page>", "fr"),  # no siteinfo
        (b"<page><title>A</title>", ""),
        (b"<mediawiki xml:lang='fr'><siteinfo><bad", "fr"),
        (b"<mediawiki", ""),
        (b"", ""),
    ],
)
def test_header_without_namespaces(head, language):
    assert dumps.read_header(head) == (language, ())


# A page of Commons in schema 0.11. mwxml tells the schema by the checksum.
SLOTS = (
    "<page><title>T</title><ns>0</ns><revision><model>wikitext</model>"
    '<text sha1="x">text</text><content><role>mediainfo</role>'
    "<model>wikibase-mediainfo</model><text>{}</text></content></revision>"
    "</page>"
)


def test_newest_revision_and_its_model():
    xml = (
        "<page><title>T</title><ns>0</ns><revision><text>old</text></revision>"
        "<revision><model>json</model><text>new</text></revision></page>"
    )
    _, *found = dumps.parse_page(xml.encode())
    assert found == ["json", "new"]
    assert dumps.parse_page(SLOTS.encode())[1:] == ("wikitext", "text")


@pytest.mark.parametrize(
    "xml, words",
    [
        (b"<page><title>a</title><ns>0</ns></b></page>", "ParseError: "),
        (page("a", "&nbsp;").encode(), "undefined entity"),
        (page("a", "\x01").encode(), "not well-formed"),
        (page("a", "\xe9").encode("latin-1"), "UnicodeDecodeError: 'utf-8'"),
        (b"<page><ns>0</ns><revision/></page>", "AttributeError"),
        (b"<page><title>a</title><ns>x</ns></page>", "ValueError"),
        (b"<page><title>a</title><ns>0</ns></page>", "no revision"),
        (b"<page><html/></page>", "MalformedXML"),
        (SLOTS.replace(' sha1="x"', "").encode(), "KeyError: 'main'"),
    ],
)
def test_pages_that_cannot_be_read(xml, words):
    with pytest.raises(Unusable, match=words.replace("(", r"\(")):
        dumps.parse_page(xml.strip())
