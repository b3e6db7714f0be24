"""Report lines, the speed behind them, tables and files of results."""

import glob
import math
import types

from base import logs

import numpy as np
import pytest
from absl import logging
from tiny import summaries_of

from training import reporting
from training.hooks.hook import Call
from training.hooks.report import Report
from training.hooks.save import Pace
from training.settings import TrainingSettings
from training.stop_request import StopRequest


@pytest.fixture(autouse=True)
def info(caplog):
    caplog.set_level("INFO", logger="absl")


class Run:
    """A run on one machine, without a model."""

    def __init__(self, folder, first=0, last=10, others=None, **settings):
        values = {"num_train_steps": last, "train_batch_size": 8, **settings}
        one = types.SimpleNamespace(gather=lambda row: np.array([row]))
        stop = StopRequest()
        self.done = first
        settings = TrainingSettings(str(folder), **values)
        self.pace = Pace(settings, one, stop, lambda step: 10 + step % 2)
        step = types.SimpleNamespace(
            objective=types.SimpleNamespace(perplexities={}),
            schedule=lambda done: 0.5,
            loss_scale=others and types.SimpleNamespace(means=lambda: others),
        )
        bar = types.SimpleNamespace(note=lambda text: None)
        self.report = Report(self.pace, step, bar)
        self.report.begin(first)

    def call(self, loss, examples, steps=1, seconds=1.0, norm=None, **more):
        """Report `steps` steps with these means."""
        self.done += steps
        sums = {
            "accuracy": (examples / 2, examples),
            "loss": (loss * examples, examples),
            "tokens": (100.0 * examples, examples),
        }
        if norm:
            sums["gradient_norm"] = norm
        call = Call(
            self.done, steps, sums, seconds, **{"compiles": False} | more
        )
        self.pace.after(call)
        self.report.after(call)


def test_a_line_of_skipped_steps_has_a_scale_and_no_norm(tmp_path, caplog):
    logging.set_verbosity(logging.DEBUG)  # the line may be long
    others = {"loss_scale": 2.0**20, "skipped_steps": 1}
    run = Run(tmp_path, others=others, log_steps=1)
    run.call(9.0, 8, norm=(0.0, 0.0), compiles=True)
    run.call(9.0, 8, norm=(3.0, 1.0), compiles=True)
    first, second = (line for line in caplog.messages if "| loss " in line)
    assert first.endswith("0.5 | loss_scale 1,048,576 | skipped_steps 1")
    assert len(first) > 91
    assert "gradient_norm" not in first and "gradient_norm 3.0000" in second
    scalars = summaries_of(tmp_path)
    assert scalars["loss_scale"] == [(1, 2.0**20), (2, 2.0**20)]
    assert scalars["skipped_steps"] == [(1, 1), (2, 1)]
    assert scalars["gradient_norm"] == [(2, 3.0)]


def test_scalars_are_written_between_lines_too(tmp_path, caplog):
    """Each has the means since the one of its kind before it."""
    run = Run(tmp_path, last=4)
    for step, loss in enumerate((6.0, 3.0, 2.0, 1.0), 1):
        run.call(loss, 8, seconds=2.0 / step)
    first, second = caplog.messages
    assert "step 1/4 (25.0%) | loss 6.0000" in first
    assert "step 4/4 (100.0%) | loss 2.0000" in second
    scalars = summaries_of(tmp_path)
    assert scalars["loss"] == [(1, 6.0), (2, 3.0), (3, 2.0), (4, 1.0)]
    rates = [value for _, value in scalars["sequences_per_second"]]
    assert rates == pytest.approx([4.0, 8.0, 12.0, 16.0])
    assert f"{24 / (1 + 2 / 3 + 0.5):.1f} sequences/s" in second


def test_a_report_line_has_step_losses_speed_and_time_left(tmp_path, caplog):
    run = Run(tmp_path, 1000, 100_000, log_steps=4)
    run.call(9.0, 8, seconds=60.0, compiles=True)
    run.call(6.0, 8, seconds=0.5)
    run.call(3.0, 16, 2, seconds=1.0)
    assert caplog.messages == [
        "The first step took 60.0 s, with tracing and compiling",
        "step 1,001/100,000 (1.0%) | loss 9.0000 | accuracy 0.5000 | lr 0.5",
        # 91 columns: no place for the rate. With the time there are 100.
        "step 1,004/100,000 (1.0%) | loss 4.0000 | accuracy 0.5000"
        " | 16.0 sequences/s | ETA 13:09:59",
    ]
    scalars = summaries_of(tmp_path)
    assert scalars["loss"] == [(1001, 9.0), (1004, 4.0)]
    assert scalars["sequences_per_second"] == [(1004, 16.0)]


