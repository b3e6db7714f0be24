"""Writes the tables of docs/ that are made of code and data.

    python tests/helpers/generated_pages.py

A table stands in its page between the lines `<!-- name -->` and
`<!-- end of name -->`. What is written by hand stands around them.
"""

import re
import sys

from paths import ROOT

sys.path.insert(0, str(ROOT))  # where the scripts and packages are

import flags_page  # noqa: E402
import settings_page  # noqa: E402

# Page of docs/ -> a function that returns {name: table}.
PAGES = {
    "flags.md": lambda: {"flags": flags_page.tables()},
    "published_settings.md": lambda: {"settings": settings_page.tables()},
}


def filled(name: str, text: str) -> str:
    """Return a page's text with its tables as they should be now."""
    tables = PAGES[name]()
    places = re.findall(r"^<!-- (\w+) -->$", text, re.M)
    if sorted(places) != sorted(tables):
        raise ValueError(f"{name} has places {places}, wanted {[*tables]}")
    for table, lines in tables.items():
        first, last = f"<!-- {table} -->\n", f"\n<!-- end of {table} -->"
        before, _, rest = text.partition(first)
        after = rest.partition(last)[2]
        text = f"{before}{first}\n{lines.strip()}\n{last}{after}"
    return text


if __name__ == "__main__":
    for page in (ROOT / "docs" / name for name in PAGES):
        page.write_text(filled(page.name, page.read_text("utf-8")), "utf-8")
