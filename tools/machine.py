"""What a report says about the machine it was measured on."""

import importlib.metadata
import os
import platform

from base import machine


def describe() -> dict[str, str]:
    """Return processor, cores, memory, system and versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": machine.processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory / 2**30:.1f} GiB",
        "system": platform.platform(),
        "Python": platform.python_version(),
        **{name: _version(name) for name in ("TensorFlow", "Keras", "numpy")},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package.lower())
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
