"""Draw the loss, scores and learning rate of a run as curves.png.

The numbers are those of scalars.jsonl. A report has the mean loss of the steps
since the report before it, so it is a window of steps:

    reports at step      1      50     100
    windows            1..1   2..50  51..100

`merged` turns windows into bins of equal size. A run that was killed at step
73 and resumed from a checkpoint at step 60 has the windows 51..60, 61..61 and
62..100 instead of the last one. Their mean, weighted by steps, is that of the
run that was not killed.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import cluster, pictures

from training import reporting, scalars, settings
from training.scalars import Curve

NAME = "curves.png"

# At most so many bins are drawn.
_MAX_BINS = 500

# The smooth curve is the mean of this share of all bins.
_SMOOTH_SHARE = 0.1

# With fewer bins there is no smooth curve beside the bins themselves.
_MIN_SMOOTH = 20


class Curves(NamedTuple):
    """What is drawn of a run.

    Attributes:
        loss: {last step of a bin: mean training loss}.
        dev_loss: {step: loss on held-out data}.
        metric_name: name of the deciding metric; None: there is none.
        metric: {step: deciding metric}.
        learning_rate: {step: rate}.
        best: the step to mark; None: none.
        best_name: what that step is.
        is_degenerate: whether the run has learned nothing.
    """

    loss: Curve
    dev_loss: Curve
    metric_name: str | None
    metric: Curve
    learning_rate: Curve
    best: int | None
    best_name: str = "lowest evaluation loss"
    is_degenerate: bool = False


# --- Numbers -----------------------------------------------------------------


def read(
    output_dir: str,
    log_steps: int,
    dev_loss_names: Sequence[str],
    metric_name: str | None = None,
    is_degenerate: bool = False,
    kept: int | None = None,
) -> Curves | None:
    """Return the curves of a run in all its parts; None without a report.

    The step to mark is that of the weights that are `kept`, 0 for the last; or
    with None that of the lowest loss on held-out data, if it was evaluated more
    than once. `dev_loss_names` are names of an evaluation's loss; the first one
    that was written counts.
    """
    reports = scalars.windows(output_dir)
    if not reports:
        return None
    rate = scalars.read_curves(output_dir).get("learning_rate", {})
    scores = scalars.read_curves(reporting.eval_folder(output_dir))
    width = settings.scalar_steps(log_steps, reports[-1].step)
    loss = merged(reports, width)
    dev_loss = next((scores[n] for n in dev_loss_names if n in scores), {})
    metric = scores.get(metric_name, {})
    best, name = None, "lowest evaluation loss"
    if kept is not None:
        best, name = kept or max(loss), "weights kept"
    elif len(dev_loss) > 1:
        best = min(dev_loss, key=dev_loss.get)
    return Curves(
        loss, dev_loss, metric_name, metric, rate, best, name, is_degenerate
    )


def merged(reports: Sequence[scalars.Window], width: int) -> Curve:
    """Return {last step: mean loss} of bins of `width` steps.

    A window belongs to the bin of its last step. Bins are wider where there
    would be too many. What is left at the end, if it is less than half a bin,
    belongs to the bin before: a single step's loss is noise.
    """
    last = reports[-1].step
    width *= max(1, -(-last // (width * _MAX_BINS)))
    bins: dict[int, list[scalars.Window]] = {}
    for window in reports:
        bins.setdefault(-(-window.step // width), []).append(window)
    rest = bins[max(bins)]
    if len(bins) > 1 and sum(window.size for window in rest) < width / 2:
        del bins[max(bins)]
        bins[max(bins)] += rest
    curve = {}
    for group in bins.values():
        total = sum(window.size * window.loss for window in group)
        curve[group[-1].step] = total / sum(window.size for window in group)
    return curve


def smooth(curve: Mapping[int, float]) -> Curve:
    """Return the mean of each point and its neighbours on both sides.

    Near an end there are as many on either side as there are on the shorter
    one, so that the curve does not lag. Empty for a curve of few points.
    """
    if len(curve) < _MIN_SMOOTH:
        return {}
    steps, values = list(curve), list(curve.values())
    reach = max(1, round(len(steps) * _SMOOTH_SHARE / 2))
    means = {}
    for at, step in enumerate(steps):
        side = min(reach, at, len(steps) - 1 - at)
        near = values[at - side : at + side + 1]
        means[step] = sum(near) / len(near)
    return means


# --- Picture -----------------------------------------------------------------


def write(output_dir: str, curves: Curves | None) -> None:
    """Draw curves.png in output_dir, if there are curves; the chief does."""
    if curves and cluster.is_chief():
        pictures.draw(
            os.path.join(output_dir, NAME),
            lambda path: pictures.save(figure_of(curves), path),
        )


def figure_of(curves: Curves) -> Any:
    """Return the figure: panels of loss, deciding metric and learning rate.

    Raises:
        ImportError: matplotlib is not installed.
    """

    def plot(axes: Any, curve: Curve, **style: Any) -> None:
        if curve:
            style = {"color": pictures.BLUE, "lw": 1} | style
            axes.plot(list(curve), list(curve.values()), **style)

    scores = {
        "color": pictures.ORANGE,
        "ls": "--",
        "marker": "o",
        "ms": 4,
        "markerfacecolor": "white",
        "label": "evaluation",
    }
    heights = [3.0, *([2.0] if curves.metric else []), 1.0]
    figure = pictures.new_figure(7.5, 0.6 + sum(heights))
    panels = figure.subplots(
        len(heights), 1, sharex=True, height_ratios=heights
    )
    loss, *_, rate = panels
    if smoothed := smooth(curves.loss):
        label = "training, as reported"
        plot(loss, curves.loss, color=pictures.LIGHT, label=label)
        plot(loss, smoothed, lw=1.5, label="training, smoothed")
    else:
        marker = "" if len(curves.loss) > 1 else "."
        plot(loss, curves.loss, marker=marker, label="training")
    plot(loss, curves.dev_loss, **scores)
    loss.set(ylabel="loss")
    loss.legend(fontsize=pictures.SMALL)
    if curves.metric:
        plot(panels[1], curves.metric, **scores)
        if curves.best in curves.metric:
            star = {curves.best: curves.metric[curves.best]}
            style = {"color": pictures.ORANGE, "marker": "*", "ls": "none"}
            plot(panels[1], star, ms=13, label=curves.best_name, **style)
        panels[1].set(ylabel=curves.metric_name.replace("_", " "))
        panels[1].legend(fontsize=pictures.SMALL)
    plot(rate, curves.learning_rate)
    rate.set(ylabel="learning rate", xlabel="training step")
    rate.ticklabel_format(axis="y", style="sci", scilimits=(0, 0))
    rate.set_ylim(bottom=0)
    rate.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    for axes in panels:
        axes.grid(alpha=0.3)
        if curves.best is not None:
            axes.axvline(curves.best, color=pictures.GREY, ls=":", lw=1.2)
    # Such as "weights kept: step 160, accuracy 0.6936".
    title = "degenerate run" if curves.is_degenerate else ""
    if curves.best is not None:
        title += f"{title and ', '}{curves.best_name}: step {curves.best:,}"
    if curves.best in curves.metric:
        title += f", {curves.metric_name} {curves.metric[curves.best]:.4g}"
    color = pictures.ORANGE if curves.is_degenerate else "black"
    loss.set_title(title, fontsize=10, color=color)
    figure.align_ylabels(panels)
    return figure
