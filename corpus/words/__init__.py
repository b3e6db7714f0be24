"""The words of languages that the corpus needs, as data: one file a topic."""

import os
from collections.abc import Iterable, Mapping
from typing import Any

from base import text_files


def read(name: str) -> dict[str, Any]:
    """Return the words of a file of this folder, `name`.toml."""
    path = os.path.join(os.path.dirname(__file__), f"{name}.toml")
    return text_files.read_toml(path)


def names(text: str) -> frozenset[str]:
    """Return the words of a text, in which underscores stand for spaces."""
    return frozenset(word.replace("_", " ") for word in text.split())


def of_language(table: Mapping[str, str], code: str) -> frozenset[str]:
    """Return the words for a language, and those for all, from a table."""
    return names(f"{table['']} {table.get(code, '')}")


def by_word(rows: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return {word: value} of rows (words, value), see `names`."""
    return {word: value for text, value in rows for word in names(text)}
