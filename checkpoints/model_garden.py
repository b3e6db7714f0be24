"""Read the checkpoints of TensorFlow's Model Garden by the original's names.

Its BERTs (official/nlp, and TF Hub's encoders) are saved as Python objects: a
key is the way from the object to a variable, such as

    encoder/layer_with_weights-4/_attention_layer/_query_dense/kernel/...

It differs from class to class and from version to version. The same file also
has the variables' own names, which hardly do. Theirs, and the original's:

    transformer/layer_0/self_attention/query/kernel        [H, N, D]
    bert/encoder/layer_0/attention/self/query/kernel       [H, H]

A kernel of attention has the N heads as a dimension of its own; H = N D.
"""

import math
import os
import re
from collections.abc import Sequence
from typing import Any

from base import file_system, logs, text_files
from base.errors import UserError, naming

import numpy as np
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf import trackable_object_graph_pb2

from checkpoints.published import OBJECT_GRAPH

# What is raised where that is no message, or no text.
_DAMAGED = DecodeError, TypeError

_EMBEDDINGS = "bert/embeddings"
_LAYER = r"(?:transformer|encoder)/layer_(\d+)"
_OUR_LAYER = r"bert/encoder/layer_\1"
_NEXT_SENTENCE = r"(?:predictions/transform|next_sentence)/logits"

# The one matrix that they multiply from the other side.
_TRANSPOSED = "cls/seq_relationship/output_weights"

# Names of variables, behind those of the models around them, and the
# original's. "encoder", "embedding_postprocessor" and "self_attention_output"
# are of versions before 2021.
_NAMES = {
    "word_embeddings/embeddings": f"{_EMBEDDINGS}/word_embeddings",
    "(?:position_embedding/|embedding_postprocessor/position_)embeddings": (
        f"{_EMBEDDINGS}/position_embeddings"
    ),
    "(?:type_embeddings/|embedding_postprocessor/type_)embeddings": (
        f"{_EMBEDDINGS}/token_type_embeddings"
    ),
    "(?:embeddings|embedding_postprocessor)/layer_norm/(gamma|beta)": (
        rf"{_EMBEDDINGS}/LayerNorm/\1"
    ),
    rf"{_LAYER}/self_attention/(query|key|value)/(kernel|bias)": (
        rf"{_OUR_LAYER}/attention/self/\2/\3"
    ),
    rf"{_LAYER}/self_attention(?:/attention)?_output/(kernel|bias)": (
        rf"{_OUR_LAYER}/attention/output/dense/\2"
    ),
    rf"{_LAYER}/self_attention_layer_norm/(gamma|beta)": (
        rf"{_OUR_LAYER}/attention/output/LayerNorm/\2"
    ),
    rf"{_LAYER}/(intermediate|output)/(kernel|bias)": (
        rf"{_OUR_LAYER}/\2/dense/\3"
    ),
    rf"{_LAYER}/output_layer_norm/(gamma|beta)": (
        rf"{_OUR_LAYER}/output/LayerNorm/\2"
    ),
    "(?:pooler_transform|next_sentence/pooler_dense)/(kernel|bias)": (
        r"bert/pooler/dense/\1"
    ),
    "(cls/predictions/transform/.+)": r"\1",
    "(cls/predictions/output_bias)/bias": r"\1",
    f"{_NEXT_SENTENCE}/kernel": _TRANSPOSED,
    f"{_NEXT_SENTENCE}/bias": "cls/seq_relationship/output_bias",
}

# Keys of what an optimizer keeps for weights, under names that end like theirs.
_OF_OPTIMIZER = re.compile(r"(^|/)optimizer/|/\.OPTIMIZER_SLOT/")


def our_name(name: str) -> str | None:
    """Return the original's name of a variable; None: BERT has none like it."""
    for pattern, ours in _NAMES.items():
        if match := re.fullmatch(f"(?:.*/)?{pattern}", name):
            return match.expand(ours)
    return None


def _our_shape(name: str, shape: Sequence[int]) -> list[int]:
    """Return the shape of a variable with the original's name."""
    if name == _TRANSPOSED:
        return list(shape[::-1])
    if name.endswith("/attention/output/dense/kernel"):  # of [N, D, H]
        return [math.prod(shape[:-1]), shape[-1]]
    if name.endswith("/kernel"):
        return [shape[0], math.prod(shape[1:])]
    return [math.prod(shape)] if name.endswith("/bias") else list(shape)


def check_order(prefix: str) -> None:
    """Check that layer norms come last in a block, as far as a file tells.

    With norm_first they come first, and have the same names and shapes.
    official/nlp writes params.yaml beside the checkpoints of its training.

    Raises:
        UserError: the file says norm_first.
    """
    path = os.path.join(os.path.dirname(prefix), "params.yaml")
    text = text_files.read_text(path) if file_system.exists(path) else ""
    if re.search(r"norm_first:\s*true", text, re.IGNORECASE):
        raise UserError(
            f"{path}: norm_first is true, here it has to be false: BERT's "
            "layer norms come last in a block; use official/nlp for the model"
        )
    if "norm_first" not in text:
        logs.warn_once(
            f"{prefix} is read as a BERT whose layer norms come last in a "
            "block: with norm_first=True of the Model Garden, which its "
            "checkpoint does not tell, the outputs would be others"
        )


class Reader:
    """Reads the tensors of a checkpoint by the original's variable names.

    It has those methods of `reader`, which is tf.train.load_checkpoint's, that
    this project uses. Variables that BERT lacks are left out.

    Raises:
        UserError: it has no layer of a BERT, or two variables for one.
    """

    def __init__(self, reader: Any):
        self._reader, keys = reader, reader.get_variable_to_shape_map()
        with naming(f"{OBJECT_GRAPH} in it is damaged", _DAMAGED):
            graph = trackable_object_graph_pb2.TrackableObjectGraph.FromString(
                reader.get_tensor(OBJECT_GRAPH)
            )
        names = {
            variable.checkpoint_key: variable.full_name
            for node in graph.nodes
            for variable in node.attributes
            if variable.checkpoint_key in keys
            and not _OF_OPTIMIZER.search(variable.checkpoint_key)
        }
        if any("next_sentence/pooler_dense/" in x for x in names.values()):
            # Pre-training used the pooler of this head, not the encoder's.
            names = {
                k: x for k, x in names.items() if "pooler_transform/" not in x
            }
        self._keys: dict[str, str] = {}  # the original's name -> key
        for key, name in names.items():
            ours = our_name(name)
            if ours in self._keys:
                raise UserError(
                    f"it holds two models, both {self._keys[ours]} and {key} "
                    f"are {ours} of a BERT; save the one that you want alone, "
                    "by tf.train.Checkpoint(encoder=...).write(...)"
                )
            if ours:
                self._keys[ours] = key
        if not any(name.startswith("bert/encoder/") for name in self._keys):
            raise UserError(
                "tf.train.Checkpoint wrote it, and it has no layers as those "
                "of a BERT of TensorFlow's Model Garden, transformer/layer_0/"
                "...: the first of its variables is "
                f"{next(filter(None, names.values()), None)}; save the model "
                "in the original's format or in Hugging Face's"
            )

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return {the original's name: shape}."""
        shapes = self._reader.get_variable_to_shape_map()
        return {n: _our_shape(n, shapes[key]) for n, key in self._keys.items()}

    def get_tensor(self, name: str) -> np.ndarray:
        """Return a tensor in the original's shape and orientation."""
        value = self._reader.get_tensor(self._keys[name])
        if name == _TRANSPOSED:
            return value.T
        return value.reshape(_our_shape(name, value.shape))
