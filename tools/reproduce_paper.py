r"""Repeat the paper's tables and Figure 5.

    python -m tools.reproduce_paper --experiment=table5 --scale=smoke \
        --input_file='text/*.txt' --glue_dir=glue --work_dir=paper
    python -m tools.reproduce_paper --experiment=table1 --scale=paper \
        --init_checkpoint=uncased_L-12_H-768_A-12 --glue_dir=glue \
        --work_dir=glue_scores

The first command pre-trains a model for each row of Table 5 and fine-tunes it
on each task whose data are given. It writes table5.md, table5.csv, table5.png
and report.md, with our numbers, the paper's, and in both the differences to the
first row. Tables 1 to 4 and 7 fine-tune one model, that of --init_checkpoint or
a BERT that is pre-trained at the scale.

--scale says how large everything is. `smoke` takes minutes, and its models are
too small for the numbers to mean anything. `small` takes hours on a laptop,
`night` about six core-hours. `paper` is BERT-Base at the paper's settings.
tools/reproduction/scales.toml has all their values, and --set replaces one.

Other scripts of this project do the work. Their commands are shown; --dry_run
prints all of them and runs none. If a run was killed, the same command resumes
it. Another experiment, more tasks or more seeds use what is there.
"""

import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterator

from base import file_system, script
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags

import tokenization
from tools.reproduction import (
    experiments,
    run,
    scales,
    tasks,
    work_dir,
)
from tools.reproduction.report import Report
from tools.reproduction.steps import HELD_OUT, TEXT, VOCABULARY, Plan
from tools.reproduction.tasks import TASKS
from tools.reproduction.work_dir import WorkDir

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The experiments, their text, their tasks and their runs."""

    # What to do
    experiment: tuple[str, ...] = flag(
        (), choices=(*experiments.NAMES, "all"), required=True
    )
    """One or several of {experiments}, or all that have data."""

    scale: str = flag("small")
    """smoke, small, night or paper, see tools/reproduction/scales.toml; or the
    path of a .toml file of your own with the same keys."""

    set: tuple[str, ...] = flag((), repeated=True)
    """Replace a value of the scale, as --set=pretraining.num_train_steps=500
    does. May be given several times."""

    dry_run: bool = flag(False, excludes={"report_only": ""})
    """Print every command, and which ones have to end before; run none."""

    report_only: bool = flag(False)
    """Write tables, pictures and report of the scores that are there; run no
    command. Before the commands of --dry_run run elsewhere, it writes the
    configurations of the models; after them it reports."""

    # Text
    input_file: str | None = flag()
    """Text to pre-train on, one sentence per line, a blank line between
    documents: globs, separated by commas."""

    held_out_file: str | None = flag()
    """Text for the perplexity: globs. Its files are not trained on. Default: a
    share of the documents of input_file."""

    vocab_file: str | None = flag()
    """The vocabulary; default: one is learned from the training text."""

    init_checkpoint: str | None = flag()
    """A BERT for {fine_tuning}, as the scripts take one: these need no text
    then. Default: BERT is pre-trained."""

    tasks: tuple[str, ...] = flag(())
    """Further tasks, such as RTE,CoLA,STS-B,WNUT, for every experiment that
    pre-trains, except two_directions. The paper's tasks are there if their data
    are."""

    # Runs
    work_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory for everything. It is new, or that of a run to resume."""

    num_seeds: int | None = flag(low=1, high=1000)
    """How often each model is pre-trained, and then fine-tuned; default: the
    scale's number. Cells have the mean and the standard deviation."""

    keep_models: bool = flag(False)
    """Keep the weights of fine-tuned models. Without it they are removed when
    their scores are there."""


@dataclasses.dataclass(frozen=True)
class Data:
    """The files of GLUE, SQuAD and the other tasks of the paper."""

    glue_dir: str | None = flag()
    """Folder with the folders MRPC, SST-2, ... of GLUE."""

    squad_train_file: str | None = flag(needs={"squad_dev_file": ""})
    """SQuAD's JSON, or several files with commas."""

    squad_dev_file: str | None = flag(needs={"squad_train_file": ""})
    """The same, to score."""

    squad2_train_file: str | None = flag(needs={"squad2_dev_file": ""})
    """The same of SQuAD 2.0."""

    squad2_dev_file: str | None = flag(needs={"squad2_train_file": ""})
    """The same, to score."""

    triviaqa_file: str | None = flag(needs={"triviaqa_evidence_dir": ""})
    """TriviaQA's JSON, or several files, to train on before SQuAD: table2."""

    triviaqa_evidence_dir: str | None = flag(needs={"triviaqa_file": ""})
    """Its documents, as for run_squad.py."""

    swag_dir: str | None = flag()
    """Folder with SWAG's train.csv, val.csv."""

    ner_train_file: str | None = flag(needs={"ner_dev_file": ""})
    """Named entities, a word and its tag per line (CoNLL, WNUT)."""

    ner_dev_file: str | None = flag(needs={"ner_train_file": ""})
    """The same, to score."""


define(
    Flags,
    words={
        "experiments": ", ".join(experiments.NAMES),
        "fine_tuning": ", ".join(experiments.FINE_TUNING),
    },
)
define(Data)


HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(_: list[str]) -> int:
    """Plan and run the experiments; return the exit status."""
    check_flags()
    scale = scales.read(FLAGS.scale, FLAGS.set)
    scale.num_seeds = FLAGS.num_seeds or scale.num_seeds
    if FLAGS.vocab_file:
        vocab_size = len(tokenization.load_vocab(FLAGS.vocab_file))
        scale.corpus.vocab_size = vocab_size
    given = dataclasses.asdict(read(Data, FLAGS))
    data = {name: path.rstrip("/") for name, path in given.items() if path}
    tasks.check(data)
    plan, tables = experiments.build(
        [n for n in experiments.NAMES if {n, "all"} & {*FLAGS.experiment}],
        scale,
        [tasks.name_of(task, "--tasks") for task in FLAGS.tasks],
        data,
        [n for n in (HELD_OUT, VOCABULARY) if FLAGS[n].value],
        FLAGS.init_checkpoint or "",
        "all" in FLAGS.experiment,
    )
    folder = FLAGS.work_dir.rstrip("/")
    places = {
        "work_dir": folder,
        VOCABULARY: FLAGS.vocab_file or os.path.join(folder, "vocab.txt"),
        HELD_OUT: FLAGS.held_out_file,
        **data,
    }
    inputs = {
        name: TASKS[name].files(data)
        if name in TASKS
        else file_system.find_files(FLAGS[name].value, name)
        for name in plan.read_by_steps()
    }
    if TEXT in inputs:
        experiments.check_lengths(scale, [n for n in inputs if n in TASKS])
        held_out = {*map(os.path.realpath, inputs.get(HELD_OUT, []))}
        places[TEXT] = FLAGS.input_file
        text = [f for f in inputs[TEXT] if os.path.realpath(f) not in held_out]
        if text != inputs[TEXT]:
            inputs[TEXT], places[TEXT] = text, ",".join(text)
    is_here = os.path.realpath(os.getcwd()) == os.path.realpath(HERE)
    work = WorkDir(folder, places, inputs, "" if is_here else HERE)
    if FLAGS.dry_run:
        print("\n".join(list_commands(plan, work)))
        return 0
    report = Report(plan, work, tables, FLAGS.scale)
    file_system.make_directory(folder, "work_dir")
    if FLAGS.report_only:  # it need not wait for a run
        begin(plan, work)
        return report.write(prints=True)
    with work_dir.locked(folder) as lock:
        begin(plan, work)
        try:
            run.run(plan, work, FLAGS.keep_models, lock)
        except KeyboardInterrupt:
            report.write()
            raise
        return report.write(prints=True)


def begin(plan: Plan, work: WorkDir) -> None:
    """Begin a work directory, or check that it was begun by the same command.

    Writes the configurations of the models.
    """
    steps = os.path.join(work.path, "steps")
    if not os.path.exists(steps):
        file_system.check_new_directory(work.path, "work_dir", ["lock"])
    os.makedirs(steps, exist_ok=True)
    work.check_begun(plan)
    for step in plan.steps.values():
        if step.config:
            path = step.flags["bert_config_file"]
            path = path.replace("$work_dir", work.path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            file_system.write_text(path, json.dumps(step.config, indent=2))


def list_commands(plan: Plan, work: WorkDir) -> Iterator[str]:
    """Yield every command, between comments that begin with #."""
    own = [a for a in sys.argv[1:] if not a.lstrip("-").startswith("dry_run")]
    yield "# A command can run as soon as those that it comes after have ended."
    yield "# Before all others: write the configurations of the models."
    yield "# After them: write tables, pictures and report."
    command = ["python", "-m", "tools.reproduce_paper", *own, "--report_only"]
    yield shlex.join(command) + "\n"
    num_finished = 0
    for step in plan.steps.values():
        numbers = [str(plan.steps[before].number) for before in step.after]
        is_finished = work.is_finished(step)
        num_finished += is_finished
        yield (
            f"# Step {step.number}: {step.name}; "
            f"after {', '.join(numbers) or 'no other'}"
            f"{'; finished' * is_finished}"
        )
        yield work.command(step) + "\n"
    # An ensemble does not train.
    trains = [s.script for s in plan.steps.values() if "do_train" in s.flags]
    num_runs = len(trains) - trains.count("run_pretraining.py")
    yield (
        f"# Pre-training has {plan.num_train_steps:,} steps and about "
        f"{plan.operations:.2g} operations, fine-tuning {num_runs:,} runs."
    )
    yield f"# {num_finished} of {len(plan.steps)} steps are finished."


def check_flags() -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flag.
    """
    fine_tuning, given = {*experiments.FINE_TUNING}, {*FLAGS.experiment}
    if FLAGS.init_checkpoint and not given & {*fine_tuning, "all"}:
        raise UserError(
            f"--init_checkpoint is for {', '.join(experiments.FINE_TUNING)}: "
            f"{', '.join(FLAGS.experiment)} pre-trains models of its own"
        )
    needs_text = not FLAGS.init_checkpoint or bool(given - fine_tuning)
    if needs_text and not FLAGS.input_file:
        raise UserError("--input_file is required")
    for name in ["input_file"] * needs_text + ["work_dir"]:
        if file_system.is_remote(FLAGS[name].value):
            raise UserError(
                f"--{name}={FLAGS[name].value}: must be local; mount the "
                "bucket, or change the commands of --dry_run"
            )
    file_system.check_no_pattern(FLAGS.work_dir, "work_dir")


if __name__ == "__main__":
    script.run(main)
