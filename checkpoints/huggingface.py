"""Read and write models in the format of Hugging Face's transformers.

A directory holds `config.json`, `model.safetensors` (or several such files
and an index of their tensors) and `vocab.txt`. Its tensors are the original's
under other names, for example

    bert.encoder.layer.0.output.dense.weight    [H, I]
    bert/encoder/layer_0/output/dense/kernel    [I, H]

and the kernels are transposed: PyTorch's layers compute x W^T, TensorFlow's
x W. Pickles (`pytorch_model.bin`) are refused, since unpickling a file runs
the code in it.

In names and comments, "theirs" is the format of transformers, and "ours" is
that of the original and of this project.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from base import file_system, logs, text_files
from base.errors import UserError, naming

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy
from absl import logging

from checkpoints import known_settings, published, sentence_transformers
from ops.choices import LEFT_TO_RIGHT

if TYPE_CHECKING:
    from modeling import BertConfig

# Their name of an activation to ours. One name has two meanings: "gelu" is
# x * Phi(x), computed with erf, in transformers, and its tanh approximation in
# the original and here.
_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_fast": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python_tanh": "gelu",
    "gelu_accurate": "gelu",
    "relu": "relu",
    "tanh": "tanh",
}

# Of several names the first one is written.
_ACTIVATIONS_BACK = {
    ours: theirs for theirs, ours in reversed(_ACTIVATIONS.items())
}

# Settings of theirs with one value in all our models.
_FIXED = {
    "model_type": "bert",
    "layer_norm_eps": 1e-12,
    "position_embedding_type": "absolute",
    "add_cross_attention": False,
}

# Their setting for a causal mask: attention_direction "left_to_right".
_CAUSAL = "is_decoder"

# Their classes that read the vector of [CLS]. Under a causal mask it is the
# same for every text; ours read the last token (see modeling.class_vectors).
_POOLING = (
    "BertForSequenceClassification",
    "BertForMultipleChoice",
    "BertForPreTraining",
    "BertForNextSentencePrediction",
)

# Their other classes for a BERT.
_OTHER_CLASSES = (
    "BertModel",
    "BertForMaskedLM",
    "BertLMHeadModel",
    "BertForTokenClassification",
    "BertForQuestionAnswering",
)

# Names of a cross-encoder's function on its outputs: an object, and a key of
# older versions.
_CROSS_ENCODER = "sentence_transformers"
_OLD_CROSS_ENCODER = "sbert_ce_default_activation_function"

# Dropped on import: metadata about their file, and what we name otherwise.
_NOT_OURS = (
    "_name_or_path",
    "architectures",
    "transformers_version",
    "dtype",
    "label2id",
    "num_labels",
    _CROSS_ENCODER,
    _OLD_CROSS_ENCODER,
)

# Their classes whose head has the same variables as a classifier's, to the
# value of `task` in our configuration that distinguishes them.
TASKS = {
    "BertForMultipleChoice": "multiple_choice",
    "BertForTokenClassification": "token_classification",
}

# Names that do not follow the rules of `our_name`: theirs to ours.
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

# Copies of tied variables: their name to the key of the variable that the copy
# must equal. BERT's output matrix is the word embedding table.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}

# Constants that old versions saved with the weights (0, 1, ..., 511 and zeros).
_BUFFERS = re.compile(r"(^|\.)embeddings\.(position_ids|token_type_ids)$")

# The name of a file of weights; not a path to another folder.
_FILE = r"[^/\0\ud800-\udfff]+"

# Names in a directory of the encoder alone, without the first "bert.".
_BARE = re.compile(r"^(embeddings|encoder|pooler)\.")

# Files of weights that are not read, to arguments for transformers.
_OTHER_WEIGHTS = {
    "pytorch_model.bin": "",
    "pytorch_model.bin.index.json": "",
    "tf_model.h5": ", from_tf=True",
    "flax_model.msgpack": ", from_flax=True",
}

# Types of weights by their names in safetensors.
_DTYPES = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
}


def check_is_bert(directory: str) -> None:
    """Raise an error if a directory has another model, or what changes it."""
    known_settings.check_files(directory)
    path = os.path.join(directory, published.CONFIG_NAME)
    found = None
    if file_system.exists(path):
        found = text_files.read_json_object(path).get("model_type")
    if found and found != "bert":
        raise known_settings.Refused(
            f"{path}: model_type is {found!r}, here it has to be 'bert': other "
            "models compute something else, or read other tokens; use "
            "transformers for it, or a BERT (docs/which_model.md)"
        )


def refuse_other_weights(directory: str) -> None:
    """Raise an error if a directory holds its weights in another format."""
    for name, how in _OTHER_WEIGHTS.items():
        if file_system.exists(os.path.join(directory, name)):
            raise UserError(
                f"{directory} holds its weights in {name} alone. Where you "
                "trust it (reading a pickle runs whatever code is in it), save "
                f"it as safetensors by transformers{' 4' * bool(how)}: "
                f"AutoModel.from_pretrained(DIR{how}).save_pretrained(NEW_DIR)"
            )


# --- Names -------------------------------------------------------------------


def our_name(name: str) -> str | None:
    """Return the original's name of a safetensors tensor; None: a constant.

    `bert.encoder.layer.0.output.LayerNorm.weight` becomes
    `bert/encoder/layer_0/output/LayerNorm/gamma`. Layer norms may have the
    names of old versions (gamma and beta) or new ones (weight and bias), and
    the encoder's variables may lack the first `bert.`.
    """
    if _BUFFERS.search(name):
        return None
    if _BARE.match(name):
        name = "bert." + name
    if name in _HEADS:
        return _HEADS[name]
    *parents, last = re.sub(r"\blayer\.(\d+)", r"layer_\1", name).split(".")
    parent = parents[-1] if parents else ""
    if parent.endswith("LayerNorm"):
        last = {"weight": "gamma", "bias": "beta"}.get(last, last)
    elif parent.endswith("_embeddings") and last == "weight":
        return "/".join(parents)
    elif last == "weight":
        last = "kernel"
    return "/".join([*parents, last])


def their_name(key: str) -> str:
    """Return the Hugging Face name of a variable; the inverse of `our_name`."""
    if key in _HEADS_BACK:
        return _HEADS_BACK[key]
    if key.endswith("_embeddings"):
        key += "/weight"
    key = re.sub(r"/(gamma|kernel)$", "/weight", key)
    key = re.sub(r"/beta$", "/bias", key)
    return re.sub(r"\blayer_(\d+)", r"layer/\1", key).replace("/", ".")


# --- Configuration -----------------------------------------------------------


def read_config(
    path: str, theirs: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the object in a config.json, with our names and values.

    `theirs` is that object if it was read already. Settings without a meaning
    here are kept. The model class that the file
    names becomes `task` where two classes have the same variables.

    Raises:
        UserError: there is no config.json, or it describes another
            architecture than BERT.
    """
    if theirs is None:
        theirs = text_files.read_json_object(path)
    known_settings.check(published.CONFIG_NAME, path, theirs)
    activation = theirs.get("hidden_act", "gelu")
    if activation not in tuple(_ACTIVATIONS):  # a list has no hash
        raise UserError(
            f"{path}: hidden_act {activation!r} is unknown; known are "
            f"{', '.join(_ACTIVATIONS)}"
        )
    ours = {k: v for k, v in theirs.items() if k not in _NOT_OURS}
    ours["hidden_act"] = _ACTIVATIONS[activation]
    architectures = theirs.get("architectures") or []
    if not isinstance(architectures, list) or not all(
        isinstance(name, str) for name in architectures
    ):
        raise UserError(
            f"{path}: architectures is {architectures!r}, wanted a list of "
            "names of classes"
        )
    if theirs.get(_CAUSAL):
        check_reads_no_cls(architectures, path)
        del ours[_CAUSAL]
        ours["attention_direction"] = LEFT_TO_RIGHT
    for name in architectures:
        own = re.sub("^(TF|Flax)", "", name)
        if own not in (*_POOLING, *_OTHER_CLASSES):
            logs.warn_once(
                f"{path}: architectures is {name}, a class that this project "
                "lacks: what it computes beside the encoder is left out"
            )
    # Their default; the original's, and BertConfig's, is 16.
    ours.setdefault("type_vocab_size", 2)
    for name in filter(TASKS.get, architectures):
        ours["task"] = TASKS[name]
    problem = ours.pop("problem_type", None)
    names = theirs.get("id2label")
    count = theirs.get("num_labels", 2)  # their default
    count = len(names) if isinstance(names, dict) else count
    of_one = {"regression": True, "single_label_classification": False}
    if of_one.get(problem, count == 1) != (count == 1):
        raise UserError(
            f"{path}: problem_type is {problem} with {count} outputs (by "
            "id2label, else num_labels): a regression has one output here, "
            "the choice of one class several"
        )
    if "BertForTokenClassification" in architectures and not names:
        # Their names of two classes are not written.
        ours["id2label"] = {str(i): f"LABEL_{i}" for i in range(count)}
    ids = theirs.get("label2id")
    if (
        isinstance(names, dict)
        and isinstance(ids, dict)
        and {str(k): v for v, k in ids.items()} != names
    ):
        logs.warn_once(
            f"{path}: id2label and label2id contradict each other: id2label "
            "is used, as in transformers"
        )
    ours |= _cross_encoder(theirs, architectures, count, path)
    # The other types are told by the number of outputs.
    if problem == "multi_label_classification":
        ours["task"] = problem
    return ours


