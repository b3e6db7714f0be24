"""What machines compare before they train together."""

import json
import zlib

from base.errors import UserError

import numpy as np
import pytest
import tensorflow as tf

from training import agreement


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
    agreement.check_same_start(tf.distribute.get_strategy(), "out", 5, 77)


def test_the_setting_that_differs_is_named(rows):
    rows[1] = 1
    values = {"num_train_steps": 7, "learning_rate": 1e-3}
    # Alone the names of the settings: one number, which does not differ.
    with pytest.raises(UserError, match="another num_train_steps") as error:
        agreement.check_same_run(tf.distribute.get_strategy(), values)
    line = str(error.value)
    assert "worker 1 (b:1) has another num_train_steps than worker 0" in line
    assert "(here: 7)" in line


def test_another_version_of_the_program(rows):
    rows[0] = 1
    with pytest.raises(UserError, match="another kind of run"):
        agreement.check_same_run(tf.distribute.get_strategy(), {"a": 1})


def test_another_checkpoint(rows):
    rows[0] = -30
    with pytest.raises(UserError) as error:
        agreement.check_same_start(tf.distribute.get_strategy(), "/out", 30, 7)
    line = str(error.value)
    assert "worker 1 (b:1) would go on after step 0, worker 0 (a:1)" in line
    assert "after step 30" in line and "(here: /out)" in line


def test_other_weights(rows):
    rows[1] = 1
    with pytest.raises(UserError, match="different weights at step 30"):
        agreement.check_same_start(tf.distribute.get_strategy(), "/out", 30, 7)


def test_checksums_do_not_depend_on_the_process():
    """Unlike hash(), which differs in each process."""
    assert agreement.checksum({"b": 1, "a": [2, "x"]}) == agreement.checksum(
        {"a": (2, "x"), "b": 1}
    )
    assert agreement.checksum({"a": 1e-3}) == zlib.crc32(b'{"a": 0.001}')
