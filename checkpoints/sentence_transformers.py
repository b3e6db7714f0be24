"""The files by which sentence-transformers makes a model's sentence vectors.

A model there is a list of modules, modules.json: the encoder, the pooling of
its tokens' vectors (1_Pooling/config.json), and often their normalization. Two
more files have the length of texts and prompts, which are put before a text:

    sentence_bert_config.json          {"max_seq_length": 256}
    config_sentence_transformers.json  {"prompts": {"query": "query: "}}

Here they are fields of TrainedFor.
"""

import json
import os
from typing import Any

from base import file_system, text_files
from base.errors import UserError

from absl import logging

from checkpoints import casing
from checkpoints.trained_for import TrainedFor

TASK = "embeddings"  # TrainedFor.task

POOLINGS = ("mean", "cls", "max")

_MODULES = "modules.json"
_POOLING = "1_Pooling/config.json"
_LENGTH = "sentence_bert_config.json"
_PROMPTS = "config_sentence_transformers.json"

FILES = (_MODULES, _POOLING, _LENGTH, _PROMPTS)

# Up to version 5, one of these keys of the pooling's file is true; later
# versions have `pooling_mode`.
_OLD_KEYS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
}


def read(directory: str, positions: int) -> dict[str, Any]:
    """Return fields of TrainedFor: what a directory's files say of vectors.

    Without modules.json they are {}. If the vectors need a module that this
    project lacks, such as a dense layer, the model is an encoder alone, with a
    warning. `positions` are the model's max_position_embeddings.

    Raises:
        UserError: a file is damaged.
    """
    modules = _read(directory, _MODULES)
    if modules is None:
        return {}
    if not isinstance(modules, list) or not all(
        isinstance(one, dict) and isinstance(one.get("type"), str)
        for one in modules
    ):
        raise UserError(
            f"{os.path.join(directory, _MODULES)}: wanted a list of modules, "
            "each with its type"
        )
    kinds = [one["type"].rpartition(".")[-1] for one in modules]
    pooling = _object(directory, _POOLING)
    sizes = _object(directory, _LENGTH)
    others = _object(directory, _PROMPTS)
    tokenizer = _object(directory, casing.TOKENIZER_CONFIG_NAME)
    modes = pooling.get("pooling_mode")
    if modes is None:
        modes = [
            _OLD_KEYS.get(key, key)
            for key, value in pooling.items()
            if key.startswith("pooling_mode_") and value is True
        ]
    if isinstance(modes, list) and len(modes) == 1:
        modes = modes[0]
    prompts = others.get("prompts") or {}
    problem = None
    if kinds not in (
        ["Transformer", "Pooling"],
        ["Transformer", "Pooling", "Normalize"],
    ):
        problem = f"its modules are {', '.join(kinds)}"
    elif modes not in POOLINGS:
        problem = f"its pooling is {modes}"
    elif prompts and pooling.get("include_prompt") is False:
        problem = "its pooling leaves the tokens of prompts out"
    elif sizes.get("do_lower_case") and not casing.read(directory).get(
        "do_lower_case", True
    ):
        problem = f"{_LENGTH} lower-cases texts of a cased model"
    if problem:
        logging.warning(
            "%s: %s, which this project lacks: the model is used as an "
            "encoder, without its sentence vectors",
            directory,
            problem,
        )
        return {}
    length = sizes.get("max_seq_length") or tokenizer.get("model_max_length")
    if type(length) in (int, float):
        length = int(min(length, positions))
    return {
        "task": TASK,
        "max_seq_length": length,
        "pooling": modes,
        "normalize": "Normalize" in kinds,
        "prompts": prompts or None,
        "default_prompt_name": others.get("default_prompt_name"),
    }


def _read(directory: str, name: str) -> Any:
    """Return the JSON of a file; None without it."""
    path = os.path.join(directory, name)
    if not file_system.exists(path):
        return None
    try:
        return text_files.parse_json(text_files.read_text(path))
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON: {error}") from error


def _object(directory: str, name: str) -> dict[str, Any]:
    found = _read(directory, name)
    if not isinstance(found, dict | None):
        raise UserError(
            f"{os.path.join(directory, name)}: found {type(found).__name__}, "
            "wanted a JSON object"
        )
    return found or {}


def write(directory: str, trained_for: TrainedFor, hidden_size: int) -> None:
    """Write the files of a model whose task is TASK.

    They have the keys of the first versions, which all versions read.
    """
    modules = {"": "Transformer", "1_Pooling": "Pooling"}
    if trained_for.normalize:
        modules["2_Normalize"] = "Normalize"
    for path in filter(None, modules):
        file_system.make_directory(os.path.join(directory, path))
    pooling = {
        key: mode == trained_for.pooling for key, mode in _OLD_KEYS.items()
    }
    files = {
        _POOLING: {"word_embedding_dimension": hidden_size} | pooling,
        _LENGTH: {
            "max_seq_length": trained_for.max_seq_length,
            "do_lower_case": False,  # the tokenizer does
        },
        _PROMPTS: {
            "prompts": dict(trained_for.prompts or {}),
            "default_prompt_name": trained_for.default_prompt_name,
            "similarity_fn_name": "cosine",
        },
        _MODULES: [
            {
                "idx": number,
                "name": str(number),
                "path": path,
                "type": f"sentence_transformers.models.{kind}",
            }
            for number, (path, kind) in enumerate(modules.items())
        ],
    }
    for name, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        file_system.write_text(os.path.join(directory, name), text)
