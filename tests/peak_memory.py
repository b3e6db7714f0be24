"""Run a command and print the most memory that it and its processes had.

    python tests/peak_memory.py python prepare_corpus.py --input_file=...

prints the command's own output, and at the end the peak of the sum of the
resident memory of all processes, looked at five times a second, and the peak
of each process. Pages that processes share are counted for each of them.
"""

import pathlib
import subprocess
import sys
import time

_SECONDS = 0.2


def processes_of(pid: int) -> list[int]:
    """Return a process and all that it has started, directly or not."""
    found = [pid]
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                found += processes_of(int(child))
        except OSError:  # it has ended
            continue
    return found


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process in MB, 0 if it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    for line in status.splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def main() -> int:
    """Run the command; return its exit status."""
    began = time.monotonic()
    process = subprocess.Popen(sys.argv[1:])
    peak, each = 0.0, {}
    while process.poll() is None:
        sizes = {pid: resident_mb(pid) for pid in processes_of(process.pid)}
        peak = max(peak, sum(sizes.values()))
        for pid, size in sizes.items():
            each[pid] = max(size, each.get(pid, 0.0))
        time.sleep(_SECONDS)
    parts = ", ".join(f"{size:.0f}" for size in each.values() if size)
    print(
        f"peak of all processes: {peak:.0f} MB (each: {parts}); "
        f"{time.monotonic() - began:.1f} s"
    )
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
