r"""Write a SavedModel that tokenizes by itself, from any BERT checkpoint.

    python export_saved_model.py --init_checkpoint=mrpc --export_dir=served/1
    python export_saved_model.py --task=encoder --export_dir=embeddings/1 \
        --init_checkpoint=hf://google-bert/bert-base-uncased

Its inputs are strings. Its outputs are labels and probabilities (classifier),
a number (regression), an answer (multiple_choice), embeddings (encoder) or the
likeliest tokens for every [MASK] (masked_lm). Loading it takes tensorflow and
tensorflow_text, and nothing of this project:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("served/1").signatures["serving_default"]
    model(text_a=tf.constant(["..."]), text_b=tf.constant(["..."]))["label"]
"""

from base import errors
from base.errors import UserError

from absl import flags

import modeling
from checkpoints import weight_files
from checkpoints.checkpoint import Checkpoint
from pretraining import model as pretraining_model
from tasks import bilstm, graph_tokenizer, registry, saved_model
from tasks.classifier import export as classifier_export
from tasks.classifier import model as classifier_model
from tasks.encoder import export as features_export
from tasks.masked_lm import export as pretraining_export
from tasks.masked_lm import filling
from tasks.swag import export as swag_export
from tasks.swag import model as swag_model
from training import flags as training_flags

FLAGS = flags.FLAGS

# --- Flags -------------------------------------------------------------------

training_flags.define_model_flags()
flags.DEFINE_string(
    "export_dir",
    None,
    "Directory to write; must not exist. TF Serving needs a number as name.",
)
flags.DEFINE_enum(
    "task",
    None,
    ["classifier", "multiple_choice", "masked_lm", "encoder"],
    "Outputs of the model; default: those the checkpoint has a head for: "
    "classifier or multiple_choice, else masked_lm unless attention_direction "
    "is left_to_right, else encoder. Taggers and models that answer questions "
    "are exported by their own scripts.",
)
flags.DEFINE_bool(
    "sentence_pairs",
    None,
    "classifier: two texts instead of one; default: sentence_pairs of the "
    "configuration, which run_classifier.py writes, else one.",
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Tokens to which longer texts are cut; default: the length that the model "
    "was fine-tuned with, else its positions.",
    lower_bound=5,
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    list(modeling.DTYPES),
    "Type of the SavedModel's matrix products: the one that is fast on the "
    "machine that serves. The weights in the files are float32.",
)
flags.DEFINE_integer(
    "top_k", 5, "masked_lm: tokens for every [MASK].", lower_bound=1
)

# Tasks whose head is output_weights, to `task` in the configuration of a model
# fine-tuned on them.
_OUTPUT_TASKS = {"classifier": None, "multiple_choice": "multiple_choice"}

# Variables that a model with such a head needs.
_OUTPUT_HEAD = "^(bert|bilstm|output_)"


def main(_: list[str]) -> int:
    """Find the model, choose its task, write the SavedModel."""
    check_flags()
    checkpoint = training_flags.open_init_checkpoint(FLAGS)
    length = FLAGS.max_seq_length or checkpoint.max_seq_length
    checkpoint.check_length(length)
    task = choose_task(FLAGS.task, checkpoint)
    export = create_export(checkpoint, task, length)
    saved_model.write(export, FLAGS.export_dir)
    return 0


# --- Steps -------------------------------------------------------------------


