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

from prediction import all_tasks, outputs, plan, run
from prediction import model as prediction_model
from prediction.plan import Plan
from prediction.tasks import Settings, Task
from training import flags as training_flags

FLAGS = flags.FLAGS

# Model
flags.DEFINE_string(
    "model",
    None,
    "Directory of a fine-tuned model, a checkpoint or an exported SavedModel; "
    "or the prefix of a checkpoint; or hf://owner/name[@revision].",
)
flags.DEFINE_enum(
    "task",
    None,
    all_tasks.TASK_NAMES,
    "What to predict; default: what the model was fine-tuned to, else "
    "masked_lm for a pre-trained one that sees both sides, else encoder "
    "(vectors).",
)
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
flags.DEFINE_list(
    "text_columns",
    [],
    "Fields of the texts in JSON, in the order of the task's own names, which "
    "are the default: text; text_a,text_b; question,context; context,choices.",
)
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
flags.DEFINE_integer(
    "num_answers",
    1,
    "Questions: answers to list as nbest; 1 for the best one alone.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "top_k",
    None,
    "masked_lm: tokens for every [MASK]; default: 5.",
    lower_bound=1,
)
flags.DEFINE_multi_enum(
    "vectors",
    ["mean_output"],
    ["mean_output", "pooled_output"],
    "encoder: the mean over the tokens, or the pooled output of [CLS]; may be "
    "given twice for both.",
)

# Computation
flags.DEFINE_integer(
    "batch_size",
    32,
    "Rows of max_seq_length tokens in a batch; of shorter rows more.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens of a row; default: those the model was fine-tuned with, else its "
    "positions.",
    lower_bound=5,
)
flags.DEFINE_bool(
    "sentence_pairs",
    None,
    "classifier: two texts instead of one; default: as it was fine-tuned.",
)
flags.DEFINE_integer(
    "doc_stride",
    None,
    "Questions: tokens from the start of a window to the next; default: 128.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_query_length",
    None,
    "Questions with more tokens are cut; default: 64.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_answer_length",
    None,
    "Maximum tokens of an answer; default: 30.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "n_best_size",
    20,
    "Questions: starts and ends to try in each window.",
    lower_bound=1,
)
flags.DEFINE_float(
    "null_score_diff_threshold",
    None,
    "Questions: no answer if its score exceeds the best answer's by more; "
    "default: the threshold of the model, if it was fitted to SQuAD 2.0.",
)
base_beam.define_flags()

# Flags that one task reads.
_OF_TASK = {
    "num_answers": "question_answering",
    "doc_stride": "question_answering",
    "max_query_length": "question_answering",
    "max_answer_length": "question_answering",
    "n_best_size": "question_answering",
    "null_score_diff_threshold": "question_answering",
    "top_k": "masked_lm",
    "vectors": "encoder",
    "sentence_pairs": "classifier",
}

# Fields of Settings that do not change the predictions, or that the
# checksums of the model's files cover.
_NOT_IN_FINGERPRINT = ("path", "bert_config_file", "vocab_file")


def main(_: list[str]) -> int:
    """Predict the shards that are missing; return the exit status."""
    check_flags()
    settings = find_model()
    task = all_tasks.create_task(settings)
    check_text_columns(task)
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
        max_seq_length=FLAGS.max_seq_length,
        sentence_pairs=FLAGS.sentence_pairs,
        doc_stride=FLAGS.doc_stride,
        max_query_length=FLAGS.max_query_length,
        max_answer_length=FLAGS.max_answer_length,
        n_best_size=FLAGS.n_best_size,
        num_answers=FLAGS.num_answers,
        null_threshold=FLAGS.null_score_diff_threshold,
        top_k=FLAGS.top_k,
        vectors=tuple(dict.fromkeys(FLAGS.vectors)),
        text_columns=tuple(FLAGS.text_columns),
        id_column=FLAGS.id_column,
    )
    for name, task in _OF_TASK.items():
        if FLAGS[name].present and settings.task != task:
            logging.warning(
                "--%s is ignored: it is for %s, the model does %s",
                name,
                task,
                settings.task,
            )
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
            from prediction import on_beam

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


def check_text_columns(task: Task) -> None:
    """Raise a UserError if --text_columns has a wrong number of names."""
    wanted = task.text_names
    if FLAGS.text_columns and len(FLAGS.text_columns) != len(wanted):
        raise UserError(
            f"--text_columns={','.join(FLAGS.text_columns)}: the model reads "
            f"{len(wanted)} ({', '.join(wanted)})"
        )


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    training_flags.require(FLAGS, "model", "input_file", "output_dir")
    base_beam.check_flags(FLAGS.runner, FLAGS.beam_options)


if __name__ == "__main__":
    errors.run(main)
