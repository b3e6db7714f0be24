"""Hugging Face directories in the original's names: read, checked, written.

A directory holds `config.json`, `model.safetensors` (or shards and their
index) and `vocab.txt`. Its tensors are the original's under other names, most
kernels the other way round; this file is the one place that knows how. Pickles
(`pytorch_model.bin`) are refused: reading one runs the code inside.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from base.errors import UserError

import ml_dtypes
import numpy as np
import tensorflow as tf

from modeling import BertConfig

CONFIG_NAME = "config.json"

WEIGHTS_NAME = "model.safetensors"

INDEX_NAME = "model.safetensors.index.json"

TOKENIZER_CONFIG_NAME = "tokenizer_config.json"

# Published "gelu" is the exact form there and the tanh form here.
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "tanh": "tanh",
}

_ACTIVATIONS_BACK = {
    "gelu": "gelu_new",
    "gelu_erf": "gelu",
    "relu": "relu",
    "tanh": "tanh",
}

# Settings of theirs that change the arithmetic, and the one value we compute.
_FIXED = {
    "model_type": "bert",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}

# Said in their file of how it was made, not of the model.
_NOT_OURS = ("_name_or_path", "architectures", "transformers_version", "dtype")

# Classes of theirs whose head has the variables of a classifier's: `task` of
# our configuration tells what it is.
TASKS = {
    "BertForMultipleChoice": "multiple_choice",
    "BertForTokenClassification": "token_classification",
}

# Names that do not follow the rule of `_to_key`: theirs to ours.
_HEADS = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
}

_HEADS_BACK = {ours: theirs for theirs, ours in _HEADS.items()}

# Second copies of tied variables: theirs to the key they have to equal.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}

_BUFFERS = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$")

_BARE = re.compile(r"^(embeddings|encoder|pooler)\.")

# safetensors' names of the types weights come in.
_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
}


def is_directory(path: str) -> bool:
    """Whether `path` is a directory in their layout."""
    return any(_exists(path, name) for name in (WEIGHTS_NAME, INDEX_NAME))


def refuse_pickles(directory: str) -> None:
    """Stop at weights that only a pickle holds.

    Raises:
        UserError: says why, and what to do instead.
    """
    for name in ("pytorch_model.bin", "pytorch_model.bin.index.json"):
        if _exists(directory, name):
            raise UserError(
                f"{directory} holds its weights in {name} alone. That is a "
                "pickle, and reading a pickle runs whatever code is in it: "
                "not read here. Save it as safetensors where you trust it: "
                "AutoModel.from_pretrained(DIR).save_pretrained(NEW_DIR)"
            )


def _exists(directory: str, name: str) -> bool:
    return tf.io.gfile.exists(directory.rstrip("/") + "/" + name)


# --- Names ------------------------------------------------------------------


def to_key(name: str) -> str | None:
    """Return the original's key of one of their names; None for buffers.

    `bert.encoder.layer.0.output.LayerNorm.weight` becomes
    `bert/encoder/layer_0/output/LayerNorm/gamma`. Both generations of norm
    names (weight and bias, gamma and beta) and directories of the bare
    encoder, without the first `bert.`, are understood.
    """
    if _BUFFERS.search(name):
        return None
    if _BARE.match(name):
        name = "bert." + name
    if name in _HEADS:
        return _HEADS[name]
    *parents, last = re.sub(r"\blayer\.(\d+)", r"layer_\1", name).split(".")
    parent = parents[-1] if parents else ""
    if parent == "LayerNorm":
        last = {"weight": "gamma", "bias": "beta"}.get(last, last)
    elif parent.endswith("_embeddings") and last == "weight":
        return "/".join(parents)
    elif last == "weight":
        last = "kernel"
    return "/".join([*parents, last])


def from_key(key: str) -> str:
    """Return their name of one of the original's keys."""
    if key in _HEADS_BACK:
        return _HEADS_BACK[key]
    if key.endswith("_embeddings"):
        key += "/weight"
    key = re.sub(r"/(gamma|kernel)$", "/weight", key)
    key = re.sub(r"/beta$", "/bias", key)
    return re.sub(r"\blayer_(\d+)", r"layer/\1", key).replace("/", ".")