def choose_task(task: str | None, checkpoint: Checkpoint) -> str:
    """Return the task to export: the given one, else that of the head.

    A classifier, a tagger and a multiple-choice head have variables of the
    same names; `task` in the configuration distinguishes them.

    Args:
        task: value of --task.
        checkpoint: to export.

    Raises:
        UserError: the checkpoint is a tagger or answers questions, which
            run_ner.py and run_squad.py export, or its head was fine-tuned on
            another task than the given one.
    """
    prefix, variables = checkpoint.prefix, checkpoint.shapes
    fine_tuned_task = checkpoint.trained_for.task
    has_head = "output_weights" in variables
    if task in _OUTPUT_TASKS or (has_head and not task):
        if fine_tuned_task in ("token_classification", "feature_tagging"):
            raise UserError(
                f"{prefix} tags words: export it with run_ner.py --do_export "
                f"--output_dir=OUT --init_checkpoint={prefix}"
            )
    if has_head and task in _OUTPUT_TASKS:
        registry.check_task(
            fine_tuned_task, _OUTPUT_TASKS[task], prefix, f"--task={task}"
        )
    if task:
        return task
    if "cls/squad/output_weights" in variables:
        raise UserError(
            f"{prefix} answers questions: export it with run_squad.py "
            f"--do_export --output_dir=OUT --init_checkpoint={prefix}, or its "
            "encoder alone with --task=encoder"
        )
    if has_head:
        is_choice = fine_tuned_task == "multiple_choice"
        return "multiple_choice" if is_choice else "classifier"
    direction = checkpoint.config.attention_direction
    is_bidirectional = direction == modeling.BIDIRECTIONAL
    if "cls/predictions/output_bias" in variables and is_bidirectional:
        return "masked_lm"
    return "encoder"


def classes_of(checkpoint: Checkpoint) -> list[str] | None:
    """Return the names of a classifier's classes; None for a regression.

    Raises:
        UserError: the checkpoint has no classifier.
    """
    if "output_weights" not in checkpoint.shapes:
        raise UserError(
            f"--task=classifier, but {checkpoint.prefix} has no classifier "
            "(output_weights)"
        )
    # [num_labels, H]; a regression has one row.
    num_labels = checkpoint.shapes["output_weights"][0]
    if num_labels == 1:
        return None
    return checkpoint.trained_for.class_names(num_labels)


def create_export(
    checkpoint: Checkpoint, task: str, length: int
) -> saved_model.Export:
    """Return the export of a checkpoint, its weights restored.

    Args:
        checkpoint: to export.
        task: of `choose_task`.
        length: tokens to which texts are cut.

    Raises:
        UserError: the checkpoint lacks variables that the task needs.
    """
    vocab_file = checkpoint.tokenizer.vocab_file
    tokenizer = graph_tokenizer.Tokenizer(vocab_file, checkpoint.do_lower_case)
    model, required = create_model(checkpoint, task)
    weight_files.restore_weights(model.variables, checkpoint.prefix, required)
    common = model, tokenizer, vocab_file, length
    if task == "classifier":
        is_pair = FLAGS.sentence_pairs
        if is_pair is None:
            is_pair = bool(checkpoint.trained_for.sentence_pairs)
        return classifier_export.Classifier(
            *common, labels=classes_of(checkpoint), is_pair=is_pair
        )
    if task == "multiple_choice":
        return swag_export.MultipleChoice(*common)
    if task == "masked_lm":
        return pretraining_export.MaskedLm(
            *common,
            tokens=tokenizer.tokens,
            top_k=min(FLAGS.top_k, len(tokenizer.tokens)),
        )
    return features_export.Encoder(*common)


def create_model(
    checkpoint: Checkpoint, task: str
) -> tuple[modeling.TaskModel, str]:
    """Return a new model for a task, and the variables it has to restore.

    Args:
        checkpoint, task: as for `create_export`.

    Returns:
        The model, and a pattern of the names of variables.
    """
    config, dtype = checkpoint.config, FLAGS.dtype
    size = bilstm.size_in(checkpoint.trained_for)
    if task == "classifier":
        labels = classes_of(checkpoint)
        model = classifier_model.BertForSequenceClassification(
            config, labels and len(labels), dtype, bilstm_size=size
        )
        return model, _OUTPUT_HEAD
    if task == "multiple_choice":
        model = swag_model.BertForMultipleChoice(config, dtype, size)
        return model, _OUTPUT_HEAD
    if task == "masked_lm":
        filling.check_sees_both_sides(config, checkpoint.prefix)
        model = pretraining_model.BertForPreTraining(config, dtype=dtype)
        return model, "^(bert/(?!pooler/)|cls/predictions/)"
    checkpoint.warn_of_untrained_pooler()
    return modeling.TaskModel(config, dtype), weight_files.ENCODER


def check_flags() -> None:
    """Raise an error for flags that cannot work, before anything is read."""
    training_flags.require(FLAGS, "init_checkpoint", "export_dir")
    saved_model.check_new(FLAGS.export_dir.rstrip("/"))


if __name__ == "__main__":
    errors.run(main)
