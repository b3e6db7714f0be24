"""run_pretraining.py --recompute: a run may change it and keeps its bits."""

import pytest
import scripts
from pretraining_runs import assert_same, flags_for, weights_of, write_data

run_pretraining = scripts.load("run_pretraining")


@pytest.mark.slow
def test_a_run_that_changes_it_ends_with_the_same_bits(tmp_path, caplog):
    """Stopped after 5 steps with attention, resumed without; dropout."""
    data = tmp_path / "data"
    data.mkdir()
    write_data(data)
    whole = flags_for(data, tmp_path / "whole")
    scripts.run(run_pretraining, **whole)
    parts = whole | {"output_dir": tmp_path / "parts"}
    first = {"recompute": "attention", "stop_after_steps": 5}
    scripts.run(run_pretraining, **parts | first)
    caplog.clear()
    with caplog.at_level("INFO", logger="absl"):
        scripts.run(run_pretraining, **parts)
    assert "5 steps are done" in caplog.text
    assert "recompute changes from attention to None" in caplog.text
    assert "Memory, estimated: weights 0 MB, optimizer slots 0" in caplog.text
    assert_same(
        weights_of(tmp_path / "whole" / "model.ckpt-12"),
        weights_of(tmp_path / "parts" / "model.ckpt-12"),
    )
