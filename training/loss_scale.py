"""Scale the loss in float16 training, so that small gradients are not lost.

float16 holds numbers from 0.00000006 to 65,504. Many gradients of activations
are smaller, and would be 0. So the loss is multiplied by a scale before the
backward pass, and the gradients of the weights, in float32, are divided by it
(Micikevicius et al., arXiv:1710.03740, section 3.2). The largest scale that
does not overflow is found by trying: a step whose gradient is not finite
changes no weight and lowers the scale, a row of good steps raises it.

With an initial scale of 8, and growth after 2 good steps:

    gradient of the step   inf   ok   ok   ok   inf   ok
    scale of the step        8    4    4    8    8     4
    good steps before it     0    0    1    0    1     0

A skipped step counts as a step: the next one has the next batch, learning rate
and dropout. So a run is a function of its state, and a resumed one ends with
the same bits.
"""

from typing import NamedTuple

import tensorflow as tf
from absl import logging

from training.hooks.hook import Hook

INITIAL = 65536.0  # the scale of the first step
GROWTH_STEPS = 2000  # good steps in a row after which it grows
_GROWTH, _BACKOFF = 2.0, 0.5  # the factors by which it grows and shrinks

# With a smaller scale gradients are smaller than without one. What overflows
# then is the model, or the learning rate is too high.
_SMALLEST = 1.0


class Scale(NamedTuple):
    """The state of a loss scale, three scalars."""

    value: tf.Tensor | float  # float32
    good_steps: tf.Tensor | int  # int64, in a row since the scale changed
    skipped_steps: tf.Tensor | int  # int64, of the whole run


class LossScale(Hook):
    """The loss scale of a run, and when it grows and shrinks.

    It is doubled after many good steps in a row, and halved after a gradient
    that is not finite. `variables` are the state, {field of Scale: variable}.
    """

    def __init__(self) -> None:
        # The same on all devices and machines, so no variables of a strategy.
        with tf.device("CPU:0"):
            self.variables = {
                "value": tf.Variable(INITIAL, trainable=False),
                "good_steps": tf.Variable(0, False, dtype=tf.int64),
                "skipped_steps": tf.Variable(0, False, dtype=tf.int64),
            }

    def read(self) -> Scale:
        """Return the state."""
        return Scale(*map(tf.convert_to_tensor, self.variables.values()))

    def assign(self, scale: Scale) -> None:
        """Set the state."""
        for name, value in scale._asdict().items():
            self.variables[name].assign(value)

    def next_scale(self, scale: Scale, is_good: tf.Tensor) -> Scale:
        """Return the state after a step; `is_good`: its gradient was finite."""
        one, zero = tf.ones([], tf.int64), tf.zeros([], tf.int64)
        good_steps = tf.where(is_good, scale.good_steps + one, zero)
        is_grown = good_steps >= GROWTH_STEPS
        larger = scale.value * _GROWTH
        # Where no gradient ever overflows, the scale itself must not.
        larger = tf.where(tf.math.is_finite(larger), larger, scale.value)
        value = tf.where(is_grown, larger, scale.value)
        return Scale(
            tf.where(is_good, value, scale.value * _BACKOFF),
            tf.where(is_grown, zero, good_steps),
            scale.skipped_steps + tf.where(is_good, zero, one),
        )

    def is_usable(self, scale: Scale) -> tf.Tensor:
        """Return whether training can use the scale, a bool scalar."""
        return scale.value >= _SMALLEST

    def means(self) -> dict[str, float]:
        """Return what is reported along with the means of a report line."""
        scale = self.read()
        return {
            "loss_scale": float(scale.value),
            "skipped_steps": int(scale.skipped_steps),
        }

    def close(self, done: int) -> None:
        """Log how many of the `done` steps of the run were skipped."""
        scale = self.read()
        logging.info(
            "float16: %s of %s steps skipped, as their gradients overflowed; "
            "the loss scale is %s",
            f"{int(scale.skipped_steps):,}",
            f"{done:,}",
            f"{float(scale.value):,.10g}",
        )
