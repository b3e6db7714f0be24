r"""Repeat the paper's ablations: Tables 5, 6 and 8 and Figure 5.

    python reproduce_paper.py --experiment=table5 --scale=smoke \
        --input_file='corpus/*.txt' --glue_dir=glue --work_dir=paper

pre-trains a model for each row, fine-tunes it on each task whose data are
given, and leaves paper/table5.md, table5.csv, table5.png and report.md: our
numbers, the paper's, and the differences to the first row in both.

--scale says how large everything is. `smoke` takes minutes and learns nothing;
`small` takes hours on a laptop; `paper` is BERT-Base at the paper's settings.
reproduction/scales.toml has all their values; --set replaces one of them.

The work is done by the other scripts of this project, whose commands are
shown. --dry_run prints them all, with the time they will take on this machine,
and runs none. Killed and started again, the same command goes on; with another
experiment, more tasks or more seeds it uses what is there.
"""

import os
import sys
from collections.abc import Sequence

from base import errors, file_system, resuming, text_files
from base.errors import UserError

from absl import flags, logging

from reproduction import (
    estimate,
    experiments,
    held_out,
    plots,
    report,
    run,
    scales,
    steps,
    tables,
    work_dir,
)
from reproduction import tasks as reproduction_tasks
from reproduction.experiments import Experiment
from reproduction.run import Failure, Places
from reproduction.scales import Scale
from reproduction.steps import Plan

FLAGS = flags.FLAGS

# What to do
flags.DEFINE_list(
    "experiment",
    [],
    f"One or several of {', '.join(experiments.NAMES)}, or all.",
)
flags.DEFINE_string(
    "scale",
    "small",
    "smoke, small or paper, see reproduction/scales.toml; or the path of a "
    ".toml file of your own with the same keys.",
)
flags.DEFINE_multi_string(
    "set",
    [],
    "Replace a value of the scale: --set=pretraining.num_train_steps=500. May "
    "be given several times.",
)
flags.DEFINE_bool(
    "dry_run",
    False,
    "Print every command and an estimate of its time, run none. The estimate "
    "is made from a training step that is measured on this machine.",
)
flags.DEFINE_bool(
    "prepare_only",
    False,
    "Divide the text and write the configurations, then end: what the "
    "commands of --dry_run need.",
)
flags.DEFINE_bool(
    "report_only",
    False,
    "Write tables, pictures and report of the scores that are there, run "
    "nothing: after the commands of --dry_run have run elsewhere.",
)

# Text
flags.DEFINE_string(
    "input_file",
    None,
    "Text to pre-train on, one sentence per line, a blank line between "
    "documents: globs, separated by commas.",
)
flags.DEFINE_string(
    "held_out_file",
    None,
    "Text for the perplexity: globs. Default: a share of input_file, whole "
    "files where there are ten or more, else documents.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "A vocabulary to use; default: one is learned from the training text.",
)

# Tasks
flags.DEFINE_string(
    "glue_dir", None, "Folder with the folders MRPC, SST-2, ... of GLUE."
)
flags.DEFINE_string(
    "squad_train_file", None, "SQuAD's JSON, or several files with commas."
)
flags.DEFINE_string("squad_dev_file", None, "The same, to score.")
flags.DEFINE_string(
    "ner_train_file",
    None,
    "Named entities, a word and its tag per line (CoNLL, WNUT).",
)
flags.DEFINE_string("ner_dev_file", None, "The same, to score.")
flags.DEFINE_list(
    "tasks",
    [],
    "Further tasks for every table, such as RTE,CoLA,STS-B,WNUT. Without it: "
    "the paper's, as far as their data are given.",
)

# Runs
flags.DEFINE_string(
    "work_dir", None, "Directory for everything; an earlier run in it goes on."
)
flags.DEFINE_integer(
    "num_seeds",
    None,
    "Pre-training runs of each model, each fine-tuned; default: the scale's. "
    "Cells have the mean and the standard deviation.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_parallel",
    None,
    "Commands that run at the same time; default: the scale's.",
    lower_bound=1,
)
flags.DEFINE_bool(
    "keep_models",
    False,
    "Keep the weights of fine-tuned models; else they are removed when their "
    "scores are written.",
)

