r"""Fine-tune BERT on sentences or sentence pairs; score it, predict with it.

    python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC \
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=mrpc \
        --do_train --do_eval --do_predict

writes `eval_results.txt` (accuracy, F1 or the other scores of the task),
`test_results.tsv` (a probability per class), a file for GLUE's server, and the
fine-tuned weights in `bert_model.ckpt`. After an interruption, the same command
resumes the run. --do_export writes a SavedModel, too.

Usual choices: --max_seq_length, --train_batch_size, --learning_rate,
--num_train_epochs, --random_seed, --dtype=bfloat16 where the processor has it;
--eval_steps and --early_stopping_patience to keep the best step and stop early;
--class_weights where classes are rare; --sweep_learning_rates and
--num_restarts to keep the best of several runs.

For your own data, --task_name=tsv reads tables (.csv, .tsv or .jsonl, with a
header). One is enough, of which a tenth is held out to score the model:

    python run_classifier.py --task_name=tsv --train_file=reviews.csv \
        --heldout_fraction=0.1 --text_a_column=text --label_column=verdict \
        --init_checkpoint=... --output_dir=reviews_model --do_train --do_eval

--dev_file and --test_file name other tables; --data_dir is a folder of train,
dev and test files. --text_b_column is the second text of pairs. --regression
predicts numbers; --multi_label predicts any number of labels, which the files
separate by commas.
--processor=my_module:MyProcessor takes examples from a class of yours, a
subclass of run_classifier.DataProcessor as for the original.

A small model can learn from a larger one that is already fine-tuned, even on
text without labels: --teacher_answers, --learn_all_answers
(docs/distillation.md).
"""

import dataclasses
import functools
import sys
from collections.abc import Collection

from base import lazy, script, startup
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags

from checkpoints.model import Checkpoint
from checkpoints.run_folder import WEIGHTS_NAME
from finetuning import flags as finetuning_flags
from finetuning.flags import Work
from tasks.classifier import data as classifier_data
from tasks.classifier import task_files
from tasks.classifier.flags import Options
from tasks.long_texts import LongTextFlags
from tasks.settings import DistillationFlags, RunSettings

FLAGS = flags.FLAGS

# What programs written against the original import: DataProcessor, ...
__getattr__ = lazy.attributes_of("compat.run_classifier")

finetuning_flags.define(
    what_is_cut="Largest number of tokens that the model reads at once; longer "
    "sentences and pairs are cut.",
    train_on="the training set",
    score_on="the development set",
    predict_on="the test set",
    rows="Examples",
)

_OWN_FILES = {"task_name=tsv": ""}
_OWN_FILE = {
    "implies": {"task_name": "tsv"},
    "needs": _OWN_FILES,
    "excludes": {"data_dir": "name all files, or the folder that has them"},
}


