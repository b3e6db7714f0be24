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

from collections.abc import Callable

import tensorflow as tf

NONE, LAYERS, ATTENTION = "none", "layers", "attention"
CHOICES = (NONE, LAYERS, ATTENTION)


def recomputed(function: Callable) -> Callable:
    """Return a pure function whose gradient calls it again on its inputs."""
    # In a graph the second call's inputs are the first one's plus a zero that
    # is computed from the incoming gradient. So no compiler merges both calls,
    # and no executor makes the second one before the gradient is there.
    return tf.recompute_grad(function)