def test_a_line_comes_half_a_minute_after_the_last(
    tmp_path, monkeypatch, caplog
):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr("base.cluster.is_chief", lambda: False)
    run = Run(tmp_path)
    for now[0] in (1.0, 29.0, 33.0, 34.0):
        run.call(1.0, 8)
    assert [line[:6] for line in caplog.messages] == ["step 1", "step 3"]
    assert not glob.glob(f"{tmp_path}/*"), "not the chief, yet wrote summaries"


def test_the_mean_of_a_step_moves_by_half_in_twenty_steps(tmp_path):
    run = Run(tmp_path, last=30)
    run.call(1.0, 4, 4, 42.0)  # steps of length 10, 11, 10 and 11
    assert run.pace.seconds_per_place == 1.0
    run.call(1.0, 20, 20, 3 * 210.0)
    assert run.pace.seconds_per_place == pytest.approx(2.0)
    assert run.pace.seconds_left(24) == pytest.approx(2 * 3 * 21)


def test_a_bar_tells_the_time_left_once_it_is_measured(tmp_path):
    """The first step compiles: it tells nothing of the others."""
    run, notes = Run(tmp_path, last=200), []
    run.report.bar.note = notes.append
    run.call(1.0, 8, seconds=60.0, compiles=True)
    run.call(1.0, 8, seconds=1.1)  # of length 11
    run.call(1.0, 8, seconds=1.0)
    assert [note.partition(", loss ")[0] for note in notes] == [
        "loss 1.0000",
        "ETA 00:03:28",  # 198 steps of length 10.5, which take 0.1 s each
        "ETA 00:03:27",
    ]


def test_results_are_a_table_in_the_log_and_exact_in_the_file(tmp_path, caplog):
    results = {"loss": 1.7663154696731422, "global_step": 1200, "f1": 88.5}
    results["eval_loss"] = results["loss"]  # the original's name
    reporting.write_results(str(tmp_path), results, step=1200)
    assert not caplog.messages
    path = reporting.results_path(str(tmp_path))
    reporting.log_results(path, results, "Evaluation results of dev_file")
    assert caplog.messages == [
        f"Evaluation results of dev_file (in full: {path})\n"
        "  f1              88.5000\n"
        "  global_step  1,200\n"
        "  loss             1.7663"
    ]
    assert (tmp_path / "eval_results.txt").read_text() == (
        "eval_loss = 1.7663154696731422\nf1 = 88.5\nglobal_step = 1200\n"
        "loss = 1.7663154696731422\n"
    )
    caplog.clear()
    reporting.write_results(str(tmp_path), results, step=1200)
    assert not caplog.messages  # the same scores
    other = results | {"f1": 70.25}
    reporting.write_results(str(tmp_path), other, step=1200)
    assert caplog.messages[0].startswith(f"{path} had other scores of the same")
    scalars = summaries_of(tmp_path / "eval")
    losses = {"loss", "eval_loss"}
    assert (1200, 88.5) in scalars["f1"] and set(scalars) == {"f1", *losses}


def test_a_worker_that_is_not_the_chief_logs_results_alone(
    tmp_path, caplog, monkeypatch
):
    monkeypatch.setattr("base.cluster.is_chief", lambda: False)
    reporting.write_results(str(tmp_path), {"loss": 2.5}, step=1)
    reporting.log_results("out/eval_results.txt", {"loss": 2.5}, "Scores")
    assert caplog.messages == ["Scores\n  loss  2.5000"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "scores, wanted, is_large",
    [
        ({"accuracy": 0.6667, "ece": 0.25}, "0.6667  (± 0.13 with 48", True),
        ({"accuracy": 1.0, "ece": 0.05}, "1.0000  (± 0.037 with 48", False),
        ({"accuracy": 0.5, "ece": 0.25, "temperature": 1.5}, "(± 0.14", False),
    ],
)
def test_few_examples_and_wrong_probabilities_are_said(
    scores, wanted, is_large, caplog
):
    caplog.set_level(logs.SAY, logger="absl")
    counts = {"accuracy": 48, "dev_matched_accuracy": 0}
    reporting.log_results("eval_results.txt", scores, "Scores", counts)
    assert wanted in caplog.text
    assert ("This one is large" in caplog.text) == is_large


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
