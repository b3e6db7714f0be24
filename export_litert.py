r"""Write a LiteRT file (.tflite) from any BERT checkpoint, for CPUs and phones.

    python export_litert.py --init_checkpoint=mrpc --export_path=mrpc.tflite \
        --quantize=int8
    python litert_model.py --model=mrpc.tflite --input_file=pairs.tsv

The file has the weights, the vocabulary, the labels and all settings. Its
inputs are input_ids, input_mask and segment_ids: the exact tokenizer needs
operations that LiteRT lacks, so that ids are made outside of the file, by
litert_model.py or by the tokenizer of another platform. MediaPipe's
TextClassifier and TextEmbedder run classifiers and encoders as they are.
"""

from base import errors, file_system
from base.errors import UserError

from absl import flags, logging

from checkpoints import lookup, model_files
from finetuning import bilstm
from litert import convert, export
from prediction import all_tasks
from prediction import model as prediction_model
from prediction.tasks import Settings
from training import flags as training_flags

FLAGS = flags.FLAGS

training_flags.define_model_flags()
flags.DEFINE_string(
    "export_path", None, "File to write, such as mrpc.tflite; must not exist."
)
flags.DEFINE_enum(
    "task",
    None,
    all_tasks.TASK_NAMES,
    "What to export; default: what the model was fine-tuned to, else masked_lm "
    "for a pre-trained one that sees both sides, else encoder.",
)
flags.DEFINE_enum(
    "quantize",
    "none",
    list(convert.BYTES_PER_WEIGHT),
    "Weights as float32 (none), float16 (half the size, the same speed) or "
    "int8 (a quarter of the size, two to three times as fast, less exact).",
)
flags.DEFINE_list(
    "lengths",
    [],
    "Fixed lengths such as 32,128,512, each a signature of one row, for "
    "runtimes that cannot resize inputs, or for a weight cache; they share the "
    "weights. Default: one signature of any batch and length.",
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens to which litert_model.py cuts longer texts; default: those the "
    "model was fine-tuned with, else its positions.",
    lower_bound=5,
)
flags.DEFINE_bool(
    "sentence_pairs",
    None,
    "classifier: two texts instead of one; default: as it was fine-tuned.",
)
flags.DEFINE_integer(
    "top_k",
    None,
    "masked_lm: tokens for every [MASK]; default: 5.",
    lower_bound=1,
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
flags.DEFINE_float(
    "null_score_diff_threshold",
    None,
    "Questions: no answer if its score exceeds the best answer's by more; "
    "default: the threshold of the model, if it was fitted to SQuAD 2.0.",
)


def main(_: list[str]) -> int:
    """Find the model, convert it, write the file."""
    lengths = check_flags()
    settings = with_lengths(find_model(), lengths)
    model = prediction_model.create_export(settings)
    logging.info("Converting %s (%s)", settings.path, settings.task)
    data = export.create(model, settings, FLAGS.quantize, lengths)
    with file_system.atomic_file(FLAGS.export_path) as file:
        file.write(data)
    export.log_mediapipe(settings, lengths)
    logging.info(
        "Wrote %s: %s, weights %s, %.1f MB",
        FLAGS.export_path,
        settings.task,
        {"none": "float32"}.get(FLAGS.quantize, FLAGS.quantize),
        len(data) / 1e6,
    )
    return 0


# --- Steps -------------------------------------------------------------------


def find_model() -> Settings:
    """Return the settings of --init_checkpoint with those of other flags.

    Raises:
        UserError: there is no model, or none that LiteRT can run.
    """
    prefix = lookup.find_checkpoint(FLAGS.init_checkpoint)
    config = model_files.read_config(prefix, FLAGS.bert_config_file)
    size = bilstm.size_in(config)
    if size.bilstm_layers or getattr(config, "task", "") == "feature_tagging":
        raise UserError(
            f"{prefix} has a BiLSTM, whose loop LiteRT cannot run: serve it "
            "as a SavedModel, or fit a model without --bilstm_layers"
        )
    options = {
        "max_seq_length": FLAGS.max_seq_length,
        "sentence_pairs": FLAGS.sentence_pairs,
        "top_k": FLAGS.top_k,
        "doc_stride": FLAGS.doc_stride,
        "max_query_length": FLAGS.max_query_length,
        "max_answer_length": FLAGS.max_answer_length,
        "null_threshold": FLAGS.null_score_diff_threshold,
    }
    settings = prediction_model.describe_checkpoint(
        FLAGS.init_checkpoint,
        FLAGS.task,
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
        {name: value for name, value in options.items() if value is not None},
        "init_checkpoint",
    )
    if settings.task == "encoder":
        model_files.warn_of_untrained_pooler(config, prefix)
    return settings


def with_lengths(settings: Settings, lengths: list[int]) -> Settings:
    """Return the settings of a model with signatures of these lengths.

    Raises:
        UserError: the model or its task cannot have them, or the vocabulary
            lacks a token.
    """
    export.check_lengths(lengths, settings)
    if lengths:
        settings = settings._replace(max_seq_length=max(lengths))
    all_tasks.create_task(settings)  # checks vocabulary and windows
    return settings


def check_flags() -> list[int]:
    """Return --lengths; check all flags before anything is read.

    Raises:
        UserError: names the flag.
    """
    training_flags.require(FLAGS, "init_checkpoint", "export_path")
    convert.check_converter()
    lengths = []
    for text in FLAGS.lengths:
        if not text.strip().isdecimal() or int(text) < 3:
            raise UserError(
                f"--lengths: {text!r} is not a number of tokens of at least 3"
            )
        lengths.append(int(text))
    if len(set(lengths)) < len(lengths):
        raise UserError("--lengths names a length twice")
    export.check_new(FLAGS.export_path)
    return sorted(lengths)


if __name__ == "__main__":
    errors.run(main)
