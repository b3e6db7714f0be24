"""How models on the Hugging Face hub, and their files, are told from others.

This file is all that most runs need of them: what reads or fetches such a model
is imported where there is one.
"""

import os
import re

from base import file_system

SCHEME = "hf://"

CONFIG_NAME = "config.json"
WEIGHTS_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"

# Where the client's cache has a repository's files.
_CACHED = re.compile(r"/models--([^/]+?)--([^/]+)/snapshots/[^/]+")


def is_of_hub(path: object) -> bool:
    """Whether a value has the form hf://... of a model on the hub."""
    return isinstance(path, str) and path.startswith(SCHEME)


def repository_of(path: str) -> str | None:
    """Return owner/name if a path is in the hub's cache; None otherwise."""
    match = _CACHED.search(path)
    return f"{match[1]}/{match[2]}" if match else None


def is_directory(path: str) -> bool:
    """Whether `path` is a directory with weights in safetensors files."""
    return any(
        file_system.exists(os.path.join(path, name))
        for name in (WEIGHTS_NAME, INDEX_NAME)
    )
