"""Write a fine-tuned model as a LiteRT file that needs no other file.

The outputs are `numbers` of the task's graph, which makes SavedModels
too. Batch and length of the signature `ids` are free.
"""

import json
import os

from base import file_system
from base.errors import UserError

import tensorflow as tf
from absl import logging

import tokenization
from checkpoints.trained_for import HEAD_TAIL, TAIL
from ops import recurrence
from serving.litert import convert, metadata
from tasks.graph import Outputs, TaskGraph
from tasks.task import TaskSettings


def write(graph: TaskGraph, path: str, quantize: str) -> None:
    """Write the LiteRT file of a model, its weights restored.

    `quantize` is a key of convert.BYTES_PER_WEIGHT.
    """
    settings = graph.task.settings
    logging.info(
        "Converting %s (%s)", settings.checkpoint.prefix, settings.task
    )
    data = _create(graph, quantize)
    with file_system.atomic_file(path) as file:
        file.write(data)
    _log_mediapipe(settings)
    logging.info(
        "Wrote %s: %s, weights %s, %.1f MB",
        path,
        settings.task,
        {"none": "float32"}.get(quantize, quantize),
        len(data) / 1e6,
    )


def _create(graph: TaskGraph, quantize: str) -> bytes:

    def numbers(**features: tf.Tensor) -> Outputs:
        with recurrence.without_arrays():
            outputs = graph.numbers(features)
        # MediaPipe takes vectors of one size alone, and no vector per token.
        outputs.pop("sequence_output", None)
        return outputs

    function = tf.function(numbers, autograph=False).get_concrete_function(
        **{
            name: tf.TensorSpec([None, None], tf.int32, name)
            for name in metadata.INPUT_NAMES
        }
    )
    module = tf.Module()
    # See serving/litert/convert.py: variables must hang on the saved module.
    module.weights = graph.weights
    data = convert.convert(module, function, quantize)
    settings = graph.task.settings
    labels = graph.task.labels
    data = convert.with_metadata(
        data,
        metadata.NAME,
        lambda inputs, outputs: metadata.describe(
            f"{settings.task}; see {metadata.DESCRIPTION}",
            inputs,
            outputs,
            has_labels=settings.task == "classifier" and bool(labels),
        ),
        graph.task.checkpoint.row_length,
    )
    described = {
        "version": metadata.VERSION,
        **graph.task.description(),
        "quantize": quantize,
        "max_position_embeddings": graph.model.config.max_position_embeddings,
    }
    text = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    files = {metadata.VOCAB: graph.task.tokenizer.vocabulary.content}
    if labels:
        files[metadata.LABELS] = "".join(f"{x}\n" for x in labels).encode()
    return metadata.with_files(
        data, files | {metadata.DESCRIPTION: text.encode()}
    )


def check_new(path: str) -> None:
    """Check that the file of --export_dir can be written and is new."""
    if file_system.is_directory(path):
        raise UserError(
            f"--export_dir={path} is a directory: give a file name in it, "
            f"such as {os.path.join(path, 'model.tflite')}"
        )
    if file_system.exists(path):
        raise UserError(f"--export_dir={path} exists already: give a new name")
    file_system.make_directory(os.path.dirname(path) or ".", "export_dir")


def _log_mediapipe(settings: TaskSettings) -> None:
    """Log which of MediaPipe's tasks runs the file, and what it cannot do."""
    checkpoint = settings.checkpoint
    trained_for, text = checkpoint.trained_for, checkpoint.tokenizer_settings
    if settings.task not in ("classifier", "encoder", "embeddings") or (
        settings.task == "classifier" and trained_for.labels is None
    ):
        logging.info(
            "MediaPipe has no task for this model: run it with litert_model.py "
            "or LiteRT's own interface"
        )
        return
    logging.info(
        "MediaPipe's %s runs the file. It lower-cases ASCII letters alone, "
        "keeps accents and splits special tokens, whatever the vocabulary",
        "TextClassifier" if settings.task == "classifier" else "TextEmbedder",
    )
    if trained_for.sentence_pairs:
        logging.warning(
            "The model was fine-tuned on pairs, which MediaPipe cannot give "
            "it: it reads one text"
        )
    if settings.prompt:
        logging.warning(
            "MediaPipe puts no prompt before a text: give it texts that begin "
            "with %r",
            settings.prompt,
        )
    if checkpoint.long_texts.how in (HEAD_TAIL, TAIL):
        logging.warning(
            "MediaPipe reads the beginning of a long text, the model was "
            "trained with --long_texts=%s",
            checkpoint.long_texts.how,
        )
    if text.token_names != tokenization.SPECIAL_TOKENS:
        logging.warning(
            "MediaPipe finds no %s: in the vocabulary they are called %s",
            ", ".join(tokenization.SPECIAL_TOKENS),
            ", ".join(text.token_names),
        )
    if not text.do_lower_case:
        logging.warning(
            "The model is cased: MediaPipe lower-cases its texts, which gives "
            "wrong ids"
        )
    if not text.tokenize_chinese_chars:
        logging.warning(
            "The model leaves ideographs to WordPiece: MediaPipe makes a word "
            "of each, which gives wrong ids"
        )