def _cross_encoder(
    theirs: Mapping[str, Any],
    architectures: Sequence[str],
    count: int,
    path: str,
) -> dict[str, Any]:
    """Return TrainedFor's fields of a head with `count` outputs.

    One number goes through a sigmoid, unless it is that of a regression or the
    file of a cross-encoder names another function.
    """
    own = theirs.get(_CROSS_ENCODER)
    own = own.get("activation_fn") if isinstance(own, dict) else None
    name = own or theirs.get(_OLD_CROSS_ENCODER)
    if name:
        return {
            # This project writes false, or null where it does not know.
            "sentence_pairs": theirs.get("sentence_pairs", True),
            "output_activation": sentence_transformers.output_activation(
                name, count, f"{path}: activation function"
            ),
        }
    if (
        count == 1
        and "BertForSequenceClassification" in architectures
        and theirs.get("problem_type") is None
    ):
        return {"output_activation": "sigmoid"}
    return {}


def write_config(
    directory: str, config: "BertConfig", architecture: str, **more: Any
) -> None:
    """Write config.json for their class that has the model's heads.

    `more` are settings that our configuration lacks, such as `num_labels`.
    """
    theirs = config.to_dict() | more
    theirs["hidden_act"] = _ACTIVATIONS_BACK[config.hidden_act]
    theirs |= {**_FIXED, "architectures": [architecture], _CAUSAL: False}
    if theirs.pop("attention_direction", None) == LEFT_TO_RIGHT:
        theirs[_CAUSAL] = True
    if (
        architecture == "BertForSequenceClassification"
        and theirs["num_labels"] == 1
        and "problem_type" not in theirs
    ):
        # By default both of their libraries put a sigmoid on one number: the
        # pipelines unless it is a regression, cross-encoders unless the file
        # names another function.
        activation = theirs.pop("output_activation", None)
        if activation != "sigmoid":
            theirs["problem_type"] = "regression"
        theirs.setdefault("sentence_pairs", None)
        theirs[_CROSS_ENCODER] = {
            "activation_fn": sentence_transformers.TORCH_NAMES[activation]
        }
    path = os.path.join(directory, published.CONFIG_NAME)
    text_files.write_json(path, theirs, sort_keys=True)


