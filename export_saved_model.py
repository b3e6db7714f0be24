r"""Write a SavedModel that tokenizes by itself, from any BERT checkpoint.

    python export_saved_model.py --init_checkpoint=mrpc --export_dir=served/1
    python export_saved_model.py --init_checkpoint=bert-base-uncased \
        --task=encoder --export_dir=embeddings/1

Strings go in; out come labels and probabilities (classifier), a number
(regression), an answer (multiple_choice), embeddings (encoder) or the likeliest
tokens of every [MASK] (masked_lm). Whoever loads it needs tensorflow and
tensorflow_text alone:

    import tensorflow as tf, tensorflow_text
    model = tf.saved_model.load("served/1").signatures["serving_default"]
    model(text_a=tf.constant(["..."]), text_b=tf.constant(["..."]))["label"]
"""

from base import errors
from base.errors import UserError

from absl import flags

import modeling
from checkpoints import lookup, model_files, weight_files
from classifier import export as classifier_export
from classifier import model as classifier_model
from features import export as features_export
from pretraining import export as pretraining_export
from pretraining import model as pretraining_model
from serving import graph_tokenizer, saved_model
from swag import export as swag_export
from swag import model as swag_model
from training import flags as training_flags

FLAGS = flags.FLAGS

training_flags.define_model_flags()
flags.DEFINE_string(
    "export_dir",
    None,
    "Directory to write; must not exist. TF Serving wants its name a number.",
)
flags.DEFINE_enum(
    "task",
    None,
    ["classifier", "multiple_choice", "masked_lm", "encoder"],
    "What to answer; default: what the checkpoint was fine-tuned for here, "
    "else classifier where it has one, else masked_lm, else encoder.",
)
flags.DEFINE_bool(
    "sentence_pairs",
    None,
    "classifier: two texts instead of one; default: what the configuration "
    "of a model fine-tuned here says, else one.",
)
flags.DEFINE_integer(
    "max_seq_length",
    None,
    "Longer texts are cut; default: what the model has positions for.",
    lower_bound=5,
)
flags.DEFINE_integer(
    "top_k", 5, "masked_lm: tokens for every [MASK].", lower_bound=1
)

# Tasks whose head is output_weights: `task` of a configuration fitted to them.
_OUTPUT_TASKS = {"classifier": None, "multiple_choice": "multiple_choice"}


def task_of(prefix: str, config: modeling.BertConfig) -> str:
    """Return the task to export: the flag's, else what there is a head for.

    Raises:
        UserError: a tagger, which only its runner exports, or a head that is
            not for the task of the flag.
    """
    fitted = getattr(config, "task", None)
    reader = weight_files.open_reader(prefix)
    has_head = reader.has_tensor("output_weights")
    if FLAGS.task in _OUTPUT_TASKS or (has_head and not FLAGS.task):
        if fitted in ("token_classification", "feature_tagging"):
            raise UserError(
                f"{prefix} tags words: export it with run_ner.py --do_export "
                f"--init_checkpoint={prefix}"
            )
    if has_head and FLAGS.task in _OUTPUT_TASKS:
        fitted.check_fitted_task(
            fitted, _OUTPUT_TASKS[FLAGS.task], prefix, f"--task={FLAGS.task}"
        )
    if FLAGS.task:
        return FLAGS.task
    if has_head:
        is_choice = fitted == "multiple_choice"
        return "multiple_choice" if is_choice else "classifier"
    if reader.has_tensor("cls/predictions/output_bias"):
        return "masked_lm"
    return "encoder"


def labels_of(config: modeling.BertConfig, prefix: str) -> list[str] | None:
    """Return the names of the classes; None for regression."""
    reader = weight_files.open_reader(prefix)
    if not reader.has_tensor("output_weights"):
        raise UserError(
            f"--task=classifier, but {prefix} has no classifier "
            "(output_weights)"
        )
    count = len(reader.get_tensor("output_weights"))
    if count == 1:
        return None
    names = getattr(config, "id2label", None) or {}
    return [str(names.get(str(i), f"LABEL_{i}")) for i in range(count)]


def create_export(
    prefix: str, task: str, config: modeling.BertConfig, length: int
) -> saved_model.Export:
    """Return the export of a checkpoint, its weights restored."""
    vocab_file = model_files.find_vocab(prefix, FLAGS.vocab_file)
    do_lower_case = model_files.resolve_lower_case(FLAGS.do_lower_case, prefix)
    tokenizer = graph_tokenizer.Tokenizer(vocab_file, do_lower_case)
    tokens = tokenizer.tokens
    model_files.check_vocab(len(tokens), vocab_file, config)
    if task == "classifier":
        labels = labels_of(config, prefix)
        model = classifier_model.BertForSequenceClassification(
            config, labels and len(labels)
        )
        required = "^(bert|output_)"
    elif task == "multiple_choice":
        model = swag_model.BertForMultipleChoice(config)
        required = "^(bert|output_)"
    elif task == "masked_lm":
        model = pretraining_model.BertForPreTraining(config)
        required = "^(bert/(?!pooler/)|cls/predictions/)"
    else:
        model, required = modeling.TaskModel(config), weight_files.ENCODER
    weight_files.restore_weights(model.variables, prefix, required)
    common = model, tokenizer, vocab_file, length
    if task == "classifier":
        is_pair = FLAGS.sentence_pairs
        if is_pair is None:
            is_pair = bool(getattr(config, "sentence_pairs", False))
        return classifier_export.Classifier(
            *common, labels=labels, is_pair=is_pair
        )
    if task == "multiple_choice":
        return swag_export.MultipleChoice(*common)
    if task == "masked_lm":
        return pretraining_export.MaskedLm(
            *common, tokens=tokens, top_k=FLAGS.top_k
        )
    return features_export.Encoder(*common)


def main(_: list[str]) -> None:
    """Find, load, write."""
    for name in ("init_checkpoint", "export_dir"):
        if not FLAGS[name].value:
            raise UserError(f"--{name} is required")
    saved_model.check_new(FLAGS.export_dir.rstrip("/"))
    prefix = lookup.find_checkpoint(FLAGS.init_checkpoint)
    config = model_files.read_config(prefix, FLAGS.bert_config_file)
    length = FLAGS.max_seq_length or config.max_position_embeddings
    model_files.check_length(length, config)
    export = create_export(prefix, task_of(prefix, config), config, length)
    saved_model.write(export, FLAGS.export_dir)


if __name__ == "__main__":
    errors.run(main)
