"""Store the weights of an exported model as constants of its graph.

TensorFlow's CPU kernels (oneDNN) keep a copy of a constant weight in the order
that they multiply fastest, and casts of constants are computed once, when the
model is loaded. Variables have neither, since their values may change.
"""

from collections.abc import Callable
from typing import Any

from base.errors import UserError

import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

import modeling

# A graph is a protocol buffer, which may not be larger.
_MOST_BYTES = 2**31 - 2**20


def check(model: modeling.TaskModel) -> None:
    """Check that the weights of a model can be constants of a graph.

    Raises:
        UserError: they are too large for a graph, or the model reads frozen
            features, whose BiLSTM has inputs of its own.
    """
    if hasattr(model, "activations"):
        raise UserError(
            "--freeze: a tagger on frozen features cannot be exported so; "
            "leave the flag out"
        )
    size = sum(
        int(v.value.dtype.size * tf.size(v.value)) for v in model.variables
    )
    if size > _MOST_BYTES:
        raise UserError(
            f"--freeze: the weights have {size / 1e9:.2f} GB, a graph at most "
            f"{_MOST_BYTES / 1e9:.2f} GB; leave the flag out"
        )


class FrozenModel:
    """A model whose calls run graphs with constant weights.

    It has what exports use of a `modeling.TaskModel`. Each kind of call is
    traced once, with free sizes of all dimensions, and shared by all
    signatures, so that the weights are stored once.

    Args:
        model: its weights are set; they are copied into the graph.

    Raises:
        UserError: see `check`.
    """

    def __init__(self, model: modeling.TaskModel):
        check(model)
        self.config = model.config
        self.variables: list = []  # a SavedModel stores none
        self._model = model
        self._functions: dict[tuple, Callable] = {}

    def __call__(self, features: dict[str, tf.Tensor]) -> Any:
        """Return the outputs of the model for a batch of features."""
        return self._run("__call__", features)

    def encode(self, features: dict[str, tf.Tensor]) -> modeling.BertOutput:
        """Return the outputs of the encoder for a batch of features."""
        return self._run("encode", features)

    def _run(self, method: str, features: dict[str, tf.Tensor]) -> Any:
        key = (method, *((name, x.shape.rank) for name, x in features.items()))
        if key not in self._functions:
            # Outside of the signature that is being traced.
            with tf.init_scope():
                self._functions[key] = _freeze(
                    getattr(self._model, method), features
                )
        return self._functions[key](features)


def _freeze(
    function: Callable[[dict[str, tf.Tensor]], Any],
    features: dict[str, tf.Tensor],
) -> Callable[[dict[str, tf.Tensor]], Any]:
    """Return a function of features whose variables are constants.

    Args:
        function: returns tensors and None in tuples, named tuples and lists.
        features: of the names and ranks that it will be called with.
    """
    names = list(features)
    found: list = []  # the structure of the result

    def flat(*values: tf.Tensor) -> list[tf.Tensor]:
        outputs = function(dict(zip(names, values, strict=True)))
        found.append(outputs)
        return [x for x in tf.nest.flatten(outputs) if x is not None]

    specs = [
        tf.TensorSpec([None] * features[name].shape.rank, features[name].dtype)
        for name in names
    ]
    concrete = tf.function(flat, autograph=False).get_concrete_function(*specs)
    frozen = convert_to_constants.convert_variables_to_constants_v2(concrete)

    def run(features: dict[str, tf.Tensor]) -> Any:
        values = iter(frozen(*(features[name] for name in names)))
        outputs = [
            None if x is None else next(values)
            for x in tf.nest.flatten(found[0])
        ]
        return tf.nest.pack_sequence_as(found[0], outputs)

    return run
