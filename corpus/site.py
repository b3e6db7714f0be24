"""What a wiki's own language changes about reading its pages."""

from collections.abc import Mapping
from typing import NamedTuple


class Site(NamedTuple):
    """The language of a wiki and its names of namespaces.

    Attributes:
        language: code such as "en", "de", "zh".
        namespaces: number of a namespace by its name, in lower case with
            spaces for underscores: the dump's own names and the English ones.
    """

    language: str
    namespaces: dict[str, int]


def from_namespaces(language: str, names: Mapping[int, str]) -> Site:
    """Return the site of a dump with these namespaces in its siteinfo."""
    return Site(language, {name.lower(): key for key, name in names.items()})


def is_redirect(wikitext: str) -> bool:
    """Return whether a page only redirects to another one."""
    return wikitext.lstrip()[:9].lower() == "#redirect"


def is_disambiguation(wikitext: str, title: str, site: Site) -> bool:
    """Return whether a page lists the meanings of a title."""
    return "{{disambig" in wikitext.lower()
