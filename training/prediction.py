"""Outputs of a model for every record, in the order of the records."""

from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import tensorflow as tf
import tqdm

from base import cluster
from training import compilation

Batch = dict[str, np.ndarray]

# The numbers of the records of a batch, and what belongs to them.
Numbered = tuple[np.ndarray, Batch]


class Records(Protocol):
    """What can be predicted; length_buckets.ShortRecords is one."""

    num_records: int

    def prediction(self, batch_size: int, is_fine: bool) -> Iterator[Numbered]:
        """Yield batches; rows beyond the record numbers only fill them."""


class Predictor:
    """Runs a forward pass over records, batched by length.

    Args:
        strategy: where the model's variables were made.
        forward: batch -> {name: tensor [B, ...]}.
        jit_compile: compile with XLA where that pays: not on a CPU, where a
            program per length takes longer to compile than it saves.
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
            return strategy.run(lambda part: compiled(part), args=(batch,))

        self._step = step

    def __call__(
        self, data: Records, batch_size: int, what: str = ""
    ) -> dict[str, np.ndarray]:
        """Return {name: [n, ...]} for the n records of `data`.

        Outputs of every token are as long as the longest batch was, with
        zeros behind what a record's own batch had.
        """
        results: dict[str, np.ndarray] = {}
        bar = tqdm.tqdm(
            total=data.num_records,
            unit=" records",
            desc=what or None,
            mininterval=1.0,
            disable=None,  # only where somebody looks
        )
        with bar:
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
        """Yield (record numbers, {name: [those, ...]}) batch by batch.

        For outputs as long as their batch is, or too many to keep.
        """
        for rows, batch in data.prediction(batch_size, self.is_fine):
            outputs = self._outputs(batch)
            yield rows, {n: value[: len(rows)] for n, value in outputs.items()}

    def _outputs(self, batch: Batch) -> Batch:
        """Run one batch, a part of it on each device of this machine.

        Several machines predict everything each: all need the scores, and
        nothing has to travel.
        """
        batch_size = len(next(iter(batch.values())))
        replicas = self.strategy.num_replicas_in_sync
        pieces = replicas // cluster.num_workers()
        size = -(-batch_size // pieces)
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
