"""TF_CONFIG: which process this is, and one line for what is wrong in it."""

import json

from base import cluster
from base.errors import UserError

import pytest

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
