"""The sentences of a Wikipedia page."""

from typing import NamedTuple

from corpus.site import Site


class PageError(ValueError):
    """The parser refuses a page; the message names the reason."""


class Passages(NamedTuple):
    """The text passages of a page.

    Attributes:
        paragraphs: clean text, one string per paragraph.
        counts: number of removed parts by kind.
    """

    paragraphs: list[str]
    counts: dict[str, int]


def extract(wikitext: str, site: Site) -> Passages:
    """Return the text passages of a page, without any markup.

    Raises:
        PageError: if the parser refuses the page.
    """
    return Passages([p for p in wikitext.split("\n\n") if p], {})


def to_sentences(
    wikitext: str, site: Site, language: str
) -> tuple[list[str], dict[str, int]]:
    """Return (the sentences of a page, what was dropped by reason).

    Raises:
        PageError: if the parser refuses the page.
    """
    from corpus import sentences

    paragraphs, counts = extract(wikitext, site)
    return [s for p in paragraphs for s in sentences.split(p, language)], counts
