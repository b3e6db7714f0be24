"""Run a model over records; return its outputs in the order of the records.

Records of similar length share a batch, so batches come in another order than
the records; each carries the numbers of its records.
"""

from collections.abc import Callable, Iterator
from typing import Protocol

from base import cluster, progress
from base.errors import UserError

import numpy as np
import tensorflow as tf

from training import compilation

Batch = dict[str, np.ndarray]

# Record numbers [n], and a batch or outputs whose first n rows are theirs.
Numbered = tuple[np.ndarray, Batch]


class Records(Protocol):
    """Records to predict, such as in_memory.ShortRecords."""

    num_records: int

    def prediction(self, batch_size: int, is_fine: bool) -> Iterator[Numbered]:
        """Yield batches of records of similar length.

        A batch may have more rows than it has records, to keep its shape; the
        outputs of the other rows are dropped. With `is_fine` each is padded to
        a multiple of 8 tokens; else to one of few lengths, as each is compiled.
        """


def check_finite(outputs: np.ndarray, what: str) -> None:
    """Raise a UserError if outputs for `what` are not finite."""
    if not np.isfinite(outputs).all():
        raise UserError(
            f"the model's outputs for {what} are not finite numbers: the "
            "weights are damaged, or --dtype is too narrow for them"
        )


class Predictor:
    """Runs a forward pass, batch -> {name: tensor [B, ...]}, over records.

    Batches are formed by length. `jit_compile` compiles with XLA where that is
    faster: not on a CPU, where compiling for each length takes longer than it
    saves.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        forward: Callable[[dict], dict[str, tf.Tensor]],
        jit_compile: bool = True,
    ):
        self.strategy = strategy
        compiles = compilation.compiles_prediction(strategy, jit_compile)
        self.is_fine = not compilation.prefers_few_lengths(strategy, compiles)
        compiled = compilation.compiled(forward) if compiles else forward

        # Without XLA one trace serves batches of all lengths.
        @tf.function(autograph=False, reduce_retracing=not compiles)
        def step(batch):
            # The lambda: see evaluation.Evaluator.
            return strategy.run(lambda part: compiled(part), args=(batch,))

        self._step = step

    def __call__(
        self, data: Records, batch_size: int, what: str = "Predicting"
    ) -> dict[str, np.ndarray]:
        """Return {name: [n, ...]} for the n records of `data`.

        Outputs of every token are as long as the longest batch, with zeros
        behind the length of a record's own batch. The progress bar shows
        `what`.
        """
        results: dict[str, np.ndarray] = {}
        # Records come longest first, so the first batch has the final shape.
        with progress.Bar(data.num_records, "records", what) as bar:
            for rows, outputs in self.batches(data, batch_size):
                for name, value in outputs.items():
                    if name not in results:
                        shape = [data.num_records, *value.shape[1:]]
                        results[name] = np.zeros(shape, value.dtype)
                    inner = tuple(map(slice, value.shape[1:]))
                    results[name][(rows, *inner)] = value
                bar.update(len(rows))
        return results

    def batches(self, data: Records, batch_size: int) -> Iterator[Numbered]:
        """Yield (record numbers [n], {name: [n, ...]}) batch by batch.

        For outputs that are too large to hold together.
        """
        for rows, batch in data.prediction(batch_size, self.is_fine):
            outputs = self._outputs(batch)
            yield rows, {n: value[: len(rows)] for n, value in outputs.items()}

    def _outputs(self, batch: Batch) -> Batch:
        """Run one batch, a part of it on each device of this machine.

        In a cluster every machine predicts all records: each needs all
        scores, and nothing has to be sent. A batch of 5 on 2 devices is cut
        into rows 0 1 2 and 3 4 0; the repeated row is dropped at the end.
        """
        batch_size = len(next(iter(batch.values())))
        replicas = self.strategy.num_replicas_in_sync
        # A strategy for this machine alone has fewer replicas than the cluster.
        pieces = max(1, replicas // cluster.num_workers())
        size = -(-batch_size // pieces)  # rounded up
        rows = np.resize(np.arange(batch_size), pieces * size)

        def part(context) -> dict[str, tf.Tensor]:
            first = context.replica_id_in_sync_group % pieces * size
            mine = rows[first : first + size]
            return {k: tf.constant(v[mine]) for k, v in batch.items()}

        parts = self.strategy.experimental_distribute_values_from_function(part)
        outputs = self._step(parts)
        return {
            name: np.concatenate(
                [
                    piece.numpy()
                    for piece in self.strategy.experimental_local_results(value)
                ]
            )[:batch_size]
            for name, value in outputs.items()
        }
