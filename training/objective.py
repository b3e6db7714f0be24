"""The losses and metrics of a task as functions of model and batch."""

import types
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

from records.streaming import Batch

# name -> (sum, count), both float32 scalars. Means are formed once, on the
# host, from the sums over all steps, replicas and micro-batches.
Sums = dict[str, tuple[tf.Tensor, tf.Tensor]]


class Objective(NamedTuple):
    """The losses and metrics of a task, as pure functions.

    Attributes:
        loss_weights: batch -> {loss name: weight}, the denominator of each
            loss in this batch. It depends on the batch alone, not on the
            model, so the denominators of the whole batch are known before the
            first gradient of a part of it.
        forward: (model, batch, seed) -> Sums: every loss
            (a sum over examples), every metric, and `tokens`: (number of
            tokens without padding, number of examples; of packed rows, of
            their sequences).
        total_loss: ({loss name: sum}, {loss name: weight}) -> scalar, the
            loss to minimize.
        names: the keys of what `forward` returns.
        perplexities: {loss name: name of its perplexity}; reported along
            with the mean loss.
    """

    loss_weights: Callable[[Batch], dict[str, tf.Tensor]]
    forward: Callable[..., Sums]
    total_loss: Callable[[dict, dict], tf.Tensor]
    names: tuple[str, ...]
    perplexities: Mapping[str, str] = types.MappingProxyType({})


def example_weights(batch: Batch, labels: str) -> tf.Tensor:
    """Return float32 [B]: 1 for examples, 0 for rows that fill a batch.

    Args:
        batch: may have `example_weights`, else they are ones.
        labels: name of a feature [B, ...].
    """
    ones = tf.ones(tf.shape(batch[labels])[:1], tf.float32)
    return batch.get("example_weights", ones)