def _is_transposed(key: str) -> bool:
    return key.endswith("/kernel")


# --- Configuration ----------------------------------------------------------


def read_config(directory: str) -> BertConfig:
    """Return the configuration of a directory as ours.

    Keys we have no use for are kept; settings that change the arithmetic
    beyond what BERT is are refused. The class that wrote it becomes `task`
    where the weights alone do not say what the head is for.

    Raises:
        UserError: no config.json, or one of another architecture.
    """
    path = directory.rstrip("/") + "/" + CONFIG_NAME
    theirs = _read_json(path)
    for name, wanted in _FIXED.items():
        found = theirs.get(name, wanted)
        if found != wanted:
            raise UserError(
                f"{path}: {name} is {found!r}, BERT has {wanted!r}: this "
                "model computes something else and cannot be loaded"
            )
    activation = theirs.get("hidden_act", "gelu")
    if activation not in _ACTIVATIONS:
        raise UserError(
            f"{path}: hidden_act {activation!r} is unknown; known are "
            f"{', '.join(_ACTIVATIONS)}"
        )
    ours = {k: v for k, v in theirs.items() if k not in _NOT_OURS}
    ours["hidden_act"] = _ACTIVATIONS[activation]
    # Their default where the file is silent; ours is the original's 16.
    ours.setdefault("type_vocab_size", 2)
    for architecture in theirs.get("architectures") or ():
        if architecture in TASKS:
            ours["task"] = TASKS[architecture]
    try:
        return BertConfig.from_dict(ours)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def write_config(
    directory: str, config: BertConfig, architecture: str, **more: Any
) -> None:
    """Write config.json for a model class of theirs."""
    theirs = config.to_dict() | more
    if config.hidden_act not in _ACTIVATIONS_BACK:
        raise UserError(
            f"hidden_act {config.hidden_act!r} has no name in the Hugging "
            f"Face format; known are {', '.join(_ACTIVATIONS_BACK)}"
        )
    theirs["hidden_act"] = _ACTIVATIONS_BACK[config.hidden_act]
    theirs |= {**_FIXED, "architectures": [architecture]}
    text = json.dumps(theirs, indent=2, sort_keys=True) + "\n"
    _write_bytes(directory + "/" + CONFIG_NAME, text.encode())


def _read_json(path: str) -> dict[str, Any]:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            value = json.loads(file.read().decode("utf-8"))
    except tf.errors.OpError as error:
        raise UserError(f"{path} cannot be read: {error.message}") from error
    except ValueError as error:
        raise UserError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise UserError(f"{path}: wanted a JSON object")
    return value


def lower_cases(directory: str) -> bool | None:
    """Whether the tokenizer lower-cases; None if the directory does not say."""
    if not _exists(directory, TOKENIZER_CONFIG_NAME):
        return None
    path = directory.rstrip("/") + "/" + TOKENIZER_CONFIG_NAME
    value = _read_json(path).get("do_lower_case")
    return value if isinstance(value, bool) else None


# --- Weights ----------------------------------------------------------------


