"""Remove from a page what certainly is not text, before it is parsed.

The parser reads 1.2 MB of wikitext per second and keeps table cells and the
parameters of images. So most of a page goes first: comments, references and
other tags whose content is no text; templates, tables, files; then whole lines
(headings, items of lists, rows). Every step reads the page once: the time
grows linearly with its length, whatever it contains.

Marks stand where something was removed, so that repairs.py can tell a sentence
that lost words from a whole one:

    "It is <math>x</math> high.<ref>A</ref> {{Foo|5}} km is more." ->
    "It is \\ue001 high.\\ue003 \\ue000 km is more."
"""

import collections
import re
from collections.abc import Iterator
from typing import NamedTuple

from corpus import templates, words
from corpus.site import REFERENCE_SECTIONS, Site

# Marks, of Unicode's private use area. What they replace:
LOST = "\ue000"  # words: a template whose text is not known
FORMULA = "\ue001"  # mathematics or code
BROKEN = "\ue002"  # markup without its other half
GAP = "\ue003"  # nothing that a reader misses, such as a reference
LESS = "\ue004"  # "<", which starts no tag any more
_CUT = "\ue005"  # a table or list, on a line of its own
_UNMARK = dict.fromkeys(map(ord, LOST + FORMULA + BROKEN + GAP + LESS + _CUT))

# A line of these holds no text.
_NOTHING = " \t" + GAP + LOST

