"""The loop of every training run: begin or resume it, train, report, save.

A run is described by a `Training`; `train` brings it to its end. A run that is
killed at any moment resumes from its last checkpoint and ends with the same
bits. What a run does besides training are hooks; see `hooks_of`.
"""

import itertools
import time
from collections.abc import Callable, Container, Iterable, Iterator
from typing import NamedTuple

from base import cluster, logs, progress

import tensorflow as tf

from checkpoints.run_folder import Identity, RunFolder
from checkpoints.training_state import TrainingState
from training import agreement, memory, start
from training.hooks.hook import Call, Hook
from training.hooks.report import Report
from training.hooks.save import Evaluate, FiniteCheck, Keep, Pace, Save
from training.stop_request import StopRequest
from training.task_model import RowCost
from training.train_step import Step

# `seconds_per_step` times steps for so many seconds, at least so many steps.
_TIMED_SECONDS = 10.0
_MIN_TIMED_STEPS = 5


class Training(NamedTuple):
    """A training run.

    Attributes:
        step: with the model whose variables are set and trained, the settings
            and the strategy.
        make_batches: (number of the first example, input context) -> dataset
            of the run's batches from that example on.
        length: number of a step -> length of the sequences of its batch.
        folder: what output_dir held when the command began.
        identity: is written when the first step is due.
        evaluate: called with the steps done every `eval_steps`; returns
            whether training should end early.
        keep: called with the steps done at each of `keep_steps`.
        row_cost: what a row of a batch costs, for the estimate of the memory.
    """

    step: Step
    make_batches: Callable[[int, tf.distribute.InputContext], tf.data.Dataset]
    length: Callable[[int], int]
    folder: RunFolder
    identity: Identity
    evaluate: Callable[[int], bool | None] = lambda done: None
    keep: Callable[[int], None] = lambda done: None
    row_cost: RowCost = RowCost()


