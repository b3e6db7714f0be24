"""The memory of this machine: what is free, and whether something fits."""

import contextlib
import math
from pathlib import Path

from base.errors import UserError

# Less is not checked: reading /proc would take longer than using it.
_SMALL = 4 * 2**20


def check_fits(count: int, what: str, mend: str) -> None:
    """Check that this process may use `count` bytes for something.

    The system kills a process that takes more, without a message.

    Raises:
        UserError: there is less; it says what needs the memory, and `mend`.
    """
    if count < _SMALL:
        return
    free, where = free_bytes()
    if count > free:
        raise UserError(
            f"{what} needs {in_words(count)} of memory, {in_words(free)} of "
            f"{where} are free: {mend}"
        )


def free_bytes(root: Path = Path("/")) -> tuple[float, str]:
    """Return the bytes that this process may use, and whose memory they are.

    Bytes that it holds already are among them, and so is free swap space: a
    process that swaps is slow, but is not killed. Where the number is not
    known, on systems other than Linux, it is infinite. Another `root` of the
    file system is for tests.
    """
    memory = proc_entries(root / "proc/meminfo")
    if not memory:
        return math.inf, ""
    free = memory["MemAvailable"] + resident_bytes(root)
    swap = memory.get("SwapFree", 0)
    group = _group_limit(root)
    if group < free:
        return group + swap, "this control group (container)"
    return free + swap, "this machine"


def resident_bytes(root: Path = Path("/")) -> int:
    """Return the bytes that this process holds; 0 where that is not known."""
    return proc_entries(root / "proc/self/status").get("VmRSS", 0)


def in_words(count: float) -> str:
    """Return bytes for people: 438 MB, 5.4 GB."""
    if count < 1e9:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e9:.1f} GB"


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


def _group_limit(root: Path) -> float:
    """Return the least memory limit of the process' control groups."""
    limit = math.inf
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            # 0::/user.slice/job, or in version 1 5:memory:/docker/1f
            _, controllers, group = line.split(":", 2)
            if controllers == "memory":
                tree, name = "memory", "memory.limit_in_bytes"
            elif controllers == "":
                tree, name = ".", "memory.max"
            else:
                continue
            # A group is limited by those above it too.
            place = Path(group.lstrip("/"))
            for part in (place, *place.parents):
                path = root / "sys/fs/cgroup" / tree / part / name
                with contextlib.suppress(OSError, ValueError):
                    limit = min(limit, int(path.read_text("utf-8")))  # or "max"
    return limit
