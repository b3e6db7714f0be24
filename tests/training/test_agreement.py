"""What machines compare before they train together."""

import json
import types
import zlib

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from training import agreement
from training.settings import TrainingSettings


@pytest.fixture
def rows(monkeypatch):
    """Stands in for a second machine: what it adds to this one's row."""
    config = {"cluster": {"worker": ["a:1", "b:1"]}}
    task = {"task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config | task))
    differences = {}

    def gather(self, row):
        other = [n + differences.get(i, 0) for i, n in enumerate(row)]
        return np.array([row, other], np.int64)

    monkeypatch.setattr(agreement.Machines, "gather", gather)
    agreement.machines_of.cache_clear()
    yield differences
    agreement.machines_of.cache_clear()


def check_same_start() -> None:
    """Check a start after 30 steps, with weights whose checksum is 7."""
    agreement.check_same_start(
        tf.distribute.get_strategy(),
        TrainingSettings("/out", num_train_steps=40, train_batch_size=8),
        30,
        types.SimpleNamespace(checksum=lambda: 7),
    )


def test_one_machine_agrees_with_itself(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    agreement.machines_of.cache_clear()
    strategy = tf.distribute.get_strategy()
    machines = agreement.machines_of(strategy)
    np.testing.assert_array_equal(machines.gather([3, 2**62]), [[3, 2**62]])
    assert machines.first_to_differ([1, 2]) is None
    agreement.check_same_run(strategy, {"learning_rate": 1e-3})


def test_equal_machines_pass(rows):
    agreement.check_same_run(tf.distribute.get_strategy(), {"a": 1, "b": [2]})
    check_same_start()
    machines = agreement.machines_of(tf.distribute.get_strategy())
    assert (machines.done, machines.output_dir) == (30, "/out")


@pytest.mark.parametrize(
    "position, words",
    [
        (0, "worker 1 (b:1) trains another kind of run than worker 0 (a:1)"),
        (2, "has another num_train_steps than worker 0 (a:1) (here: 7)"),
    ],
)
def test_what_differs_in_a_run_is_named(rows, position, words):
    rows[position] = 1
    values = {"num_train_steps": 7, "learning_rate": 1e-3}
    with pytest.raises(UserError) as error:
        agreement.check_same_run(tf.distribute.get_strategy(), values)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "position, words",
    [
        (0, "resume after step 29, worker 0 (a:1) after step 30: --output_dir"),
        (1, "worker 1 (b:1) and worker 0 (a:1) have different weights at step"),
    ],
)
def test_what_differs_at_the_start_is_named(rows, position, words, monkeypatch):
    monkeypatch.setattr(agreement, "check_same_run", lambda *values: None)
    rows[position] = -1
    with pytest.raises(UserError) as error:
        check_same_start()
    assert words in str(error.value)


def test_checksums_do_not_depend_on_the_process():
    """Unlike hash(), which differs in each process."""
    assert agreement.checksum({"b": 1, "a": [2, "x"]}) == agreement.checksum(
        {"a": (2, "x"), "b": 1}
    )
    assert agreement.checksum({"a": 1e-3}) == zlib.crc32(b'{"a": 0.001}')
