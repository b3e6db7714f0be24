"""Find how much memory a device or the machine has, and how much is free."""

import contextlib
import subprocess
from pathlib import Path
from typing import NamedTuple


class Limit(NamedTuple):
    """The memory that a run may use, in bytes.

    Attributes:
        what: whose memory it is, for messages.
        total: the limit.
        free: what other processes leave of it, as far as known: for a
            container at most its limit, for a GPU all of it.
    """

    what: str
    total: int
    free: int


def find_limit(kind: str, root: str = "/") -> Limit | None:
    """Return the limit of a kind of device; None if it is not known.

    Args:
        kind: CPU, GPU or TPU.
        root: of the file system, for tests.
    """
    if kind == "GPU":
        return _gpu_limit()
    return _machine_limit(Path(root)) if kind == "CPU" else None


# --- The machine -------------------------------------------------------------


def _machine_limit(root: Path) -> Limit | None:
    """Return the machine's memory, or the control group's if that is less."""
    entries = proc_entries(root / "proc/meminfo")
    if "MemTotal" not in entries:
        return None  # not Linux
    own = proc_entries(root / "proc/self/status").get("VmRSS", 0)
    free = own + entries.get("MemAvailable", entries["MemTotal"])
    limit = Limit("this machine", entries["MemTotal"], free)
    group = _group_limit(root)
    if group and group < limit.total:
        limit = Limit("this control group (container)", group, group)
    return limit._replace(free=min(limit.total, free))


def proc_entries(path: Path) -> dict[str, int]:
    """Return the sizes in a file such as /proc/meminfo, {name: bytes}.

    It is empty where there is no such file.
    """
    found = {}
    with contextlib.suppress(OSError):
        for line in path.read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = 1024 * int(value.split()[0])
    return found


def _group_limit(root: Path) -> int | None:
    """Return the least memory limit of the process' control groups."""
    groups, found = ["/"], []
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            # 0::/user.slice/job, or in version 1 5:memory:/docker/1f
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                groups.append(group)
    for group in groups:
        # A group is limited by those above it too.
        place = Path(group.lstrip("/"))
        for part in (place, *place.parents):
            for name in ("memory.max", "memory/{}/memory.limit_in_bytes"):
                if "{}" in name:
                    path = root / "sys/fs/cgroup" / name.format(part)
                else:
                    path = root / "sys/fs/cgroup" / part / name
                with contextlib.suppress(OSError, ValueError):
                    found.append(int(path.read_text("utf-8")))  # or "max"
    return min(found, default=None)


# --- GPUs --------------------------------------------------------------------


def _gpu_limit() -> Limit | None:
    """Return the memory of the smallest GPU, as its driver tells it."""
    # TensorFlow tells what it has taken of a GPU, not what the GPU has.
    command = ["nvidia-smi", "--query-gpu=memory.total,memory.free"]
    try:
        result = subprocess.run(
            [*command, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        rows = [line.split(",") for line in result.stdout.strip().splitlines()]
        total, _ = min((int(total), int(free)) for total, free in rows)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    # This process has taken the memory already: what is free is not known.
    return Limit("a GPU", total * 2**20, total * 2**20)