HERE = os.path.dirname(os.path.abspath(__file__))


def main(_: list[str]) -> int:
    """Plan and run the experiments; return the exit status."""
    check_flags()
    scale = scales.read(FLAGS.scale, FLAGS.set)
    data = read_data()
    names = experiment_names()
    plan, found = experiments.build(
        names,
        scale,
        extra_tasks(),
        data,
        FLAGS.num_seeds or scale.num_seeds,
        FLAGS.vocab_file is not None,
    )
    check_tasks(found)
    input_files, held_out_files = find_text()
    places = find_places()
    if FLAGS.dry_run:
        return print_plan(plan, scale, data, places, input_files)
    file_system.make_directory(FLAGS.work_dir, "work_dir")
    with resuming.locked_folder(
        os.path.join(FLAGS.work_dir, "lock"), FLAGS.work_dir
    ) as lock:
        begin(plan, scale, data, input_files, held_out_files)
        text = prepare(plan, scale, input_files, held_out_files)
        if FLAGS.prepare_only:
            return 0
        results = Output(plan, found, places, scale, data, text, input_files)
        failures = []
        if not FLAGS.report_only:
            failures = run_plan(results, text, lock)
        results.write(failures, has_pictures=True)
    return results.conclude(failures)


# --- Reading flags -----------------------------------------------------------


def experiment_names() -> list[str]:
    """Return the experiments of the flag, in the paper's order."""
    if "all" in FLAGS.experiment:
        return list(experiments.NAMES)
    return [name for name in experiments.NAMES if name in FLAGS.experiment]


def extra_tasks() -> list[str]:
    """Return the tasks of --tasks in their usual spelling."""
    names = [
        reproduction_tasks.name_of(name, "--tasks") for name in FLAGS.tasks
    ]
    return list(dict.fromkeys(names))


def read_data() -> reproduction_tasks.Data:
    """Return the data that the flags name, checked."""
    data = reproduction_tasks.Data(
        FLAGS.glue_dir and FLAGS.glue_dir.rstrip("/"),
        FLAGS.squad_train_file,
        FLAGS.squad_dev_file,
        FLAGS.ner_train_file,
        FLAGS.ner_dev_file,
    )
    reproduction_tasks.check_files(data)
    return data


def find_text() -> tuple[list[str], list[str]]:
    """Return the files of the text, and those the user holds out."""
    chosen = []
    if FLAGS.held_out_file:
        chosen = file_system.find_files(FLAGS.held_out_file, "held_out_file")
    return file_system.find_files(FLAGS.input_file), chosen


def find_places() -> Places:
    """Return where scripts and data are."""
    is_here = os.path.realpath(os.getcwd()) == os.path.realpath(HERE)
    folder = FLAGS.work_dir.rstrip("/")
    corpus = os.path.join(folder, "corpus")
    paths = {
        "{work_dir}": folder,
        "{train_text}": os.path.join(corpus, "train", "*"),
        "{held_out_text}": os.path.join(corpus, "held_out", "*"),
        "{vocab_file}": FLAGS.vocab_file or os.path.join(folder, "vocab.txt"),
    }
    for name in reproduction_tasks.Data._fields:
        value = FLAGS[name].value or ""
        paths[f"{{{name}}}"] = value.rstrip("/")
    return Places(folder, HERE, "" if is_here else HERE, paths)


def check_tasks(found: Sequence[Experiment]) -> None:
    """Check that every table has a task with data; warn of those without.

    Raises:
        UserError: a table has none.
    """
    for experiment in found:
        lacks = ", ".join(
            f"{task} ({why})" for task, why in experiment.left_out.items()
        )
        has_any = any(
            cell.steps
            for row in experiment.rows
            for column, cell in row.cells.items()
            if column != experiments.PERPLEXITY
        )
        if not has_any:
            raise UserError(
                f"--experiment={experiment.name}: no task of it has data: "
                f"{lacks}; give them, or name other tasks with --tasks"
            )
        if lacks:
            logging.warning("%s: left out: %s", experiment.name, lacks)


# --- The work directory ------------------------------------------------------


