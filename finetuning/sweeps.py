"""Train with many settings: random restarts and grids (paper, appendix A.3).

Every run is a process of its own with its own output_dir, started by the
command a user would give. So its numbers are those of a single run. A run
that was interrupted is resumed, and one that is finished is not repeated.
"""

import contextlib
import itertools
import json
import os
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from base import child_processes, file_system, script, text_files
from base.errors import UserError

import tensorflow as tf
from absl import flags, logging

from checkpoints import hub, run_settings
from finetuning import distillation, sweep_folder, sweep_results

flags.disclaim_key_flags()  # --help of a script shows what is defined here

# Flag of the grid -> flag of a run, and its short name in a run's folder.
_GRID = {
    "sweep_learning_rates": ("learning_rate", "lr"),
    "sweep_batch_sizes": ("train_batch_size", "batch"),
    "sweep_epochs": ("num_train_epochs", "epochs"),
}

# Flags whose values TensorBoard shows beside the scores.
_HYPERPARAMETERS = (
    *(flag for flag, _ in _GRID.values()),
    "random_seed",
    "warmup_proportion",
    "weight_decay_rate",
)

# Flags of the sweep itself.
_OWN = (*_GRID, "num_restarts", "output_dir", "output", "flagfile")

# Names of files that need no checksum: those in records_dir, which are made of
# other files, and weights beside an index that has a checksum of each.
_MADE = re.compile(r"\.(data-\d+-of-\d+|(tf_record|npy)(\.json)?)$")

# Flags for the best run only.
_LATER = ("do_predict", "do_export", "export_dir")


def define_flags() -> None:
    """Define the flags of restarts and grids."""
    flags.DEFINE_integer(
        "num_restarts",
        1,
        "Train this many times, with the seeds random_seed, random_seed + 1, "
        "...; keep the run that is best on the development set.",
        lower_bound=1,
        upper_bound=1000,
    )
    for name, (flag, _) in _GRID.items():
        flags.DEFINE_list(
            name,
            [],
            f"Train with each of these values of {flag}; several such lists "
            "make a grid.",
        )


class SweepRun(NamedTuple):
    """A point of the grid: its folder, such as lr3e-05_seed1, and its flags."""

    name: str
    values: dict[str, str]


class Sweep(NamedTuple):
    """All runs of a sweep, and how each is started.

    Attributes:
        script: path of the fine-tuning script.
        runs: in the order in which they are made.
        arguments: flag -> `--flag=value` for all flags that were given and
            hold for every run.
        shared: {hyperparameter: value} of every run, for TensorBoard; a run's
            own values take precedence.
    """

    script: str
    runs: list[SweepRun]
    arguments: dict[str, str]
    shared: Mapping[str, float] = MappingProxyType({})

    def command(self, run: SweepRun, output_dir: str) -> list[str]:
        """Return the command of a run; its values replace those given."""
        values = {**run.values, "output_dir": output_dir}
        given = [
            argument
            for name, argument in self.arguments.items()
            if name not in values
        ]
        own = [f"--{name}={value}" for name, value in values.items()]
        return [sys.executable, self.script, *given, *own]


def read(f: flags.FlagValues, path: str) -> Sweep | None:
    """Return the sweep the flags of the script at path ask for, else None.

    Raises:
        UserError: a value that its flag does not take, or no --do_train.
    """
    if f.num_restarts == 1 and not (
        _has_folds(f) or any(f[name].value for name in _GRID)
    ):
        return None
    runs = grid(f)
    if not f.do_train:
        raise UserError(
            "restarts and sweeps need --do_train: --num_restarts, --num_folds "
            "and --sweep_* make training runs"
        )
    arguments = {
        name: f[name].serialize()
        for name in f
        if f[name].present and name not in (*_OWN, *_LATER)
    }
    arguments["do_eval"] = "--do_eval"
    arguments["records_dir"] = f"--records_dir={f.records_dir or f.output_dir}"
    # All runs start from one commit, and learn from the same commits of
    # teachers, whatever happens on the hub meanwhile.
    checkpoint = run_settings.pinned(f.init_checkpoint, f.output_dir)
    if hub.is_name(checkpoint):
        commit = hub.with_commit(checkpoint)
        arguments["init_checkpoint"] = f"--init_checkpoint={commit}"
    if teachers := distillation.with_commits(f):
        arguments["teacher_checkpoint"] = f"--teacher_checkpoint={teachers}"
    return Sweep(
        path,
        runs,
        {k: v for k, v in arguments.items() if v},
        {name: float(f[name].value) for name in _HYPERPARAMETERS},
    )


def grid(f: flags.FlagValues) -> list[SweepRun]:
    """Return the runs the flags ask for.

    Raises:
        UserError: a value that its flag does not take.
    """

    def parse(flag: str, value: str, what: str) -> float:
        try:
            number = f[flag].parser.parse(value)
            script.check_number(f[flag], number)
        except ValueError as error:
            raise UserError(f"{what}: {error}") from error
        return number

    axes = []
    for name, (flag, short) in _GRID.items():
        values = {}  # number -> its first spelling: 1e-4 and 0.0001 are one
        for value in f[name].value or []:
            values.setdefault(parse(flag, value, f"--{name}={value}"), value)
        axes.append([(flag, short, value) for value in values.values()])
    if _has_folds(f):
        folds = map(str, range(1, f.num_folds + 1))
        axes.append([("fold", "fold", fold) for fold in folds])
    seeds = range(f.random_seed, f.random_seed + f.num_restarts)
    what = f"--random_seed={f.random_seed} with --num_restarts={f.num_restarts}"
    parse("random_seed", str(seeds[-1]), what)
    axes.append([("random_seed", "seed", str(seed)) for seed in seeds])
    points = itertools.product(*(axis for axis in axes if axis))
    return [
        SweepRun(
            "_".join(f"{short}{value}" for _, short, value in point),
            {flag: value for flag, _, value in point},
        )
        for point in points
    ]


