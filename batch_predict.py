r"""Predict texts of any number with a fine-tuned model or an exported one.

    python batch_predict.py --model=mrpc --input_file='pairs-*.jsonl' \
        --output_dir=predictions

reads an object per line, such as {"id": 7, "text_a": "...", "text_b": "..."},
and writes predictions-00000-of-000NN.jsonl, a line per input in the order of
the input:

    {"id": 7, "label": "1", "score": 0.98, "probabilities": {"0": 0.02, ...}}

--model is the output_dir of run_classifier.py, run_squad.py, run_ner.py or
run_swag.py, a SavedModel that they or export_saved_model.py have written, or
any checkpoint: one without a head of these makes vectors, or fills [MASK]s.
Inputs are lines of text (the texts of a pair separated by a tab), JSON lines,
or the TFRecords of the fine-tuning scripts; plain or gzip.

A line that cannot be predicted is named with its reason in errors.jsonl, and
the run goes on. After an interruption, the same command continues it. With
--runner=beam Apache Beam does the same on many machines.
"""

from base import beam as base_beam
from base import errors, resuming
from base.errors import UserError

from absl import flags, logging

from serving import flags as prediction_flags
from serving import model as prediction_model
from serving import outputs, plan, run
from serving.plan import Plan
from tasks import registry
from tasks.task import Settings, Task
from training import dtypes
from training import flags as training_flags

FLAGS = flags.FLAGS

# Model
flags.DEFINE_string(
    "model",
    None,
    "Directory of a fine-tuned model, a checkpoint or an exported SavedModel; "
    "or the prefix of a checkpoint; or hf://owner/name[@revision].",
)
prediction_flags.define_model_options()
flags.DEFINE_string(
    "bert_config_file",
    None,
    "JSON file with the sizes of the model; default: beside the checkpoint.",
)
flags.DEFINE_string(
    "vocab_file", None, "The vocabulary; default: that of the model."
)
flags.DEFINE_bool(
    "do_lower_case", None, "Lower-case the text; default: as the model was."
)

# Inputs
flags.DEFINE_string(
    "input_file",
    None,
    "Text, JSON lines or TFRecords, plain or gzip: globs, separated by commas.",
)
flags.DEFINE_enum(
    "input_format",
    "auto",
    ["auto", "text", "jsonl", "tfrecord"],
    "auto: judged by the content of the files.",
)
prediction_flags.define_text_flags()
flags.DEFINE_string(
    "id_column",
    None,
    "Field of the id in JSON, or feature in TFRecords; default: id (TFRecords: "
    "unique_ids too) where there is one, else file:line is the id.",
)

# Outputs
flags.DEFINE_string("output_dir", None, "Directory of the predictions.")
flags.DEFINE_integer(
    "num_shards",
    None,
    "Number of output files; default: one for every 8 MB of input.",
    lower_bound=1,
    upper_bound=plan.MAX_SHARDS,
)

# Computation
flags.DEFINE_integer(
    "batch_size",
    32,
    "Rows of max_seq_length tokens in a batch; of shorter rows more.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "n_best_size",
    20,
    "Questions: starts and ends to try in each window.",
    lower_bound=1,
)
training_flags.define_dtype_flag()
base_beam.define_flags()

# Fields of Settings that do not change the predictions, or that the
# checksums of the model's files cover.
_NOT_IN_FINGERPRINT = (
    "path",
    "bert_config_file",
    "vocab_file",
    "trained_for",
)


def main(_: list[str]) -> int:
    """Predict the shards that are missing; return the exit status."""
    check_flags()
    settings = find_model()
    task = registry.create_task(settings)
    prediction_flags.check_text_columns(FLAGS.text_columns, task)
    job = make_plan(settings)
    plan.check_first_inputs(job, task.parse)
    with outputs.locked(job):
        to_do = outputs.begin(job)
        log_plan(job, settings, to_do)
        if to_do:
            predict(job, to_do, task)
        counts = outputs.finish(job)
    run.log_summary(counts, job)
    return 0


# --- Steps -------------------------------------------------------------------


def find_model() -> Settings:
    """Return the settings of --model with those of other flags."""
    settings = prediction_model.describe(
        FLAGS.model,
        FLAGS.task,
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
        **prediction_flags.model_options(FLAGS),
        **prediction_flags.text_options(FLAGS),
        n_best_size=FLAGS.n_best_size,
        id_column=FLAGS.id_column,
        dtype=FLAGS.dtype if FLAGS["dtype"].present else None,
    )
    if not settings.is_saved_model:
        settings = settings._replace(dtype=dtypes.resolve_here(FLAGS.dtype))
    prediction_flags.warn_of_ignored(FLAGS, settings.task)
    return settings


def make_plan(settings: Settings) -> Plan:
    """Return the shards, and the fingerprint of all they depend on."""
    options = {
        name: value
        for name, value in settings._asdict().items()
        if name not in _NOT_IN_FINGERPRINT
    }
    options["model"] = prediction_model.model_fingerprint(settings)
    options["batch_size"] = FLAGS.batch_size
    return plan.make_plan(
        FLAGS.input_file,
        FLAGS.output_dir,
        FLAGS.num_shards,
        FLAGS.input_format,
        options,
    )


def predict(job: Plan, to_do: list[int], task: Task) -> None:
    """Write shards with the runner; if that fails, say how to continue."""
    with resuming.explained_failures(job.output_dir):
        if FLAGS.runner == "beam":
            # It imports Apache Beam, which is optional.
            from serving import on_beam

            on_beam.predict_shards(
                job, to_do, task.settings, FLAGS.batch_size, FLAGS.beam_options
            )
            return
        run.predict_shards(
            job,
            to_do,
            task,
            lambda: prediction_model.load(task.settings),
            FLAGS.batch_size,
        )


def log_plan(job: Plan, settings: Settings, to_do: list[int]) -> None:
    """Log the model, the inputs and what is left to do."""
    logging.info("***** Batch prediction *****")
    logging.info("  Model = %s", settings.path)
    logging.info("  Task = %s", settings.task)
    logging.info("  Max sequence length = %d", settings.max_seq_length)
    if not settings.is_saved_model:
        logging.info("  Matrix products = %s", settings.dtype)
    logging.info(
        "  Inputs = %d files of %s, %.1f MB",
        len(job.files),
        job.files[0].kind,
        sum(file.size for file in job.files) / 1e6,
    )
    logging.info("  Shards to do = %d of %d", len(to_do), len(job.shards))
    for name in ("text_columns", "id_column"):
        if FLAGS[name].value and job.files[0].kind == "text":
            logging.warning("--%s is ignored: the inputs are text", name)


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    training_flags.require(FLAGS, "model", "input_file", "output_dir")
    base_beam.check_flags(
        FLAGS.runner,
        FLAGS.beam_options,
        output=f"output_dir={FLAGS.output_dir}",
    )
    if FLAGS.runner == "beam" and FLAGS.dtype == dtypes.AUTO:
        raise UserError(
            "--dtype=auto measures this machine, but --runner=beam computes on "
            "others: name the type that is fast there"
        )


if __name__ == "__main__":
    errors.run(main)