# --- Patterns ---------------------------------------------------------------
# Tags whose content is no wikitext, or no text of the article. MediaWiki too
# looks for the end tag only, whatever stands between.
_FORMULA_TAGS = frozenset(
    "math chem ce code source syntaxhighlight hiero score".split()
)
_RAW_TAGS = _FORMULA_TAGS | frozenset(
    """nowiki ref references pre gallery timeline imagemap graph mapframe
    maplink templatedata inputbox categorytree indicator templatestyles poem
    includeonly style script noinclude rt rp rtc""".split()
)
_RAW = re.compile(
    rf"<!--|<({'|'.join(sorted(_RAW_TAGS))})\b([^<>]*)>", re.IGNORECASE
)
# [^<>] ends at the next tag at the latest: no position is read twice.
_TAG = re.compile(r"</?([a-z][a-z0-9]*)\b[^<>]*>([ \t]*)", re.IGNORECASE)
_SUPERSCRIPT = re.compile(r"<sup\b[^<>]*>([^<>]*)</sup\s*>", re.IGNORECASE)
# Tags that break a line, and what stands in place of <tag> and of </tag>.
_BREAKS = words.by_word(
    {
        "br": (" ", " "),
        """p div blockquote center section article header footer hr caption
        noinclude onlyinclude""": ("\n\n", "\n\n"),
        "li dd dt tr td th table tbody thead": ("\n*", "\n"),
        "h1 h2 h3 h4 h5 h6": ("\n=", "\n"),
    }.items()
)
_INLINE_TAGS = frozenset(
    """a abbr b bdi bdo big cite data del dfn em font i ins kbd mark q rb rp rt
    rtc ruby s samp small span strike strong sub sup time tt u var wbr nobr
    blink section ref references ul ol dl nowiki math code pre gallery source
    syntaxhighlight chem ce includeonly poem timeline ruby""".split()
)
_BRACKETS = re.compile(
    r"\{\{|\}\}|\[\[|\]\]"
    r"|^[ \t:*#]*\{\||^[ \t]*\|\}(?!\}(?!\}))"
    r"|</?(?:table|ul|ol|dl)\b[^<>]*>",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSERS = {"}}": "{{", "]]": "[["}
_BLOCKS = {"{{": "templates", "{|": "tables", "<table": "tables"}
_SWITCH = re.compile(r"(?<!_)__[^\W_]+(?:_[^\W_]+)*__(?!_)")
_VARIANTS = re.compile(r"-\{([^{}]*)\}-")
_QUOTES = re.compile(r"'{2,}")
_NOWIKI = re.compile(r"[\[\]{}<>|=*#:;'&~_\-]")
_LANGUAGES_WITH_VARIANTS = frozenset(
    "zh gan wuu zh-yue yue sr sh kk ku uz iu tg crh shi ban tly".split()
)
# Languages whose lines are joined without a space.
UNSPACED = frozenset("zh ja zh-yue yue wuu gan lzh zh-classical".split())
_VARIANT = re.compile(
    r"^\s*(?:zh-hans|zh-cn|zh|sr-ec|kk-cyrl|[a-z]{2,3}-[a-z]+)\s*:(.*)$",
    re.DOTALL,
)


# --- The whole page ---------------------------------------------------------
def paragraphs(
    wikitext: str, site: Site, counts: collections.Counter[str]
) -> Iterator[tuple[str, bool]]:
    """Return the paragraphs of a page that hold text; count what is removed.

    They are wikitext, with links, entities and rendered templates. Beside each
    stands whether no other one follows, but a list, a table, a heading or the
    end of the page: it may introduce that.
    """
    text = wikitext.replace("\r\n", "\n")
    if "\ue000" <= max(text, default=""):
        text = text.translate(_UNMARK)
    text = _cut_raw_tags(text, counts)
    if "-{" in text and site.language in _LANGUAGES_WITH_VARIANTS:
        text = _choose_variants(text)
    text = _cut_brackets(text, site, counts)
    if "<" in text:
        text = _SUPERSCRIPT.sub(_superscript, text)
        text = _TAG.sub(_tag, text)
    if "__" in text:
        # Switches such as __NOTOC__ show nothing.
        text = _SWITCH.sub(lambda m: m[0] if m[0].upper() != m[0] else "", text)
    return _paragraphs(text, site, counts)


# --- Tags -------------------------------------------------------------------
def _cut_raw_tags(text: str, counts: collections.Counter[str]) -> str:
    """Return a page without comments, references, formulas and so on."""
    pieces = []
    position = 0
    unclosed = set()
    while match := _RAW.search(text, position):
        pieces.append(text[position : match.start()])
        position = match.end()
        tag = (match[1] or "").lower()
        if not tag:
            end = text.find("-->", position)
            # Without an end, a comment reaches to the end of the page.
            position = len(text) if end < 0 else end + 3
            # MediaWiki removes the line of a comment that stands alone.
            if pieces[-1].endswith("\n") and text.startswith("\n", position):
                position += 1
            counts["comments"] += 1
            continue
        if not match[2].endswith("/"):
            start, closing = position, None
            if tag not in unclosed:
                # </references> does not close <ref>.
                end_tag = re.compile(rf"</{tag}\b[^>]*>?", re.IGNORECASE)
                closing = end_tag.search(text, start)
            if closing:
                end, position = closing.span()
            else:
                unclosed.add(tag)
                end = text.find("\n", start)
                position = len(text) if end < 0 else end
            content = text[start:end] if end >= 0 else ""
            if tag == "nowiki":
                # The parser takes entities for text.
                pieces.append(_NOWIKI.sub(lambda m: f"&#{ord(m[0])};", content))
                continue
        if tag != "nowiki":
            kind = "other_tags"
            if tag in _FORMULA_TAGS:
                kind = "formulas"
            elif tag in ("ref", "references"):
                kind = "references"
            counts[kind] += 1
            pieces.append(FORMULA if kind == "formulas" else GAP)
    pieces.append(text[position:])
    return "".join(pieces)


def _superscript(match: re.Match[str]) -> str:
    """Return raised text: "10<sup>6</sup>" is 10⁶, not 106."""
    raised = match[1].translate(templates.RAISED)
    return match[1] if any(c.isalpha() for c in raised) else raised


def _tag(match: re.Match[str]) -> str:
    """Return the replacement of an HTML tag, whose content is kept."""
    name, closes = match[1].lower(), match[0][1] == "/"
    if name in _BREAKS:
        return _BREAKS[name][closes]
    return match[2] if name in _INLINE_TAGS else match[0]


def _choose_variants(text: str) -> str:
    """Return text with one spelling of -{zh-hans:计算机;zh-hant:電腦}-."""

    def choose(match: re.Match[str]) -> str:
        content = match[1]
        flags, bar, rest = content.rpartition("|")
        # Rules of conversion (H, T, -) show nothing.
        if bar and set(flags.strip().upper()) & set("HT-"):
            return ""
        parts = (rest if bar and len(flags) < 12 else content).split(";")
        chosen = [m[1] for part in parts if (m := _VARIANT.match(part))]
        return chosen[0].strip() if chosen else parts[0]

    for _ in range(3):
        text, replaced = _VARIANTS.subn(choose, text)
        if not replaced:
            break
    return text


# --- Templates, tables, files -----------------------------------------------
class _Span(NamedTuple):
    """A part of a page to be replaced."""

    start: int
    end: int
    kind: str


def _cut_brackets(
    text: str, site: Site, counts: collections.Counter[str]
) -> str:
    """Return a page without templates, tables, files and categories.

    Templates that can be rendered stay, on one line.
    """
    pieces = []
    position = 0
    for span in _spans(text, site):
        pieces.append(text[position : span.start])
        position = span.end
        if span.kind == "broken":
            pieces.append(BROKEN)
        elif span.kind == "templates":
            pieces.append(_template(text, span, site.language, counts))
        else:
            counts[span.kind] += 1
            is_block = span.kind in ("tables", "lists")
            pieces.append(f"\n{_CUT}\n" if is_block else GAP)
        # A space that now starts a line would make it preformatted.
        while pieces[-1].endswith("\n") and text.startswith(" ", position):
            position += 1
    pieces.append(text[position:])
    return "".join(pieces)


def _spans(text: str, site: Site) -> list[_Span]:
    """Return the parts of a page to replace, in order, without overlaps.

    A closing bracket ends the nearest open one of its kind; what was opened
    after that has no end. Each bracket enters and leaves the stack once.
    """
    spans: list[_Span] = []
    stack: list[tuple[str, int, int]] = []
    depth: collections.Counter[str] = collections.Counter()
    for match in _BRACKETS.finditer(text):
        token = match[0]
        opener, closes = _CLOSERS.get(token, token), token in _CLOSERS
        if token[0] == "<":
            opener = f"<{token.lower().strip('</> ').split()[0]}"
            closes = token[1] == "/"
        elif token not in ("{{", "[[") and not closes:
            # "{|" may stand behind ":" or "*".
            opener, closes = "{|", token.endswith("|}")
        if not closes:
            stack.append((opener, match.start(), match.end()))
            depth[opener] += 1
            continue
        if not depth[opener]:
            if token in _CLOSERS:
                spans.append(_Span(match.start(), match.end(), "broken"))
            continue
        while True:
            found, start, end = stack.pop()
            depth[found] -= 1
            if found == opener:
                break
        kind = _BLOCKS.get(opener, "lists")
        if opener == "[[":
            # A link to a file or a category; another one stays.
            colon = text.find(":", end, min(match.start(), end + 40))
            is_hidden = site.is_hidden(text[end : max(colon, end) + 1])
            kind = "files_and_categories" if is_hidden else ""
        if kind:
            while spans and spans[-1].start >= start:
                spans.pop()
            spans.append(_Span(start, match.end(), kind))
    for token, start, end in stack:
        if token in ("{{", "[["):
            spans.append(_Span(start, end, "broken"))
    return sorted(spans)


def _template(
    text: str, span: _Span, language: str, counts: collections.Counter[str]
) -> str:
    """Return what stands in place of a template: itself, or a mark."""
    source = text[span.start : span.end]
    name = templates.name_of(source)
    is_silent = templates.is_silent(name, source, language)
    renderer = templates.renderer_of(name, language)
    if renderer and not is_silent:
        counts["templates_rendered"] += 1
        # Lines decide what is a paragraph: a template is on one line.
        source = source.replace("\n", " ")
        is_paragraph = renderer is templates.quotation
        return f"\n\n{source}\n\n" if is_paragraph else source
    counts["templates"] += 1
    if is_silent:
        return GAP
    # A box that text follows in its last line.
    line = text[max(0, span.start - 200) : span.start].rpartition("\n")[2]
    if "\n" in source and (not line.strip() or line.rstrip().endswith("}}")):
        return GAP
    before = text[max(0, span.start - 1) : span.start]
    after = text[span.end : span.end + 2]
    # The shortest names show themselves: n.{{o}} 5.
    with_text = len(name) < 3 or any(templates.positional(source))
    return GAP if templates.is_remark(before, after, with_text) else LOST


# --- Lines ------------------------------------------------------------------
_LINE_KINDS = {
    **dict.fromkeys("*#:;", "lists"),
    "=": "headings",
    **dict.fromkeys("|!", "table_lines"),
    **dict.fromkeys(" \t", "preformatted"),
    _CUT: "cut",
}


def _kind_of_line(line: str) -> str:
    """Return "text", "blank" or the kind of line that holds no text."""
    kind = _LINE_KINDS.get(line[:1], "text")
    if kind in ("text", "preformatted"):
        # A template alone on a line belongs to no sentence.
        rest = line.strip(_NOTHING)
        if not rest:
            return "blank"
        if FORMULA in rest and not rest.strip(FORMULA + " .,;:"):
            return "cut"
    return kind


def _paragraphs(
    text: str, site: Site, counts: collections.Counter[str]
) -> Iterator[tuple[str, bool]]:
    """Yield the runs of lines that are neither list, heading nor table."""
    lines: list[str] = []
    waiting = ""  # a paragraph; what follows it is not known yet
    reference_level = 0
    for line in text.split("\n"):
        kind = _kind_of_line(line)
        if kind == "text":
            if reference_level:
                counts["lines_of_reference_sections"] += 1
                continue
            if waiting:
                yield waiting, False
                waiting = ""
            lines.append(line)
            continue
        if lines:
            waiting = _join(lines, site.language)
            lines = []
        if kind == "blank":
            continue
        if waiting:
            yield waiting, True
            waiting = ""
        if kind != "cut":
            counts[kind] += 1
        if kind == "headings":
            heading = line.strip("= \t" + GAP).lower()
            level = len(line) - len(line.lstrip("="))
            # Sections below "== References ==" belong to it.
            if heading in REFERENCE_SECTIONS:
                reference_level = level
            elif level <= reference_level:
                reference_level = 0
    if lines or waiting:
        waiting = waiting or _join(lines, site.language)
        yield waiting, True


def _join(lines: list[str], language: str) -> str:
    """Return the lines of a paragraph as one, without marks of emphasis."""
    between = "" if language in UNSPACED else " "
    return between.join(
        _without_quotes(line) if "''" in line else line for line in lines
    )


def _without_quotes(line: str) -> str:
    """Return a line without marks of bold and italic type.

    Four apostrophes are one apostrophe and bold type; more than five are some
    apostrophes and both types. If neither type ends, as in L'''amour'', three
    are one apostrophe and italic type.
    """
    runs = [min(len(run), 5) for run in _QUOTES.findall(line)]
    bold = sum(run in (3, 4, 5) for run in runs)
    italic = sum(run in (2, 5) for run in runs)
    mixed = bold % 2 == 1 and italic % 2 == 1

    def replace(match: re.Match[str]) -> str:
        nonlocal mixed
        length, before = len(match[0]), line[match.start() - 1 : match.start()]
        if length == 3 and mixed and before.strip():
            mixed = False
            return "'"
        return "'" * (1 if length == 4 else max(0, length - 5))

    return _QUOTES.sub(replace, line)
