"""The results of a sweep: runs in their order, as text and for TensorBoard.

sweep_results.txt has the runs, means and spreads without failed runs. The
folder `hparams`, which TensorBoard's HParams page reads, has a file with the
names of hyperparameters and scores, and a folder with one file for each
finished run. They are written anew after each run and whenever the sweep's
command is given, so a run has one row.
"""

import math
import os
import re
import statistics
from collections.abc import Mapping, Sequence

from base.errors import UserError

import tensorflow as tf
from absl import logging

# The part of a run's name in which restarts and folds of one setting differ.
_REPEATED = re.compile(r"_?(fold\d+_)?seed-?\d+$")

# Name of a run -> its scores.
Results = Mapping[str, Mapping[str, float]]


def read(folder: str) -> dict[str, float]:
    """Return the scores in a run's eval_results.txt."""
    path = os.path.join(folder, "eval_results.txt")
    try:
        with tf.io.gfile.GFile(path) as file:
            pairs = [line.split(" = ") for line in file.read().splitlines()]
        return {key: float(value) for key, value in pairs}
    except ValueError as error:
        raise UserError(
            f"{path} is damaged ({error}): remove {folder}, and the run is "
            "made again"
        ) from error


def _is_failed(result: Mapping[str, float]) -> bool:
    return bool(result.get("degenerate"))


def ranked(results: Results, metric: str) -> list[str]:
    """Return the names of the runs, the best first, failed ones last.

    A failed run may have the best score: where a label is frequent, so is the
    right answer of a model that always gives it. `metric`, larger is better,
    decides.
    """
    return sorted(
        results,
        key=lambda name: (not _is_failed(results[name]), results[name][metric]),
        reverse=True,
    )


def warn_of_failed(order: Sequence[str], results: Results) -> None:
    """Log a warning if runs failed: how many, and what is kept."""
    failed = [name for name in order if _is_failed(results[name])]
    if len(failed) == len(order):
        logging.warning(
            "All %d runs failed, so the one that is kept, %s, is one of them: "
            "its answers depend little on the input, or not at all. The log of "
            "each run ends with what was seen and what usually helps",
            len(order),
            order[0],
        )
    elif failed:
        logging.warning(
            "%d of %d runs failed: %s; %s is the best of the others",
            len(failed),
            len(order),
            ", ".join(failed),
            order[0],
        )


# --- Text --------------------------------------------------------------------


def table(order: Sequence[str], results: Results, metric: str) -> list[str]:
    """Return a sweep's results as text: runs, best first, mean and spread.

    Failed runs are marked and left out of means, unless all have failed. A run
    without a score has "-" there: run_ner.py scores the types of entities that
    are in the development set or that the run predicted. A grid with restarts
    also has a line per setting: the best run may be a lucky one of a bad
    setting, and the mean over the seeds tells settings apart.
    `metric` decides, and has the first column.
    """

    def mean_and_spread(runs: Sequence[str]) -> tuple[float, float | None]:
        # The deviation of the seeds that the runs are a sample of: the sum of
        # squares is divided by n - 1. None for one run.
        scores = [results[run][metric] for run in runs]
        spread = statistics.stdev(scores) if len(scores) > 1 else None
        return statistics.fmean(scores), spread

    def summary(runs: Sequence[str], what: str) -> str:
        mean, spread = mean_and_spread(runs)
        line = f"{metric}: best {results[runs[0]][metric]:.4f}, mean {mean:.4f}"
        if spread is not None:
            line += f", standard deviation {spread:.4f}"
        return f"{line} over {len(runs)} {what}"

    keys = dict.fromkeys(key for run in order for key in results[run])
    others = (metric, "loss", "global_step", "degenerate")
    names = [metric, *(key for key in keys if key not in others)]
    width = max(map(len, order))
    lines = [" ".join([" " * width, *names])]
    for run in order:
        cells = [
            _cell(results[run].get(name)).rjust(len(name)) for name in names
        ]
        mark = ["failed"] if _is_failed(results[run]) else []
        lines.append(" ".join([run.ljust(width), *cells, *mark]))
    good = [run for run in order if not _is_failed(results[run])]
    if failed := order[len(good) :]:
        names = ", ".join(failed)
        lines.append(f"{len(failed)} of {len(order)} runs failed: {names}")
    if failed and good:
        plural = "s" if len(good) > 1 else ""
        lines.append(summary(good, f"other run{plural}"))
    else:
        lines.append(summary(order, "runs"))
    settings: dict[str, list[str]] = {}
    for run in order:
        settings.setdefault(_REPEATED.sub("", run), []).append(run)
    if len(settings) in (1, len(order)):
        return lines
    width = max(map(len, settings))
    lines.append(f"{' ' * width}   mean deviation runs failed")
    rows = []
    for name, runs in settings.items():
        good = [run for run in runs if not _is_failed(results[run])]
        mean, spread = mean_and_spread(good) if good else (None, None)
        key = -math.inf if mean is None else mean
        failed = len(runs) - len(good)
        cells = f"{_cell(mean):>6} {_cell(spread):>9} {len(runs):4} {failed:6}"
        rows.append((key, f"{name.ljust(width)} {cells}"))
    return lines + [row for _, row in sorted(rows, reverse=True)]


