"""Report lines, the speed behind them, tables and files of results."""

import glob
import math

import pytest
import tensorflow as tf
from absl import logging

from training import reporting


@pytest.fixture(autouse=True)
def info(caplog):
    caplog.set_level("INFO", logger="absl")


def scalars_of(folder) -> dict[str, list[tuple[int, float]]]:
    """Return {tag: [(step, value)]} of the summaries in a directory."""
    found = {}
    for path in glob.glob(f"{folder}/events.*"):
        for record in tf.data.TFRecordDataset(path):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                number = float(tf.make_ndarray(value.tensor))
                found.setdefault(value.tag, []).append((event.step, number))
    return found


def sums_of(loss: float, examples: int) -> dict:
    return {
        "accuracy": (examples / 2, examples),
        "loss": (loss * examples, examples),
        "tokens": (100.0 * examples, examples),
    }


def test_a_line_of_skipped_steps_has_a_scale_and_no_norm(tmp_path, caplog):
    logging.set_verbosity(logging.DEBUG)  # the line may be long
    with reporting.Report(str(tmp_path), 0, 10) as report:
        sums = sums_of(9.0, 8) | {"gradient_norm": (0.0, 0.0)}
        report.add(sums, 1, 1.0, False)
        others = {"learning_rate": 0.5, "loss_scale": 2.0**20}
        others["skipped_steps"] = 1
        report.write(1, others)
        report.add(sums | {"gradient_norm": (3.0, 1.0)}, 1, 1.0, False)
        report.write(2, others)
    first, second = caplog.messages
    assert first.endswith("0.5 | loss_scale 1,048,576 | skipped_steps 1")
    assert len(first) > 91
    assert "gradient_norm" not in first and "gradient_norm 3.0000" in second
    scalars = scalars_of(tmp_path)
    assert scalars["loss_scale"] == [(1, 2.0**20), (2, 2.0**20)]
    assert scalars["skipped_steps"] == [(1, 1), (2, 1)]
    assert scalars["gradient_norm"] == [(2, 3.0)]


def test_scalars_are_written_between_lines_too(tmp_path, caplog):
    """Each has the means since the one of its kind before it."""
    with reporting.Report(str(tmp_path), 0, 4) as report:
        for step, loss in enumerate((6.0, 3.0, 2.0, 1.0), 1):
            report.add(sums_of(loss, 8), 1, 2.0 / step, True)
            report.write(step, {"learning_rate": 0.5}, step in (1, 4))
    first, second = caplog.messages
    assert "step 1/4 (25.0%) | loss 6.0000" in first
    assert "step 4/4 (100.0%) | loss 2.0000" in second
    scalars = scalars_of(tmp_path)
    assert scalars["loss"] == [(1, 6.0), (2, 3.0), (3, 2.0), (4, 1.0)]
    rates = [value for _, value in scalars["sequences_per_second"]]
    assert rates == pytest.approx([4.0, 8.0, 12.0, 16.0])
    assert f"{24 / (1 + 2 / 3 + 0.5):.1f} sequences/s" in second


def test_a_report_line_has_step_losses_speed_and_time_left(tmp_path, caplog):
    with reporting.Report(str(tmp_path), 1000, 100_000) as report:
        report.add(sums_of(9.0, 8), 1, 60.0, False)  # compiles
        report.write(1001, {"learning_rate": 0.0})
        report.add(sums_of(6.0, 8), 1, 0.5, True)
        report.add(sums_of(3.0, 16), 2, 1.0, True)
        report.write(1200, {"learning_rate": 1e-4})
    assert caplog.messages == [
        "step 1,001/100,000 (1.0%) | loss 9.0000 | accuracy 0.5000 | lr 0",
        # 91 columns: no place for the rate. With the time there are 100.
        "step 1,200/100,000 (1.2%) | loss 4.0000 | accuracy 0.5000"
        " | 16.0 sequences/s | ETA 13:43:20",
    ]
    scalars = scalars_of(tmp_path)
    assert scalars["loss"] == [(1001, 9.0), (1200, 4.0)]
    assert scalars["sequences_per_second"] == [(1200, 16.0)]


def test_a_report_is_late_half_a_minute_after_the_last_line(
    tmp_path, monkeypatch
):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("base.cluster.is_chief", lambda: False)
    with reporting.Report(str(tmp_path), 0, 9) as report:
        now[0] = 29.0
        assert not report.is_late()
        now[0] = 31.0
        assert report.is_late()
        report.add(sums_of(1.0, 8), 1, 1.0, True)
        report.write(1, {"learning_rate": 0.0})
        assert not report.is_late()
    assert not glob.glob(f"{tmp_path}/*"), "not the chief, yet wrote summaries"


def test_the_mean_of_a_step_moves_by_half_in_twenty_steps(tmp_path):
    with reporting.Report(str(tmp_path), 0, 30) as report:
        report.add(sums_of(1.0, 5), 5, 5.0, True)
        assert report.seconds_per_step == 1.0
        report.add(sums_of(1.0, 20), 20, 60.0, True)
        assert report.seconds_per_step == pytest.approx(2.0)


def test_results_are_a_table_in_the_log_and_exact_in_the_file(tmp_path, caplog):
    results = {"loss": 1.7663154696731422, "global_step": 1200, "f1": 88.5}
    results["eval_loss"] = results["loss"]  # the original's name
    reporting.write_results(str(tmp_path), results, step=1200)
    assert not caplog.messages
    reporting.log_results(str(tmp_path), results)
    assert caplog.messages == [
        f"Evaluation results (in full: {tmp_path}/eval_results.txt)\n"
        "  f1              88.5000\n"
        "  global_step  1,200\n"
        "  loss             1.7663"
    ]
    assert (tmp_path / "eval_results.txt").read_text() == (
        "eval_loss = 1.7663154696731422\nf1 = 88.5\nglobal_step = 1200\n"
        "loss = 1.7663154696731422\n"
    )
    scalars = scalars_of(tmp_path / "eval")
    losses = {"loss", "eval_loss"}
    assert scalars["f1"] == [(1200, 88.5)] and set(scalars) == {"f1", *losses}


def test_a_worker_that_is_not_the_chief_logs_results_alone(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr("base.cluster.is_chief", lambda: False)
    reporting.write_results(str(tmp_path), {"loss": 2.5}, step=1)
    reporting.log_results(str(tmp_path), {"loss": 2.5})
    assert caplog.messages == ["Evaluation results\n  loss  2.5000"]
    assert not list(tmp_path.iterdir())


def test_table_numbers_that_are_small_or_missing_stay_readable():
    table = reporting.results_table(
        {"a": 1.234e-5, "b": math.nan, "c": 0.0, "d": -12345.678, "e": 3}
    )
    assert table == [
        "  a        1.23e-05",
        "  b      nan",
        "  c        0.0000",
        "  d  -12,345.6780",
        "  e        3",
    ]
    assert reporting.results_table({}) == []