def begin(
    plan: Plan,
    scale: Scale,
    data: reproduction_tasks.Data,
    input_files: Sequence[str],
    held_out_files: Sequence[str],
) -> None:
    """Begin the work directory, or check that it belongs to this command."""
    tasks = dict.fromkeys(s.task for s in plan.steps.values() if s.task)
    values = work_dir.fingerprint(
        scale,
        input_files,
        held_out_files,
        FLAGS.vocab_file,
        data,
        list(tasks),
    )
    work_dir.claim(FLAGS.work_dir, FLAGS.scale, values)


def prepare(
    plan: Plan,
    scale: Scale,
    input_files: Sequence[str],
    held_out_files: Sequence[str],
) -> held_out.Text:
    """Divide the text and write the configurations."""
    folder = os.path.join(FLAGS.work_dir, "corpus")
    text = held_out.prepare(
        input_files,
        held_out_files,
        scale.corpus.held_out_share,
        scale.corpus.max_mb,
        folder,
    )
    sizes = {step.size for step in plan.steps.values() if step.size}
    os.makedirs(os.path.join(FLAGS.work_dir, "configs"), exist_ok=True)
    for size in sorted(sizes):
        path = os.path.join(FLAGS.work_dir, steps.config_path(size))
        content = steps.config_json(size, scale, vocab_size(scale))
        if not os.path.exists(path) or text_files.read_text(path) != content:
            file_system.write_text(path, content)
    return text


def vocab_size(scale: Scale) -> int:
    """Return the rows of the embedding table."""
    if not FLAGS.vocab_file:
        return scale.corpus.vocab_size
    return len(text_files.read_text(FLAGS.vocab_file).splitlines())


class Output:
    """Collects the scores of the plan and writes the results.

    Args: see main.
    """

    def __init__(
        self,
        plan: Plan,
        found: Sequence[Experiment],
        places: Places,
        scale: Scale,
        data: reproduction_tasks.Data,
        text: held_out.Text,
        input_files: Sequence[str],
    ):
        self.plan, self.found, self.places = plan, found, places
        self.scale, self.data = scale, data
        self.report = report.Report(
            plan, places, FLAGS.scale, scale, data, text.how, input_files
        )

    def scores(self, name: str) -> dict[str, float] | None:
        """Return the scores of a step, None without."""
        return work_dir.read_scores(FLAGS.work_dir, self.plan.steps[name])

    def write(self, failures: Sequence[Failure], has_pictures: bool) -> None:
        """Write CSV, Markdown and pictures of each table, and the report."""
        failed = [failure.step for failure in failures]
        every, pictures = [], []
        for experiment in self.found:
            results = tables.collect(experiment, self.scores, failed)
            every.append(results)
            base = os.path.join(FLAGS.work_dir, experiment.name)
            file_system.write_text(f"{base}.csv", tables.as_csv(results))
            text = tables.as_markdown(results)
            file_system.write_text(f"{base}.md", text)
            if has_pictures and draw(results, f"{base}.png"):
                pictures.append(experiment.name)
        self.report.write(every, failures, pictures)

    def conclude(self, failures: Sequence[Failure]) -> int:
        """Print the tables and the failures; return the exit status."""
        for experiment in self.found:
            results = tables.collect(
                experiment, self.scores, [f.step for f in failures]
            )
            print(f"\n{report.TITLES[experiment.name]}\n")
            print(tables.as_markdown(results), flush=True)
        logging.info("Wrote %s/report.md", FLAGS.work_dir)
        for failure in failures:
            step = self.plan.steps[failure.step]
            logging.error("%s: %s", step.title, failure.line)
            if failure.has_run:
                logging.error("To repeat it:\n%s", self.places.command(step))
        if failures:
            logging.error(
                "%d of %d steps have no result; the same command tries them "
                "again",
                len(failures),
                len(self.plan.steps),
            )
        return 1 if failures else 0


def draw(results: tables.Results, path: str) -> bool:
    """Draw the picture of a table; return whether there is one."""
    try:
        return plots.draw(results, path)
    except ImportError:
        logging.warning(
            "%s is not drawn, since matplotlib is not installed; to install "
            "it: python -m pip install -r requirements.txt",
            path,
        )
        return False


