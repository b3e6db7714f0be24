"""The numbers of curves.png, by hand, and what is drawn of them."""

import os

import pytest
import tensorflow as tf

from training import curves, reporting, scalars, settings
from training.curves import Curves
from training.scalars import Window

# --- Numbers -----------------------------------------------------------------


def test_a_killed_run_has_the_curve_of_a_whole_one():
    """The loss of step s is s: a window's mean is that of its steps."""

    def window(first, last):
        return Window(last, last - first + 1, (first + last) / 2)

    whole = [window(1, 1), window(2, 50), window(51, 100)]
    killed = [
        *(window(1, 1), window(2, 50), window(51, 73)),
        *(window(74, 74), window(75, 100)),
    ]
    expected = {50: 25.5, 100: 75.5}
    for windows in (whole, killed):
        assert curves.merged(windows, 50) == pytest.approx(expected)


def test_a_short_rest_belongs_to_the_bin_before():
    reports = [Window(10, 10, 4.0), Window(20, 10, 3.0)]
    rest = curves.merged([*reports, Window(21, 1, 14.0)], 10)
    assert rest == {10: 4.0, 21: 4.0}  # (10 * 3 + 14) / 11
    half = curves.merged([*reports, Window(25, 5, 2.0)], 10)
    assert half == {10: 4.0, 20: 3.0, 25: 2.0}


def test_bins_are_wider_where_there_would_be_too_many():
    reports = [Window(100 * n, 100, float(n)) for n in range(1, 2001)]
    found = curves.merged(reports, 100)
    assert len(found) == 500
    assert found[400] == 2.5 and found[200_000] == 1998.5


def test_smoothing_does_not_lag():
    line = {step: 3.0 * step for step in range(1, 41)}
    assert curves.smooth(line) == pytest.approx(line)
    peak = dict.fromkeys(range(40), 0.0) | {20: 5.0}
    found = curves.smooth(peak)
    assert [s for s, v in found.items() if v] == [18, 19, 20, 21, 22]
    assert found[18] == 1.0
    assert curves.smooth({1: 2.0, 2: 1.0}) == {}


@pytest.mark.parametrize(
    "log_steps, last_step, expected",
    [(100, 343, 6), (100, 100_000, 100), (100, 20, 1), (2, 343, 2)],
)
def test_short_runs_have_about_fifty_points(log_steps, last_step, expected):
    assert settings.scalar_steps(log_steps, last_step) == expected


def write_run(folder, first, losses):
    """Write scalars as a process does that begins after `first` steps."""
    scalars.forget_after(str(folder), first)
    for step, loss in enumerate(losses, first + 1):
        numbers = {"steps": 1, "loss": loss, "learning_rate": step / 1000}
        scalars.append(str(folder), step, numbers)


def test_curves_are_what_was_written(tmp_path):
    write_run(tmp_path, 0, [5.0, 4.0, 9.0])
    reporting.write_results(tmp_path, {"loss": 8.0, "f1": 0.3}, 3)
    write_run(tmp_path, 2, [3.0, 2.0])  # step 3 again
    for step, loss, f1 in ((3, 2.5, 0.5), (4, 2.75, 0.75)):
        reporting.write_results(tmp_path, {"loss": loss, "f1": f1}, step)
    found = curves.read(str(tmp_path), 1, ("loss",), "f1")
    assert found.loss == {1: 5.0, 2: 4.0, 3: 3.0, 4: 2.0}
    assert found.dev_loss == {3: 2.5, 4: 2.75}
    assert found.metric == {3: 0.5, 4: 0.75}
    assert list(found.learning_rate) == [1, 2, 3, 4]
    assert found.learning_rate[3] == pytest.approx(0.003)
    assert (found.best, found.best_name) == (3, "lowest evaluation loss")
    # The first of the names that was written.
    other = curves.read(str(tmp_path), 1, ("lm_loss", "f1"))
    assert other.dev_loss == {3: 0.5, 4: 0.75} and not other.metric


def test_a_run_without_a_report_has_no_curves(tmp_path):
    assert curves.read(str(tmp_path), 1, ("loss",)) is None
    curves.write(str(tmp_path), None)
    assert not list(tmp_path.iterdir())


# --- Picture -----------------------------------------------------------------

LONG = Curves(
    {step: 5.0 / step for step in range(1, 41)},
    {20: 1.0, 40: 1.25},
    "macro_f1",
    {20: 0.5, 40: 0.25},
    {1: 0.0, 4: 1e-4, 40: 0.0},
    20,
    "weights kept",
)


def lines_of(axes):
    """Return {label: points} of what is drawn."""
    return {line.get_label(): line.get_xydata() for line in axes.get_lines()}


def test_everything_is_drawn():
    pytest.importorskip("matplotlib")
    loss, metric, rate = curves.figure_of(LONG).axes
    found = lines_of(loss)
    raw = found["training, as reported"]
    assert dict(raw.tolist()) == LONG.loss
    assert dict(found["training, smoothed"].tolist()) == curves.smooth(
        LONG.loss
    )
    assert dict(found["evaluation"].tolist()) == LONG.dev_loss
    assert dict(lines_of(metric)["evaluation"].tolist()) == LONG.metric
    star = next(line for line in metric.get_lines() if line.get_marker() == "*")
    assert star.get_xydata().tolist() == [[20, 0.5]]
    assert dict(rate.get_lines()[0].get_xydata().tolist()) == LONG.learning_rate
    # The step is marked in every panel.
    for axes in (loss, metric, rate):
        assert axes.get_lines()[-1].get_xdata() == [20, 20]
        assert axes.get_ylabel()
    assert rate.get_xlabel() == "training step"
    assert loss.get_title() == "weights kept: step 20, macro_f1 0.5"
    failed = curves.figure_of(LONG._replace(is_degenerate=True)).axes[0]
    assert failed.get_title() == f"degenerate run, {loss.get_title()}"


def test_one_evaluation_has_a_panel():
    pytest.importorskip("matplotlib")
    short = LONG._replace(
        loss={1: 2.0, 2: 1.0}, metric={2: 0.5}, dev_loss={}, best=2
    )
    loss, metric, rate = curves.figure_of(short).axes
    assert dict(lines_of(metric)["evaluation"].tolist()) == short.metric
    assert dict(lines_of(loss)["training"].tolist()) == short.loss
    assert loss.get_title() == "weights kept: step 2, macro_f1 0.5"
    assert rate.get_ylabel() == "learning rate"


def test_curves_png_is_small_and_in_any_file_system(tmp_path, tensorflow_files):
    image = pytest.importorskip("matplotlib.image")
    curves.write(str(tmp_path), LONG)
    assert image.imread(tmp_path / "curves.png").shape[:2] == (726, 825)
    assert os.path.getsize(tmp_path / "curves.png") < 60_000
    curves.write("ram://run", LONG)
    assert tf.io.gfile.exists("ram://run/curves.png")
