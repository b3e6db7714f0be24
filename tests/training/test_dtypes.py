"""The type of the products that --dtype=auto is, by machine.

Machines are described here, and their speed given: no test depends on the
machine that it runs on.
"""

import json

import pytest
import tensorflow as tf

from checkpoints.run_folder import RunFolder
from training import agreement, devices, dtypes


@pytest.mark.parametrize(
    ("kind", "speed", "dtype", "why"),
    [
        ("TPU", None, "bfloat16", "TPUs"),
        ("GPU", [(9, 0)], "bfloat16", "capability 9.0"),
        ("GPU", [(8, 0)], "bfloat16", "capability 8.0"),
        # All take part in a step, so the oldest decides.
        ("GPU", [(8, 6), (7, 5)], "float16", "capability 7.5"),
        ("GPU", [(7, 0)], "float16", "capability 7.0"),
        ("GPU", [(6, 1)], "float32", "capability 6.1"),
        ("GPU", [(8, 0), None], "float32", "does not tell"),
        ("CPU", 1.84, "bfloat16", "1.8 times as fast"),
        ("CPU", 1.5, "bfloat16", "1.5 times as fast"),
        ("CPU", 1.4, "float32", "1.4 times as fast"),
        ("CPU", 0.3, "float32", "0.3 times as fast"),
    ],
)
def test_what_auto_is(monkeypatch, kind, speed, dtype, why):
    """`speed`: a CPU's bfloat16 products, or capabilities of GPUs."""
    monkeypatch.setattr(devices, "is_tpu", lambda strategy: kind == "TPU")
    monkeypatch.setattr(devices, "kind", lambda: kind)
    monkeypatch.setattr(dtypes, "measure", lambda dtype: speed)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: speed)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_device_details",
        lambda gpu: {"compute_capability": gpu},
    )
    found, reason = dtypes.choose(tf.distribute.get_strategy())
    assert found == dtype and why in reason


def test_products_are_measured_once(monkeypatch):
    assert dtypes.measure("bfloat16") > 0
    monkeypatch.setattr(tf, "matmul", None)
    assert dtypes.measure("bfloat16") > 0


@pytest.fixture
def fast_machine(monkeypatch):
    monkeypatch.setattr(dtypes, "choose", lambda _: ("bfloat16", "of speed"))


def test_auto_keeps_the_type_of_the_run(fast_machine, caplog, tmp_path):
    """On another machine too: a run goes on as it began."""
    caplog.set_level("INFO", logger="absl")
    run = {"fixed": {}, "adjustable": {"dtype": "float16"}}
    (tmp_path / "training_config.json").write_text(json.dumps(run))
    strategy = tf.distribute.get_strategy()
    # Without a checkpoint no run has begun.
    assert (
        dtypes.resolve("auto", strategy, [RunFolder.read(str(tmp_path))])
        == "bfloat16"
    )
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "m"\n')
    for name in ("m.index", "m.data-00000-of-00001"):
        (tmp_path / name).write_text("")
    runs = [RunFolder.read(str(p)) for p in (tmp_path / "none", tmp_path)]
    assert dtypes.resolve("auto", strategy, runs) == "float16"
    assert "--dtype=auto: float16, as the run in" in caplog.messages[-1]
    assert dtypes.resolve("float32", strategy, runs) == "float32"


def test_machines_that_differ_take_float32(fast_machine, monkeypatch, caplog):
    caplog.set_level("INFO", logger="absl")

    class Two:
        count = 2

        def first_to_differ(self, row):
            return 1, 0

    monkeypatch.setattr(agreement, "check_same_run", lambda *arguments: None)
    monkeypatch.setattr(agreement, "machines_of", lambda strategy: Two())
    strategy = tf.distribute.get_strategy()
    assert dtypes.resolve("auto", strategy) == "float32"
    assert "the machines of the cluster differ" in caplog.text
