r"""Repeat the paper's tables and Figure 5.

    python -m tools.reproduce_paper --experiment=table5 --scale=smoke \
        --input_file='text/*.txt' --glue_dir=glue --work_dir=paper
    python -m tools.reproduce_paper --experiment=table1 --scale=paper \
        --init_checkpoint=uncased_L-12_H-768_A-12 --glue_dir=glue \
        --work_dir=glue_scores

The first command pre-trains a model for each row of Table 5 and fine-tunes it
on each task whose data are given. It writes table5.md, table5.csv and
report.md, with our numbers, the paper's, and in both the differences to the
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
import os

from base import file_system, script
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags

import tokenization
from tools.reproduction import experiments, report, run, scales
from tools.reproduction.tasks import SCORED
from tools.reproduction.work_dir import WorkDir

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The experiments, their tasks and their runs."""

    # What to do
    experiment: tuple[str, ...] = flag(
        (), choices=(*experiments.NAMES, "all"), required=True
    )
    """One or several of {experiments}, or all that have data."""

    scale: str = flag("small", choices=("smoke", "small", "night", "paper"))
    """How large everything is, see tools/reproduction/scales.toml."""

    set: tuple[str, ...] = flag((), repeated=True)
    """Replace a value of the scale, as --set=pretraining.num_train_steps=500
    does. May be given several times, also in a file that --flagfile names."""

    dry_run: bool = flag(False, excludes={"report_only": ""})
    """Print every command, and which ones have to end before; run none."""

    report_only: bool = flag(False)
    """Write tables, pictures and report of the scores that are there; run no
    command. Before the commands of --dry_run run elsewhere, it writes the
    configurations of the models; after them it reports."""

    # Models and tasks
    init_checkpoint: str | None = flag()
    """A BERT for {fine_tuning}, as the scripts take one: these need no text
    then. Default: BERT is pre-trained."""

    tasks: tuple[str, ...] = flag((), choices=SCORED)
    """Further tasks for every experiment that pre-trains, of {choices}. The
    paper's tasks are there if their data are."""

    # Runs
    work_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory for everything. It is new, or that of a run to resume."""

    num_seeds: int | None = flag(low=1, high=1000)
    """How often each model is pre-trained, and then fine-tuned; default: the
    scale's number. Cells have the mean and the standard deviation."""


@dataclasses.dataclass(frozen=True)
class Data:
    """The text, and the files of GLUE, SQuAD and the other tasks."""

    input_file: str | None = flag()
    """Text to pre-train on, one sentence per line, a blank line between
    documents: globs, separated by commas."""

    held_out_file: str | None = flag()
    """Text for the perplexity: globs. Its files are not trained on. Default: a
    share of the documents of input_file."""

    vocab_file: str | None = flag()
    """The vocabulary; default: one is learned from the training text."""

    glue_dir: str | None = flag(exists="directory")
    """Folder with the folders MRPC, SST-2, ... of GLUE."""

    squad_train_file: tuple[str, ...] = flag((), exists="file")
    """SQuAD's JSON, or several files with commas."""

    squad_dev_file: str | None = flag(exists="file")
    """The same, to score."""

    squad2_train_file: tuple[str, ...] = flag((), exists="file")
    """The same of SQuAD 2.0."""

    squad2_dev_file: str | None = flag(exists="file")
    """The same, to score."""

    triviaqa_file: tuple[str, ...] = flag((), exists="file")
    """TriviaQA's JSON, or several files, to train on before SQuAD: table2."""

    triviaqa_evidence_dir: str | None = flag(exists="directory")
    """Its documents, as for run_squad.py."""

    swag_dir: str | None = flag(exists="directory")
    """Folder with SWAG's train.csv, val.csv."""

    ner_train_file: str | None = flag(exists="file")
    """Named entities, a word and its tag per line (CoNLL, WNUT)."""

    ner_dev_file: str | None = flag(exists="file")
    """The same, to score."""


define(
    Flags,
    words={
        "experiments": ", ".join(experiments.NAMES),
        "fine_tuning": ", ".join(experiments.FINE_TUNING),
    },
)
define(Data)


def main(_: list[str]) -> int:
    """Plan and run the experiments; return the exit status."""
    names = [n for n in experiments.NAMES if {n, "all"} & {*FLAGS.experiment}]
    if FLAGS.init_checkpoint and not {*names} & {*experiments.FINE_TUNING}:
        raise UserError(
            f"--init_checkpoint is for {', '.join(experiments.FINE_TUNING)}: "
            f"{', '.join(names)} pre-trains models of its own"
        )
    for name in ("input_file", "work_dir"):
        if file_system.is_remote(FLAGS[name].value or ""):
            raise UserError(
                f"--{name}={FLAGS[name].value}: must be local; mount the "
                "bucket, or change the commands of --dry_run"
            )
    file_system.check_no_pattern(FLAGS.work_dir, "work_dir")
    scale = scales.read(FLAGS.scale, FLAGS.set)
    scale["num_seeds"] = FLAGS.num_seeds or scale["num_seeds"]
    if FLAGS.vocab_file:
        vocab_size = len(tokenization.load_vocab(FLAGS.vocab_file))
        scale["corpus.vocab_size"] = vocab_size
    data = {
        name: path if isinstance(path, str) else ",".join(path)
        for name, path in vars(read(Data, FLAGS)).items()
        if path
    }
    plan, tables = experiments.build(
        names, scale, FLAGS.tasks, data, FLAGS.init_checkpoint or ""
    )
    folder = FLAGS.work_dir.rstrip("/")
    vocab_file = os.path.join(folder, "vocab.txt")
    places = {"work_dir": folder, "vocab_file": vocab_file, "input_file": ""}
    places |= data
    work = WorkDir(folder, places)
    inputs = {pattern: work.files(pattern) for pattern in plan.reads()}
    held_out = {*map(os.path.realpath, inputs.get("$held_out_file", []))}
    if held_out:  # it is not trained on
        every = inputs["$input_file"]
        text = [f for f in every if os.path.realpath(f) not in held_out]
        places["input_file"] = ",".join(text)
    if FLAGS.dry_run:
        print("\n".join(report.list_commands(plan, work)))
        return 0
    file_system.make_directory(folder, "work_dir")
    if FLAGS.report_only:  # it need not wait for a run
        work.begin(plan)
        return report.write(plan, work, tables)
    with file_system.locked_folder(os.path.join(folder, "lock"), folder):
        work.begin(plan)
        try:
            run.run(plan, work)
        finally:  # also of a run that was interrupted
            status = report.write(plan, work, tables)
        return status


if __name__ == "__main__":
    script.run(main)