def check_activation(config: "BertConfig", path: str) -> None:
    """Raise an error if transformers has no name for a model's activation."""
    if config.hidden_act not in _ACTIVATIONS_BACK:
        raise UserError(
            f"{path}: hidden_act {config.hidden_act!r} has no name in the "
            f"Hugging Face format; known are {', '.join(_ACTIVATIONS_BACK)} "
            "(--output_format=original keeps such a model)"
        )


def check_reads_no_cls(architectures: Sequence[str], path: str) -> None:
    """Check that a left-to-right model is the same in transformers.

    Raises:
        UserError: one of their classes that have its head reads the vector of
            [CLS].
    """
    if "BertModel" in architectures:
        logging.warning(
            "%s: pooler_output of BertModel with is_decoder is made of [CLS], "
            "pooled_output of this project of the last token",
            path,
        )
    pooling = [name for name in architectures if name in _POOLING]
    if pooling:
        raise UserError(
            f"{path}: {pooling[0]} with is_decoder reads [CLS], which sees "
            "itself alone; a left-to-right model of this project reads the "
            "last token, so the two cannot be converted "
            "(--output_format=original keeps such a model)"
        )


# --- Weights -----------------------------------------------------------------


def read_index(directory: str) -> dict[str, str]:
    """Return {tensor: name of its file} of weights that are several files.

    Raises:
        UserError: there is no index, or it is damaged.
    """
    # {"weight_map": {"pooler.dense.bias": "model-00002-of-00002...", ...}}
    path = os.path.join(directory, published.INDEX_NAME)
    places = text_files.read_json_object(path).get("weight_map")
    if not isinstance(places, dict) or not places:
        raise UserError(
            f"{path}: wanted `weight_map`, an object of tensor names and "
            "their files"
        )
    for tensor, name in places.items():
        if not isinstance(name, str) or not re.fullmatch(_FILE, name):
            raise UserError(
                f"{path}: {name!r} as the file of {tensor}, wanted the name "
                "of a file beside it"
            )
    return places


