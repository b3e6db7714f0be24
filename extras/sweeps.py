"""Train with many settings: random restarts and grids (paper, appendix A.3).

Every run is a process of its own with its own output_dir, started by the
command a user would give. So its numbers are those of a single run. A run
that was interrupted is resumed, and one that is finished is not repeated.

    runs/NAME             the output_dir of each run
    sweep_results.txt     the runs in their order, means and spreads

The output_dir of the sweep gets the model and the results of the best run. It
has no run of its own: later commands would take that run's scores and signs of
failure for those of the best model, and the command of that run would replace
the model.
"""

import itertools
import json
import math
import os
import re
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from base import child_processes, file_system, logs, text_files
from base.errors import UserError, naming
from base.flags import check_number

from absl import logging
from absl.flags import FlagValues

from checkpoints import published
from checkpoints.run_folder import (
    RESULTS_NAME,
    RUN_NAME,
    RUNS_NAME,
    WEIGHTS_NAME,
    RunFolder,
)

# The files of a model beside its weights.
_MODEL = (
    published.BERT_CONFIG_NAME,
    published.VOCAB_NAME,
    published.TOKENIZER_CONFIG_NAME,
    RUN_NAME,  # says which rows the model has learned
)

# Flag of the grid -> flag of a run, and its short name in a run's folder.
_GRID = {
    "sweep_learning_rates": ("learning_rate", "lr"),
    "sweep_batch_sizes": ("train_batch_size", "batch"),
    "sweep_epochs": ("num_train_epochs", "epochs"),
}

# Flags of the sweep itself.
_OWN = (*_GRID, "num_restarts", "output_dir", "output", "flagfile")

# Flags for the best run only.
_LATER = ("do_predict", "do_export", "export_dir")

# The part of a run's name in which restarts and folds of one setting differ.
_REPEATED = re.compile(r"_?(fold\d+_)?seed-?\d+$")

# Name of a run, such as lr3e-05_seed1 -> its flags.
Runs = Mapping[str, Mapping[str, str]]

# Name of a run -> its scores.
Results = Mapping[str, Mapping[str, float]]


class Sweep(NamedTuple):
    """All runs of a sweep, and how each is started.

    Attributes:
        script: path of the fine-tuning script.
        runs: in the order in which they are made.
        arguments: flag -> `--flag=value` for all flags that were given and
            hold for every run.
    """

    script: str
    runs: Runs
    arguments: dict[str, str]

    def command(self, run: str, output_dir: str) -> list[str]:
        """Return the command of a run; its values replace those given."""
        values = {**self.runs[run], "output_dir": output_dir}
        given = [
            argument
            for name, argument in self.arguments.items()
            if name not in values
        ]
        own = [f"--{name}={value}" for name, value in values.items()]
        return [sys.executable, self.script, *given, *own]


def from_flags(f: FlagValues, path: str, of_hub: str | None = None) -> Sweep:
    """Return the sweep that the flags of the script at path ask for.

    A model `of_hub` has its commit: all runs start from one, whatever happens
    on the hub meanwhile.
    """
    arguments = {
        name: f[name].serialize()
        for name in f
        if f[name].present and name not in (*_OWN, *_LATER)
    }
    arguments["do_eval"] = "--do_eval"
    arguments["records_dir"] = f"--records_dir={f.records_dir or f.output_dir}"
    if of_hub:
        arguments["init_checkpoint"] = f"--init_checkpoint={of_hub}"
    if "heldout_fraction" in f and f.heldout_fraction:
        # Scores of different rows cannot be compared.
        seed = f.random_seed if f.heldout_seed is None else f.heldout_seed
        arguments["heldout_seed"] = f"--heldout_seed={seed}"
    return Sweep(path, grid(f), {k: v for k, v in arguments.items() if v})


