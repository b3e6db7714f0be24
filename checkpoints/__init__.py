"""Checkpoints in the original's format and in Hugging Face's.

config, tokenizer, model = checkpoints.load("uncased_L-12_H-768_A-12")
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Return checkpoint.load, imported late, since it needs TensorFlow."""
    if name != "load":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from checkpoints.checkpoint import load

    return load
