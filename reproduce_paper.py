r"""Repeat the paper's tables and Figure 5.

    python reproduce_paper.py --experiment=table5 --scale=smoke \
        --input_file='text/*.txt' --glue_dir=glue --work_dir=paper
    python reproduce_paper.py --experiment=table1 --scale=paper \
        --init_checkpoint=uncased_L-12_H-768_A-12 --glue_dir=glue \
        --work_dir=glue_scores

The first pre-trains a model for each row, fine-tunes it on each task whose data
are given, and leaves paper/table5.md, table5.csv, table5.png and report.md: our
numbers, the paper's, and the differences to the first row in both. Tables 1 to
4 and 7 fine-tune one model: a given one, or BERT pre-trained at the scale.

--scale says how large everything is. `smoke` takes minutes; its models are too
small and too briefly trained for the numbers to mean anything. `small` takes
hours on a laptop; `paper` is BERT-Base at the paper's settings.
tools/reproduction/scales.toml has all their values; --set replaces one of
them.

The work is done by the other scripts of this project, whose commands are
shown. --dry_run prints them all and runs none. Killed and started again, the
same command resumes; with another experiment, more tasks or more seeds it uses
what is there.
"""

import contextlib
import dataclasses
import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence

from base import errors, file_system, text_files
from base.errors import UserError

from absl import flags

import tokenization
from tools.reproduction import (
    experiments,
    held_out,
    run,
    scales,
    work_dir,
)
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.experiments import Experiment
from tools.reproduction.report import Report
from tools.reproduction.steps import RECORDS, Plan
from tools.reproduction.work_dir import WorkDir

FLAGS = flags.FLAGS