def train(run: Training) -> int:
    """Train a model to the end of its run; return the number of steps done.

    A signal, or `evaluate`, may end the training before the last step. A run
    that output_dir holds is resumed. Otherwise a run begins from `resume_from`,
    from `init_checkpoint` or from new weights. With an ema_decay, `evaluate`
    finds the averages of the weights in the model, and so does the caller
    after the last step of the run.

    Raises:
        UserError: no step is left of a run that had other settings.
    """
    step, settings = run.step, run.step.settings
    last = settings.last_step
    state = TrainingState(
        run.folder,
        step.model.variables,
        step.optimizer.slots,
        settings.keep_checkpoint_max,
        step.loss_scale and step.loss_scale.variables,
        settings.cooldown_start,
    )
    first = done = start.resume_or_start(
        run.folder, state, step.model, settings
    )
    agreement.check_same_start(step.strategy, settings, first, state)
    if first >= last:
        run.folder.check_finished(run.identity)
        logs.say(
            "%s holds a finished run of %d steps: nothing to train",
            settings.output_dir,
            first,
        )
        step.use_averages(first)
        return first
    state.check_space(
        -(-(last - first) // settings.save_checkpoints_steps),
        1 + sum(kept > first for kept in settings.keep_steps),
        settings.save_checkpoints_minutes > 0,
    )
    memory.log_estimate(step, run.length, first, run.row_cost)
    if cluster.is_chief():
        run.folder.warn_of_changes(run.identity)
        run.folder.write_settings(run.identity)
    compiled: set[int | None] = set()  # lengths, or None for all of them
    bar = progress.Bar(last, "steps", "Training", first=first, has_lines=False)
    with bar, StopRequest() as stop:
        hooks = hooks_of(run, state, first, bar, stop)
        iterator = _iterator(run, first, hooks)
        # Lists, not generators, here and below: every hook has its turn.
        ends = any([hook.begin(first) for hook in hooks])
        while done < last and not ends and not stop.is_requested:
            length, stop_at = _next_call(run, done, hooks, compiled)
            compiles = length not in compiled
            compiled.add(length)
            began = time.monotonic()
            # Start and count are tensors: for each Python number, such as the
            # length, a graph is traced and compiled.
            with bar.doing("compiling" if compiles else ""):
                steps, sums = step.repeat(
                    iterator,
                    tf.constant(done, tf.int64),
                    tf.constant(stop_at - done, tf.int64),
                    length if step.compilation.per_length else None,
                )
                steps = int(steps)  # waits
            stop.is_unneeded = False
            done += steps
            seconds = time.monotonic() - began
            call = Call(done, steps, sums, seconds, compiles)
            bar.update(steps)
            ends = any([hook.after(call) for hook in hooks])
        for hook in hooks:
            hook.close(done)
        stop.log(done)
    if done == last:
        stop.end_process()
        step.use_averages(done)
    agreement.wait_for_all(step.strategy)  # until the chief has written all
    return done


def _iterator(
    run: Training, first: int, hooks: tuple[Hook, ...] = ()
) -> Iterator:
    """Return the batches after the first steps, for the whole run.

    It continues where the last call stopped.
    """
    step = run.step

    def make_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        example = first * step.settings.train_batch_size
        batches = run.make_batches(example, context)
        for hook in hooks:
            batches = hook.watch(batches, context)
        return batches

    return iter(step.strategy.distribute_datasets_from_function(make_batches))


def _next_call(
    run: Training,
    done: int,
    hooks: Iterable[Hook],
    compiled: Container[int | None],
) -> tuple[int | None, int]:
    """Return the length of the next call, and the step at which it ends.

    The length is None if XLA compiles nothing for each. The call ends at a
    hook's stop or earlier. One whose length is not `compiled` yet is of one
    step, as it tells nothing of the speed.
    """
    stop_at = min(hook.next_stop(done) for hook in hooks)
    compilation = run.step.compilation
    lengths = map(run.length, itertools.count(done))
    if not (compilation.per_length or compilation.elementwise):
        lengths = itertools.repeat(None)
    length = next(lengths)
    if length not in compiled:
        return length, done + 1
    for number in range(done + 1, stop_at):
        other = next(lengths)
        other_graph = compilation.per_length and other != length
        if other_graph or other not in compiled:
            return length, number
    return length, stop_at


def hooks_of(
    run: Training,
    state: TrainingState,
    first: int,
    bar: progress.Bar,
    stop: StopRequest,
) -> tuple[Hook, ...]:
    """Return what the settings of a run ask for, in the order it is done.

    The bits depend on the order: what is not finite is not saved. What belongs
    to a checkpoint is written before it, and again after a kill between the
    two. What is evaluated is saved, so that a kill leaves the evaluation to the
    command that resumes.
    """
    step, settings = run.step, run.step.settings
    machines = agreement.machines_of(step.strategy)
    pace = Pace(settings, machines, stop, run.length)

    ledger: tuple[Hook, ...] = ()
    if settings.ledger:
        from training.hooks.ledger import Ledger

        ledger = (Ledger(state, pace, settings.ledger),)
    return (
        FiniteCheck(step),
        pace,
        Report(pace, step, bar),
        *ledger,
        Keep(settings.keep_steps, run.keep),
        Save(state, pace, first),
        Evaluate(run.evaluate, step, stop),
        *((step.loss_scale,) if step.loss_scale else ()),
    )


def seconds_per_step(run: Training) -> float:
    """Time steps of a run of one step without warm-up on its first batches.

    The model stays as it is: after the last step the rate is 0. Of several
    machines it is the time of the slowest.
    """
    step = run.step
    memory.log_estimate(step, run.length, 0, run.row_cost)
    iterator = _iterator(run, 0)
    machines = agreement.machines_of(step.strategy)

    def seconds_of(count: int) -> float:
        began = time.monotonic()
        first, count = tf.constant(1, tf.int64), tf.constant(count, tf.int64)
        int(step.repeat(iterator, first, count)[0])  # waits
        microseconds = round((time.monotonic() - began) * 1e6)
        return machines.gather([microseconds]).max() / 1e6

    with progress.clock("Timing steps") as bar:
        with bar.doing("compiling"):
            seconds_of(1)
        count = max(_MIN_TIMED_STEPS, round(_TIMED_SECONDS / seconds_of(1)))
        with bar.doing(f"about {_TIMED_SECONDS:.0f} s"):
            return seconds_of(count) / count