def grid(f: FlagValues) -> Runs:
    """Return the runs the flags ask for.

    Raises:
        UserError: a value that its flag does not take.
    """

    def parse(name: str, value: str, what: str) -> float:
        with naming(what, ValueError):
            number = f[name].parser.parse(value)
            check_number(f[name], number)
        return number

    axes = []
    for name, (own, short) in _GRID.items():
        values = {}  # number -> its first spelling: 1e-4 and 0.0001 are one
        for value in f[name].value or []:
            values.setdefault(parse(own, value, f"--{name}={value}"), value)
        axes.append([(own, short, value) for value in values.values()])
    if "num_folds" in f and f.num_folds and not f.fold:
        folds = map(str, range(1, f.num_folds + 1))
        axes.append([("fold", "fold", fold) for fold in folds])
    seeds = range(f.random_seed, f.random_seed + f.num_restarts)
    what = f"--random_seed={f.random_seed} with --num_restarts={f.num_restarts}"
    parse("random_seed", str(seeds[-1]), what)
    axes.append([("random_seed", "seed", str(seed)) for seed in seeds])
    points = itertools.product(*(axis for axis in axes if axis))
    return {
        "_".join(f"{short}{value}" for _, short, value in point): {
            name: value for name, _, value in point
        }
        for point in points
    }


# --- Making the runs ---------------------------------------------------------


def run_all(
    sweep: Sweep, output_dir: str, metric: str, inputs: Any = None
) -> str:
    """Train all runs, write the sorted table; return the best run's folder.

    A finished run is not repeated if its flags are those of before, and
    `inputs` too: what is known of data and model by their content, as JSON.
    `metric`, a key of eval_results.txt, decides; larger is better.

    Raises:
        UserError: a run failed; the finished ones are kept.
    """
    from training import reporting

    runs = os.path.join(output_dir, RUNS_NAME)
    inputs = json.loads(json.dumps(inputs))
    results: dict[str, dict[str, float]] = {}
    for number, run in enumerate(sweep.runs, 1):
        folder = os.path.join(runs, run)
        command = sweep.command(run, folder)
        # Holds the flags and the inputs of the finished run. If these differ,
        # the command is given again, and output_dir decides whether its run
        # may be resumed.
        marker = os.path.join(folder, "finished.json")
        made_of = {"flags": command[2:], "inputs": inputs}
        is_finished = text_files.read_own_json(marker) == made_of
        logs.say(
            "Run %d of %d, %s%s",
            number,
            len(sweep.runs),
            run,
            ": finished before" if is_finished else "",
        )
        if not is_finished:
            if status := child_processes.run(command):
                raise UserError(
                    f"run {run} ended with status {status}, see above; "
                    "mend it and give the same command again: finished runs "
                    "are not repeated"
                )
            file_system.write_text(marker, json.dumps(made_of))
        results[run] = text_files.read_numbers(
            reporting.results_path(folder),
            f": remove {folder}, and the run is made again",
        )
        if number == 1:
            sweep = _with_type_of(folder, sweep)
    path = os.path.join(output_dir, RESULTS_NAME)
    file_system.write_text(path, "\n".join(table(results, metric)) + "\n")
    shown = {
        run: reporting.without_second_names(scores)
        for run, scores in results.items()
    }
    for line in table(shown, metric):
        logs.say("%s", line)
    best = ranked(results, metric)[0]
    if count := sum(map(_is_failed, results.values())):
        logging.warning(
            "%d of %d runs failed; %s",
            count,
            len(results),
            f"so the one that is kept, {best}, is one of them: it has learned "
            "next to nothing. The log of each run ends with what was seen and "
            "what usually helps"
            if count == len(results)
            else f"{best} is the best of the others",
        )
    return os.path.join(runs, best)


def _with_type_of(folder: str, sweep: Sweep) -> Sweep:
    """Replace --dtype=auto of a sweep by the type that its first run chose.

    Each run would measure again and might choose another type, and the scores
    of different types cannot be compared.
    """
    dtype = RunFolder.read(folder).adjustable.get("dtype")
    if sweep.arguments.get("dtype") != "--dtype=auto" or not dtype:
        return sweep
    return sweep._replace(
        arguments={**sweep.arguments, "dtype": f"--dtype={dtype}"}
    )


# --- Results -----------------------------------------------------------------


def _is_failed(scores: Mapping[str, float]) -> bool:
    return bool(scores.get("degenerate"))


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