def _cell(value: float | None) -> str:
    """Return a number with four decimals, "-" for None."""
    return "-" if value is None else f"{value:.4f}"


# --- TensorBoard's HParams page ----------------------------------------------


def write_hparams(
    output_dir: str,
    values: Mapping[str, Mapping[str, float]],
    results: Results,
    metric: str,
) -> None:
    """Write the rows of all finished runs; none without TensorBoard.

    `values` are {hyperparameter: value} of all runs, `results` the scores of
    the finished ones. `metric` decides, and has the first column of scores.
    """
    folder = os.path.join(output_dir, "hparams")
    try:
        from tensorboard.plugins.hparams import api, api_pb2, summary
    except ImportError:
        if len(results) == len(values):
            logging.warning(
                "%s: not written, since tensorboard is not installed; to "
                "install it: python -m pip install -r requirements.txt",
                folder,
            )
        return
    names = dict.fromkeys(name for run in values.values() for name in run)
    found = [name for scores in results.values() for name in scores]
    columns = dict.fromkeys([metric, *found, "degenerate"])
    columns.pop("global_step", None)
    with _new_writer(folder).as_default():
        api.hparams_config(
            [
                api.HParam(
                    name,
                    api.Discrete(
                        sorted({float(run[name]) for run in values.values()}),
                        dtype=float,
                    ),
                )
                for name in names
            ],
            [api.Metric(name) for name in columns],
        )
    for run, scores in results.items():
        step = int(scores.get("global_step", 0))
        # eval_results.txt has `degenerate` only where it is 1.
        scores = {"degenerate": 0.0, **scores}
        # The public API has no way to say that a run failed.
        status = "FAILURE" if scores["degenerate"] else "SUCCESS"
        end = summary.session_end_pb(api_pb2.Status.Value(f"STATUS_{status}"))
        with _new_writer(os.path.join(folder, run)).as_default():
            api.hparams({k: float(v) for k, v in values[run].items()}, run)
            for key, value in scores.items():
                if key != "global_step" and math.isfinite(value):
                    tf.summary.scalar(key, value, step)
            tf.summary.experimental.write_raw_pb(end.SerializeToString(), step)
    if len(results) == len(values):
        logging.info(
            "The runs in TensorBoard's HPARAMS page: tensorboard --logdir=%s",
            folder,
        )


def _new_writer(folder: str) -> tf.summary.SummaryWriter:
    """Return a writer to a folder; the file of an earlier one is removed."""
    for path in tf.io.gfile.glob(os.path.join(folder, "events.*")):
        tf.io.gfile.remove(path)
    return tf.summary.create_file_writer(folder)
