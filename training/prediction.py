"""Models on devices as functions of arrays, which tasks/predict.py runs."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from base import cluster

import numpy as np
import tensorflow as tf

from ops import elementwise
from training import compilation


@dataclasses.dataclass(eq=False)
class OnDevices:
    """A function of arrays made of one of tensors, {name: [B, ...]} each.

    Attributes:
        step: batch -> outputs; on several devices, the outputs of each part.
        strategy: the devices; by default one.
        few_shapes: see tasks.task.Model.
        any_shape: whether `step`, a tf.function, is to be traced once, for
            batches of all shapes [B, S, ...].
    """

    step: Callable[[dict], Mapping[str, Any]]
    strategy: tf.distribute.Strategy = dataclasses.field(
        default_factory=tf.distribute.get_strategy
    )
    few_shapes: bool = False
    any_shape: bool = False

    def __call__(
        self, features: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Run one batch, a part of it on each device of this machine.

        In a cluster every machine predicts all rows: each needs all scores,
        and nothing has to be sent. A batch of 5 on 2 devices is cut into rows
        0 1 2 and 3 4 0; the repeated row is dropped at the end.
        """
        batch_size = len(next(iter(features.values())))
        replicas = self.strategy.num_replicas_in_sync
        # A strategy for this machine alone has fewer replicas than the cluster.
        pieces = max(1, replicas // cluster.num_workers())
        size = -(-batch_size // pieces)  # rounded up
        rows = np.resize(np.arange(batch_size), pieces * size)

        def part(context) -> dict[str, tf.Tensor]:
            first = context.replica_id_in_sync_group % pieces * size
            mine = rows[first : first + size]
            return {k: tf.constant(v[mine]) for k, v in features.items()}

        parts = self.strategy.experimental_distribute_values_from_function(part)
        step = self.step
        if self.any_shape:
            specs = {
                name: tf.TensorSpec(
                    [None, None, *value.shape[2:]][: value.shape.rank],
                    value.dtype,
                )
                for name, value in parts.items()
            }
            step = step.get_concrete_function(specs)
        outputs = step(parts)
        return {
            name: np.concatenate(
                [
                    piece.numpy()
                    for piece in self.strategy.experimental_local_results(value)
                ]
            )[:batch_size]
            for name, value in outputs.items()
        }


def on_devices(
    strategy: tf.distribute.Strategy,
    forward: Callable[[dict], dict[str, tf.Tensor]],
    jit_compile: bool = True,
) -> OnDevices:
    """Return a forward pass, batch -> {name: tensor [B, ...]}, on devices.

    `jit_compile` compiles with XLA where that is faster: not on a CPU, where
    compiling for each length takes longer than it saves.
    """
    compiles = compilation.for_prediction(strategy, jit_compile)
    few_shapes = compiles.per_length
    if compiles.step:
        program = elementwise.compiled(forward)

        def forward(part):  # see evaluation.Evaluator
            return program(part)

    @tf.function(autograph=False, reduce_retracing=not few_shapes)
    def step(batch):
        return strategy.run(forward, args=(batch,))

    is_one = not few_shapes and strategy.num_replicas_in_sync == 1
    return OnDevices(step, strategy, few_shapes, any_shape=is_one)
