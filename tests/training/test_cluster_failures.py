"""Processes of a cluster that are killed: the others end, nothing is lost.

tests/kill_table.py makes more of them fail, in more ways.
"""

import signal
from pathlib import Path

import pytest
from cluster_runs import Cluster
from pretraining_runs import assert_same, weights_of, write_data

LAST = "model.ckpt-12"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


def assert_named(cluster: Cluster, survivors: list[int], words: str) -> None:
    """Each survivor ended with status 1 and one line that has the words."""
    ends = cluster.ends(*survivors)
    for number in survivors:
        log = cluster.log(number)
        assert ends[number][0] == 1, log
        assert "Traceback" not in log
        assert cluster.last_line(number).startswith(f"ERROR: {words}"), log
        assert "with the same command" in cluster.last_line(number)
        assert log.count("ERROR: ") == 1


@pytest.mark.slow
def test_whatever_fails_the_run_ends_with_the_same_bits(data, tmp_path):
    """Each command is the same, in the same folder; the last one ends."""
    with Cluster(data, tmp_path / "whole") as cluster:
        assert [status for status, _ in cluster.ends().values()] == [0, 0]
    folder = tmp_path / "failing"
    # A worker that does not answer, as one that was switched off.
    with Cluster(data, folder, environment={"SILENT_SECONDS": "5"}) as cluster:
        cluster.wait_for(1, "Saved")
        cluster.processes[1].send_signal(signal.SIGSTOP)
        words = f"{cluster.name(1)} has stopped answering after step "
        assert_named(cluster, [0], words)
    # The chief, between the two files of a checkpoint.
    with Cluster(data, folder, fail={0: "files:8"}) as cluster:
        assert_named(cluster, [1], f"{cluster.name(0)} has ended")
        assert "; step 4 is saved" in cluster.last_line(1)
    # A worker that is about to be taken away.
    with Cluster(data, folder, iterations_per_loop=1) as cluster:
        cluster.wait_for(0, "The first step")
        cluster.processes[1].send_signal(signal.SIGTERM)
        assert [status for status, _ in cluster.ends().values()] == [1, 1]
        for number in range(2):
            words = f"Stopped by SIGTERM to {cluster.name(1)} after step "
            assert words in cluster.last_line(number)
    with Cluster(data, folder) as cluster:
        assert [status for status, _ in cluster.ends().values()] == [0, 0]
    for name in (LAST, "bert_model.ckpt"):
        assert_same(
            weights_of(tmp_path / "whole" / "out" / name),
            weights_of(folder / "out" / name),
        )
    assert not list(folder.rglob("*tmp*"))


@pytest.mark.slow
def test_all_survivors_name_the_machine_that_failed_first(data, tmp_path):
    """Not the neighbour that ended because of it."""
    with Cluster(
        data,
        tmp_path,
        3,
        fail={2: "step:3"},
        train_batch_size=6,
        eval_batch_size=6,
    ) as cluster:
        words = f"{cluster.name(2)} has ended (Connection refused) after step 2"
        assert_named(cluster, [0, 1], f"{words}; no step is saved")


@pytest.mark.slow
def test_a_machine_that_never_comes_up(data, tmp_path):
    with Cluster(
        data, tmp_path, start=[0], environment={"START_SECONDS": "0.2"}
    ) as cluster:
        status, _ = cluster.ends()[0]
        assert status == 1 and "Traceback" not in cluster.log(0)
        assert cluster.last_line(0).startswith(
            f"ERROR: {cluster.name(1)} did not come up within"
        )
    assert not (tmp_path / "out").exists()
