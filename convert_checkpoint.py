r"""Convert a BERT checkpoint to the original's format or Hugging Face's.

    python convert_checkpoint.py --input=uncased_L-12_H-768_A-12 \
        --output=/tmp/bert-hf --output_format=huggingface
    python convert_checkpoint.py --input=/tmp/bert-hf \
        --output=/tmp/bert-tf --output_format=original
    python convert_checkpoint.py --input=sst2 --output=/tmp/sst2-hf \
        --output_format=huggingface --onnx --quantize=int8

The input may be a checkpoint prefix, a released directory, one of TensorFlow's
Model Garden, an output_dir of this project or a Hugging Face directory. The
output holds the weights of the encoder and of its heads, pre-trained or
fine-tuned, with configuration, vocabulary and settings of the tokenizer, which
are read from beside the input. Adam's slots and the step are left out, so that
a training checkpoint shrinks to a third. A Hugging Face directory gets a model
card, README.md, unless there is one, and with --onnx the files that
transformers.js, fastembed and OpenVINO run.
"""

import dataclasses
import os
import re
from collections.abc import Mapping

from base import file_system, logs, script, startup
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags, logging

import tokenization
from checkpoints import (
    huggingface,
    sentence_transformers,
    tokenizer_folder,
)
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TAIL, id2label_of
from ops.choices import LEFT_TO_RIGHT, RIGHT_TO_LEFT
from tasks.task import TaskSettings
from training.flags import ModelFlags

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """The checkpoint to read, and the files to write."""

    input: str = flag(required=True)
    """Checkpoint prefix or directory to read, or hf://owner/name[@revision]."""

    output: str = flag(required=True, is_output=True)
    """Directory to write; must not hold files of a model."""

    output_format: str = flag(
        required=True, choices=("original", "huggingface")
    )
    """Format to write. original: bert_model.ckpt with the names of the 2018
    release and bert_config.json; huggingface: model.safetensors, config.json
    and a model card."""

    onnx: bool = flag(False, needs={"output_format=huggingface": ""})
    """Write the model as onnx/model.onnx, too, for programs without PyTorch;
    needs requirements-onnx.txt."""

    quantize: str = flag("none", choices=("none", "int8"), needs={"onnx": ""})
    """int8: also write onnx/model_quantized.onnx, a quarter of the size, faster
    and less exact."""


define(Flags)
define(ModelFlags, without=["init_checkpoint"])


# The class in transformers that has a checkpoint's heads: the first one whose
# pattern matches a variable's name.
_ARCHITECTURES = (
    (r"^cls/squad/", "BertForQuestionAnswering"),
    (r"^output_weights$", "BertForSequenceClassification"),
    (r"^cls/seq_relationship/", "BertForPreTraining"),
    (r"^cls/predictions/", "BertForMaskedLM"),
    (r"^bert/", "BertModel"),
)
# The classes of pre-trained models whose tokens see both sides.
_MASKED = ("BertForPreTraining", "BertForMaskedLM")
# The classes whose answers are tokens of the text.
_OF_TOKENS = ("BertForTokenClassification", "BertForQuestionAnswering")
# `task` in the configuration to the class, where two classes have the same
# variables.
_OUTPUT_HEADS = {task: name for name, task in huggingface.TASKS.items()}


def main(_: list[str]) -> None:
    """Read the checkpoint, check it and write it in the other format."""
    with startup.importing():
        from checkpoints import lookup, model_card
        from checkpoints.checkpoint import (
            open_checkpoint,
            read_weights,
            write_checkpoint,
            write_tokenizer,
            write_tokenizer_json,
        )
        from serving import onnx_file
        from tasks import loading
    lookup.check_no_checkpoint(FLAGS.output, "output")
    checkpoint = open_checkpoint(
        FLAGS.input,
        FLAGS.bert_config_file,
        FLAGS.vocab_file,
        FLAGS.do_lower_case,
        flag="input",
    )
    prefix = checkpoint.prefix
    weights, graph = read_weights(checkpoint), None
    if FLAGS.onnx:
        graph = loading.load_graph(onnx_settings(checkpoint))
    if FLAGS.output_format == "huggingface":
        architecture = architecture_of(checkpoint)
        check_loads_in_transformers(checkpoint, architecture)
        long = checkpoint.trained_for.long_texts
        if long and long.how != TAIL:
            logging.warning(
                "%s reads long texts with --long_texts=%s; transformers and "
                "sentence-transformers read their first %d tokens",
                prefix,
                long.how,
                checkpoint.max_seq_length,
            )
    files = checkpoint.files
    if not files.vocabulary:
        logging.warning(
            "No vocabulary beside %s and no --vocab_file: none written", prefix
        )
    file_system.make_directory(FLAGS.output, flag="output")
    if FLAGS.output_format == "original":
        write_checkpoint(FLAGS.output, weights, checkpoint)
    else:
        if files.vocabulary:
            known = for_transformers(files.settings, architecture)
            files = dataclasses.replace(files, known=known)
            checkpoint = dataclasses.replace(checkpoint, files=files)
        write_tokenizer(FLAGS.output, checkpoint)
        shows_tokens = architecture in _OF_TOKENS
        write_tokenizer_json(FLAGS.output, checkpoint, shows_tokens)
        write_huggingface(FLAGS.output, weights, checkpoint, architecture)
        model_card.write(FLAGS.output, checkpoint, architecture)
    if graph:
        folder = os.path.join(FLAGS.output, "onnx")
        file_system.make_directory(folder)
        # Where transformers.js looks for them.
        onnx_file.write(graph, os.path.join(folder, "model.onnx"))
        if FLAGS.quantize == "int8":
            path = os.path.join(folder, "model_quantized.onnx")
            onnx_file.write(graph, path, quantize=True)
    logs.say("Wrote the weights of %s to %s", prefix, FLAGS.output)


