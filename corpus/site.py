"""What depends on a wiki's language: names of namespaces, redirects, codes.

A dump names its namespaces in its siteinfo: the prefix of a file is "Datei:"
in the German one. The English names are valid in every wiki. Dumps exist
without siteinfo, or with that of another wiki, so that the names of the larger
wikis are recognised everywhere: no wiki uses another language's word for files
as a prefix of something else.
"""

import functools
import re
from typing import NamedTuple

from corpus import words

# Namespaces of which a link shows no text: media, files, categories.
_HIDDEN_NUMBERS = (-2, 6, 14)

_WORDS = words.read("site")


_HIDDEN_NAMES = words.names(_WORDS["hidden_namespaces"])
LANGUAGE_CODES = frozenset(_WORDS["language_codes"].split())
REFERENCE_SECTIONS = words.names(_WORDS["reference_sections"])


def _any_of(table: str, space: str) -> str:
    """Return a pattern for any name of a table, with `space` for "_"."""
    names = map(re.escape, _WORDS[table].split())
    return "|".join(names).replace("_", space)


_REDIRECT = re.compile(
    rf"\A\s*#\s*(?:{_any_of('redirects', '[ _]?')})\s*:?\s*\[\[", re.IGNORECASE
)
# {{Human name disambiguation}}, but not {{disambiguation needed}}.
_DISAMBIGUATION = re.compile(
    rf"\{{\{{\s*(?:{_any_of('disambiguations', '[ _]')}"
    r"|(?![^|{}\n]{0,40}(?:need|link|inline|fix))[^|{}\n]{0,40}disambig"
    r"[^|{}\n]{0,40})\s*[|}\n]|__DISAMBIG__",
    re.IGNORECASE,
)
_TITLE = re.compile(
    rf"[(（](?:{_any_of('title_words', ' ')})[)）]$", re.IGNORECASE
)


class Site(NamedTuple):
    """The language of a wiki, and which of its links show no text.

    `hidden` are the names of namespaces, in lower case with spaces for
    underscores: the dump's own, the English ones and those of larger wikis.
    """

    language: str
    hidden: frozenset[str]

    def is_hidden(self, target: str) -> bool:
        """Return whether a link to this target shows no text of the article.

        That is a file, a category or another language; with a leading colon, as
        in [[:de:Berlin]], all of them are plain links.
        """
        prefix, colon, _ = target.partition(":")
        prefix = prefix.replace("_", " ").strip().lower()
        is_known = prefix in LANGUAGE_CODES or prefix in self.hidden
        return bool(colon) and is_known


@functools.lru_cache(maxsize=64)
def from_namespaces(
    language: str, namespaces: tuple[tuple[int, str], ...]
) -> Site:
    """Return the site of a dump, whose siteinfo names these namespaces."""
    own = {
        name.replace("_", " ").strip().lower(): key for key, name in namespaces
    }
    hidden = {name for name, key in own.items() if key in _HIDDEN_NUMBERS}
    return Site(language, _HIDDEN_NAMES.difference(own) | hidden)


def is_redirect(wikitext: str) -> bool:
    """Return whether a page is a redirect, by its text.

    Dumps before schema 0.10 do not mark such pages.
    """
    return _REDIRECT.match(wikitext) is not None


def is_disambiguation(wikitext: str, title: str, site: Site) -> bool:
    """Return whether a page lists the meanings of a title, by its templates.

    Those of all larger wikis are known. A title that ends in "(disambiguation)"
    is enough.
    """
    if _TITLE.search(title) or _DISAMBIGUATION.search(wikitext):
        return True
    own = _WORDS["disambiguations_of"].get(site.language)
    pattern = rf"\{{\{{{own}\s*[|}}]"
    return bool(own and re.search(pattern, wikitext, re.IGNORECASE))