class Reader:
    """The tensors of a directory under the original's keys.

    Has the two methods of `tf.train.load_checkpoint`'s reader that this
    project uses. Files are mapped into memory; a tensor is read when asked
    for.

    Raises:
        UserError: a damaged file, a shard that is missing, or an output
            matrix that is not tied to the word embeddings.
    """

    def __init__(self, directory: str):
        self.directory = directory.rstrip("/")
        self._names: dict[str, tuple[Any, str]] = {}  # key: (file, name)
        self._shapes: dict[str, list[int]] = {}
        tied = {}
        for file, name in self._entries():
            if name in _TIED:
                tied[name] = file
                continue
            key = to_key(name)
            if key is None:
                continue
            self._names[key] = file, name
            shape = list(file.get_slice(name).get_shape())
            self._shapes[key] = shape[::-1] if _is_transposed(key) else shape
        self._check_tied(tied)

    def _entries(self) -> Iterator[tuple[Any, str]]:
        """Every (open file, tensor name) of the directory."""
        for file_name, wanted in self._files().items():
            path = self.directory + "/" + file_name
            file = _open(path)
            names = list(file.keys())
            missing = sorted(set(wanted or ()) - set(names))
            if missing:
                raise UserError(
                    f"{path} lacks {missing[0]}, which {INDEX_NAME} says it "
                    "holds"
                )
            for name in names:
                yield file, name

    def _files(self) -> dict[str, list[str] | None]:
        """File name -> the tensors its index promises, None without one."""
        if _exists(self.directory, WEIGHTS_NAME):
            return {WEIGHTS_NAME: None}
        path = self.directory + "/" + INDEX_NAME
        places = _read_json(path).get("weight_map")
        if not isinstance(places, dict) or not places:
            raise UserError(f"{path}: no weight_map in it")
        files: dict[str, list[str] | None] = {}
        for name, file_name in places.items():
            files.setdefault(file_name, []).append(name)
        return dict(sorted(files.items()))

    def _check_tied(self, tied: Mapping[str, Any]) -> None:
        """An output matrix of its own would be dropped in silence."""
        for name, file in tied.items():
            key = _TIED[name]
            if key not in self._names:
                self._names[key] = file, name
                self._shapes[key] = list(file.get_slice(name).get_shape())
            elif not np.array_equal(_read(file, name), self.get_tensor(key)):
                raise UserError(
                    f"{self.directory}: {name} differs from {key}; BERT has "
                    "one matrix (and bias) for both: not a BERT checkpoint"
                )

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return key -> shape in the original's orientation."""
        return dict(self._shapes)

    def has_tensor(self, key: str) -> bool:
        """Whether the directory holds a key."""
        return key in self._names

    def get_tensor(self, key: str) -> np.ndarray:
        """Return a tensor as float32 in the original's orientation."""
        value = _read(*self._names[key])
        return np.ascontiguousarray(value.T) if _is_transposed(key) else value


def _open(path: str) -> Any:
    import safetensors

    local = path.removeprefix("file://")
    if "://" in local:
        raise UserError(
            f"{path}: safetensors files are read from local disks only; copy "
            "the directory first"
        )
    try:
        return safetensors.safe_open(local, framework="numpy")
    except (OSError, safetensors.SafetensorError) as error:
        raise UserError(
            f"{path} cannot be read as safetensors: {error}"
        ) from error


def _read(file: Any, name: str) -> np.ndarray:
    dtype = file.get_slice(name).get_dtype()
    if dtype not in _DTYPES:
        raise UserError(
            f"tensor {name} is of type {dtype}; weights are of "
            f"{', '.join(_DTYPES)}: quantized weights cannot be loaded"
        )
    return np.asarray(file.get_tensor(name)).astype(np.float32)


def write_weights(directory: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write model.safetensors from tensors under the original's keys."""
    import safetensors.numpy

    named = {
        from_key(key): np.ascontiguousarray(
            value.T if _is_transposed(key) else value
        )
        for key, value in tensors.items()
    }
    _write_bytes(
        directory + "/" + WEIGHTS_NAME,
        safetensors.numpy.save(named, metadata={"format": "pt"}),
    )


def write_tokenizer(
    directory: str, vocabulary: bytes, do_lower_case: bool, length: int
) -> None:
    """Write vocab.txt and what makes their tokenizer split as ours."""
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": do_lower_case,
        "model_max_length": length,
        "tokenize_chinese_chars": True,
        "strip_accents": None,
        **{
            f"{name}_token": f"[{name.upper()}]"
            for name in ("unk", "sep", "pad", "cls", "mask")
        },
    }
    text = json.dumps(settings, indent=2, sort_keys=True) + "\n"
    _write_bytes(directory + "/vocab.txt", vocabulary)
    _write_bytes(directory + "/" + TOKENIZER_CONFIG_NAME, text.encode())


def _write_bytes(path: str, data: bytes) -> None:
    """Write a file that appears whole or not at all."""
    temporary = path + ".tmp"
    with tf.io.gfile.GFile(temporary, "wb") as file:
        file.write(data)
    tf.io.gfile.rename(temporary, path, overwrite=True)
