"""What a report says about the machine it was measured on."""

import importlib.metadata
import os
import platform

_MIB = 2**20  # /proc/meminfo counts KiB


def describe() -> dict[str, str]:
    """Return processor, cores, memory, system and versions."""
    memory = _entry("/proc/meminfo", "MemTotal")  # "16384 kB"
    return {
        "processor": _entry("/proc/cpuinfo", "model name")
        or platform.processor()
        or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{int(memory.split()[0]) / _MIB:.1f} GiB"
        if memory
        else "unknown",
        "system": platform.platform(),
        "Python": platform.python_version(),
        **{name: _version(name) for name in ("TensorFlow", "Keras", "numpy")},
    }


def _entry(path: str, key: str) -> str:
    """Return a value of a file of Linux, "" without it."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = (line for line in file if line.startswith(key))
            return next(lines, "").partition(":")[2].strip()
    except OSError:
        return ""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package.lower())
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
