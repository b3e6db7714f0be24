"""What to minimize: the losses of a task as functions of model and batch."""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from records.streaming import Batch

# name -> (sum, count), both float32 scalars: means are formed once, on the
# host, from sums over all steps, replicas and micro-batches.
Sums = dict[str, tuple[tf.Tensor, tf.Tensor]]


class Objective(NamedTuple):
    """What a task is to the loop: pure functions of model and batch.

    Attributes:
        loss_weights: batch -> {loss name: weight}, the loss's denominator in
            this batch. It depends on labels alone, so that the weights of the
            global batch are known before the first gradient.
        forward: (model, batch, training, dropout_seed) -> Sums; holds every
            loss (sum over examples, not mean), every metric, and
            `tokens`: (real tokens, examples).
        total_loss: ({loss name: sum}, {loss name: weight}) -> scalar, the
            loss to minimize.
        names: the names `forward` returns.
    """

    loss_weights: Callable[[Batch], dict[str, tf.Tensor]]
    forward: Callable[..., Sums]
    total_loss: Callable[[dict, dict], tf.Tensor]
    names: tuple[str, ...]


def example_weights(batch: Batch, labels: str) -> tf.Tensor:
    """1 for real examples, 0 for those that fill an evaluation batch. [B]"""
    ones = tf.ones(tf.shape(batch[labels]), tf.float32)
    return batch.get("example_weights", ones)
