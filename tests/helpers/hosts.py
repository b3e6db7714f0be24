"""Hosts of a network: namespaces of this machine, on a switch of their own.

Each has an address, a name, and the names of the others. All share the files
of this machine, as hosts that have a folder in common. What runs outside the
namespaces cannot reach them.
"""

import contextlib
import ctypes
import fcntl
import heapq
import itertools
import os
import random
import select
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

# Gives a process the names of the hosts, which only it and its children see.
_START = 'hostname "$1"; mount --bind "$2" /etc/hosts; shift 2; exec "$@"'

# Of the system's header files, for setns and for devices.
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x400454CA, 0x0002, 0x1000

_TUN = "/dev/net/tun"

_numbers = itertools.count()


class Hosts:
    """Hosts host0, host1, ...; `network` makes and removes them.

    Attributes:
        names: of all.
        slow: numbers of those with a slow cable, see `_carry`.
    """

    def __init__(self, folder: Path, count: int, slow: Collection[int]):
        self.names = [f"host{number}" for number in range(count)]
        self.slow = slow
        self._mark = f"bert{os.getpid()}-{next(_numbers)}"
        self._switch = f"{self._mark}-switch"
        self._file = folder / "etc_hosts"
        self._cables: list[threading.Thread] = []
        self._is_removed = threading.Event()

    def command(self, number: int, *command: object) -> list[str]:
        """Return the command that runs another one on a host.

        Its process is that of the other one.
        """
        return [
            *self._inside(self._space(number)),
            *("unshare", "--uts", "sh", "-c", _START, "sh"),
            *(self.names[number], str(self._file)),
            *map(str, command),
        ]

    def connect(self, number: int, how: str = "up") -> None:
        """Pull a host's cable (down) or plug it in: what is sent is lost."""
        _run(*self._inside(self._switch), f"ip link set port{number} {how}")

    def make(self) -> None:
        """Make the hosts and their switch."""
        lines = ["127.0.0.1 localhost"]
        lines += [f"{_address(n)} {name}" for n, name in enumerate(self.names)]
        self._file.write_text("\n".join(lines) + "\n")
        _run(f"ip netns add {self._switch}")
        _run(*self._inside(self._switch), "ip link add switch up type bridge")
        for number in range(len(self.names)):
            space = self._space(number)
            _run(f"ip netns add {space}")
            if number in self.slow:
                self._connect_slowly(number)
            else:
                _run(
                    *self._inside(self._switch),
                    f"ip link add port{number} type veth",
                    f"peer name eth0 netns {space}",
                )
            _run(
                *self._inside(self._switch),
                f"ip link set port{number} up master switch",
            )
            for what in (
                "link set lo up",
                f"address add {_address(number)}/24 dev eth0",
                "link set eth0 up",
            ):
                _run(*self._inside(space), f"ip {what}")

    def remove(self) -> None:
        """Remove them; their processes have to have ended."""
        self._is_removed.set()
        for cable in self._cables:
            cable.join()
        spaces = [self._space(number) for number in range(len(self.names))]
        for space in (*spaces, self._switch):
            with contextlib.suppress(subprocess.CalledProcessError):
                _run(f"ip netns delete {space}")

    def _connect_slowly(self, number: int) -> None:
        """Connect a host by a cable that a thread is.

        Not every kernel has netem, which does so.
        """
        is_connected = threading.Event()

        def cable() -> None:
            # The thread alone enters the namespaces.
            ends = [
                _open_device(self._switch, f"port{number}"),
                _open_device(self._space(number), "eth0"),
            ]
            is_connected.set()
            _carry(ends, self._is_removed)

        self._cables.append(threading.Thread(target=cable, daemon=True))
        self._cables[-1].start()
        assert is_connected.wait(10)

    def _space(self, number: int) -> str:
        return f"{self._mark}-{number}"

    def _inside(self, space: str) -> list[str]:
        return ["ip", "netns", "exec", space]


def _open_device(space: str, name: str) -> int:
    """Return a file of the frames that a new device of a namespace sends."""
    with open(f"/run/netns/{space}") as file:
        status = ctypes.CDLL(None).setns(file.fileno(), _CLONE_NEWNET)
        assert not status, f"{space} cannot be entered"
    device = os.open(_TUN, os.O_RDWR)
    how = struct.pack("16sH", name.encode(), _IFF_TAP | _IFF_NO_PI)
    fcntl.ioctl(device, _TUNSETIFF, how)
    return device


def _carry(ends: list[int], is_removed: threading.Event) -> None:
    """Carry frames both ways: 10 Mbit/s, 20 ms late; one in 100 is lost."""
    random_numbers = random.Random(1)
    free = dict.fromkeys(ends, 0.0)  # when the last frame has been sent
    coming: list[tuple[float, int, bytes]] = []  # when, where, what
    while not is_removed.is_set():
        now = time.monotonic()
        wait = min(coming[0][0] - now, 0.1) if coming else 0.1
        for end in select.select(ends, [], [], max(0, wait))[0]:
            frame = os.read(end, 1 << 16)
            if random_numbers.random() < 0.01:
                continue
            sent = max(time.monotonic(), free[end]) + len(frame) / 1.25e6
            free[end] = sent
            other = ends[end == ends[0]]
            heapq.heappush(coming, (sent + 0.02, other, frame))
        while coming and coming[0][0] <= time.monotonic():
            _, end, frame = heapq.heappop(coming)
            with contextlib.suppress(OSError):  # the device is down
                os.write(end, frame)
    for end in ends:
        os.close(end)


def _address(number: int) -> str:
    return f"10.77.0.{number + 1}"


def _run(*words: str) -> None:
    command = " ".join(words).split()
    subprocess.run(command, check=True, capture_output=True, text=True)


@contextlib.contextmanager
def network(
    folder: Path, count: int = 2, slow: Collection[int] = ()
) -> Iterator[Hosts]:
    """Make hosts, and remove them at the end; skip where that cannot be."""
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("hosts are network namespaces: needs root and iproute2")
    if slow and not os.path.exists(_TUN):
        pytest.skip(f"the cable of a slow host needs {_TUN}")
    hosts = Hosts(folder, count, slow)
    try:
        try:
            hosts.make()
        except subprocess.CalledProcessError as error:
            pytest.skip(f"hosts cannot be made here: {error.stderr.strip()}")
        yield hosts
    finally:
        hosts.remove()
