"""What a hook of the training loop is, and what it gets."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf


class Call(NamedTuple):
    """A call of the step, which has ended.

    Attributes:
        done: steps of the run that are done after it.
        steps: how many of them it did.
        sums: {name: (sum, count)} over its steps; the count of `tokens` are
            the sequences.
        seconds: how long it took.
        compiles: whether it compiled, so that its time tells nothing of others.
    """

    done: int
    steps: int
    sums: Mapping[str, Any]
    seconds: float
    compiles: bool


class Hook:
    """Base class of what the loop does between the calls of the step.

    Attributes:
        every: a call ends at every multiple of these steps; 0: at none.
    """

    every: tuple[int, ...] = ()

    def watch(
        self, batches: tf.data.Dataset, context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """Return the batches of the run, as they are to be read."""
        return batches

    def begin(self, first: int) -> bool | None:
        """Do what is due before the first call; True ends the training.

        `first` steps were done before this process began.
        """

    def next_stop(self, done: int) -> float:
        """Return the step after which the call after `done` has to end."""
        stops = (done - done % n + n for n in self.every if n)
        return min(stops, default=math.inf)

    def after(self, call: Call) -> bool | None:
        """Do what is due after a call; True ends the training."""

    def close(self, done: int) -> None:
        """Do what is due at the end, unless that is an error."""


def is_due(done: int, every: int, last: int) -> bool:
    """Whether something is due that is done every few steps and at the end."""
    return every > 0 and (done % every == 0 or done == last)
