r"""Predict any number of texts with a fine-tuned or an exported model.

    python batch_predict.py --model=mrpc --input_file='pairs-*.jsonl' \
        --output_dir=predictions

reads an object per line, such as {"id": 7, "text_a": "...", "text_b": "..."},
and writes predictions-00000-of-000NN.jsonl, a line per input in the order of
the input:

    {"id": 7, "label": "1", "score": 0.98, "probabilities": {"0": 0.02, ...}}

--model is the output_dir of run_classifier.py, run_squad.py, run_ner.py or
run_swag.py, a SavedModel that they or export_saved_model.py have written, or
any checkpoint. A checkpoint without the head of such a task makes vectors,
fills [MASK]s, or scores sentences (--task=sentence_score).
Inputs are tables (.csv, .tsv) with the columns that the model was trained on,
lines of text (the texts of a pair separated by a tab), JSON lines, or the
TFRecords of the fine-tuning scripts; all but tables may be gzip.

    python batch_predict.py --model=reviews_model --input_file=new.csv \
        --output_dir=predictions --output_format=csv

writes a table of the texts, their labels with the probability, and the other
columns of new.csv.

A line that cannot be predicted has an empty answer, and is written to
errors.jsonl with the reason. After an interruption, the same command resumes
the run. With --runner=beam Apache Beam does the same on many machines.
--explain adds the words that decided, --as_teacher what a smaller model learns
from (docs/distillation.md). Usual choices: --batch_size, --max_seq_length,
--dtype.
"""

import dataclasses
import hashlib
import json

from base import beam as base_beam
from base import file_system, logs, script, startup
from base.errors import UserError, counted
from base.flags import define, flag
from base.jobs import run as jobs_run

from absl import flags, logging

