"""TF_CONFIG: which process this is, and one line for what is wrong in it."""

import json
import socket

from base import cluster
from base.errors import UserError

import pytest
from cluster_runs import free_ports

FIRST = {"type": "worker", "index": 0}
TWO = {"worker": ["a:1", "b:1"]}


def set_config(monkeypatch, **config) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


@pytest.mark.parametrize("config", [None, {"cluster": {"worker": ["a:1"]}}])
def test_one_process_is_the_chief(monkeypatch, config):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    if config:
        set_config(monkeypatch, **config)
    assert cluster.num_workers() == 1
    assert cluster.is_chief() and not cluster.has_other_workers()


@pytest.mark.parametrize(
    "kind, index, number",
    [("chief", 0, 0), ("worker", 0, 1), ("worker", "0", 1), ("worker", 1, 2)],
)
def test_machines_are_numbered_from_the_chief(monkeypatch, kind, index, number):
    both = {"worker": ["a:1", "b:1"], "chief": ["[::1]:2"]}
    set_config(monkeypatch, cluster=both, task={"type": kind, "index": index})
    assert list(map(str, cluster.machines())) == [
        "chief 0 ([::1]:2)",
        "worker 0 (a:1)",
        "worker 1 (b:1)",
    ]
    assert cluster.num_workers() == 3 and cluster.has_other_workers()
    assert cluster.number() == number
    assert cluster.is_chief() == (number == 0)


@pytest.mark.parametrize("index", [0, 1])
def test_without_a_chief_worker_zero_is_it(monkeypatch, index):
    set_config(
        monkeypatch, cluster=TWO, task={"type": "worker", "index": index}
    )
    assert cluster.number() == index and cluster.is_chief() == (index == 0)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ([1], "found list, wanted an object"),
        ({"cluster": [1]}, "cluster is [1], wanted a list of addresses"),
        ({"cluster": {"worker": [1, 2]}}, "wanted a list of addresses"),
        *(
            ({"cluster": TWO, "task": task}, "which is not one of cluster")
            for task in (
                {},
                {"type": "worker", "index": 2},
                {"type": "worker", "index": "x"},
                {"type": "worker", "index": True},
                {"type": ["worker"], "index": 0},
            )
        ),
        ({"cluster": TWO | {"ps": ["c:1"]}}, "type ps, wanted worker"),
        ({"cluster": {"workers": ["a:1"]}}, "type workers, wanted worker"),
        ({"cluster": {"chief": ["a:1", "b:1"]}}, "has 2 tasks of type chief"),
        *(
            (
                {"cluster": {"worker": ["a:1", address]}, "task": FIRST},
                f"the address of worker 1 is {address!r}, wanted host:port",
            )
            for address in ("b", "b:0", "b:65536", "::1:2")
        ),
        (
            {"cluster": {"worker": ["a:1", "A:1"]}, "task": FIRST},
            "worker 0 (a:1) and worker 1 (A:1) have the same address",
        ),
        (
            {"cluster": {"chief": ["b:1"], **TWO}, "task": FIRST},
            "chief 0 (b:1) and worker 1 (b:1) have the same address",
        ),
    ],
)
def test_a_damaged_one_is_one_line(monkeypatch, config, words):
    text = config if isinstance(config, str) else json.dumps(config)
    monkeypatch.setenv("TF_CONFIG", text)
    for function in (cluster.num_workers, cluster.is_chief):
        with pytest.raises(UserError) as error:
            function()
        assert words in str(error.value)
        assert "\n" not in str(error.value)
        assert "unset it" in str(error.value)


def test_a_port_in_use_is_one_line(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        workers = [f"127.0.0.1:{port}", "b:1"]
        set_config(monkeypatch, cluster={"worker": workers}, task=FIRST)
        with pytest.raises(UserError) as error:
            cluster.check_own_address()
    line = str(error.value)
    assert f"this process is worker 0 (127.0.0.1:{port})" in line
    assert "Address already in use" in line and "\n" not in line
    assert cluster.check_own_address() is None  # the port is free again


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("192.0.2.1", "is not an address of this machine"),  # RFC 5737
        ("no-such-host.invalid", "no-such-host.invalid is not an add"),
    ],
)
def test_a_host_that_is_not_this_machine_is_a_warning(monkeypatch, host, words):
    workers = [f"{host}:{free_ports(1)[0]}", "b:1"]
    set_config(monkeypatch, cluster={"worker": workers}, task=FIRST)
    warning = cluster.check_own_address()
    assert "this process is worker 0" in warning and words in warning
