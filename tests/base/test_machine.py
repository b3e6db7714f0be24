"""The memory of the machine or of its group, and systems that lack calls."""

import errno
import math
import os
import platform

from base import file_system, machine
from base.errors import UserError

import pytest


def test_what_does_not_fit_is_named(monkeypatch):
    free = 3 * 10**9
    monkeypatch.setattr(machine, "free_bytes", lambda: (free, "it"))
    machine.check_fits(free, "x", "y")
    with pytest.raises(UserError) as error:
        machine.check_fits(free + 1, "x", "y")
    line = "x needs 3.0 GB of memory, 3.0 GB of it are free: y"
    assert str(error.value) == line


@pytest.mark.parametrize(
    "group, file",
    [
        ("0::/job/step\n", "memory.max"),  # of the container's root
        ("0::/job/step\n", "job/memory.max"),
        ("9:cpu:/x\n5:memory:/job\n", "memory/job/memory.limit_in_bytes"),
        ("5:memory:/job\n", "memory/memory.limit_in_bytes"),
    ],
)
def test_the_memory_of_the_machine_or_its_group(tmp_path, group, file):
    assert machine.free_bytes(tmp_path)[0] == math.inf, "no /proc"
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(
        "MemTotal:       1000 kB\nMemAvailable:    300 kB\n"
    )
    (proc / "self/status").write_text("Name:\tpython\nVmRSS:\t   100 kB\n")
    (proc / "self/cgroup").write_text(group)
    assert machine.free_bytes(tmp_path) == (409_600, "this machine")
    with (proc / "meminfo").open("a") as lines:
        lines.write("SwapFree:        1 kB\n")
    assert machine.free_bytes(tmp_path) == (410_624, "this machine")
    path = tmp_path / "sys/fs/cgroup" / file
    path.parent.mkdir(parents=True)
    path.write_text("200000\n")
    found = machine.free_bytes(tmp_path)
    assert found == (201_024, "this control group (container)")
    path.write_text("max\n")
    assert machine.free_bytes(tmp_path) == (410_624, "this machine")


def test_a_processor_that_has_numbers_and_no_name(monkeypatch):
    """As /proc/cpuinfo of an ARM server with two kinds of cores."""
    core = (
        "processor\t: {}\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU part\t: {}\nCPU revision\t: 1\n\n"
    )
    cores = [
        core.format(*one) for one in enumerate(["0xd0c", "0xd0c", "0xd40"])
    ]
    monkeypatch.setattr(machine, "_cpuinfo", lambda: "".join(cores))
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    wanted = "aarch64, implementer 0x41, part 0xd0c, part 0xd40"
    assert machine.processor() == wanted
    assert {"asimd", "sve"} <= machine.cpu_flags()


@pytest.fixture
def other_system(monkeypatch):
    """Take away what Linux has; tests/test_other_systems.py: /proc, too."""
    for name in ("sched_getaffinity", "posix_fallocate"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(machine, "_PRCTL", None)


def test_what_comes_instead_on_other_systems(tmp_path, other_system):
    assert machine.num_cores() == os.cpu_count()
    machine.end_with_parent()
    with open(tmp_path / "file", "wb") as file:
        machine.reserve(file.fileno(), 1 << 16)
        with pytest.raises(OSError) as error:
            machine.reserve(file.fileno(), 1 << 60)
    assert error.value.errno == errno.ENOSPC


def test_a_file_system_may_have_no_locks(tmp_path, monkeypatch):
    def fail(*_) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(machine.fcntl, "flock", fail)
    with file_system.locked_folder(str(tmp_path / "x"), "it"):
        with file_system.locked_folder(str(tmp_path / "x"), "it"):
            pass
