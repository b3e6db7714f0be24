"""The words of languages that the corpus needs, as data: one file a topic."""

import os
from typing import Any

from base import text_files


def read(name: str) -> dict[str, Any]:
    """Return the words of a file of this folder, `name`.toml."""
    path = os.path.join(os.path.dirname(__file__), f"{name}.toml")
    return text_files.read_toml(path)
