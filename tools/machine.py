"""What a report says about the machine it was measured on."""

import contextlib
import importlib.metadata
import os
import platform
import re
from pathlib import Path

from base import machine_memory


def describe() -> dict[str, str]:
    """Return processor, cores, memory, system and versions."""
    processor = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text("utf-8")
        if found := re.search(r"^model name\s*:(.*)", lines, re.MULTILINE):
            processor = found[1].strip()
    memory = machine_memory.proc_entries(Path("/proc/meminfo")).get("MemTotal")
    return {
        "processor": processor,
        "cores": str(os.cpu_count()),
        "memory": f"{memory / 2**30:.1f} GiB" if memory else "unknown",
        "system": platform.platform(),
        "Python": platform.python_version(),
        **{name: _version(name) for name in ("TensorFlow", "Keras", "numpy")},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package.lower())
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
