"""Find the checkpoint a path refers to, and the files beside it.

A checkpoint in the original's format is several files with one prefix:
`.../bert_model.ckpt` stands for `bert_model.ckpt.index` and
`bert_model.ckpt.data-00000-of-00001`. The released models and the output
directories of this project hold, beside the weights, `bert_config.json` and
`vocab.txt`. A Hugging Face directory has no prefix: its path is used instead.
The name of a model on the Hugging Face hub, hf://owner/name, stands for such a
directory in the cache of its client.
"""

import os
import re

from base.errors import UserError

import tensorflow as tf

from checkpoints import published
from checkpoints.published import BERT_CONFIG_NAME
from checkpoints.run_folder import WEIGHTS_NAME, RunFolder, check_is_no_pattern


def find_checkpoint(path: str, flag: str = "init_checkpoint") -> str:
    """Return the prefix of a checkpoint; of a Hugging Face model its directory.

    `path` is a prefix (`.../bert_model.ckpt`, `.../model.ckpt-1000`); a
    directory, of a released model, an `output_dir` of this project or a
    Hugging Face model; or hf://owner/name[@revision], which is fetched.

    Raises:
        UserError: there is no checkpoint; the message describes what is at
            `path` instead.
    """
    if published.is_of_hub(path):
        from checkpoints import hub  # where a model is fetched

        return hub.fetch(path, flag)
    if tf.io.gfile.exists(path + ".index"):
        check_is_no_pattern(path, flag)
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
    name = path if re.fullmatch(r"[\w.-]+/[\w.-]+", path) else "owner/name"
    raise UserError(
        f"--{flag}={path}: no such checkpoint (looked for {path}.index and "
        "for a directory of that name; a model on the Hugging Face hub is "
        f"hf://{name})"
    )


def _find_in_directory(directory: str, flag: str) -> str:
    folder = RunFolder.read(directory)
    safetensors = {published.WEIGHTS_NAME, published.INDEX_NAME}
    if not folder.names & safetensors:
        check_is_no_pattern(directory, flag)
    if folder.weights:
        return folder.weights
    # Where there is no checkpoint.
    from checkpoints import huggingface, sentence_transformers

    directory = sentence_transformers.encoder_folder(directory)
    huggingface.check_is_bert(directory)
    paths = [os.path.join(directory, name) for name in safetensors]
    if any(map(tf.io.gfile.exists, paths)):
        return directory
    huggingface.refuse_other_weights(directory)
    if folder.has_settings:
        raise UserError(
            f"--{flag}={directory}: the training there is not finished; its "
            "command, given again, goes on with it"
        )
    if "saved_model.pb" in folder.names:
        raise UserError(
            f"--{flag}={directory} is a SavedModel, a program; of an encoder "
            "of TF Hub the weights are read: "
            f"--{flag}={directory}/variables/variables "
            f"--vocab_file={directory}/assets/vocab.txt, with "
            f"--bert_config_file, the {BERT_CONFIG_NAME} that the original's "
            "release of the model has"
        )
    others = [
        os.path.join(directory, name)
        for name in folder.models
        if name.endswith(".index")
    ]
    hint = f"; it holds {', '.join(others[:3])}: name one, without .index"
    raise UserError(
        f"--{flag}={directory} is a directory without {WEIGHTS_NAME}.index, a "
        "checkpoint that its file `checkpoint` lists, or "
        f"{published.WEIGHTS_NAME}{hint * bool(others)}"
    )


def find_training_checkpoint(path: str) -> str:
    """Return the prefix of the newest training checkpoint of --resume_from.

    Unlike `find_checkpoint` it ignores `bert_model.ckpt`, which has neither
    optimizer slots nor a step.
    """
    if not tf.io.gfile.isdir(path):
        return find_checkpoint(path, flag="resume_from")
    newest = RunFolder.read(path).resumed
    if not newest:
        raise UserError(f"--resume_from={path}: no `checkpoint` file in it")
    return newest


# --- Directories -------------------------------------------------------------


def check_no_checkpoint(directory: str, flag: str) -> None:
    """Check that a model can be written without hiding or changing another.

    The files beside another checkpoint, such as its configuration, would be
    replaced, whatever its own name is, and so would those of other programs.
    The directory need not exist.
    """
    from checkpoints.known_settings import MODEL_FILES  # where one is written

    check_is_no_pattern(directory, flag)
    folder = RunFolder.read(directory)
    checkpoint = folder.models or folder.names & {"checkpoint"}
    patterns = BERT_CONFIG_NAME, "onnx/*", *MODEL_FILES
    paths = tf.io.gfile.glob([os.path.join(directory, x) for x in patterns])
    others = [os.path.relpath(path, directory) for path in paths]
    if names := checkpoint or others:
        what = "a checkpoint" if checkpoint else "files of a model"
        killed = "" if checkpoint else ", or delete what a killed command left"
        raise UserError(
            f"--{flag}={directory} holds {what} already "
            f"({', '.join(sorted(names))}); name a new directory{killed}"
        )


def beside(prefix: str, name: str) -> str | None:
    """Return the path of the file `name` beside a checkpoint; None: no file."""
    path = os.path.join(folder_of(prefix), name)
    return path if tf.io.gfile.exists(path) else None


def config_beside(prefix: str) -> str | None:
    """Return the path of a checkpoint's configuration; None: no file.

    If there are two, the one that belongs to the format of the weights counts:
    "gelu" is one function in config.json and another in bert_config.json.
    """
    ours = beside(prefix, BERT_CONFIG_NAME)
    theirs = beside(prefix, published.CONFIG_NAME)
    if tf.io.gfile.isdir(prefix) and (theirs or not ours):
        return os.path.join(prefix, published.CONFIG_NAME)
    return ours


def folder_of(prefix: str) -> str:
    """Return the directory that holds a checkpoint's files."""
    if tf.io.gfile.isdir(prefix):  # a Hugging Face directory
        return prefix
    return os.path.dirname(prefix) or "."