@dataclasses.dataclass(frozen=True)
class Flags:
    """The task, its files and folds."""

    calibrate: bool = flag(False, needs={"do_eval": "it fits its data"})
    """With --do_eval, for classes: divide the output layer of the fine-tuned
    model by the temperature with the least loss on the development set, so that
    probabilities agree with how often predictions are right. The predicted
    classes stay the same (docs/calibration.md)."""

    # Task and data
    task_name: str | None = flag(
        needs={"data_dir or train_file or dev_file or test_file": ""}
    )
    """One of {tasks}; tsv: your own files, as also without it, if train_file,
    dev_file or test_file is given."""

    data_dir: str = flag("", exists="directory")
    """Directory of the task's files."""

    train_file: str | None = flag(exists="file", **_OWN_FILE)
    """Table of your own to train on, .csv, .tsv or .jsonl with a header."""

    dev_file: str | None = flag(exists="file", **_OWN_FILE)
    """Table of your own to score the model on."""

    test_file: str | None = flag(exists="file", **_OWN_FILE)
    """Table of your own to predict; it needs no labels."""

    heldout_fraction: float = flag(
        0.0,
        0,
        0.9,
        excludes={
            "dev_file": "both say what the model is scored on",
            "num_folds": "each part is held out once",
            "processor": "it has a method for each part",
        },
    )
    """Hold out this share of the training rows, such as 0.1, with the same
    share of each label, and score the model on them, in place of a development
    file; heldout.csv in output_dir has these rows."""

    heldout_seed: int | None = flag(low=0, needs={"heldout_fraction": ""})
    """Which rows are held out; default: random_seed, of a sweep its first, and
    without --do_train what the model was trained with."""

    group_column: str | None = flag(
        needs={"heldout_fraction or num_folds": "", **_OWN_FILES}
    )
    """Column of the table: rows with the same value, such as all texts of one
    author, are held out together or not at all. Copies of a text always are."""

    xnli_language: str = flag("zh")
    """Language of XNLI's examples."""

    text_a_column: str = flag("sentence", needs=_OWN_FILES)
    """With --task_name=tsv: column of the sentence, or of the first one."""

    text_b_column: str | None = flag(needs=_OWN_FILES)
    """With --task_name=tsv: column of the second sentence, if there is one."""

    label_column: str = flag("label", needs=_OWN_FILES)
    """With --task_name=tsv: column of the label."""

    multi_label: bool = flag(
        False,
        needs=_OWN_FILES,
        excludes=dict.fromkeys(
            ("regression", "teacher_answers"), "it learns several labels"
        ),
    )
    """With --task_name=tsv: predict any number of labels, which the files
    separate by commas or give as a JSON list. Each label has a least
    probability, tuned on the development set, from which it is predicted."""

    regression: bool = flag(False, needs=_OWN_FILES)
    """With --task_name=tsv: predict numbers, which the labels are, not
    classes."""

    processor: str | None = flag(
        needs={"data_dir": ""},
        excludes=dict.fromkeys(
            ("regression", "multi_label"), "it has one class for each example"
        ),
    )
    """module:Class, a subclass of run_classifier.DataProcessor that returns the
    examples and labels; --task_name is not needed then."""

    num_folds: int = flag(0, 0, 1000)
    """Cross-validate: cut the training set into this many parts, and for each
    of them train a model on the others and score it on this one. No development
    set is needed."""

    fold: int = flag(0, low=0)
    """With num_folds: train and score for this part alone, counted from 1; 0:
    for all parts."""


define(Flags, words={"tasks": ", ".join(task_files.TASK_NAMES)})
define(Options)
define(LongTextFlags)
define(DistillationFlags)

# What messages call the parts of the data.
_TITLES = {"train": "training", "dev": "development", "test": "test"}


def main(_: list[str]) -> int:
    """Train, score, predict and export; return the exit status."""
    if not (FLAGS.task_name or FLAGS.processor):
        raise UserError("--task_name is required")
    if FLAGS.num_folds == 1 or FLAGS.fold > FLAGS.num_folds:
        raise UserError(
            f"--num_folds={FLAGS.num_folds} --fold={FLAGS.fold}: wanted two or "
            "more parts, and one of them"
        )
    finetuning_flags.check_flags(FLAGS)
    with startup.importing():
        from finetuning import runner

    return runner.run_script(FLAGS, __file__, create_work)


