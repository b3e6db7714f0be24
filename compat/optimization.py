"""The original's optimization.py, for graphs of `tf.compat.v1`."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from base.errors import UserError

import tensorflow as tf

import optimization

v1 = tf.compat.v1


def create_optimizer(
    loss: tf.Tensor,
    init_lr: float,
    num_train_steps: int,
    num_warmup_steps: int | None,
    use_tpu: bool,
) -> tf.Operation:
    """Return the operation of a training step on all trainable variables.

    Schedule, clipping and update are those of optimization.py. As in
    run_pretraining.py, update n, from 0, has the rate of step n + 1: see
    optimization.create_schedule.

    Raises:
        UserError: for a TPU, which a graph of `tf.compat.v1` cannot use.
    """
    if use_tpu:
        raise UserError(
            "create_optimizer(use_tpu=True): tf.contrib's optimizer for TPUs "
            "is gone; the scripts train on TPUs (docs/devices.md)"
        )
    step = v1.train.get_or_create_global_step()
    schedule = optimization.create_schedule(
        init_lr, num_train_steps, num_warmup_steps
    )
    optimizer = AdamWeightDecayOptimizer(
        schedule(step.value() + 1),
        weight_decay_rate=0.01,
        exclude_from_weight_decay=["LayerNorm", "layer_norm", "bias"],
    )
    variables = v1.trainable_variables()
    gradients = v1.gradients(loss, variables)
    trained = [
        v for v, g in zip(variables, gradients, strict=True) if g is not None
    ]
    dense = [tf.convert_to_tensor(g) for g in gradients if g is not None]
    clipped, _ = optimization.clip_by_global_norm(dense)
    update = optimizer.apply_gradients(zip(clipped, trained, strict=True), step)
    # The step is read before it is counted up: the update needs its value.
    with tf.control_dependencies([update]):
        return tf.group(step.assign_add(1))


class AdamWeightDecayOptimizer(v1.train.Optimizer):
    """optimization.AdamWeightDecay as an optimizer of TensorFlow 1.

    Slots are variables <name>/adam_m and <name>/adam_v. As in the original,
    apply_gradients does not count global_step up; create_optimizer does.
    """

    def __init__(
        self,
        learning_rate: tf.Tensor | float,
        weight_decay_rate: float = 0.0,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        exclude_from_weight_decay: Sequence[str] | None = None,
        name: str = "AdamWeightDecayOptimizer",
    ):
        super().__init__(False, name)
        self.learning_rate = learning_rate
        self._adam = optimization.AdamWeightDecay(
            weight_decay_rate,
            beta_1,
            beta_2,
            epsilon,
            exclude_from_weight_decay or (),
        )

    def apply_gradients(
        self,
        grads_and_vars: Iterable[tuple[Any, Any]],
        global_step: Any = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Return the operation that updates variables and slots."""
        del global_step
        targets, values = [], []
        for gradient, variable in grads_and_vars:
            if gradient is None:
                continue
            path = re.sub(r":\d+$", "", variable.name)
            slots = [
                v1.get_variable(
                    f"{path}/{slot}",
                    variable.shape,
                    tf.float32,
                    tf.zeros_initializer(),
                    trainable=False,
                )
                for slot in self._adam.slot_names
            ]
            targets += [*slots, variable]
            values += self._adam.next_values(
                path,
                variable.value(),
                tf.convert_to_tensor(gradient),
                [slot.value() for slot in slots],
                self.learning_rate,
                0,  # the number of the update, for the bias correction
            )
        # All are read before the first one is assigned to.
        with tf.control_dependencies(values):
            assigned = [
                target.assign(value)
                for target, value in zip(targets, values, strict=True)
            ]
        return tf.group(*assigned, name=name)
