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
from absl import logging

from checkpoints import published
from checkpoints.published import BERT_CONFIG_NAME

WEIGHTS_NAME = "bert_model.ckpt"  # weights alone, of a finished model

VOCAB_NAME = published.VOCAB_NAME

RUN_NAME = "training_config.json"  # describes the run in a directory


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
    if not _has_safetensors(directory):
        check_is_no_pattern(directory, flag)
    if found := find_weights(directory):
        return found
    # Where there is no checkpoint.
    from checkpoints import huggingface, sentence_transformers

    directory = sentence_transformers.encoder_folder(directory)
    huggingface.check_is_bert(directory)
    if _has_safetensors(directory):
        return directory
    huggingface.refuse_other_weights(directory)
    if tf.io.gfile.exists(os.path.join(directory, RUN_NAME)):
        raise UserError(
            f"--{flag}={directory}: the training there is not finished; its "
            "command, given again, goes on with it"
        )
    if tf.io.gfile.exists(os.path.join(directory, "saved_model.pb")):
        raise UserError(
            f"--{flag}={directory} is a SavedModel, a program; of an encoder "
            "of TF Hub the weights are read: "
            f"--{flag}={directory}/variables/variables "
            f"--vocab_file={directory}/assets/vocab.txt, with "
            f"--bert_config_file, the {BERT_CONFIG_NAME} that the original's "
            "release of the model has"
        )
    found = sorted(tf.io.gfile.glob(os.path.join(directory, "*.index")))
    hint = f"; it holds {', '.join(found[:3])}: name one, without .index"
    raise UserError(
        f"--{flag}={directory} is a directory without {WEIGHTS_NAME}.index, a "
        "checkpoint that its file `checkpoint` lists, or "
        f"{published.WEIGHTS_NAME}{hint * bool(found)}"
    )


def _has_safetensors(directory: str) -> bool:
    return any(
        tf.io.gfile.exists(os.path.join(directory, name))
        for name in (published.WEIGHTS_NAME, published.INDEX_NAME)
    )


# --- Runs --------------------------------------------------------------------


def listed_checkpoints(directory: str) -> list[str]:
    """Return the prefixes in the `checkpoint` file of a run, the newest last.

    Their files may have been deleted. Without the file there are none.

    All of them are in the directory itself, whatever folder the file names.
    The original writes absolute paths: in a copy of its output_dir they name
    the checkpoints of the first one, which a run in the copy must not delete.
    """
    try:
        state = tf.train.get_checkpoint_state(directory)
    except ValueError:  # the file is empty or names no checkpoint
        state = None
    if not state or not state.model_checkpoint_path:
        return []
    paths = [*state.all_model_checkpoint_paths, state.model_checkpoint_path]
    names = [path.rsplit("/", 1)[-1] for path in paths]
    listed = dict.fromkeys(name for name in names if name != names[-1])
    return [os.path.join(directory, name) for name in (*listed, names[-1])]


def latest_checkpoint(directory: str) -> str | None:
    """Return the prefix of a run's newest checkpoint; None without one.

    Unlike tf.train.latest_checkpoint it passes over checkpoints whose files
    were deleted: damaged ones, or those that were not copied.
    """
    for prefix in reversed(listed_checkpoints(directory)):
        if tf.io.gfile.exists(prefix + ".index"):
            return prefix
    return None


def kept_weights(directory: str) -> str | None:
    """Return the prefix of the weights alone in a directory; None without them.

    The index stands for the whole checkpoint: it is written last and removed
    first (see weight_files.write).
    """
    prefix = os.path.join(directory, WEIGHTS_NAME)
    return prefix if tf.io.gfile.exists(prefix + ".index") else None


def find_weights(directory: str) -> str | None:
    """Return the prefix of the weights in an output_dir; None if it has none.

    They are those that the run has kept, else its newest training checkpoint,
    which may be later: fine-tuning with --eval_steps keeps the best weights.
    """
    return kept_weights(directory) or latest_checkpoint(directory)


def checkpoint_to_resume(directory: str) -> str | None:
    """Return the prefix from which a run resumes; None if there is no run.

    Raises:
        UserError: none of the listed checkpoints exists. A new run would
            replace what is left of this one.
    """
    found, listed = latest_checkpoint(directory), listed_checkpoints(directory)
    path = os.path.join(directory, "checkpoint")
    if not found and tf.io.gfile.exists(path):
        what = f"{path} is damaged: restore it"
        if listed:
            what = f"{path} lists {listed[-1]}, whose files are missing: "
            what += "restore them"
        raise UserError(f"{what}, or delete {path} to begin anew")
    if found and found != listed[-1]:
        logging.warning(
            "The files of %s are missing: resuming from %s, the newest that "
            "is there",
            listed[-1],
            found,
        )
    return found


def find_training_checkpoint(path: str) -> str:
    """Return the prefix of the newest training checkpoint of --resume_from.

    Unlike `find_checkpoint` it ignores `bert_model.ckpt`, which has neither
    optimizer slots nor a step.
    """
    if not tf.io.gfile.isdir(path):
        return find_checkpoint(path, flag="resume_from")
    found = checkpoint_to_resume(path)
    if not found:
        raise UserError(f"--resume_from={path}: no `checkpoint` file in it")
    return found


# --- Directories -------------------------------------------------------------


def check_is_no_pattern(path: str, flag: str) -> None:
    r"""Check that TensorFlow takes the name of a checkpoint as it is.

    It reads `[`, `*`, `?` and `\` in it as a pattern, and does not find
    `out[1]/model.ckpt-10`.
    """
    found = re.search(r"[\[*?\\]", path)
    if found:
        raise UserError(
            f"--{flag}={path} has a {found[0]}, which TensorFlow takes for a "
            "pattern when it reads checkpoints: rename the directory"
        )


def check_no_checkpoint(directory: str, flag: str) -> None:
    """Check that a checkpoint can be written without hiding another one.

    The files beside the other one, such as its configuration, would be
    replaced too, whatever its own name is. The directory need not exist.
    """
    check_is_no_pattern(directory, flag)
    found = files_of_models(directory)
    if tf.io.gfile.exists(os.path.join(directory, "checkpoint")):
        found.append("checkpoint")
    if found:
        raise UserError(
            f"--{flag}={directory} holds a checkpoint already "
            f"({os.path.basename(found[0])}); name a new directory"
        )


def files_of_models(directory: str) -> list[str]:
    """Return the paths of the weights, or their index, of models in it."""
    endings = ("index", "safetensors", "safetensors.index.json")
    found = tf.io.gfile.glob(
        [os.path.join(directory, f"*.{ending}") for ending in endings]
    )
    # A killed run may have left a checkpoint that is not complete.
    return [path for path in found if not path.endswith(".tmp.index")]


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