# What to do
flags.DEFINE_list(
    "experiment",
    [],
    f"One or several of {', '.join(experiments.NAMES)}, or all that have data.",
)
flags.DEFINE_string(
    "scale",
    "small",
    "smoke, small, night or paper, see tools/reproduction/scales.toml; or "
    "the path of a .toml file of your own with the same keys.",
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
    "Print every command with those that it comes after, run none.",
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

flags.DEFINE_string(
    "init_checkpoint",
    None,
    f"A BERT for {', '.join(experiments.FINE_TUNING)}, as the scripts take "
    "one: these need no text then. Default: one is pre-trained.",
)

# Tasks
flags.DEFINE_string(
    "glue_dir", None, "Folder with the folders MRPC, SST-2, ... of GLUE."
)
flags.DEFINE_string(
    "squad_train_file", None, "SQuAD's JSON, or several files with commas."
)
flags.DEFINE_string("squad_dev_file", None, "The same, to score.")
flags.DEFINE_string("squad2_train_file", None, "The same of SQuAD 2.0.")
flags.DEFINE_string("squad2_dev_file", None, "The same, to score.")
flags.DEFINE_string(
    "triviaqa_file",
    None,
    "TriviaQA's JSON, or several files, to train on before SQuAD: table2.",
)
flags.DEFINE_string(
    "triviaqa_evidence_dir", None, "Its documents, as for run_squad.py."
)
flags.DEFINE_string("swag_dir", None, "Folder with SWAG's train.csv, val.csv.")
flags.DEFINE_string(
    "ner_train_file",
    None,
    "Named entities, a word and its tag per line (CoNLL, WNUT).",
)
flags.DEFINE_string("ner_dev_file", None, "The same, to score.")
flags.DEFINE_list(
    "tasks",
    [],
    "Further tasks for every table that pre-trains but two_directions, such as "
    "RTE,CoLA,STS-B,WNUT. Without it: the paper's, as far as their data are "
    "given.",
)

# Runs
flags.DEFINE_string(
    "work_dir",
    None,
    "Directory for everything: new, or of an earlier run, which is resumed.",
)
flags.DEFINE_alias("output", "work_dir")
flags.DEFINE_integer(
    "num_seeds",
    None,
    "Pre-training runs of each model, each fine-tuned; default: the scale's. "
    "Cells have the mean and the standard deviation.",
    lower_bound=1,
    upper_bound=1000,
)
flags.DEFINE_integer(
    "first_seed",
    1,
    "Number of the first of these runs, so that machines can share them: with "
    "--num_seeds=1, 1 on one machine and 2 on another, with equal paths. Copy "
    "the second work directory over the first: --num_seeds=2 there writes the "
    "tables of both.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "num_parallel",
    None,
    "Commands that run at the same time; default: the scale's.",
    lower_bound=1,
    upper_bound=1024,
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
    if FLAGS.vocab_file:
        vocab_size = len(tokenization.load_vocab(FLAGS.vocab_file))
        corpus = dataclasses.replace(scale.corpus, vocab_size=vocab_size)
        scale = dataclasses.replace(scale, corpus=corpus)
    names = reproduction_tasks.Data._fields
    data = reproduction_tasks.Data(**{n: FLAGS[n].value for n in names})
    data.check()
    num_seeds = FLAGS.num_seeds or scale.num_seeds
    seeds = range(FLAGS.first_seed, FLAGS.first_seed + num_seeds)
    plan, tables = experiments.build(
        [n for n in experiments.NAMES if {n, "all"} & {*FLAGS.experiment}],
        scale,
        [reproduction_tasks.name_of(task, "--tasks") for task in FLAGS.tasks],
        data,
        seeds,
        FLAGS.vocab_file is not None,
        FLAGS.init_checkpoint or "",
        "all" in FLAGS.experiment,
    )
    files, held_out_files = [], []
    if any(step.kind == RECORDS for step in plan.steps.values()):
        experiments.warn_of_lengths(scale, plan.tasks())
        files = file_system.find_files(FLAGS.input_file)
    if FLAGS.held_out_file:
        held_out_files = file_system.find_files(
            FLAGS.held_out_file, "held_out_file"
        )
    work = find_places(data)
    if FLAGS.dry_run:
        print("\n".join(list_commands(plan, tables, work)))
        return 0
    file_system.make_directory(work.path, "work_dir")
    # A report of a divided text only reads: it need not wait for a run.
    is_divided = text_files.read_own_json(held_out.path_of(work.path))
    with (
        contextlib.nullcontext()
        if FLAGS.report_only and (is_divided or not files)
        else work_dir.locked(work.path)
    ) as lock:
        begun = [held_out.path_of(work.path), os.path.join(work.path, "steps")]
        if not any(map(os.path.exists, begun)):
            file_system.check_new_directory(work.path, "work_dir", ["lock"])
        os.makedirs(begun[1], exist_ok=True)
        text = "No text: nothing is pre-trained"
        if files:
            text = held_out.prepare(
                files,
                held_out_files,
                scale.corpus.held_out_share,
                scale.corpus.max_mb,
                FLAGS.vocab_file,
                work.path,
            )
        if any("shuffled" in name for name in plan.steps):
            held_out.shuffle(work.path)
        for name, config in plan.configs.items():
            path = os.path.join(work.path, name)
            if known := work_dir.read_own(path):
                work_dir.check_same(work.path, name, known, config)
            else:
                os.makedirs(os.path.dirname(path), exist_ok=True)
                file_system.write_text(
                    path, json.dumps(config, indent=2) + "\n"
                )
        work.check_begun(plan)
        if FLAGS.prepare_only:
            return 0
        report = Report(
            plan,
            work,
            tables,
            FLAGS.scale,
            seeds,
            text,
            {
                "text": files,
                "held-out text": held_out_files,
                "vocabulary": [FLAGS.vocab_file] if FLAGS.vocab_file else [],
            },
        )
        if not FLAGS.report_only:
            work.check_models(plan)
            run.run(
                plan,
                work,
                FLAGS.num_parallel or scale.num_parallel,
                FLAGS.keep_models,
                lock,
                lambda: report.write(is_last=False),
            )
        report.write()
    return report.conclude()


def find_places(data: reproduction_tasks.Data) -> WorkDir:
    """Return the work directory, and where scripts and data are."""
    is_here = os.path.realpath(os.getcwd()) == os.path.realpath(HERE)
    folder = FLAGS.work_dir.rstrip("/")
    places = {
        "{work_dir}": folder,
        "{train_text}": os.path.join(folder, "corpus", "train", "*"),
        "{shuffled_text}": os.path.join(folder, "corpus", "shuffled", "*"),
        "{held_out_text}": os.path.join(folder, "corpus", "held_out", "*"),
        "{vocab_file}": FLAGS.vocab_file or os.path.join(folder, "vocab.txt"),
    }
    for name, value in data._asdict().items():
        places[f"{{{name}}}"] = (value or "").rstrip("/")
    return WorkDir(folder, places, "" if is_here else HERE, data)


def list_commands(
    plan: Plan, tables: Sequence[Experiment], work: WorkDir
) -> Iterator[str]:
    """Yield every command; what is not a command begins with #."""
    users: dict[str, set[str]] = {name: set() for name in plan.steps}
    for table in tables:
        for row in table.rows:
            for cell in row.cells.values():
                for name in cell.steps:
                    users[name].add(table.name)
    for name, step in reversed(plan.steps.items()):
        for before in step.after:
            users[before] |= users[name]
    own = [a for a in sys.argv[1:] if not a.lstrip("-").startswith("dry_run")]
    yield "# A command can run as soon as those that it comes after have ended."
    yield "# Before all others: divide the text, write the configurations."
    yield shlex.join(["python", sys.argv[0], *own, "--prepare_only"]) + "\n"
    num_finished = 0
    for name, step in plan.steps.items():
        numbers = [str(plan.steps[before].number) for before in step.after]
        own_tables = [t.name for t in tables if t.name in users[name]]
        is_finished = work.is_finished(step)
        num_finished += is_finished
        yield (
            f"# Step {step.number}, for {', '.join(own_tables)}: {step.title}; "
            f"after {', '.join(numbers) or 'no other'}"
            f"{'; finished' * is_finished}"
        )
        yield work.command(step) + "\n"
    # An ensemble trains nothing.
    num_runs = sum("do_train" in s.flags for s in plan.steps.values() if s.task)
    yield (
        f"# Pre-training has {plan.num_train_steps:,} steps and about "
        f"{plan.operations:.2g} operations, fine-tuning {num_runs:,} runs."
    )
    yield f"# {num_finished} of {len(plan.steps)} steps are finished."


def check_flags() -> None:
    """Check what can be checked before any file is read."""
    known = (*experiments.NAMES, "all")
    if not FLAGS.experiment:
        raise UserError(f"--experiment is required: {', '.join(known)}")
    for name in FLAGS.experiment:
        if name not in known:
            raise UserError(
                f"--experiment={name}: unknown; choose from {', '.join(known)}"
            )
    modes = [
        f"--{name}"
        for name in ("dry_run", "prepare_only", "report_only")
        if FLAGS[name].value
    ]
    if len(modes) > 1:
        raise UserError(f"{' and '.join(modes)} exclude each other: give one")
    has_model = FLAGS.init_checkpoint is not None
    fine_tuning, given = {*experiments.FINE_TUNING}, {*FLAGS.experiment}
    if has_model and not given & {*fine_tuning, "all"}:
        raise UserError(
            f"--init_checkpoint is for {', '.join(experiments.FINE_TUNING)}: "
            f"{', '.join(FLAGS.experiment)} pre-trains models of its own"
        )
    needs_text = not has_model or bool(given - fine_tuning)
    for name in ["input_file"] * needs_text + ["work_dir"]:
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
        if file_system.is_remote(FLAGS[name].value):
            raise UserError(
                f"--{name}={FLAGS[name].value}: must be local; mount the "
                "bucket, or change the commands of --dry_run"
            )
    file_system.check_no_pattern(FLAGS.work_dir, "work_dir")


if __name__ == "__main__":
    errors.run(main)
