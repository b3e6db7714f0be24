"""A command as a plan, and the one way in which plans are carried out.

A plan is made whole before anything is written: from the flags, and from what
output_dir holds. What is wrong is found there. It does not change afterwards.
"""

import abc
import dataclasses

from base import file_system, logs

import tensorflow as tf

from checkpoints.run_folder import Identity, RunFolder
from training import agreement, loop


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A command that trains a model, or uses one.

    Attributes:
        folder: what output_dir holds.
        strategy: the devices.
        identity: of the run that begins or goes on; None: nothing is trained.
    """

    folder: RunFolder
    strategy: tf.distribute.Strategy
    identity: Identity | None


class Run(abc.ABC):
    """A plan with its model in memory, and what it learns.

    Making one writes nothing.
    """

    plan: Plan

    @abc.abstractmethod
    def training(self) -> loop.Training | None:
        """Return what is to be trained; None: it has ended early before."""

    @abc.abstractmethod
    def finish(self, done: int, is_last: bool) -> bool:
        """Keep the weights after so many steps; return whether it is over.

        The last one is missing after a signal or an early stop. A finished run
        may have more steps than this command asks for.
        """

    @abc.abstractmethod
    def use(self) -> None:
        """Score, predict, draw and export the weights that are kept."""


def carry_out(run: Run) -> int:
    """Train, score, predict and export as planned; return the exit status.

    It is 1 after a training that was told to stop; the same command then goes
    on with it.
    """
    plan = run.plan
    file_system.make_directory(plan.folder.path)
    if plan.identity:
        plan.folder.claim(plan.identity)
    logs.write_to(plan.folder.path)
    if plan.identity and (training := run.training()):
        done = loop.train(training)
        if not run.finish(done, done >= training.step.settings.last_step):
            return 1
        del training  # has the moments, which are as large as two models
        agreement.wait_for_all(plan.strategy)  # for the weights to keep
    run.use()
    return 0
