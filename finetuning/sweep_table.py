"""The results of a sweep: runs in their order, means and spreads as text."""

import os
import re
import statistics
from collections.abc import Mapping, Sequence

import tensorflow as tf
from absl import logging

# The part of a run's name in which restarts of one setting differ.
_SEED = re.compile(r"_seed-?\d+$")


def ranked(
    results: Mapping[str, Mapping[str, float]], metric: str
) -> list[str]:
    """Return the names of the runs, the best first, failed ones last.

    A failed run may have the best score: where a label is frequent, so is the
    right answer of a model that always gives it.

    Args:
        results: name of a run -> its scores.
        metric: the score that decides; larger is better.
    """
    return sorted(
        results,
        key=lambda name: (not is_failed(results[name]), results[name][metric]),
        reverse=True,
    )


def is_failed(result: Mapping[str, float]) -> bool:
    """Return whether the scores are those of a failed run."""
    return bool(result.get("degenerate"))


def warn_of_failed(
    order: Sequence[str], results: Mapping[str, Mapping[str, float]]
) -> None:
    """Log a warning if runs failed: how many, and what is kept."""
    failed = [name for name in order if is_failed(results[name])]
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


def read_results(folder: str) -> dict[str, float]:
    """Return the scores in a run's eval_results.txt."""
    path = os.path.join(folder, "eval_results.txt")
    with tf.io.gfile.GFile(path) as file:
        pairs = [line.split(" = ") for line in file.read().splitlines()]
    return {key: float(value) for key, value in pairs}


def table(
    order: Sequence[str],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
) -> list[str]:
    """Return a sweep's results as text: runs, best first, mean and spread.

    A run without a score has "-" there: run_ner.py scores the types of
    entities that are in the development set or that the run predicted.

    Args:
        order: names of the runs, the best first, failed ones last.
        results: name of a run -> its scores.
        metric: the score that decides; it has the first column.
    """
    keys = dict.fromkeys(key for run in order for key in results[run])
    names = [metric] + [
        key
        for key in keys
        if key not in (metric, "loss", "global_step", "degenerate")
    ]
    width = max(map(len, order))
    lines = [" ".join([" " * width, *names])]
    for run in order:
        cells = [
            _cell(results[run].get(name)).rjust(len(name)) for name in names
        ]
        mark = ["failed"] if is_failed(results[run]) else []
        lines.append(" ".join([run.ljust(width), *cells, *mark]))
    lines.append(_summary(order, results, metric, "runs"))
    good = [run for run in order if not is_failed(results[run])]
    if len(good) < len(order):
        failed = ", ".join(order[len(good) :])
        count = len(order) - len(good)
        lines.append(f"{count} of {len(order)} runs failed: {failed}")
        if good:
            what = "other runs" if len(good) > 1 else "other run"
            lines.append(_summary(good, results, metric, what))
    return lines + _settings_table(order, results, metric)


def _settings_table(
    order: Sequence[str],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
) -> list[str]:
    """Return a line per setting of a grid: mean and spread of its restarts.

    The best run of a grid may be a lucky one of a bad setting; the mean over
    the seeds tells settings apart. No lines without several settings, or if
    each has one run.

    Args:
        order: names of the runs, the best first, failed ones last.
        results: name of a run -> its scores.
        metric: the score of which the means are.
    """
    settings: dict[str, list[str]] = {}
    for run in order:
        settings.setdefault(_SEED.sub("", run), []).append(run)
    if len(settings) in (1, len(order)):
        return []
    rows = []
    for name, runs in settings.items():
        mean, spread = _mean_and_spread(runs, results, metric)
        failed = sum(is_failed(results[run]) for run in runs)
        rows.append((mean, _cell(spread), len(runs), failed, name))
    width = max(map(len, settings))
    lines = [f"{' ' * width}   mean deviation runs failed"]
    return lines + [
        f"{name.ljust(width)} {mean:6.4f} {spread:>9} {count:4} {failed:6}"
        for mean, spread, count, failed, name in sorted(rows, reverse=True)
    ]


def _summary(
    runs: Sequence[str],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
    what: str,
) -> str:
    """Return a line with the score of the first run, mean and spread."""
    mean, spread = _mean_and_spread(runs, results, metric)
    line = f"{metric}: best {results[runs[0]][metric]:.4f}, mean {mean:.4f}"
    if spread is not None:
        line += f", standard deviation {spread:.4f}"
    return f"{line} over {len(runs)} {what}"


def _mean_and_spread(
    runs: Sequence[str],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
) -> tuple[float, float | None]:
    """Return mean and standard deviation of a score over some runs.

    The deviation is that of the seeds that the runs are a sample of: the sum
    of squares is divided by n - 1. None for one run.
    """
    scores = [results[run][metric] for run in runs]
    spread = statistics.stdev(scores) if len(scores) > 1 else None
    return statistics.fmean(scores), spread


def _cell(value: float | None) -> str:
    """Return a number with four decimals, "-" for None."""
    return "-" if value is None else f"{value:.4f}"