def onnx_settings(checkpoint: Checkpoint) -> TaskSettings:
    """Return what --onnx writes: the model as programs of others call it.

    Raises:
        UserError: they have no way to call it, or a package lacks.
    """
    from serving import onnx_file
    from tasks import loading

    if checkpoint.windows:  # others read one row, of which a warning tells
        checkpoint = checkpoint.changed(long_texts=None)
    settings = loading.describe(checkpoint)
    if settings.task in ("multiple_choice", "multi_label_classification"):
        raise UserError(
            f"--onnx: {checkpoint.prefix} does {settings.task}, for which "
            "programs that read ONNX files have no layout; leave --onnx out, "
            "or use export_saved_model.py --format=onnx"
        )
    onnx_file.check(settings, "--onnx", FLAGS.quantize != "none")
    return settings


def architecture_of(checkpoint: Checkpoint) -> str:
    """Return the class in transformers for a model."""
    names, task = checkpoint.shapes, checkpoint.trained_for.task
    if task in _OUTPUT_HEADS and "output_weights" in names:
        return _OUTPUT_HEADS[task]
    found = next(
        architecture
        for pattern, architecture in _ARCHITECTURES
        if any(re.search(pattern, name) for name in names)
    )
    if found not in _MASKED:
        return found
    if checkpoint.config.attention_direction == LEFT_TO_RIGHT:
        return "BertLMHeadModel"  # the same head, for next tokens
    if checkpoint.trained_for.objective:
        return "BertForMaskedLM"  # the other head is untrained
    return found


def for_transformers(
    found: tokenization.TokenizerSettings, architecture: str
) -> tokenization.TokenizerSettings:
    """Return the settings of a tokenizer in transformers; warn of the rest."""
    if architecture in _MASKED and "[MASK]" not in map(
        found.our_name, found.special_tokens
    ):
        logging.info(
            "split_special_tokens = false: transformers has to find the [MASK] "
            "in a text, the original splits it"
        )
        special = (*found.token_names, *found.special_tokens)
        found = found._replace(special_tokens=special)
    if found.max_input_chars_per_word != tokenizer_folder.MAX_CHARS_OF_HUB:
        logging.warning(
            "max_input_chars_per_word is %d, but %d in BertTokenizer of "
            "transformers: a word of a length in between is [UNK] in one alone",
            found.max_input_chars_per_word,
            tokenizer_folder.MAX_CHARS_OF_HUB,
        )
    return found


def check_loads_in_transformers(
    checkpoint: Checkpoint, architecture: str
) -> None:
    """Check that a model computes the same in a class of transformers."""
    prefix, config = checkpoint.prefix, checkpoint.config
    huggingface.check_activation(config, prefix)
    if any(name.startswith("bilstm/") for name in checkpoint.shapes):
        raise UserError(
            f"{prefix} has a BiLSTM on top of the encoder, which no class in "
            "transformers has; --output_format=original keeps it"
        )
    if config.attention_direction == RIGHT_TO_LEFT:
        raise UserError(
            f"{prefix} is a right_to_left model, which no class in "
            "transformers is; --output_format=original keeps it"
        )
    if config.attention_direction == LEFT_TO_RIGHT:
        huggingface.check_reads_no_cls([architecture], prefix)


def write_huggingface(
    directory: str,
    weights: Mapping[str, np.ndarray],
    checkpoint: Checkpoint,
    architecture: str,
) -> None:
    """Write config.json, then model.safetensors.

    Labels that the configuration does not name are called LABEL_0, LABEL_1,
    ..., the default of transformers.
    """
    trained_for = checkpoint.trained_for
    more = trained_for.to_dict()
    if "output_weights" in weights and trained_for.task != "multiple_choice":
        more["num_labels"] = len(weights["output_weights"])
        names = trained_for.class_names(more["num_labels"])
        more["id2label"] = id2label_of(names)
        more["label2id"] = {name: i for i, name in enumerate(names)}
    if trained_for.task == "multi_label_classification":
        more["problem_type"] = trained_for.task
    if trained_for.task == sentence_transformers.TASK:
        sentence_transformers.write(
            directory, trained_for, checkpoint.config.hidden_size
        )
    else:  # of modules that this project lacks
        weights = {n: x for n, x in weights.items() if not n[0].isdigit()}
    huggingface.write_config(directory, checkpoint.config, architecture, **more)
    huggingface.write_weights(directory, weights)
    logs.say("Loads in transformers as %s", architecture)


if __name__ == "__main__":
    script.run(main)
