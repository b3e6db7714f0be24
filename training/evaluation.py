"""Evaluate an objective on held-out batches."""

import functools
from collections.abc import Callable

from base import machine, progress

import tensorflow as tf

from ops import elementwise
from records.streaming import Batch
from training import compilation
from training.objective import Objective, Sums
from training.reporting import Means, to_means
from training.task_model import TaskModel


class Evaluator:
    """Computes the mean losses and metrics of held-out batches.

    `make_batches` returns the dataset of all batches, once, for an input
    context. There is a batch at least.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: TaskModel,
        objective: Objective,
        make_batches: Callable[[tf.distribute.InputContext], tf.data.Dataset],
        jit_compile: bool,
    ):
        self.strategy = strategy
        self.make_batches = make_batches
        self.objective = objective

        def forward(batch: Batch) -> Sums:
            _check_fits(model, batch["input_ids"].shape)
            return objective.forward(model, batch, None)

        dtype = model.bert.embeddings.output_dtype
        if compilation.compiles_evaluation(strategy, jit_compile, dtype):
            forward = elementwise.compiled(forward)

        @functools.partial(tf.function, autograph=False)
        def evaluation_step(batch: Batch) -> Sums:
            # The lambda makes strategy.run trace `forward` on each device.
            # Given as it is, a compiled function would be traced once for
            # all of them, with the variables of one.
            sums = strategy.run(lambda part: forward(part), args=(batch,))
            return tf.nest.map_structure(
                lambda value: strategy.reduce(
                    tf.distribute.ReduceOp.SUM, value, axis=None
                ),
                sums,
            )

        self._step = evaluation_step

    def __call__(self) -> Means:
        """Return the mean of every loss and metric, and perplexities."""
        totals = {name: [0.0, 0.0] for name in self.objective.names}
        batches = self.strategy.distribute_datasets_from_function(
            self.make_batches
        )
        with progress.Bar(None, "batches", "Evaluating") as bar:
            for batch in batches:
                for name, pair in self._step(batch).items():
                    totals[name][0] += float(pair[0])
                    totals[name][1] += float(pair[1])
                bar.update(1)
        losses = {name: pair[0] for name, pair in totals.items()}
        weights = {name: pair[1] for name, pair in totals.items()}
        means = to_means(totals, self.objective.perplexities)
        means["loss"] = float(self.objective.total_loss(losses, weights))
        return means


def _check_fits(model: TaskModel, shape: tf.TensorShape) -> None:
    """Check that the memory holds what one layer has at the same time.

    That is the input and the inner activations of feed-forward, or the scores
    of attention. A GPU has memory of its own, and says by itself that it is
    full.
    """
    rows, length = shape
    kinds = {each.device_type for each in tf.config.list_logical_devices()}
    if None in (rows, length) or kinds != {"CPU"}:
        return
    config, dtype = model.config, model.bert.embeddings.output_dtype
    of_token = max(
        config.hidden_size + config.intermediate_size,
        config.num_attention_heads * length,
    )
    machine.check_fits(
        tf.as_dtype(dtype).size * rows * length * of_token,
        f"a batch of {rows} sequences of {length} tokens",
        "use smaller batches or shorter sequences",
    )
