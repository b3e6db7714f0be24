"""Decide what XLA compiles: a whole step, its elementwise parts, or nothing.

Every such decision of the project is made here. What is best differs:

    GPU  the whole step. With several GPUs the forward and backward pass; the
         sum over the devices stays outside.
    CPU  the elementwise operations alone (ops/elementwise.py) and, on one
         device, the optimizer's update. XLA's own matrix products are slower
         on an x86 CPU than TensorFlow's, by oneDNN. A run of many lengths
         and fewer than 2,000 steps is traced once, with the length unknown,
         and compiles the elementwise operations where that saves more time
         than it takes.
    TPU  nothing here: strategy.run compiles everything it is given.

XLA compiles every shape separately, so batches of many lengths are many
programs. The update has one shape whatever the length.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from training import devices
from training.settings import TrainingSettings

# On 2 cores a CPU takes about 40 s to trace and compile all lengths of a
# fine-tuning run one by one. From so many steps on that pays on a CPU.
_STEPS_THAT_PAY = 2000

# To compile the elementwise operations for one more length, without tracing
# anew, takes so many seconds, whatever the size of the model.
_SECONDS_PER_LENGTH = 1.0

# Compiled, the operations save so many seconds per step for each number in the
# hidden vectors of all layers. Both constants were measured on 2 cores of an
# AMD EPYC, with 6 layers of 384 and 32 rows of 8 to 48 tokens; on another CPU
# both change alike.
_SECONDS_SAVED = {"float32": 1.1e-8, "bfloat16": 2.5e-8, "float16": 1.1e-8}


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
    settings: TrainingSettings,
    length: Callable[[int], int] | None = None,
    numbers_per_token: int = 0,
) -> Compilation:
    """Return which parts of a training step XLA compiles.

    The same run gives the same answer when it is resumed: nothing is timed.

    Args:
        strategy: the devices.
        settings: of the run.
        length: number of a step -> padded length of its batch, where batches
            are padded to a multiple of 8; None: all have the same length.
        numbers_per_token: rows of a batch, times layers, times hidden_size:
            the numbers that one more token in each row adds to the hidden
            vectors of a step.
    """
    several = length is not None
    if devices.is_tpu(strategy):
        # strategy.run compiles with or without the flag, one program per
        # shape, hence per_length.
        return Compilation(per_length=several)
    if not settings.jit_compile:
        return Compilation()
    if devices.kind() != "CPU":
        return Compilation(step=True, per_length=several)
    one_device = strategy.num_replicas_in_sync == 1
    # On a CPU only parts are compiled: see the table above. With one length
    # there is one program of each part, which pays in any run.
    if several and settings.num_train_steps < _STEPS_THAT_PAY:
        # Not per_length: one trace serves all lengths, so batches can be padded
        # to any multiple of 8.
        lengths = list(map(length, range(settings.num_train_steps)))
        costs = len(set(lengths)) * _SECONDS_PER_LENGTH
        saves = sum(lengths) * numbers_per_token
        saves *= _SECONDS_SAVED[settings.dtype]
        return Compilation(elementwise=saves > costs, update=one_device)
    return Compilation(elementwise=True, update=one_device, per_length=several)


def compiles_evaluation(
    strategy: tf.distribute.Strategy, jit_compile: bool, dtype: str = "float32"
) -> bool:
    """Whether to compile the forward pass of an evaluation on one length.

    Also on a CPU, since evaluation has no backward pass and one shape only;
    but not in a 16-bit type, whose products XLA does not give to oneDNN: in
    bfloat16 they then take twice as long or more.
    """
    if devices.kind() == "CPU" and dtype != "float32":
        return False
    return jit_compile and not devices.is_tpu(strategy)


def for_prediction(
    strategy: tf.distribute.Strategy, jit_compile: bool
) -> Compilation:
    """Return what XLA compiles of predictions, whose batches differ in length.

    Nothing on a CPU, where a program for each length takes longer to compile
    than it saves. `step` is the forward pass.
    """
    is_tpu = devices.is_tpu(strategy)
    step = jit_compile and not is_tpu and devices.kind() != "CPU"
    return Compilation(step=step, per_length=step or is_tpu)