def _has_folds(f: flags.FlagValues) -> bool:
    """Return whether a model is trained for each part of the training set."""
    return "num_folds" in f and f.num_folds > 0 and not f.fold


def batch_sizes(f: flags.FlagValues) -> list[tuple[str, int]]:
    """Return the batch sizes of all runs, each with the flag that gives it.

    Raises:
        UserError: a value that its flag does not take.
    """
    if not f.sweep_batch_sizes:
        return [("train_batch_size", f.train_batch_size)]
    sizes = [run.values["train_batch_size"] for run in grid(f)]
    return [("sweep_batch_sizes", int(size)) for size in dict.fromkeys(sizes)]


# --- Making the runs ---------------------------------------------------------


def run_all(sweep: Sweep, output_dir: str, metric: str) -> str:
    """Train all runs, write the sorted table; return the best run's folder.

    A finished run whose flags and files are those of before is not repeated.
    `metric`, a key of eval_results.txt, decides; larger is better.

    Raises:
        UserError: a run failed; the finished ones are kept.
    """
    values = {
        run.name: {
            **sweep.shared,
            **{k: float(v) for k, v in run.values.items()},
        }
        for run in sweep.runs
    }
    runs = os.path.join(output_dir, sweep_folder.RUNS)
    results: dict[str, dict[str, float]] = {}
    files = _files_named(sweep.arguments, output_dir)
    for number, run in enumerate(sweep.runs, 1):
        folder = os.path.join(runs, run.name)
        command = sweep.command(run, folder)
        # Holds the flags of the finished run and the checksums of the files
        # they name. If these differ, the command is given again, and
        # output_dir decides whether its run may be resumed.
        marker = os.path.join(folder, "finished.json")
        made_of = {"flags": command[2:], "files": files}
        is_finished = text_files.read_own_json(marker) == made_of
        logging.info(
            "Run %d of %d, %s%s",
            number,
            len(sweep.runs),
            run.name,
            ": finished before" if is_finished else "",
        )
        if not is_finished:
            if status := child_processes.run(command):
                raise UserError(
                    f"run {run.name} ended with status {status}, see above; "
                    "mend it and give the same command again: finished runs "
                    "are not repeated"
                )
            file_system.write_text(marker, json.dumps(made_of))
        results[run.name] = sweep_results.read(folder)
        sweep_results.write_hparams(output_dir, values, results, metric)
        if number == 1:
            sweep = _with_type_of(folder, sweep)
    order = sweep_results.ranked(results, metric)
    lines = sweep_results.table(order, results, metric)
    for line in lines:
        logging.info("%s", line)
    path = os.path.join(output_dir, sweep_folder.RESULTS)
    file_system.write_text(path, "\n".join(lines) + "\n")
    sweep_results.warn_of_failed(order, results)
    return os.path.join(runs, order[0])


def _files_named(
    arguments: Mapping[str, str], output_dir: str
) -> dict[str, str]:
    """Return {path: SHA-256} of the files that the values of flags name.

    Any flag may name some: a file, a folder, a pattern, a checkpoint, or a
    module. What the runs write is left out.
    """
    found, output = {}, os.path.join(file_system.real_path(output_dir), "")
    own = tuple(f"{output}{name}/" for name in (sweep_folder.RUNS, "hparams"))
    places = {
        place
        for name, argument in arguments.items()
        for place in argument.partition("=")[2].split(",")
        if name not in script.OUTPUTS
    }
    for place in sorted(places):
        if not place or hub.is_name(place):  # a commit does not change
            continue
        module = place.partition(":")[0].replace(".", "/")
        names, paths = (place, f"{place}.index", f"{module}.py"), []
        with contextlib.suppress(tf.errors.UnimplementedError):  # no path
            # A name may have the characters of a pattern.
            paths = list(filter(tf.io.gfile.exists, names))
            paths = paths or tf.io.gfile.glob(place)
        for path in paths:
            files = [path]
            if tf.io.gfile.isdir(path):
                names = (name for name, _ in file_system.files_below(path))
                files = [os.path.join(path, name) for name in names]
            # A folder of data may hold output_dir, or be it.
            real = os.path.join(file_system.real_path(path), "")
            is_inside = real.startswith(output)
            for file in filter(file_system.exists, files):  # no broken links
                real = file_system.real_path(file)
                is_written = real.startswith(own if is_inside else output)
                if not is_written and not _MADE.search(file):
                    found[file] = file_system.sha256(file)
    return found


def _with_type_of(folder: str, sweep: Sweep) -> Sweep:
    """Replace --dtype=auto of a sweep by the type that its first run chose.

    Each run would measure again and might choose another type, and the scores
    of different types cannot be compared.
    """
    dtype = run_settings.read_adjustable(folder).get("dtype")
    if sweep.arguments.get("dtype") != "--dtype=auto" or not dtype:
        return sweep
    arguments = {**sweep.arguments, "dtype": f"--dtype={dtype}"}
    if dtype != "float16":  # the other types refuse flags of the loss scale
        arguments = {
            n: a for n, a in arguments.items() if "loss_scale" not in n
        }
    return sweep._replace(arguments=arguments)
