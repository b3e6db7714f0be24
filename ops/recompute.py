"""Activations computed again in the backward pass, to need less memory.

The gradient of a layer is computed from values of its forward pass. A training
step keeps them for all layers until the backward pass gets there, and for long
batches they are most of its memory. Here a part of the model keeps its inputs
alone, and computes everything else a second time when its gradient is due
(Chen et al. 2016, arXiv:1604.06174):

    none       nothing: least time
    attention  scores and probabilities of attention, B * N * S * S numbers of
               each layer: most of the memory of long sequences, little time
               ("selective", Korthikanti et al. 2022, arXiv:2205.05198)
    layers     each Transformer layer up to its last product: it keeps three
               matrices [B * S, H], its input, that product and its residual

The numbers are the same: dropout follows from a seed (ops/elementwise.py), so
the second time drops the same elements.

Letters in shapes are those of modeling.py.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

NONE, LAYERS, ATTENTION = "none", "layers", "attention"
CHOICES = (NONE, LAYERS, ATTENTION)

# Read while code is called or traced, as in ops/elementwise.py.
_choice = NONE


@contextlib.contextmanager
def recomputing(choice: str) -> Iterator[None]:
    """Set which activations are recomputed, in code called or traced inside.

    The gradient is taken in the block too, and in that of
    `elementwise.fusing`: it calls or traces parts of the model again.

    Args:
        choice: one of CHOICES.
    """
    global _choice
    before, _choice = _choice, choice
    try:
        yield
    finally:
        _choice = before


def layer(function: Callable, x: tf.Tensor) -> Any:
    """Return function(x); with LAYERS it keeps x and the result alone.

    Args:
        function: from the input of a Transformer layer to its last product
            and the residual. In a graph the second call leaves the last
            product out, a third of all, since no gradient needs its value.
        x: float.
    """
    return _recomputed(function, x) if _choice == LAYERS else function(x)


def attention(function: Callable, *inputs: tf.Tensor) -> tf.Tensor:
    """Return function(*inputs); with ATTENTION it keeps the inputs alone.

    Args:
        function: a pure function, with gradients to all of its inputs.
        *inputs: float: query, key and value.
    """
    if _choice != ATTENTION:
        return function(*inputs)
    return _recomputed(function, *inputs)


def _recomputed(function: Callable, *inputs: tf.Tensor) -> Any:
    """Return function(*inputs), whose gradient calls the function again."""
    # In a graph the second call's inputs are the first one's plus a zero that
    # is computed from the incoming gradient. So no compiler merges both calls,
    # and no executor makes the second one before the gradient is there.
    return tf.recompute_grad(function)(*inputs)