def table(results: Results, metric: str) -> list[str]:
    """Return a sweep's results as text: runs, best first, mean and spread.

    Failed runs are marked and left out of means, unless all have failed. A run
    without a score has "-" there: run_ner.py scores the types of entities that
    are in the development set or that the run predicted. A grid with restarts
    also has a line per setting: the best run may be a lucky one of a bad
    setting, and the mean over the seeds tells settings apart.
    `metric` decides, and has the first column.
    """
    order = ranked(results, metric)
    failed = [run for run in order if _is_failed(results[run])]
    keys = dict.fromkeys(key for run in order for key in results[run])
    others = (metric, "loss", "global_step", "degenerate")
    names = [metric, *(key for key in keys if key not in others)]
    rows = [["", *names]]
    for run in order:
        rows.append([run, *(_cell(results[run].get(name)) for name in names)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for run, *cells in rows:
        words = [run.ljust(widths[0]), *map(str.rjust, cells, widths[1:])]
        lines.append(" ".join(words + ["failed"] * (run in failed)))
    what = "runs"
    if failed:
        names = ", ".join(failed)
        lines.append(f"{len(failed)} of {len(order)} runs failed: {names}")
    if 0 < len(failed) < len(order):
        order = order[: -len(failed)]
        what = "other run" if len(order) == 1 else "other runs"
    scores = [results[run][metric] for run in order]
    mean, spread = _mean_and_spread(scores)
    line = f"{metric}: best {scores[0]:.4f}, mean {mean:.4f}"
    if spread is not None:
        line += f", standard deviation {spread:.4f}"
    lines.append(f"{line} over {len(order)} {what}")
    return lines + _table_of_settings(results, metric)


def _table_of_settings(results: Results, metric: str) -> list[str]:
    """Return a line for each setting, unless all or no runs share one."""
    settings: dict[str, list[float | None]] = {}  # None: failed
    for run, scores in results.items():
        score = None if _is_failed(scores) else scores[metric]
        settings.setdefault(_REPEATED.sub("", run), []).append(score)
    if len(settings) in (1, len(results)):
        return []
    width = max(map(len, settings))
    rows = []
    for name, scores in settings.items():
        good = [score for score in scores if score is not None]
        mean, spread = _mean_and_spread(good)
        cells = f"{_cell(mean):>6} {_cell(spread):>9} {len(scores):4} "
        cells += f"{len(scores) - len(good):6}"
        key = -math.inf if mean is None else mean
        rows.append((key, f"{name.ljust(width)} {cells}"))
    header = f"{' ' * width}   mean deviation runs failed"
    return [header, *(row for _, row in sorted(rows, reverse=True))]


def _mean_and_spread(
    scores: Sequence[float],
) -> tuple[float | None, float | None]:
    """Return the mean and the standard deviation, None for too few scores.

    The seeds are a sample: the sum of squares is divided by n - 1.
    """
    mean = statistics.fmean(scores) if scores else None
    return mean, statistics.stdev(scores) if len(scores) > 1 else None


def _cell(value: float | None) -> str:
    """Return a number with four decimals, "-" for None."""
    return "-" if value is None else f"{value:.4f}"


# --- The output_dir ----------------------------------------------------------


def copy_best(folder: str, output_dir: str, results: Sequence[str]) -> None:
    """Copy the best run's model and results to the sweep's output_dir.

    A model and results of an earlier copy are removed first, and the index of
    the weights is copied last. Readers take weights without an index for
    missing, so a copy that is killed is never taken for a model, and results
    are never beside another model.
    """
    from checkpoints import weight_files

    *data, index = (WEIGHTS_NAME + end for end in weight_files.SUFFIXES)
    for name in (index, *results):
        path = os.path.join(output_dir, name)
        if file_system.exists(path):
            file_system.remove(path)
    for name in (*_MODEL, *data, *results, index):
        source = os.path.join(folder, name)
        if not file_system.exists(source):
            continue
        target = os.path.join(output_dir, name)
        file_system.remove_leftovers(target)
        with (
            file_system.open_for_reading(source) as old,
            file_system.atomic_file(target) as new,
        ):
            shutil.copyfileobj(old, new)
    logs.say("Copied the best run, %s, to %s", folder, output_dir)