def create_work(settings: RunSettings, source: Checkpoint) -> Work:
    """Return the job the flags describe, its files read and checked."""
    is_drawn = FLAGS.num_folds or FLAGS.heldout_fraction
    # {flag: the part of the data that it needs}; some of the training set may
    # be scored.
    needed = {
        flag: "train" if part == "dev" and is_drawn else part
        for flag, part in finetuning_flags.PARTS.items()
        if FLAGS[flag].value
    }
    # An interrupted run has weights without a configuration beside them. Then
    # `source` describes its init_checkpoint, which may have had other labels.
    weights, is_used = settings.folder.weights, not settings.do_train
    is_described = is_used and weights in (None, source.prefix)
    files = read_files(source if is_described else None, needed.values())
    for name, part in needed.items():
        if not getattr(files, part):
            what = f"task {FLAGS.task_name} has no {_TITLES[part]} file"
            if part == "dev" and files.train:
                what += (
                    ": hold out rows of the training file with "
                    "--heldout_fraction=0.1, or name a --dev_file"
                )
            raise UserError(f"--{name}: {what}")
    # Only runs that ask for an extra import it.
    if is_drawn and (settings.do_eval or not is_used):
        from extras import folds

        prefix = is_used and weights or source.prefix
        before = folds.rows_of_run(prefix)
        # What a model that is used as it is has learned is decided already.
        chosen = {"heldout_seed": settings.random_seed}
        chosen |= before if is_used else {}
        group = FLAGS.group_column or chosen.get("group_column")
        if FLAGS.num_folds:
            # If all folds are asked for, the first one stands for them.
            fold = FLAGS.fold or 1
            files = folds.fold(files, fold, FLAGS.num_folds, group)
        else:
            seed = FLAGS.heldout_seed
            if seed is None:
                seed = chosen["heldout_seed"]
            files = folds.held_out(files, FLAGS.heldout_fraction, seed, group)
        if is_used or before.get("data") == files.train.drawn["data"]:
            folds.check_not_seen(files.train, before, prefix)
    from tasks.classifier.job import ClassifierJob, MultiLabelJob

    job_type = MultiLabelJob if FLAGS.multi_label else ClassifierJob
    job = job_type(settings, source, files, read(Options, FLAGS))
    wrapper = calibration = None
    if FLAGS.calibrate:
        from extras.calibration import calibrate

        if files.labels is None or files.multi_label:
            raise UserError(
                "--calibrate is for one class for each example: a regression "
                "and --multi_label have no softmax"
            )
        if not settings.do_train and not settings.folder.kept:
            raise UserError(
                "--calibrate changes the fine-tuned model in --output_dir="
                f"{settings.folder.path}, which has no {WEIGHTS_NAME}: name "
                "the folder of the model, or of a copy"
            )
        calibration = functools.partial(calibrate, job)
    learned = read(DistillationFlags, FLAGS)
    if settings.do_train and learned.teacher_answers:
        from extras.distillation.classes import ClassifierDistillation

        wrapper = ClassifierDistillation(job, learned)
    return Work(job, wrapper, calibration)


def read_files(
    model: Checkpoint | None, needed: Collection[str]
) -> task_files.TaskFiles:
    """Return the task; its labels are those of a model that is used as it is.

    Of a processor only the parts that are needed are read.

    Raises:
        UserError: a file is missing, or the model is of another task.
    """
    labels = model and model.trained_for.labels
    if FLAGS.processor:
        from tasks.classifier import processors

        # The processor's module imports run_classifier, which runs here under
        # the name __main__. A second import would define all flags again.
        sys.modules.setdefault("run_classifier", sys.modules[__name__])
        files = processors.read_files(FLAGS.processor, FLAGS.data_dir, needed)
    elif FLAGS.task_name.lower() == "tsv":
        columns = task_files.Columns(
            FLAGS.text_a_column, FLAGS.text_b_column, FLAGS.label_column
        )
        files = classifier_data.own_files(
            FLAGS.data_dir,
            columns,
            FLAGS.regression,
            labels,
            FLAGS.multi_label,
            given={part: FLAGS[f"{part}_file"].value for part in _TITLES},
        )
    else:
        task = task_files.find(FLAGS.task_name, FLAGS.xnli_language)
        files = task.in_folder(FLAGS.data_dir)
    if model:
        own = model.trained_for
        files = task_files.with_labels_of(files, labels, model.prefix)
        task_files.check_pairs(files, own.sentence_pairs, model.prefix)
        if files.labels is None:
            return files._replace(output_activation=own.output_activation)
    return files


if __name__ == "__main__":
    script.run(main)
