"""The pages of the site that are made of code and data: a hook of mkdocs.

They are in no folder. `make docs` makes them while it builds the site, and
tests/test_docs.py looks at the same text for the headings that pages link to.
"""

import functools
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parent)]

import accelerators_page  # noqa: E402
import flags_page  # noqa: E402
import settings_page  # noqa: E402


@functools.cache
def texts() -> dict[str, str]:
    """Return {path below docs/: text} of every generated page."""
    return {
        "flags.md": flags_page.render(),
        "accelerators.md": accelerators_page.render(),
        "published_settings.md": settings_page.render(),
    }


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to those that mkdocs has found in docs/."""
    from mkdocs.structure.files import File

    for path, text in texts().items():
        files.append(File.generated(config, path, content=text))
    return files
