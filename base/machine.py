"""What each system tells and does in a way of its own: Linux, macOS.

Memory, cores, processes that end with others, locks, space on a disk. Nothing
else of the project reads /proc or calls what a system may lack. Where one does
not tell, or cannot, the function says what comes instead.
"""

import contextlib
import ctypes
import errno
import fcntl
import math
import os
import platform
import re
import shutil
import signal
from pathlib import Path

from base.errors import UserError

# Less is not checked: reading /proc would take longer than using it.
_SMALL = 4 * 2**20

# Controllers of a control group, in version 1 and 2 -> the file of its limit.
_LIMITS = {"memory": "memory/{}/memory.limit_in_bytes", "": "{}/memory.max"}

_PR_SET_PDEATHSIG = 1  # linux/prctl.h

# Looked up here, since code between fork and exec should do as little as it
# can.
_PRCTL = getattr(ctypes.CDLL(None), "prctl", None)


# --- Memory ------------------------------------------------------------------


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
    memory = _sizes(root / "proc/meminfo")
    if not memory:
        return math.inf, ""
    held = _sizes(root / "proc/self/status").get("VmRSS", 0)
    free = memory["MemAvailable"] + held
    swap = memory.get("SwapFree", 0)
    group = _group_limit(root)
    if group < free:
        return group + swap, "this control group (container)"
    return free + swap, "this machine"


def in_words(count: float) -> str:
    """Return bytes for people: 438 MB, 5.4 GB."""
    if count < 1e9:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e9:.1f} GB"


def _sizes(path: Path) -> dict[str, int]:
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
            if not (file := _LIMITS.get(controllers)):
                continue
            # A group is limited by those above it too.
            place = Path(group.lstrip("/"))
            for part in (place, *place.parents):
                path = root / "sys/fs/cgroup" / file.format(part)
                with contextlib.suppress(OSError, ValueError):
                    limit = min(limit, int(path.read_text("utf-8")))  # or "max"
    return limit


# --- Processor ---------------------------------------------------------------


def num_cores() -> int:
    """Return the number of cores that this process may use.

    In a container or a batch job these are fewer than the machine has. Where
    the system, as macOS, does not tell, they are all.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_flags() -> set[str]:
    """Return the names of the processor's instructions, among other words.

    Empty on systems other than Linux.
    """
    return {*_cpuinfo().split()}


def processor() -> str:
    """Return the processor's name, or its kind where the name is not known.

    On ARM, Linux tells numbers in place of a name, such as "aarch64,
    implementer 0x41, part 0xd0c" for a Neoverse-N1; lscpu knows their names.
    """
    if found := re.search(r"^model name\s*:(.*)", _cpuinfo(), re.MULTILINE):
        return found[1].strip()
    numbers = re.compile(r"^CPU (implementer|part)\s*: (\w+)", re.MULTILINE)
    pairs = dict.fromkeys(numbers.findall(_cpuinfo()))
    kind = platform.processor() or platform.machine()
    return ", ".join([kind, *map(" ".join, pairs)])


def _cpuinfo() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/cpuinfo").read_text("utf-8")
    return ""


def has_nvidia_driver() -> bool:
    """Whether the kernel has NVIDIA's driver; systems but Linux have none."""
    return os.path.exists("/proc/driver/nvidia")


# --- Processes ---------------------------------------------------------------


def has_ended(process: int) -> bool:
    """Whether a process that the system lists has ended.

    It is listed until its parent asks how it ended, which many containers
    never do. False where the system does not tell.
    """
    try:
        with open(f"/proc/{process}/stat", "rb") as file:
            # "12 (a name) Z 1 ...", where the name may have parentheses.
            return file.read().rpartition(b")")[2].startswith(b" Z")
    except OSError:
        return False


def end_with_parent() -> None:
    """Ask the kernel, in a child, for a SIGTERM when the parent ends.

    Also by kill -9. It is for preexec_fn of subprocess, too. Systems other than
    Linux cannot: there a child whose parent is killed so runs on, a worker
    until its job is done and it finds its pipe closed.
    """
    if _PRCTL:
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGTERM)


# --- Files -------------------------------------------------------------------


def lock(descriptor: int) -> None:
    """Lock an open file or folder until it is closed, or the process ends.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: there are no locks, as on some network file systems.
    """
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def reserve(descriptor: int, num_bytes: int) -> None:
    """Reserve the disk's space for a file that will have so many bytes.

    macOS has no call for it: there the space is only compared.

    Raises:
        OSError: the disk has less.
    """
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(descriptor, 0, num_bytes)
    elif shutil.disk_usage(descriptor).free < num_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