class Reader:
    """Reads the tensors of a directory by the original's variable names.

    It has the methods of `tf.train.load_checkpoint`'s reader that this
    project uses. Files are mapped into memory; a tensor is read by
    `get_tensor`.

    Raises:
        UserError: a file is damaged or missing, two tensors are one variable,
            the output matrix differs from the word embeddings, or there is
            cross-attention.
    """

    def __init__(self, directory: str):
        self.directory = directory
        self._names: dict[str, tuple[Any, str]] = {}  # key -> (file, name)
        for file, name in self._entries():
            key = name if name in _TIED else our_name(name)
            if key is None:
                continue
            if ".crossattention." in name:
                raise UserError(
                    f"{directory} has {name}: a decoder with cross-attention, "
                    "which BERT lacks, computes something else and cannot be "
                    "loaded"
                )
            if key in self._names:
                raise UserError(
                    f"{directory} has {self._names[key][1]} and {name}, two "
                    "tensors for one variable of the model: remove the one "
                    "that does not belong to it"
                )
            self._names[key] = file, name
        modules = sentence_transformers.weight_files(directory)
        for start, path in modules.items():
            file = _open(path)
            for name in file.keys():  # noqa: SIM118
                last = re.sub(r"^(linear|norm)\.", "", name)
                self._names[our_name(f"{start}.{last}")] = file, name
        self._check_tied()

    def _entries(self) -> Iterator[tuple[Any, str]]:
        """Yield (open file, tensor name) of every tensor."""
        path = os.path.join(self.directory, published.WEIGHTS_NAME)
        is_one = file_system.exists(path)
        places = {} if is_one else read_index(self.directory)
        for file_name in sorted({*places.values()} or {published.WEIGHTS_NAME}):
            path = os.path.join(self.directory, file_name)
            file = _open(path)
            names = list(file.keys())
            listed = {name for name in places if places[name] == file_name}
            if missing := listed.difference(names):
                raise UserError(
                    f"{path} lacks {min(missing)}, which "
                    f"{published.INDEX_NAME} lists; "
                    "download or save the directory again"
                )
            for name in names:
                yield file, name

    def _check_tied(self) -> None:
        """Raise an error if a copy of a tied variable differs from it.

        A model trained with an output matrix of its own would otherwise lose
        it silently. If the variable itself is missing, its copy is used: of
        two names for one tensor, a safetensors file may hold either.
        """
        for name, key in _TIED.items():
            copy = self._names.pop(name, None)
            if not copy or self._names.setdefault(key, copy) is copy:
                continue
            if not np.array_equal(_read(*copy), self.get_tensor(key)):
                raise UserError(
                    f"{self.directory}: {name} differs from {key}; BERT has "
                    "one matrix (and bias) for both: not a BERT checkpoint"
                )

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return {key: shape}, in the original's orientation."""
        shapes = {}
        for key, (file, name) in self._names.items():
            shape = file.get_slice(name).get_shape()
            shapes[key] = shape[::-1] if key.endswith("/kernel") else shape
        return shapes

    def get_tensor(self, key: str) -> np.ndarray:
        """Return a tensor as float32, in the original's orientation."""
        value = _read(*self._names[key])
        is_kernel = key.endswith("/kernel")
        return np.ascontiguousarray(value.T) if is_kernel else value


def _open(path: str) -> Any:
    """Open a safetensors file; errors name it."""
    local = path.removeprefix("file://")
    if "://" in local:
        raise UserError(
            f"{path}: safetensors files are read from local disks only; copy "
            "the directory first"
        )
    kinds = OSError, safetensors.SafetensorError
    with naming(f"{path} cannot be read as safetensors", kinds):
        return safetensors.safe_open(local, framework="numpy")


def _read(file: Any, name: str) -> np.ndarray:
    """Return a tensor of an open safetensors file as float32."""
    dtype = file.get_slice(name).get_dtype()
    if dtype not in _DTYPES:
        raise UserError(
            f"tensor {name} is of type {dtype}; weights are of "
            f"{', '.join(_DTYPES)}: quantized weights cannot be loaded"
        )
    return np.asarray(file.get_tensor(name)).astype(np.float32)


def write_weights(directory: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write {the original's variable name: value} to model.safetensors.

    Modules of sentence-transformers have such a file in their folder, which is
    there.
    """
    files: dict[str, dict[str, np.ndarray]] = {"": {}}
    for key, value in tensors.items():
        folder, name = sentence_transformers.file_of(their_name(key))
        files.setdefault(folder, {})[name] = np.ascontiguousarray(
            value.T if key.endswith("/kernel") else value
        )
    for folder, named in files.items():
        # transformers checks `format`: "pt" is the orientation of its tensors.
        data = safetensors.numpy.save(named, metadata={"format": "pt"})
        path = os.path.join(directory, folder, published.WEIGHTS_NAME)
        file_system.write_bytes(path, data)
