"""Decide what XLA compiles: a whole step, its elementwise parts, or nothing.

Every such decision of the project is made here. What is best differs:

    GPU  the whole step. With several GPUs the forward and backward pass; the
         sum over the devices stays outside.
    CPU  the elementwise operations alone (ops/elementwise.py) and, on one
         device, the optimizer's update. XLA's own matrix products are slower
         on a CPU than TensorFlow's, which use oneDNN. A run of many lengths
         and fewer than 2,000 steps compiles the update only.
    TPU  nothing here: strategy.run compiles everything it is given.

XLA compiles every shape separately, so batches of many lengths are many
programs. The update has one shape whatever the length.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from training import devices

# On 2 cores a CPU takes about 40 s to compile all lengths of a fine-tuning
# run, and a compiled step takes a fifth less time. That pays from here on.
_STEPS_THAT_PAY = 2000


class Compilation(NamedTuple):
    """What XLA compiles of a training run.

    Attributes:
        step: the forward and backward pass, and on one device the update,
            as one program.
        elementwise: each fused elementwise operation as a program.
        update: the optimizer's update as a program.
        per_length: every sequence length is traced and compiled separately,
            so that few lengths are better than exact ones.
    """

    step: bool = False
    elementwise: bool = False
    update: bool = False
    per_length: bool = False


def for_training(
    strategy: tf.distribute.Strategy,
    jit_compile: bool,
    num_steps: int = _STEPS_THAT_PAY,
    one_length: bool = True,
) -> Compilation:
    """Return which parts of a training step XLA compiles.

    Args:
        strategy: where the model's variables are.
        jit_compile: the flag; without it nothing is compiled.
        num_steps: the steps of the run.
        one_length: whether all batches have the same length.
    """
    several = not one_length
    if devices.is_tpu(strategy):
        # strategy.run compiles with or without the flag, one program per
        # shape, hence per_length.
        return Compilation(per_length=several)
    if not jit_compile:
        return Compilation()
    if devices.kind() != "CPU":
        return Compilation(step=True, per_length=several)
    one_device = strategy.num_replicas_in_sync == 1
    # On a CPU only parts are compiled: see the table above. With one length
    # there is one program of each part, which pays in any run.
    if several and num_steps < _STEPS_THAT_PAY:
        logging.info(
            "XLA does not compile the forward and backward pass: compiling "
            "every sequence length pays from %d steps on",
            _STEPS_THAT_PAY,
        )
        # Not per_length: one trace of the other parts serves all lengths, so
        # batches can be padded to any multiple of 8.
        return Compilation(update=one_device)
    return Compilation(elementwise=True, update=one_device, per_length=several)


def compiles_evaluation(
    strategy: tf.distribute.Strategy,
    jit_compile: bool,
    dtype: str = "float32",
) -> bool:
    """Whether to compile the forward pass of an evaluation on one length.

    Also on a CPU, since evaluation has no backward pass and one shape only;
    but not in a 16-bit type, whose products XLA does not give to oneDNN: in
    bfloat16 they then take twice as long or more.
    """
    if devices.kind() == "CPU" and dtype != "float32":
        return False
    return jit_compile and not devices.is_tpu(strategy)


def compiles_prediction(
    strategy: tf.distribute.Strategy, jit_compile: bool
) -> bool:
    """Whether to compile the forward pass of a prediction of many lengths.

    Not on a CPU, where a program for each length takes longer to compile
    than it saves.
    """
    return (
        jit_compile and not devices.is_tpu(strategy) and devices.kind() != "CPU"
    )


def prefers_few_lengths(
    strategy: tf.distribute.Strategy, is_compiled: bool
) -> bool:
    """Whether prediction should pad to few lengths: each is compiled."""
    return is_compiled or devices.is_tpu(strategy)


def compiled(function: Callable) -> Callable:
    """Return the function as one XLA program for each shape."""
    # Autograph rewrites `if` and `for` over tensors; models here have none, and
    # the rewriting doubles the time of tracing.
    return tf.function(function, jit_compile=True, autograph=False)
