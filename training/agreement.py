"""Compare settings and weights of the machines of a cluster; agree on stops.

All machines make the same calls, since each sum over machines waits for all
of them. So whatever decides on the next call has to be the same everywhere:
the flags, the step from which a run resumes, how many steps go into a call,
whether to stop. Clocks and signals differ between machines; `Machines.gather`
gives every machine the numbers of all.
"""

import dataclasses
import functools
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from base import cluster
from base.errors import UserError

import numpy as np
import tensorflow as tf

from checkpoints.training_state import TrainingState
from training.settings import TrainingSettings

# Numbers sent for each machine. One width, so that one graph is traced.
_WIDTH = 64


@functools.cache
def machines_of(strategy: tf.distribute.Strategy) -> "Machines":
    """Return the machines of a strategy, one without TF_CONFIG."""
    return Machines(strategy)


class Machines:
    """Sends numbers between the machines of a strategy; see `machines_of`.

    Attributes:
        count: how many they are; `number`: which one this is.
        done: steps that are done, which the line about a failure tells; None
            before training.
        output_dir: where the chief saves checkpoints.
        is_saving: whether one is being written, which the process lets end.
    """

    def __init__(self, strategy: tf.distribute.Strategy):
        self.strategy = strategy
        self.count = cluster.num_workers()
        self.number = cluster.number()
        self.done: int | None = None
        self.output_dir: str | None = None
        self.is_saving = False

    def gather(self, row: Sequence[int]) -> np.ndarray:
        """Return the rows of all machines, the chief's first: [count, n].

        Every machine has to call this, with the same number n of integers below
        2**63, 64 at most.
        """
        if self.count == 1:
            return np.array([row], np.int64)
        # Strategies have sums only. So each machine fills in its own row, and
        # leaves 0 in the others.
        values = np.zeros([self.count, _WIDTH], np.int64)
        values[self.number, : len(row)] = row
        sums = self._total(tf.constant(values))
        rows = self.strategy.experimental_local_results(sums)[0].numpy()
        return rows[:, : len(row)]

    @functools.partial(tf.function, autograph=False)
    def _total(self, values: tf.Tensor) -> Any:
        def on_replica() -> tf.Tensor:
            replica = tf.distribute.get_replica_context()
            # The devices of a machine have the same rows; one of them counts.
            local = self.strategy.num_replicas_in_sync // self.count
            is_first = replica.replica_id_in_sync_group % local == 0
            mine = tf.where(is_first, values, tf.zeros_like(values))
            return replica.all_reduce(tf.distribute.ReduceOp.SUM, mine)

        return self.strategy.run(on_replica)

    def first_to_differ(self, row: Sequence[int]) -> tuple[int, int] | None:
        """Return (machine, position) of a number that is not the chief's.

        None where all rows are the same. Every machine gets the same answer.
        """
        rows = self.gather(row)
        places = np.argwhere(rows != rows[0])
        return tuple(map(int, places[0])) if len(places) else None


def wait_for_all(strategy: tf.distribute.Strategy) -> None:
    """Return when every machine has called this.

    After that all machines can read what the chief wrote before.
    """
    machines_of(strategy).gather([0])


def checksum(value: object) -> int:
    """Return a checksum of a JSON value, the same on all machines."""
    return zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode())


def check_same_run(
    strategy: tf.distribute.Strategy, values: Mapping[str, object]
) -> None:
    """Raise a UserError if machines train different runs.

    `values` describe a run as {name: JSON value}. With another learning rate on
    one machine, for example, weights would drift apart silently.
    """
    machines = machines_of(strategy)
    if machines.count == 1:
        return
    names = sorted(values)
    parts = [names, *(values[name] for name in names)]
    if place := machines.first_to_differ([*map(checksum, parts)]):
        number, position = place
        if position == 0:
            raise UserError(
                f"{_name(number)} trains another kind of run than {_name(0)}: "
                "start the same command on all machines, with the same version "
                "of the program"
            )
        raise UserError(
            f"{_name(number)} has another {names[position - 1]} than "
            f"{_name(0)} (here: {str(parts[position])[:80]}): start the same "
            "command on all machines"
        )


def check_same_start(
    strategy: tf.distribute.Strategy,
    settings: TrainingSettings,
    first: int,
    state: TrainingState,
) -> None:
    """Raise a UserError if machines begin with other settings or weights.

    `first` is the number of steps done, and `state` what was read.
    """
    machines = machines_of(strategy)
    if machines.count == 1:
        return
    values = dataclasses.asdict(settings)
    # The same files may have other paths on another machine.
    for name in ("output_dir", "init_checkpoint", "resume_from"):
        del values[name]
    check_same_run(strategy, values)
    rows = machines.gather([first, state.checksum()])
    for number, (steps, weights) in enumerate(rows):
        if steps != rows[0][0]:
            raise UserError(
                f"{_name(number)} would resume after step {steps:,}, "
                f"{_name(0)} after step {rows[0][0]:,}: --output_dir (here: "
                f"{settings.output_dir}) has to be a directory all machines "
                "share; if it is, start all machines again"
            )
        if weights != rows[0][1]:
            raise UserError(
                f"{_name(number)} and {_name(0)} have different weights at "
                f"step {steps:,}: they read different files; --output_dir, "
                "--init_checkpoint and --resume_from have to name the same "
                "files on all machines"
            )
    machines.done, machines.output_dir = first, settings.output_dir


def _name(number: int) -> str:
    return str(cluster.machines()[number])
