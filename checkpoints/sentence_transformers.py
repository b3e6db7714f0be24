"""The files by which sentence-transformers makes a model's sentence vectors.

A model there is a list of modules, modules.json: the encoder, the pooling of
its tokens' vectors (1_Pooling/config.json), and often their normalization.
Others, such as 2_Dense, have weights in their folder. Two more files have the
length of texts, the prompts, which are put before a text,
how vectors are compared, and how many of their numbers are kept:

    sentence_bert_config.json          {"max_seq_length": 256}
    config_sentence_transformers.json  {"prompts": {"query": "query: "},
                                        "similarity_fn_name": "dot",
                                        "truncate_dim": 64}

A cross-encoder, which gives a pair of texts a number or classes, is a
classifier with a function on its outputs. Here all are fields of TrainedFor.
"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from base import file_system, logs, text_files
from base.errors import UserError

from checkpoints import known_settings, published
from checkpoints.known_settings import Refused
from checkpoints.tokenizer_folder import Folder
from checkpoints.trained_for import TOKEN_POOLINGS, Module, TrainedFor

# An Activation to torch's name of the function's class.
TORCH_NAMES = {
    None: "torch.nn.modules.linear.Identity",
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "tanh": "torch.nn.modules.activation.Tanh",
    "relu": "torch.nn.modules.activation.ReLU",
    "gelu_erf": "torch.nn.modules.activation.GELU",
    "silu": "torch.nn.modules.activation.SiLU",
}

TASK = "embeddings"  # TrainedFor.task

# What this project lacks for a model with a prompt; see Module.excludes_prompt.
PROMPTS_LEFT_OUT = "its pooling leaves the tokens of prompts out"

_MODULES = "modules.json"
_LENGTH = "sentence_bert_config.json"
_PROMPTS = "config_sentence_transformers.json"

_WEIGHTS = {"Dense": "linear", "LayerNorm": "norm"}  # kind -> layer in it

# Up to version 5, these keys of the pooling's file are true of the poolings
# that are joined, in this order; later versions have `pooling_mode`.
_OLD_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
_OLDEST = [*_OLD_KEYS][:3]  # all versions know them


def _class_of(name: Any) -> str:
    """Return torch's name of a function without the modules in between.

    >>> _class_of("torch.nn.modules.activation.Tanh"), _class_of("my.Tanh")
    ('torch.Tanh', 'my.Tanh')
    """
    return re.sub(r"^torch\..*\.", "torch.", str(name))


_ACTIVATIONS = {_class_of(name): own for own, name in TORCH_NAMES.items()}


def read(
    folder: Folder, positions: int, num_outputs: int = 0
) -> dict[str, Any]:
    """Return fields of TrainedFor: what a model's files say.

    They are the length of its texts, if it is not all positions of the model,
    and how it makes sentence vectors. If these need what this project lacks,
    such as a dense layer, the model is an encoder alone: `lacks` says why, and
    a warning.

    Args:
        folder: the model's folder.
        positions: its max_position_embeddings.
        num_outputs: labels of its head.

    Raises:
        UserError: a file is damaged.
    """
    length = _length(
        folder.config,
        "model_max_length",
        folder.file(published.TOKENIZER_CONFIG_NAME),
        positions,
    )
    # All positions are no news, and no reason to fine-tune with that length.
    fields = {"max_seq_length": length} if length < positions else {}
    root, modules = _find_modules(folder.path)
    if not modules:
        return fields
    try:
        sizes = folder.read(_LENGTH)
        others = folder.read(os.path.join(root, _PROMPTS), _PROMPTS)
        if others.get("model_type") == "CrossEncoder":
            _check_kinds(modules, "^$")
            path = folder.file(os.path.join(root, _PROMPTS))
            return fields | _cross_encoder(path, others, num_outputs)
        found = _vectors(folder, root, modules, sizes, others)
    except Refused as error:
        logs.warn_once(
            f"{folder.path}: {error}, which this project lacks: the model is "
            "an encoder, without its sentence vectors, or scores of pairs"
        )
        return fields | {"lacks": str(error)}
    if sizes.get("max_seq_length"):
        path = folder.file(_LENGTH)
        length = _length(sizes, "max_seq_length", path, positions)
    return {"max_seq_length": length} | found


def encoder_folder(directory: str) -> str:
    """Return the folder of a model's encoder: its own, or one in it.

    Raises:
        Refused: the model begins with something else than an encoder.
    """
    modules = _read_modules(os.path.join(directory, _MODULES))
    if not modules:
        return directory
    path, kinds = modules[0].get("path", ""), _kinds(modules)
    # What another package's module computes is not known, but beside it there
    # may be an encoder.
    is_encoder = kinds[0] == "Transformer" or ("." in kinds[0] and not path)
    if not is_encoder or not re.fullmatch(r"[\w-]*", path):
        raise Refused(
            f"{os.path.join(directory, _MODULES)}: its modules are "
            f"{', '.join(kinds)}, the first in {path!r}: wanted a Transformer, "
            "in this folder or in one in it; use sentence-transformers for "
            "the model"
        )
    return os.path.join(directory, path) if path else directory


def weight_files(directory: str) -> dict[str, str]:
    """Return the files of weights of the modules behind an encoder.

    They are {beginning of their tensors' names: path}.
    """
    root, modules = _find_modules(directory)
    found = {}
    for number, kind in enumerate(_kinds(modules)):
        folder = os.path.join(directory, root, modules[number].get("path", ""))
        path = os.path.join(folder, published.WEIGHTS_NAME)
        if kind in _WEIGHTS and file_system.exists(path):
            found[f"{number}_{kind}"] = path
    return found


def file_of(name: str) -> tuple[str, str]:
    """Return the folder of a tensor, and its name there.

    >>> file_of("2_Dense.weight")
    ('2_Dense', 'linear.weight')
    >>> file_of("bert.pooler.dense.weight")
    ('', 'bert.pooler.dense.weight')
    """
    match = re.fullmatch(r"(\d+_(\w+))\.(\w+)", name)
    if not match:
        return "", name
    folder, kind, last = match.groups()
    return folder, f"{_WEIGHTS[kind]}.{last}"


def _find_modules(directory: str) -> tuple[str, list[dict[str, Any]]]:
    """Return the folder of an encoder's modules, "" or "..", and the modules.

    Those above belong to it if they begin with its folder.
    """
    is_here = file_system.exists(os.path.join(directory, _MODULES))
    root = "" if is_here else ".."
    modules = _read_modules(os.path.join(directory, root, _MODULES))
    own = os.path.basename(os.path.normpath(directory))
    if root and modules and modules[0].get("path") != own:
        modules = []
    return root, modules


def _read_modules(path: str) -> list[dict[str, Any]]:
    """Return the modules in a file, but for those that only train; else []."""
    if not file_system.exists(path):
        return []
    modules = text_files.read_json(path)
    if not isinstance(modules, list) or not all(
        isinstance(one, dict)
        and isinstance(one.get("type"), str)
        and isinstance(one.get("path", ""), str)
        for one in modules
    ):
        raise UserError(
            f"{path}: wanted a list of modules, each with its type and path"
        )
    kinds = zip(modules, _kinds(modules), strict=True)
    return [one for one, kind in kinds if kind != "Dropout"]


def _kinds(modules: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the classes of modules; of other packages with the package."""
    return [
        one["type"].rpartition(".")[-1]
        if one["type"].startswith("sentence_transformers.")
        else one["type"]
        for one in modules
    ]


def _length(
    found: Mapping[str, Any], key: str, path: str, positions: int
) -> int:
    """Return a length that a file has; all positions at most, and without."""
    value = found.get(key)
    if value is None:
        return positions
    if type(value) not in (int, float) or not value >= 1:
        raise UserError(
            f"{path}: {key} is {value!r}, wanted a number of tokens"
        )
    return int(min(value, positions))


def _check_kinds(
    modules: Sequence[Mapping[str, Any]], wanted: str
) -> list[str]:
    """Return the classes of the modules behind the encoder.

    Raises:
        Refused: their names in a row do not match the pattern.
    """
    kinds = _kinds(modules)
    if kinds[:1] != ["Transformer"] or not re.search(
        wanted, " ".join(kinds[1:])
    ):
        raise Refused(f"its modules are {', '.join(kinds)}")
    return kinds[1:]


def _vectors(
    folder: Folder,
    root: str,
    modules: Sequence[Mapping[str, Any]],
    sizes: Mapping[str, Any],
    others: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the fields of TrainedFor for a model that makes sentence vectors.

    `sizes` and `others` are the objects in _LENGTH and _PROMPTS, `root` is the
    place of the other files.

    Raises:
        Refused: it has a module or a setting that this project lacks.
    """
    kinds = _check_kinds(modules, "^Pooling( (Dense|LayerNorm|Normalize))*$")
    for one in modules:
        known_settings.check(_MODULES, folder.file(_MODULES), one)
    prompts, chain = others.get("prompts") or {}, []
    for kind, one in zip(kinds, modules[1:], strict=True):
        file = os.path.join(root, one.get("path", ""), "config.json")
        settings = folder.read(file, f"*_{kind}/config.json")
        if not settings and kind != "Normalize":
            raise Refused(f"it has no {file}")
        chain.append(_module(kind, settings) | {"kind": kind})
        Module.from_dict(chain[-1], folder.file(file))  # errors name that file
    has_prompts = isinstance(prompts, dict) and any(prompts.values())
    if has_prompts and "excludes_prompt" in chain[0]:
        raise Refused(PROMPTS_LEFT_OUT)
    is_cased = not folder.said.get("do_lower_case", True)
    if sizes.get("do_lower_case") and is_cased:
        raise Refused(f"{_LENGTH} lower-cases texts of a cased model")
    names = ("default_prompt_name", "similarity_fn_name", "truncate_dim")
    own = {name: others.get(name) for name in names}
    own["prompts"] = prompts or None
    TrainedFor.from_dict(own, folder.file(_PROMPTS))  # errors name that file
    return {
        "task": TASK,
        "modules": chain,
        **own,
    }


def _module(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a Module for the settings in its file.

    Raises:
        Refused: it has a pooling or a function that this project lacks.
    """
    if kind == "Pooling":
        found = settings.get("pooling_mode")
        if found is None:
            found = [n for key, n in _OLD_KEYS.items() if settings.get(key)]
        poolings = found if isinstance(found, list) else [found]
        if not all(one in TOKEN_POOLINGS for one in poolings):
            raise Refused(f"its pooling is {found}")
        own = {"poolings": poolings or ["mean"]}
        if settings.get("include_prompt") is False:
            own["excludes_prompt"] = True
        return own
    if kind == "Dense":
        name = settings.get("activation_function", TORCH_NAMES["tanh"])
        if _class_of(name) not in _ACTIVATIONS:
            raise Refused(f"its activation_function is {name!r}")
        own = {n: settings[n] for n in Module._fields if n in settings}
        return own | {"activation": _ACTIVATIONS[_class_of(name)]}
    if kind == "LayerNorm":
        return {"in_features": settings.get("dimension")}
    return {}


def _cross_encoder(
    path: str, others: Mapping[str, Any], num_outputs: int
) -> dict[str, Any]:
    """Return the fields of a cross-encoder's head; `others` is in `path`."""
    prompts, name = others.get("prompts"), others.get("default_prompt_name")
    if isinstance(prompts, dict) and prompts.get(str(name)):
        logs.warn_once(
            f"{path}: the prompt {name!r} is put before no text: here prompts "
            "are for sentence vectors"
        )
    fields = {"sentence_pairs": True}
    if others.get("activation_fn"):
        fields["output_activation"] = output_activation(
            others["activation_fn"], num_outputs, f"{path}: activation_fn"
        )
    return fields


def output_activation(name: Any, num_outputs: int, place: str) -> str | None:
    """Return TrainedFor.output_activation for a cross-encoder's function.

    Classes get their probabilities whatever it is, with a warning if the
    function gives other numbers than the logits or the probabilities.

    Args:
        name: torch's name of the function's class.
        num_outputs: outputs of the head.
        place: file and key, for errors.

    Raises:
        UserError: a number goes through a function that this project lacks.
    """
    own = _class_of(name)
    if num_outputs == 1:
        if own in _ACTIVATIONS:
            return _ACTIVATIONS[own]
        raise UserError(
            f"{place} is {name!r}, a function that this project lacks; known "
            f"are {', '.join(TORCH_NAMES.values())}"
        )
    if own not in ("torch.Identity", "torch.Softmax"):
        logs.warn_once(
            f"{place} is {name!r}, which is not applied: the scores of "
            "classes are their probabilities"
        )
    return None


def write(directory: str, trained_for: TrainedFor, hidden_size: int) -> None:
    """Write the files of a model whose task is TASK, but for its weights.

    They have the keys of the first versions, which all versions read, if these
    can say it.
    """
    modules = {"": "Transformer"}
    files: dict[str, Any] = {}
    for number, module in enumerate(trained_for.modules, 1):
        path = f"{number}_{module.kind}"
        modules[path] = module.kind
        file_system.make_directory(os.path.join(directory, path))
        if settings := _settings(module, hidden_size):
            files[f"{path}/config.json"] = settings
    files |= {
        _LENGTH: {
            "max_seq_length": trained_for.max_seq_length,
            "do_lower_case": False,  # the tokenizer does
        },
        _PROMPTS: {
            "prompts": dict(trained_for.prompts or {}),
            "default_prompt_name": trained_for.default_prompt_name,
            "similarity_fn_name": trained_for.similarity_fn_name or "cosine",
            "truncate_dim": trained_for.truncate_dim,
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
        path = os.path.join(directory, name)
        text_files.write_json(path, content, ensure_ascii=False)


def _settings(module: Module, hidden_size: int) -> dict[str, Any]:
    """Return the settings in a module's file; none of Normalize."""
    if module.kind == "Pooling":
        keys = [k for k, name in _OLD_KEYS.items() if name in module.poolings]
        own = dict.fromkeys(_OLDEST, False) | dict.fromkeys(keys, True)
        if module.poolings != tuple(map(_OLD_KEYS.get, keys)):
            own = {"pooling_mode": module.poolings}
        if module.excludes_prompt:
            own["include_prompt"] = False
        return {"word_embedding_dimension": hidden_size} | own
    if module.kind == "Dense":
        names = "in_features", "out_features", "bias"
        own = {name: getattr(module, name) for name in names}
        return own | {"activation_function": TORCH_NAMES[module.activation]}
    if module.kind == "LayerNorm":
        return {"dimension": module.in_features}
    return {}
