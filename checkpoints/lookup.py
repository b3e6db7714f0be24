"""Find the checkpoint that a path stands for, and the files beside it."""

import os
import re

from base.errors import UserError

import tensorflow as tf

from checkpoints import huggingface

BERT_CONFIG_NAME = "bert_config.json"

WEIGHTS_NAME = "bert_model.ckpt"


def find_checkpoint(path: str, flag: str = "init_checkpoint") -> str:
    """Return the checkpoint that `path` stands for.

    Args:
        path: a prefix (`.../bert_model.ckpt`, `.../model.ckpt-1000`) or a
            directory: a released one, an `output_dir` of ours, or one of
            Hugging Face's.
        flag: the flag the path came from, for messages.

    Returns:
        The prefix all files of the checkpoint share; a Hugging Face
        directory stands for itself.

    Raises:
        UserError: nothing there; says what `path` looks like instead.
    """
    if tf.io.gfile.exists(path + ".index"):
        return path
    if tf.io.gfile.isdir(path):
        return _find_in_directory(path, flag)
    match = re.fullmatch(r"(.+)\.(index|meta|data-\d+-of-\d+)", path)
    if match:
        raise UserError(
            f"--{flag}={path} names one file of a checkpoint: give the prefix "
            f"all its files share, {match.group(1)}"
        )
    if tf.io.gfile.exists(path):
        raise UserError(
            f"--{flag}={path} is a file; give a checkpoint prefix, or the "
            "directory the file is in"
        )
    raise UserError(
        f"--{flag}={path}: no such checkpoint (looked for {path}.index and "
        "for a directory of that name)"
    )


def _find_in_directory(directory: str, flag: str) -> str:
    """Return the prefix a directory holds: finished weights come first."""
    weights = os.path.join(directory, WEIGHTS_NAME)
    if tf.io.gfile.exists(weights + ".index"):
        return weights
    latest = tf.train.latest_checkpoint(directory)
    if latest:
        return latest
    if huggingface.is_directory(directory):
        return directory
    huggingface.refuse_pickles(directory)
    found = tf.io.gfile.glob(os.path.join(directory, "*.index"))
    hint = (
        f"; it holds {', '.join(sorted(found)[:3])}: name one, without .index"
        if found
        else ""
    )
    raise UserError(
        f"--{flag}={directory} is a directory without {WEIGHTS_NAME}.index, a "
        f"`checkpoint` file or {huggingface.WEIGHTS_NAME}{hint}"
    )


def find_training_checkpoint(path: str) -> str:
    """Return the prefix of the newest training checkpoint `path` stands for.

    Raises:
        UserError: there is none.
    """
    if tf.io.gfile.isdir(path):
        latest = tf.train.latest_checkpoint(path)
        if latest:
            return latest
        raise UserError(f"resume_from {path}: no `checkpoint` file in it")
    return find_checkpoint(path)


def beside(prefix: str, name: str) -> str | None:
    """Return the path of file `name` beside a checkpoint, None if absent."""
    folder = prefix.rsplit("/", 1)[0] if "/" in prefix else "."
    if tf.io.gfile.isdir(prefix):  # Hugging Face's
        folder = prefix
    path = os.path.join(folder, name)
    return path if tf.io.gfile.exists(path) else None