# --- Running -----------------------------------------------------------------


def run_plan(
    output: Output, text: held_out.Text, lock: int | None
) -> list[Failure]:
    """Run what is not finished; return what failed."""
    scale = output.scale
    estimator = create_estimator(
        output.plan, scale, output.data, text.num_bytes, None
    )
    runner = run.Runner(
        output.plan,
        output.places,
        FLAGS.num_parallel or scale.num_parallel,
        estimator.seconds,
        FLAGS.keep_models,
        lock,
        on_finished=lambda step: output.write(
            list(runner.failures.values()), has_pictures=False
        ),
    )
    return runner.run()


def create_estimator(plan, scale, data, text_bytes, speed):
    """Return what estimates the seconds of steps."""
    speed = speed or estimate.Speed({256: 1e11}, 10.0, "a guess")
    return estimate.Estimator(speed, data, text_bytes, vocab_size(scale))


def print_plan(
    plan: Plan,
    scale: Scale,
    data: reproduction_tasks.Data,
    places: Places,
    input_files: Sequence[str],
) -> int:
    """Print every command with its estimated time; return the exit status."""
    sizes = [s.size.hidden_size for s in plan.steps.values() if s.size]
    logging.info("Measuring a training step on this machine")
    speed = estimate.measure(sizes, scale.dtype, HERE, FLAGS.work_dir)
    total_bytes = sum(map(os.path.getsize, input_files))
    if scale.corpus.max_mb:
        total_bytes = min(total_bytes, round(scale.corpus.max_mb * 1e6))
    share = scale.corpus.held_out_share
    text_bytes = {
        "train": round(total_bytes * (1 - share)),
        "held_out": round(total_bytes * share),
    }
    estimator = create_estimator(plan, scale, data, text_bytes, speed)
    seconds = {n: estimator.seconds(s) for n, s in plan.steps.items()}
    numbers = {name: n for n, name in enumerate(plan.steps, 1)}
    print(f"# Times are of this machine. {speed.how}.")
    own = [a for a in sys.argv[1:] if a.lstrip("-") != "dry_run"]
    print(f"python {' '.join([sys.argv[0], *own, '--prepare_only'])}\n")
    for name, step in plan.steps.items():
        after = [str(numbers[n]) for n in step.after]
        tables_of = ", ".join(plan.experiments[name])
        print(
            f"# Step {numbers[name]}: {step.title} ({tables_of}); "
            f"about {run.words_for(seconds[name])}; "
            + (f"after {', '.join(after)}" if after else "after nothing")
        )
        print(places.command(step) + "\n")
    print_total(plan, seconds)
    return 0


def print_total(plan: Plan, seconds: dict[str, float]) -> None:
    """Print the estimated time of each kind of step and of all."""
    ends: dict[str, float] = {}
    for name, step in plan.steps.items():
        begins = max((ends[n] for n in step.after), default=0.0)
        ends[name] = begins + seconds[name]
    for kind in dict.fromkeys(s.kind for s in plan.steps.values()):
        own = [seconds[n] for n, s in plan.steps.items() if s.kind == kind]
        print(f"# {kind}: {len(own)} steps, {run.words_for(sum(own))}")
    print(
        f"# All {len(seconds)} steps: about {run.words_for(sum(seconds.values()))}"
        " one after the other on this machine; "
        f"{run.words_for(max(ends.values()))} on as many such machines as "
        "there are steps to run"
    )


# --- Checks ------------------------------------------------------------------


def check_flags() -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flags.
    """
    known = (*experiments.NAMES, "all")
    if not FLAGS.experiment:
        raise UserError(f"--experiment is required: {', '.join(known)}")
    for name in FLAGS.experiment:
        if name not in known:
            raise UserError(
                f"--experiment={name}: unknown; choose from {', '.join(known)}"
            )
    for name in ("input_file", "work_dir"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
        if file_system.is_remote(FLAGS[name].value):
            raise UserError(
                f"--{name}={FLAGS[name].value}: must be local; mount the "
                "bucket, or change the commands of --dry_run"
            )


if __name__ == "__main__":
    errors.run(main)
