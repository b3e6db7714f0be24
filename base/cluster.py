"""Which process of a cluster this is, by the variable TF_CONFIG.

TensorFlow's format, for the first of two machines:

    {"cluster": {"worker": ["10.0.0.1:2222", "10.0.0.2:2222"]},
     "task": {"type": "worker", "index": 0}}

A cluster may have one task of type chief beside its workers; other types are
refused. Nothing here needs TensorFlow.
"""

import json
import os
import re
import socket
from typing import Any, NamedTuple

from base.errors import UserError

_MEND = (
    'wanted {"cluster": {"worker": ["host:port", ...]}, "task": {"type": '
    '"worker", "index": 0}}; mend it, or unset it to use one machine'
)

# host:port, or [IPv6 address]:port. A scheme (grpc://) is no part of it.
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")

_LAST_PORT = 65_535

# The types of task that train together, in the order of their numbers.
_TYPES = ("chief", "worker")

# What the other types of TensorFlow's clusters are for, and who does it here.
_REFUSED = {
    "evaluator": "all workers evaluate together",
    "ps": "there are no parameter servers",
    "master": "the first one is called chief",
}


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
    """Return the processes that train, the chief first; [] without a cluster.

    Raises:
        UserError: TF_CONFIG is damaged.
    """
    cluster = _tf_config()["cluster"]
    return [
        Machine(kind, index, address)
        for kind in _TYPES
        for index, address in enumerate(cluster.get(kind, ()))
    ]


def number() -> int:
    """Return which of `machines()` this process is; the chief is number 0.

    Raises:
        UserError: TF_CONFIG is damaged.
    """
    config = _tf_config()
    task = config["task"]
    if not has_other_workers():
        return 0
    first = 0
    if task["type"] == "worker":
        first = len(config["cluster"].get("chief", ()))
    return first + int(task["index"])


def check_own_address() -> str | None:
    """Return a warning if the host is not an address of this machine.

    Behind an address translation that may be right.

    Raises:
        UserError: another process listens there.
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
    try:
        found = socket.getaddrinfo(host.strip("[]"), None)
    except OSError as error:
        return (
            f"TF_CONFIG: this process is {mine}, but {host} cannot be resolved "
            f"({error.strerror}); the other machines need to reach it there"
        )
    for family, _, _, _, address in found:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((address[0], 0))
                return None
            except OSError:  # not an address of this machine
                continue
    return (
        f"TF_CONFIG: this process is {mine}, but {host} is not an address of "
        "this machine. If that is not on purpose (a translated address), "
        "mend the index"
    )


# --- Checks of TF_CONFIG -----------------------------------------------------


def _tf_config() -> dict[str, Any]:
    """Return TF_CONFIG with its keys cluster and task, empty without it.

    Raises:
        UserError: it is not JSON, or not a cluster.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text:
        return {"cluster": {}, "task": {}}
    try:
        config = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise UserError(f"TF_CONFIG is not JSON: {error}; {_MEND}") from error
    if not isinstance(config, dict):
        raise UserError(
            f"TF_CONFIG: found {type(config).__name__}, wanted an object; "
            f"{_MEND}"
        )
    cluster, task = config.get("cluster", {}), config.get("task", {})
    if not isinstance(cluster, dict) or not all(
        _is_addresses(addresses) for addresses in cluster.values()
    ):
        raise UserError(
            f"TF_CONFIG: cluster is {json.dumps(cluster)}, wanted a list of "
            f"addresses for each type of task; {_MEND}"
        )
    _check_types(cluster)
    if not isinstance(task, dict) or not _is_task(task, cluster):
        raise UserError(
            f"TF_CONFIG: task is {json.dumps(task)}, which is not one of "
            f"cluster {json.dumps(cluster)}; {_MEND}"
        )
    if sum(map(len, cluster.values())) > 1:
        _check_addresses(cluster)
    return {"cluster": cluster, "task": task}


def _is_addresses(value: Any) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(v, str) for v in value)


def _check_types(cluster: dict[str, list[str]]) -> None:
    """Check that there are workers and at most one chief.

    Raises:
        UserError: names the type.
    """
    for kind in cluster:
        if kind not in _TYPES:
            why = f" ({_REFUSED[kind]})" if kind in _REFUSED else ""
            raise UserError(
                f"TF_CONFIG: cluster has tasks of type {kind!r}{why}, wanted "
                f"worker, or chief and worker; {_MEND}"
            )
    if len(cluster.get("chief", ())) > 1:
        raise UserError(
            f"TF_CONFIG: cluster has {len(cluster['chief'])} tasks of type "
            f"chief, wanted one; {_MEND}"
        )


def _check_addresses(cluster: dict[str, list[str]]) -> None:
    """Check the form of all addresses, and that none comes twice.

    Raises:
        UserError: names the tasks.
    """
    seen: dict[str, str] = {}
    for kind, addresses in cluster.items():
        for index, address in enumerate(addresses):
            name = f"{kind} {index}"
            match = _ADDRESS.fullmatch(address)
            if not match or not 0 < int(match[2]) <= _LAST_PORT:
                raise UserError(
                    f"TF_CONFIG: the address of {name} is {address!r}, wanted "
                    f"host:port with a port from 1 to {_LAST_PORT}; {_MEND}"
                )
            other = seen.setdefault(address.lower(), name)
            if other != name:
                raise UserError(
                    f"TF_CONFIG: {other} and {name} have the same address "
                    f"{address}; each process needs one of its own; {_MEND}"
                )


def _is_task(task: dict[str, Any], cluster: dict[str, list[str]]) -> bool:
    """Whether a task names one of the cluster's addresses.

    With at most one address there is nothing to choose from.
    """
    if sum(map(len, cluster.values())) <= 1 and not task:
        return True
    # No default: two machines that both leave it out would both be worker 0.
    index = task.get("index")
    if isinstance(index, str) and index.isdecimal():  # some launchers quote it
        index = int(index)
    if type(index) is not int:
        return False
    kind = task.get("type")
    return isinstance(kind, str) and 0 <= index < len(cluster.get(kind, ()))
