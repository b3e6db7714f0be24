"""Many runs of one command: random restarts and grids (paper, appendix A.3).

Every run is a process of its own with an output_dir of its own, the same
command a user would give, so its numbers are those of a single run; one that
was interrupted goes on, one that is finished is not repeated.
"""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import flags, logging

from base import file_system
from base.errors import UserError
from checkpoints import lookup

flags.disclaim_key_flags()  # --help of a script shows what is defined here

# Flag of the grid -> flag of a run, and how a run's folder names it.
_GRID = {
    "sweep_learning_rates": ("learning_rate", "lr"),
    "sweep_batch_sizes": ("train_batch_size", "batch"),
    "sweep_epochs": ("num_train_epochs", "epochs"),
}

_OWN = (*_GRID, "num_restarts", "output_dir", "flagfile")

# What only the best run does.
_LATER = ("do_predict", "do_export", "export_dir")


def define_flags() -> None:
    """Define the flags of restarts and grids."""
    flags.DEFINE_integer(
        "num_restarts",
        1,
        "Train so many times with seeds random_seed, random_seed + 1, ...; "
        "keep the best on the development set.",
        lower_bound=1,
    )
    for name, (flag, _) in _GRID.items():
        flags.DEFINE_list(
            name,
            [],
            f"Train with each of these values of {flag}; together with the "
            "other lists a grid.",
        )


class SweepRun(NamedTuple):
    """One point of the grid."""

    name: str  # of its folder
    values: dict[str, str]  # flag -> value


def is_asked_for(flag_values: flags.FlagValues) -> bool:
    """Whether the flags ask for more than one plain run."""
    return flag_values.num_restarts > 1 or any(
        flag_values[name].value for name in _GRID
    )


def runs(flag_values: flags.FlagValues) -> list[SweepRun]:
    """Return the runs the flags ask for.

    Raises:
        UserError: a value that its flag does not take.
    """
    axes = []
    for name, (flag, short) in _GRID.items():
        values = flag_values[name].value or []
        for value in values:
            try:
                flag_values[flag].parser.parse(value)
            except ValueError as error:
                raise UserError(f"--{name}={value}: {error}") from error
        axes.append([(flag, short, value) for value in dict.fromkeys(values)])
    first = flag_values.random_seed
    seeds = range(first, first + flag_values.num_restarts)
    axes.append([("random_seed", "seed", str(seed)) for seed in seeds])
    points = list(itertools.product(*(axis for axis in axes if axis)))
    return [
        SweepRun(
            "_".join(f"{short}{value}" for _, short, value in point),
            {flag: value for flag, _, value in point},
        )
        for point in points
    ]


def command_of(
    script: str,
    flag_values: flags.FlagValues,
    run: SweepRun,
    output_dir: str,
    **more: Any,
) -> list[str]:
    """Return the command of one run: what was given, its values instead."""
    values = {**run.values, **more, "output_dir": output_dir}
    arguments = [
        flag_values[name].serialize()
        for name in flag_values
        if flag_values[name].present and name not in (*_OWN, *_LATER, *values)
    ]
    arguments += [f"--{name}={value}" for name, value in values.items()]
    return [sys.executable, script, *filter(None, arguments)]


def run_all(
    output_dir: str,
    todo: Sequence[SweepRun],
    command: Callable[[SweepRun, str], list[str]],
    metric: str,
) -> str:
    """Make all runs, print the sorted table; return the best run's folder.

    Args:
        output_dir: of the sweep; its runs are in `runs` inside.
        todo: the runs.
        command: (run, its output_dir) -> command line.
        metric: the key of eval_results.txt that decides; larger is better.

    Raises:
        UserError: a run failed; the others are kept.
    """
    results: dict[str, dict[str, float]] = {}
    for number, run in enumerate(todo, 1):
        folder = os.path.join(output_dir, f"runs/{run.name}")
        marker = os.path.join(folder, "finished.json")
        line = command(run, folder)
        if _finished_command(marker) == line[2:]:
            logging.info("Run %d of %d, %s: done", number, len(todo), run.name)
        else:
            logging.info("Run %d of %d, %s", number, len(todo), run.name)
            status = subprocess.run(line, check=False).returncode
            if status:
                raise UserError(
                    f"run {run.name} ended with status {status}, see above; "
                    "mend it and give the same command again: finished runs "
                    "are not repeated"
                )
            file_system.write_text(marker, json.dumps(line[2:]))
        results[run.name] = _read_results(folder)
    order = sorted(
        results, key=lambda name: results[name][metric], reverse=True
    )
    lines = table(order, results, metric)
    for line in lines:
        logging.info("%s", line)
    path = os.path.join(output_dir, "sweep_results.txt")
    file_system.write_text(path, "\n".join(lines) + "\n")
    return os.path.join(output_dir, f"runs/{order[0]}")


def _finished_command(marker: str) -> list[str] | None:
    if not tf.io.gfile.exists(marker):
        return None
    with tf.io.gfile.GFile(marker) as file:
        return json.load(file)


def _read_results(folder: str) -> dict[str, float]:
    path = os.path.join(folder, "eval_results.txt")
    with tf.io.gfile.GFile(path) as file:
        pairs = [line.split(" = ") for line in file.read().splitlines()]
    return {key: float(value) for key, value in pairs}


def table(
    order: Sequence[str],
    results: Mapping[str, Mapping[str, float]],
    metric: str,
) -> list[str]:
    """Return the lines of the table, and mean and spread over all runs."""
    names = [metric] + [
        key
        for key in results[order[0]]
        if key not in (metric, "loss", "global_step")
    ]
    width = max(map(len, order))
    lines = [" ".join([" " * width, *names])]
    for run in order:
        cells = [f"{results[run][name]:.4f}".rjust(len(name)) for name in names]
        lines.append(" ".join([run.ljust(width), *cells]))
    scores = [results[run][metric] for run in order]
    mean = sum(scores) / len(scores)
    spread = (sum((s - mean) ** 2 for s in scores) / len(scores)) ** 0.5
    lines.append(
        f"{metric}: best {scores[0]:.4f}, mean {mean:.4f}, standard deviation "
        f"{spread:.4f} over {len(scores)} runs"
    )
    return lines


def copy_best(folder: str, output_dir: str, results: Sequence[str]) -> None:
    """Copy the best run's model and results to the sweep's output_dir."""
    names = [
        lookup.BERT_CONFIG_NAME,
        "vocab.txt",
        "tokenizer_config.json",
        *results,
        lookup.WEIGHTS_NAME + ".data-00000-of-00001",
        lookup.WEIGHTS_NAME + ".index",
    ]
    for name in names:
        source = os.path.join(folder, name)
        if tf.io.gfile.exists(source):
            target = os.path.join(output_dir, name)
            tf.io.gfile.copy(source, target, overwrite=True)
    logging.info("Copied the best run, %s, to %s", folder, output_dir)
