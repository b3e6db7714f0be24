"""From the source of a Wikipedia page to its sentences.

The paper takes "only the text passages" of Wikipedia "and ignores lists,
tables, and headers" (arXiv 1810.04805, section 3.1). markup.py cuts away what
is certainly no text, mwparserfromhell reads the links, entities and inline
templates of the paragraphs that are left, repairs.py removes the traces of
templates, sentences.py splits. Sentences that lost words are dropped and
counted.
"""

import collections
import re

import mwparserfromhell
from mwparserfromhell import nodes

from corpus import markup, repairs, sentences, templates
from corpus.markup import BROKEN, GAP, LESS, LOST
from corpus.site import Site

# Paragraphs without these characters hold no markup.
_MARKUP = frozenset("[{<&")

_EXTERNAL_LINK = re.compile(
    r"\[(?:[a-z]+:)?//|\[mailto:|\[[a-z]+:", re.IGNORECASE
)
_BRACKET = re.compile(r"[\[\]]")


def to_sentences(wikitext: str, site: Site) -> tuple[list[str], dict[str, int]]:
    """Return (the sentences of a page, what was removed and dropped by kind).

    Keys of dropped sentences start with "sentences_"; keys of removed parts are
    plain, such as "tables". The parser may refuse a page by any exception.
    """
    counts: collections.Counter[str] = collections.Counter()
    kept, language = [], site.language
    for text, introduces in markup.paragraphs(wikitext, site, counts):
        if not _MARKUP.isdisjoint(text):
            text = _plain(text, site)
        text = repairs.repair(text, language, counts)
        found = sentences.split(text, language)
        for number, sentence in enumerate(found, 1):
            last = number == len(found)
            if reason := repairs.judge(sentence, language, introduces, last):
                counts[f"sentences_{reason}"] += 1
            else:
                kept.append(sentence)
    return kept, dict(counts)


def _plain(text: str, site: Site) -> str:
    """Return the text that a paragraph of wikitext shows.

    The parser's time grows with the square of the number of tags and external
    links that have no end. markup.py has dealt with tags: "<" is text here.
    """
    text = text.replace("<", LESS)
    if "[" in text and _EXTERNAL_LINK.search(text):
        text = _escape_open_brackets(text)
    code = mwparserfromhell.parse(text, skip_style_tags=True)
    return _render(code, site).replace(LESS, "<")


def _escape_open_brackets(text: str) -> str:
    """Return wikitext with an entity for each bracket without a partner."""
    unmatched = []
    stack: list[int] = []
    for match in _BRACKET.finditer(text):
        if match[0] == "[":
            stack.append(match.start())
        elif stack:
            # Brackets nested deeper than in any article are no links either.
            start = stack.pop()
            if len(stack) > 8:
                unmatched += [start, match.start()]
        else:
            unmatched.append(match.start())
    places = {*unmatched, *stack}

    def escape(match: re.Match[str]) -> str:
        return f"&#{ord(match[0])};" if match.start() in places else match[0]

    return _BRACKET.sub(escape, text)


def _render(code: mwparserfromhell.wikicode.Wikicode | None, site: Site) -> str:
    if code is None:
        return ""
    return "".join(_render_node(node, site) for node in code.nodes)


def _render_node(node: nodes.Node, site: Site) -> str:
    if isinstance(node, nodes.Text):
        return node.value
    if isinstance(node, nodes.Wikilink):
        return _render_link(node, site)
    if isinstance(node, nodes.HTMLEntity):
        try:
            return node.normalize()
        except (ValueError, OverflowError):
            return BROKEN
    if isinstance(node, nodes.Template):
        return _render_template(node, site)
    if isinstance(node, nodes.ExternalLink):
        if node.brackets:
            return _render(node.title, site) or GAP
        return str(node.url)
    if isinstance(node, nodes.Tag):
        return _render(node.contents, site)
    return LOST if isinstance(node, nodes.Argument) else GAP


def _render_link(node: nodes.Wikilink, site: Site) -> str:
    """Return the label of a link, or its target if it has none."""
    target = str(node.title).strip()
    if site.is_hidden(target):
        return GAP
    if node.text is None:
        return _render(node.title, site).lstrip(":").replace("_", " ")
    label = _render(node.text, site)
    # Of [[a|b|c]] MediaWiki shows "b|c", which nobody means.
    label = label.rpartition("|")[2]
    if label.strip():
        return label
    # The "pipe trick": [[Mercury (planet)|]].
    return target.partition(" (")[0]


def _render_template(node: nodes.Template, site: Site) -> str:
    """Return the text of an inline template, or a mark if it is not known."""
    source = str(node)
    name = templates.name_of(source)
    if templates.is_silent(name, source, site.language):
        return GAP
    arguments = {
        str(parameter.name).strip(): _render(parameter.value, site).strip()
        for parameter in node.params
    }
    values = []
    # {{lang|1=fr|2=texte}} numbers its arguments.
    while (number := str(len(values) + 1)) in arguments:
        values.append(arguments.pop(number))
    call = templates.Call(name, values, arguments, site.language)
    return call.text() or LOST
