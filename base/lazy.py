"""Names of a module that are looked up in another one when first used."""

import importlib
from collections.abc import Callable
from typing import Any


def attributes_of(module: str) -> Callable[[str], Any]:
    """Return a `__getattr__` (PEP 562) that looks names up in `module`.

    For the folder compat/ alone: it has the names of the original's modules and
    is built on ours, so these cannot import it. Nothing is imported before a
    name is asked for that a module itself does not have.
    """

    def __getattr__(name: str) -> Any:
        # Python and its tools ask every module for names such as __path__.
        if not name.startswith("__"):
            found = vars(importlib.import_module(module))
            if name in found:
                return found[name]
        own = module.removeprefix("compat.")
        raise AttributeError(
            f"module {own!r} has no attribute {name!r}; docs/migration.md has "
            "what became of the original's names"
        )

    return __getattr__
