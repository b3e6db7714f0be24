"""TF_CONFIG: which process this is, and one line for what is wrong in it."""

import json
import socket

from base import cluster
from base.errors import UserError

import pytest
from cluster_runs import free_ports

FIRST = {"task": {"type": "worker", "index": 0}}
TWO = {"worker": ["a:1", "b:1"]}


def set_config(monkeypatch, **config) -> None:
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))


def test_without_it_one_process_writes(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert cluster.num_workers() == 1
    assert cluster.is_chief() and not cluster.has_other_workers()


@pytest.mark.parametrize(("index", "is_chief"), [(0, True), (1, False)])
def test_worker_zero_is_the_chief(monkeypatch, index, is_chief):
    set_config(
        monkeypatch, cluster=TWO, task={"type": "worker", "index": index}
    )
    assert cluster.num_workers() == 2 and cluster.has_other_workers()
    assert cluster.is_chief() == is_chief


@pytest.mark.parametrize("index", [0, "0"])
def test_a_chief_comes_before_worker_zero(monkeypatch, index):
    both = {"chief": ["c:1"], **TWO}
    set_config(
        monkeypatch, cluster=both, task={"type": "worker", "index": index}
    )
    assert cluster.num_workers() == 3 and not cluster.is_chief()
    set_config(
        monkeypatch, cluster=both, task={"type": "chief", "index": index}
    )
    assert cluster.is_chief()


def test_one_address_is_one_process(monkeypatch):
    set_config(monkeypatch, cluster={"worker": ["a:1"]})
    assert cluster.is_chief() and cluster.num_workers() == 1


def test_machines_are_numbered_from_the_chief(monkeypatch):
    config = {"worker": ["a:1", "b:1"], "chief": ["[::1]:2"]}
    set_config(monkeypatch, cluster=config, task={"type": "worker", "index": 1})
    assert list(map(str, cluster.machines())) == [
        "chief 0 ([::1]:2)",
        "worker 0 (a:1)",
        "worker 1 (b:1)",
    ]
    assert cluster.number() == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ("[1]", "TF_CONFIG: found list, wanted an object"),
        ("3", "TF_CONFIG: found int, wanted an object"),
        ('{"cluster": [1]}', "cluster is [1], wanted a list of addresses"),
        ('{"cluster": {"worker": "x"}}', 'cluster is {"worker": "x"}, wanted'),
        ('{"cluster": {"worker": [1, 2]}}', "wanted a list of addresses"),
        ('{"cluster": {"worker": ["a", "b"]}}', "task is {}, which is not"),
        (
            '{"cluster": {"worker": ["a", "b"]}, "task": 7}',
            "task is 7, which is not one of cluster",
        ),
        (
            '{"cluster": {"worker": ["a", "b"]},'
            ' "task": {"type": "worker", "index": 2}}',
            '"index": 2}, which is not one of cluster',
        ),
        (
            '{"cluster": {"worker": ["a", "b"]},'
            ' "task": {"type": "worker", "index": "x"}}',
            "which is not one of cluster",
        ),
        (
            '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "ps"}}',
            "which is not one of cluster",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]},'
            ' "task": {"type": "worker"}}',
            "which is not one of cluster",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"index": 1}}',
            "which is not one of cluster",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]},'
            ' "task": {"type": "worker", "index": true}}',
            "which is not one of cluster",
        ),
        (
            '{"cluster": {"worker": ["a:1", "b:1"], "ps": ["c:1"]}}',
            "type 'ps' (there are no parameter servers)",
        ),
        (
            '{"cluster": {"worker": ["a:1"], "evaluator": ["c:1"]}}',
            "type 'evaluator' (all workers evaluate together)",
        ),
        ('{"cluster": {"workers": ["a:1"]}}', "type 'workers', wanted worker"),
        ('{"cluster": {"chief": ["a:1", "b:1"]}}', "has 2 tasks of type chief"),
        *(
            (
                json.dumps({"cluster": {"worker": ["a:1", address]}} | FIRST),
                f"the address of worker 1 is {address!r}, wanted host:port",
            )
            for address in (
                "b",
                "b:",
                ":1",
                "b:x",
                "b:0",
                "b:65536",
                "b:-1",
                "grpc://b:1",
                "b:1 ",
                "b 2:1",
                "::1:2",
                "",
            )
        ),
        (
            json.dumps({"cluster": {"worker": ["a:1", "A:1"]}} | FIRST),
            "worker 0 and worker 1 have the same address A:1",
        ),
        (
            json.dumps(
                {"cluster": {"chief": ["b:1"], "worker": ["a:1", "b:1"]}}
                | FIRST
            ),
            "chief 0 and worker 1 have the same address b:1",
        ),
        (
            '{"cluster": {"worker": ["a", "b"]}, "task": {"type": ["worker"]}}',
            "which is not one of cluster",
        ),
    ],
)
def test_a_damaged_one_is_one_line(monkeypatch, text, words):
    monkeypatch.setenv("TF_CONFIG", text)
    for function in (cluster.num_workers, cluster.is_chief):
        with pytest.raises(UserError) as error:
            function()
        assert words in str(error.value)
        assert "\n" not in str(error.value)
        assert "unset it" in str(error.value)


# --- The address of this process ---------------------------------------------


def test_a_port_in_use_is_one_line(monkeypatch):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        workers = [f"127.0.0.1:{port}", "b:1"]
        set_config(monkeypatch, cluster={"worker": workers}, **FIRST)
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
        ("no-such-host.invalid", "no-such-host.invalid cannot be resolved"),
    ],
)
def test_a_host_that_is_not_this_machine_is_a_warning(monkeypatch, host, words):
    workers = [f"{host}:{free_ports(1)[0]}", "b:1"]
    set_config(monkeypatch, cluster={"worker": workers}, **FIRST)
    warning = cluster.check_own_address()
    assert "this process is worker 0" in warning and words in warning
