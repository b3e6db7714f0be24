"""Processes of a cluster that are killed: the others end, nothing is lost."""

from pathlib import Path

import pytest
import scripts
from cluster_runs import Cluster, pretraining
from pretraining_runs import write_data
from tiny import assert_same, results_of, weights_of

run_pretraining = scripts.load("run_pretraining")

LAST = "model.ckpt-12"


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    return write_data(tmp_path_factory.mktemp("pretraining"))


def assert_named(cluster: Cluster, survivors: list[int], words: str) -> None:
    """Each survivor ended with status 1 and one line that has the words."""
    cluster.ends(*survivors)
    for number in survivors:
        cluster.assert_fails(number, words)
        assert "with the same command" in cluster.last_line(number)


@pytest.mark.nightly
def test_whatever_fails_the_run_ends_with_the_same_bits(data, tmp_path):
    """The chief is killed between the two files of a checkpoint.

    Two machines train as one does, but for rounding.
    """
    changes = {
        "bert_config_file": data / "no_dropout.json",
        "gradient_accumulation_steps": 2,
    }
    with pretraining(data, tmp_path / "whole", **changes) as cluster:
        cluster.assert_all_finish()
    flags = cluster.flags | {"output_dir": tmp_path / "alone" / "out"}
    scripts.run(run_pretraining, **flags)
    folder = tmp_path / "failing"
    with pretraining(data, folder, fail={0: "files:8"}, **changes) as cluster:
        assert_named(cluster, [1], f"{cluster.name(0)} has ended")
        assert "; step 4 is saved" in cluster.last_line(1)
    with pretraining(data, folder, **changes) as cluster:
        cluster.assert_all_finish()
    for name in (LAST, "bert_model.ckpt"):
        whole, failing, alone = (
            weights_of(tmp_path / run / "out" / name)
            for run in ("whole", "failing", "alone")
        )
        assert_same(whole, failing)
        assert_same(whole, alone, 1e-5)
    whole, alone = (
        results_of(tmp_path / run / "out") for run in ("whole", "alone")
    )
    assert whole == pytest.approx(alone, abs=1e-5, rel=1e-5)
    assert not list(folder.rglob("*tmp*"))


@pytest.mark.nightly
def test_all_survivors_name_the_machine_that_failed_first(data, tmp_path):
    """Not the neighbour that ended because of it."""
    with pretraining(
        data,
        tmp_path,
        size=3,
        fail={2: "step:3"},
        train_batch_size=6,
        eval_batch_size=6,
    ) as cluster:
        words = f"{cluster.name(2)} has ended (Connection refused) after step 2"
        assert_named(cluster, [0, 1], f"{words}; no step is saved")
