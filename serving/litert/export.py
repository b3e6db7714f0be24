"""Write a fine-tuned model as a LiteRT file that needs no other file.

The outputs are `numbers` of the task's graph, which makes SavedModels
too. Batch and length of the signature `ids` are free.
"""

import json

from base import file_system, logs

import tensorflow as tf
from absl import logging

import tokenization
from checkpoints.trained_for import HEAD_TAIL, TAIL
from serving.litert import convert, metadata
from tasks.graph import TaskGraph
from tasks.task import Task


def write(graph: TaskGraph, path: str, quantize: str) -> None:
    """Write the LiteRT file of a model, its weights restored.

    `quantize` is a key of metadata.BYTES_PER_WEIGHT.
    """
    task = graph.task
    logging.info("Converting %s (%s)", task.checkpoint.prefix, task.name)
    # MediaPipe takes vectors of one size alone, and no vector per token.
    function = graph.rows_function(left_out=["sequence_output"])
    function = function.get_concrete_function()
    module = tf.Module()
    # See serving/litert/convert.py: variables must hang on the saved module.
    module.weights = graph.weights
    data = convert.convert(module, function, quantize)
    data = convert.with_metadata(
        data,
        f"{task.name}; see {metadata.DESCRIPTION}",
        has_labels=task.name == "classifier" and bool(task.labels),
        length=task.checkpoint.row_length,
        outputs=list(function.structured_outputs),
    )
    described = {
        "version": metadata.VERSION,
        **task.description(),
        "quantize": quantize,
        "max_position_embeddings": graph.model.config.max_position_embeddings,
    }
    text = json.dumps(described, indent=2, ensure_ascii=False) + "\n"
    files = {metadata.VOCAB: task.tokenizer.vocabulary.content}
    if task.labels:
        lines = "".join(f"{label}\n" for label in task.labels)
        files[metadata.LABELS] = lines.encode()
    files[metadata.DESCRIPTION] = text.encode()
    data = metadata.with_files(data, files)
    file_system.write_bytes(path, data)
    _warn_of_mediapipe(task)
    logs.say(
        "Wrote %s: %s, weights %s, %.1f MB",
        path,
        task.name,
        {"none": "float32"}.get(quantize, quantize),
        len(data) / 1e6,
    )


def _warn_of_mediapipe(task: Task) -> None:
    """Warn if MediaPipe runs the file and makes other ids of a text."""
    checkpoint = task.checkpoint
    trained_for, text = checkpoint.trained_for, checkpoint.tokenizer_settings
    if task.name not in ("classifier", "encoder", "embeddings") or (
        task.name == "classifier" and trained_for.labels is None
    ):
        return  # MediaPipe has no task for this model
    differences = {
        "was fine-tuned on pairs, of which it gets one text": (
            trained_for.sentence_pairs
        ),
        f"begins each text with {task.prompt!r}": task.prompt,
        f"reads long texts with --long_texts={checkpoint.long_texts.how}": (
            checkpoint.long_texts.how in (HEAD_TAIL, TAIL)
        ),
        f"calls special tokens {', '.join(text.token_names)}": (
            text.token_names != tokenization.SPECIAL_TOKENS
        ),
        "is cased": not text.do_lower_case,
        "leaves ideographs to WordPiece": not text.tokenize_chinese_chars,
    }
    if found := [words for words, is_so in differences.items() if is_so]:
        logging.warning(
            "MediaPipe gives the model other ids than it was trained with: it "
            "%s (docs/litert.md#run-it-elsewhere)",
            ", ".join(found),
        )
