"""The tables of the site that are made of code and data: a hook of mkdocs.

A page of docs/ has a line `<!-- rows -->` where the table `rows` goes. The
tables are in no folder: `make docs` makes them while it builds the site.
"""

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FOLDERS = [str(HERE.parent), str(HERE)]
sys.path[:0] = FOLDERS

import accelerators_page  # noqa: E402
import flags_page  # noqa: E402
import settings_page  # noqa: E402

# Page below docs/ -> a function that returns {name: table}.
PAGES = {
    "accelerators.md": accelerators_page.tables,
    "flags.md": lambda: {"flags": flags_page.tables()},
    "published_settings.md": lambda: {"settings": settings_page.tables()},
}


def on_startup(**_: Any) -> None:
    """Find the scripts: mkdocs takes back the path that a hook has set."""
    sys.path[:0] = FOLDERS


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the tables of a page into its text; each has one place."""
    if page.file.src_uri not in PAGES:
        return markdown
    tables = PAGES[page.file.src_uri]()
    places = re.findall(r"^<!-- (\w+) -->$", markdown, re.M)
    if sorted(places) != sorted(tables):
        raise ValueError(f"{page.file.src_uri} has places {places}")
    for name, table in tables.items():
        markdown = markdown.replace(f"<!-- {name} -->", table)
    return markdown
