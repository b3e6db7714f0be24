"""Which process of a cluster this is, by the variable TF_CONFIG.

TensorFlow's format, for the first of two machines:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}

A cluster may have one task of type chief beside its workers; other types are
refused. Nothing here needs TensorFlow.
"""

import contextlib
import json
import os
import re
import socket
from typing import NamedTuple

from base import text_files
from base.errors import UserError

# host:port, or [IPv6 address]:port. A scheme (grpc://) is no part of it.
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")

_LAST_PORT = 65_535

# The types of task that train together, in the order of their numbers.
_TYPES = ("chief", "worker")


class Machine(NamedTuple):
    """One process of a cluster; it prints as `worker 1 (10.0.0.2:2222)`."""

    type: str
    index: int
    address: str

    def __str__(self) -> str:
        return f"{self.type} {self.index} ({self.address})"


def num_workers() -> int:
    """Return the number of processes that train, 1 without TF_CONFIG."""
    return max(1, len(machines()))


def has_other_workers() -> bool:
    """Whether other processes train with this one."""
    return num_workers() > 1


def is_chief() -> bool:
    """Whether this is the one process that writes files.

    It is the task of type chief, or worker 0 where there is no chief.
    """
    return number() == 0


def machines() -> list[Machine]:
    """Return the processes that train, the chief first."""
    return _read_tf_config()[0]


def number() -> int:
    """Return which of `machines()` this process is; the chief is number 0."""
    return _read_tf_config()[1]


def check_own_address() -> str | None:
    """Raise a UserError if another process listens at the address of this one.

    Returns a warning if the host is not an address of this machine, else None.
    Behind an address translation that may be right.
    """
    mine = machines()[number()]
    host, port = mine.address.rsplit(":", 1)
    # TensorFlow's server listens on all addresses of the machine. A port in
    # use would end in its "Could not start gRPC server" without the port.
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(port)))
        except OSError as error:
            raise UserError(
                f"TF_CONFIG: this process is {mine}, but port {port} cannot be "
                f"used: {error.strerror}; end the process that listens there, "
                "or give each process an index and a port of its own"
            ) from error
    found = []
    with contextlib.suppress(OSError):  # it cannot be resolved
        found = socket.getaddrinfo(host.strip("[]"), None)
    for family, *_, address in found:
        # An address of another machine cannot be bound to.
        with contextlib.suppress(OSError), socket.socket(family) as probe:
            probe.bind((address[0], 0))
            return None
    return (
        f"TF_CONFIG: this process is {mine}, but {host} is not an address of "
        "this machine. If that is not on purpose (a translated address), "
        "mend the index"
    )


def _read_tf_config() -> tuple[list[Machine], int]:
    """Return all processes, the chief first, and which of them this is."""
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return [], 0
    try:
        config = text_files.parse_json(text)
    except ValueError as error:
        raise _wrong(f"it is not JSON: {error}") from error
    if not isinstance(config, dict):
        raise _wrong(f"found {type(config).__name__}, wanted an object")
    cluster, task = config.get("cluster", {}), config.get("task", {})
    if not isinstance(cluster, dict) or not all(
        isinstance(some, list) and all(isinstance(one, str) for one in some)
        for some in cluster.values()
    ):
        raise _wrong(
            f"cluster is {json.dumps(cluster)}, wanted a list of addresses for "
            "each type of task"
        )
    if other := cluster.keys() - set(_TYPES):
        raise _wrong(
            f"cluster has tasks of type {', '.join(sorted(other))}, wanted "
            "worker, or chief and worker: there are no parameter servers, and "
            "all workers evaluate together"
        )
    if (chiefs := len(cluster.get("chief", ()))) > 1:
        raise _wrong(f"cluster has {chiefs} tasks of type chief, wanted one")
    found = [
        Machine(kind, index, address)
        for kind in _TYPES
        for index, address in enumerate(cluster.get(kind, ()))
    ]
    if len(found) <= 1 and not task:
        return found, 0
    # The task has no default: two machines that leave it out would both be
    # worker 0. Some launchers quote the index.
    numbers = {(one.type, str(one.index)): n for n, one in enumerate(found)}
    own = None
    if isinstance(task, dict):
        own = numbers.get((str(task.get("type")), str(task.get("index"))))
    if own is None:
        raise _wrong(
            f"task is {json.dumps(task)}, which is not one of cluster "
            f"{json.dumps(cluster)}"
        )
    if len(found) == 1:
        return found, own
    seen: dict[str, Machine] = {}
    for one in found:
        match = _ADDRESS.fullmatch(one.address)
        if not match or not 0 < int(match[2]) <= _LAST_PORT:
            raise _wrong(
                f"the address of {one.type} {one.index} is {one.address!r}, "
                f"wanted host:port with a port from 1 to {_LAST_PORT}"
            )
        other = seen.setdefault(one.address.lower(), one)
        if other != one:
            raise _wrong(
                f"{other} and {one} have the same address; each process needs "
                "one of its own"
            )
    return found, own


def _wrong(words: str) -> UserError:
    return UserError(
        f'TF_CONFIG: {words}; wanted {{"cluster": {{"worker": ["host:port", '
        '...]}, "task": {"type": "worker", "index": 0}}; mend it, or unset it '
        "to use one machine"
    )
