"""Write the tables of docs/checkpoints_and_files.md: settings of models' files.

    python tests/settings_page.py

`make docs` runs it; tests/test_docs.py fails when the page is out of date.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from checkpoints import known_settings  # noqa: E402

PAGE = ROOT / "docs" / "checkpoints_and_files.md"

_BEGIN, _END = "<!-- settings: by make docs -->\n", "<!-- end of settings -->\n"


def tables() -> str:
    """Return a table for each file, a row for keys that are treated alike."""
    lines = []
    for name, settings in known_settings.SETTINGS.items():
        alike: dict[known_settings.Setting, list[str]] = {}
        for key, setting in settings.items():
            # Values of `harmless` have no hash.
            alike.setdefault((*setting[:2], str(setting.harmless)), []).append(
                key
            )
        lines += ["", f"`{name}`", "", "| setting | is | |", "|---|---|---|"]
        for keys in alike.values():
            treatment, why, harmless = settings[keys[0]]
            if harmless:
                values = " or ".join(f"`{value!r}`" for value in harmless)
                treatment += f", unless {values}"
            names = ", ".join(f"`{key}`" for key in keys)
            lines.append(f"| {names} | {treatment} | {why} |")
    return "\n".join([*lines[1:], ""])


def render() -> str:
    """Return the text of the page with the tables of now."""
    text = PAGE.read_text("utf-8")
    start, end = text.index(_BEGIN) + len(_BEGIN), text.index(_END)
    return f"{text[:start]}\n{tables()}\n{text[end:]}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
    print(f"Wrote {PAGE.relative_to(ROOT)}")