from serving import flags as prediction_flags
from serving import run
from serving.flags import TextOptions
from tasks import reading
from tasks.task import TaskSettings
from training.flags import ModelFlags
from training.settings import AUTO, TrainingSettings

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The model, the texts and the predictions."""

    # Model
    model: str = flag(required=True)
    """Directory of a fine-tuned model, a checkpoint or an exported SavedModel;
    or the prefix of a checkpoint; or hf://owner/name[@revision]. A SavedModel
    is a program: use one only of an origin that you trust
    (docs/SECURITY.md)."""

    # Inputs
    input_file: str = flag(required=True)
    """Tables (.csv, .tsv, with a header), text, JSON lines or TFRecords: globs,
    separated by commas. Each input file gives one output file."""

    input_format: str = flag(
        "auto", choices=("auto", "text", "jsonl", "tfrecord")
    )
    """Format of the input; auto: tables by their names, others by their
    content."""

    id_column: str | None = flag()
    """Column, JSON field or TFRecord feature that holds the id; default: id, in
    TFRecords also unique_ids; without one, the id is file:line."""

    # Outputs
    output_dir: str = flag(required=True, is_output=True, alias="output")
    """Directory to write the predictions to."""

    output_format: str = flag("jsonl", choices=("jsonl", "csv"))
    """jsonl: an object for each input. csv: a table with the texts, the
    prediction and all other columns of the input, under their names."""

    explain: bool = flag(False)
    """Add to each prediction the words that decided it, by integrated
    gradients, at about 100 times the cost; for checkpoints of classifiers
    (docs/batch_prediction.md#which-words-decided)."""

    as_teacher: bool = flag(
        False, excludes={"explain": "", "output_format=csv": ""}
    )
    """Add to each prediction its text, the checksum of the model, and what else
    students learn from (docs/distillation.md)."""

    # Computation
    batch_size: int = flag(32, 1, 2**17)
    """Rows of max_seq_length tokens in a batch; a batch of shorter rows holds
    more."""

    n_best_size: int = flag(20, low=1)
    """For questions: candidate starts and ends to try in each window."""


define(Flags)

define(ModelFlags, "bert_config_file", "vocab_file", "do_lower_case")
prediction_flags.define_model_options()

define(TextOptions)


define(TrainingSettings, "dtype")
define(base_beam.Flags, without=("num_workers",))


def main(_: list[str]) -> None:
    """Predict the files that are missing."""
    check_flags()
    with startup.importing():
        from tasks import loading
    settings = find_model()
    model_files = loading.fingerprint(settings)
    if FLAGS.as_teacher:
        own = [model_files, settings.checkpoint.trained_for.to_dict()]
        digest = hashlib.sha256(json.dumps(own).encode()).hexdigest()
        settings = settings._replace(teacher=digest[:16])
    files = reading.find_inputs(FLAGS.input_file, FLAGS.input_format)
    if files[0].kind in ("table", "text") and not FLAGS.text_columns:
        columns = loading.trained_columns(settings.checkpoint)
        settings = settings._replace(text_columns=columns)
    task = run.create_task(settings)
    prediction_flags.check_text_columns(settings.text_columns, task)
    for name in ("explain", "as_teacher"):
        if FLAGS[name].value and files[0].kind == "tfrecord":
            raise UserError(
                f"--{name}: {files[0].path} holds TFRecords, which have no "
                "words; give text or JSON lines"
            )
    run.check_first_inputs(files[0], task, FLAGS.input_format == "auto")
    options = settings.fingerprint()
    options["model"] = model_files
    options["batch_size"] = FLAGS.batch_size
    file_system.make_directory(FLAGS.output_dir)
    job = run.create_job(files, FLAGS.output_dir, options, FLAGS.model)
    with jobs_run.open_run(job) as this_run:
        todo = run.parts_to_do(this_run, files)
        say_plan(settings, files, todo)
        logs.write_to(FLAGS.output_dir)
        if todo and FLAGS.runner == "beam":
            from serving import on_beam  # needs Apache Beam

            on_beam.predict_files(
                job, todo, settings, FLAGS.batch_size, FLAGS.beam_options
            )
        elif todo:
            model = run.load_model(settings)
            run.predict_files(todo, task, model, FLAGS.batch_size)
        counts = run.finish(this_run)
    run.log_summary(counts, job, FLAGS.output_dir, is_new=bool(todo))


def find_model() -> TaskSettings:
    """Return the settings of --model, changed as the other flags say."""
    from tasks import loading
    from training import dtypes

    settings = loading.find(
        FLAGS.model,
        FLAGS.task,
        bert_config_file=FLAGS.bert_config_file,
        vocab_file=FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case,
        **prediction_flags.model_options(FLAGS),
        **prediction_flags.text_options(FLAGS),
        n_best_size=FLAGS.n_best_size,
        id_column=FLAGS.id_column,
        output_format=FLAGS.output_format,
        explain=FLAGS.explain,
        dtype=FLAGS.dtype if FLAGS["dtype"].present else None,
    )
    if not settings.checkpoint.is_exported:
        settings = settings._replace(dtype=dtypes.resolve_here(FLAGS.dtype))
    prediction_flags.warn_of_ignored(FLAGS, settings.task)
    if FLAGS.explain:
        check_explains(settings)
    return settings


def check_explains(settings: TaskSettings) -> None:
    """Raise a UserError if --explain cannot be done with a model."""
    if settings.checkpoint.is_exported:
        raise UserError(
            "--explain needs gradients, which the SavedModel "
            f"{settings.checkpoint.prefix} does not have: give the checkpoint "
            "that it was exported from"
        )
    if settings.dtype != "float32":
        raise UserError(
            "--explain needs --dtype=float32: the gradients of "
            f"{settings.dtype} do not add up to the output"
        )
    from extras import attributions

    if settings.task not in attributions.TASKS:
        raise UserError(
            f"--explain is for {', '.join(attributions.TASKS)}; the model does "
            f"{settings.task}"
        )


def say_plan(
    settings: TaskSettings, files: list[reading.InputFile], todo: list[run.Part]
) -> None:
    """Say the model, the inputs and what is left to do."""
    checkpoint = settings.checkpoint
    dtype = "" if checkpoint.is_exported else f", {settings.dtype}"
    logs.say(
        "Model: %s; task %s, at most %d tokens%s",
        checkpoint.in_words(),
        settings.task,
        checkpoint.max_seq_length,
        dtype,
    )
    kind, size = files[0].kind, sum(file.size for file in files) / 1e6
    done = len(files) - len(todo)
    if kind == "table" and settings.text_columns:
        kind += f" with the texts in {', '.join(settings.text_columns)}"
    logs.say(
        "Input: %s (%s), %.1f MB%s",
        counted(len(files), "file"),
        kind,
        size,
        f"; already predicted: {counted(done, 'file')}" if done else "",
    )
    for name in ("text_columns", "id_column"):
        if FLAGS[name].value and files[0].kind == "text":
            logging.warning("--%s is ignored: the inputs are text", name)


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    base_beam.check_flags(FLAGS, "output_dir")
    if FLAGS.runner == "beam" and FLAGS.dtype == AUTO:
        raise UserError(
            "--dtype=auto measures this machine, but --runner=beam computes on "
            "others: name the type that is fast there"
        )


if __name__ == "__main__":
    script.run(main)
