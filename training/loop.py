"""The training loop: call the step, report, evaluate, save, stop."""

import functools
import math
import signal
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf
from absl import logging

from base import cluster
from base.errors import UserError
from checkpoints import training_state
from records.streaming import Batch
from training import devices, reporting, train_step
from training.objective import Objective, Sums
from training.reporting import Means, to_means
from training.settings import Settings

MAX_SECONDS_PER_CALL = 5.0  # host looks at the loop at least this often

# --- Evaluation -----------------------------------------------------------


class Evaluator:
    """Sums of `task.forward` over held-out batches, dropout off."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model,
        task: Objective,
        make_batches: Callable[[tf.distribute.InputContext], tf.data.Dataset],
        jit_compile: bool,
    ):
        self.strategy = strategy
        self.make_batches = make_batches
        self.task = task

        def forward(batch: Batch) -> Sums:
            return task.forward(model, batch, training=False, dropout_seed=None)

        if jit_compile and not devices.is_tpu(strategy):
            forward = train_step.compiled(forward)

        @functools.partial(tf.function, autograph=False)
        def evaluation_step(batch):
            # A compiled function handed over as it is would be traced once
            # for all devices, with the variables of one of them.
            sums = strategy.run(lambda part: forward(part), args=(batch,))
            return tf.nest.map_structure(
                lambda value: strategy.reduce(
                    tf.distribute.ReduceOp.SUM, value, axis=None
                ),
                sums,
            )

        self._step = evaluation_step

    def __call__(self) -> Means:
        """Evaluate all batches; return the mean of every loss and metric."""
        totals = {name: [0.0, 0.0] for name in self.task.names}
        for batch in self.strategy.distribute_datasets_from_function(
            self.make_batches
        ):
            for name, pair in self._step(batch).items():
                totals[name][0] += float(pair[0])
                totals[name][1] += float(pair[1])
        if not totals["tokens"][1]:
            raise UserError("evaluation files hold no record")
        losses = {name: pair[0] for name, pair in totals.items()}
        weights = {name: pair[1] for name, pair in totals.items()}
        means = to_means(totals)
        means["loss"] = float(self.task.total_loss(losses, weights))
        return means


# --- The loop --------------------------------------------------------------


class _StopRequest:
    """SIGTERM or Ctrl-C ends the loop after the running call, saved."""

    def __init__(self) -> None:
        self.signal = 0

    def __enter__(self) -> "_StopRequest":
        self._old = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def _note(self, number: int, frame) -> None:
        self.signal = number
        # A second signal of the kind ends the process at once.
        signal.signal(number, self._old[number])

    def __exit__(self, *exception) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


def _is_due(done: int, every: int, settings: Settings) -> bool:
    """Whether something done `every` so many steps is due now."""
    return every > 0 and (done % every == 0 or done == settings.last_step)


class Batches(NamedTuple):
    """Where a run's batches come from.

    Attributes:
        make: (number of the first example, input context) -> dataset of this
            worker.
        length: step -> length of its sequences.
        is_compiled_by_length: whether each length is traced and compiled
            apart; else one program takes them all.
    """

    make: Callable[[int, tf.distribute.InputContext], tf.data.Dataset]
    length: Callable[[int], int]
    is_compiled_by_length: bool = False


def _steps_in_next_call(
    done: int, settings: Settings, batches: Batches, meter: reporting.Meter
) -> int:
    """Steps until the host has something to do, or the length changes.

    Several machines have to make the same calls, so only one machine goes by
    the clock.
    """
    stops = [settings.iterations_per_loop, settings.last_step - done]
    for every in (
        settings.log_steps,
        settings.save_checkpoints_steps,
        settings.eval_steps,
    ):
        if every > 0:
            stops.append(every - done % every)
    if not cluster.has_other_workers():
        per_step = meter.seconds_per_step
        if math.isnan(per_step):
            return 1
        stops.append(max(1, int(MAX_SECONDS_PER_CALL / per_step)))
    count = min(stops)
    if not batches.is_compiled_by_length:
        return count
    length = batches.length(done)
    same = 1
    while same < count and batches.length(done + same) == length:
        same += 1
    return same


def train(
    step: train_step.Step,
    state: training_state.TrainingState,
    batches: Batches,
    meter: reporting.Meter,
    evaluate: Callable[[int], bool | None],
    first: int = 0,
) -> int:
    """Train from step `first` to the end; save, log and evaluate on the way.

    Args:
        step: the compiled step, with its settings.
        state: saves the run.
        batches: see `Batches`.
        meter: turns steps and seconds into speed.
        evaluate: called with the steps done every `eval_steps`; returns
            whether that is enough and training should end.
        first: steps done already.

    Returns:
        The number of steps done; fewer than asked after SIGTERM, Ctrl-C, or
        where `evaluate` said so.
    """
    settings = step.settings
    report = reporting.Report(settings.output_dir, meter, state.is_chief)
    caller = _Caller(step, batches, meter, report, first)
    done, is_enough = first, False
    with _StopRequest() as stop:
        while done < settings.last_step and not stop.signal and not is_enough:
            is_first = done == first
            done, sums = caller.call(done)
            _check_finite(sums, done, state)
            is_due = _is_due(done, settings.log_steps, settings)
            if is_due or is_first or report.is_late():
                rate = float(step.schedule(tf.constant(done - 1)))
                report.write(done, settings.last_step - done, rate)
            is_saved = _is_due(done, settings.save_checkpoints_steps, settings)
            if is_saved or stop.signal or done == settings.last_step:
                logging.info("Saved %s", state.save(done))
            if _is_due(done, settings.eval_steps, settings):
                is_enough = bool(evaluate(done))
        if stop.signal:
            logging.warning(
                "Stopped by %s after step %d; the same command goes on there",
                signal.Signals(stop.signal).name,
                done,
            )
    return done


class _Caller:
    """Calls the compiled step for as many batches as may go together."""

    def __init__(
        self,
        step: train_step.Step,
        batches: Batches,
        meter: reporting.Meter,
        report: reporting.Report,
        first: int,
    ):
        self.step, self.batches = step, batches
        self.meter, self.report = meter, report
        self.compiled: set[int | None] = set()
        self.iterator = iter(
            step.strategy.distribute_datasets_from_function(
                functools.partial(
                    batches.make, first * step.settings.train_batch_size
                )
            )
        )

    def call(self, done: int) -> tuple[int, Mapping]:
        """Run the next few steps; return the steps done then, and sums."""
        batches, length = self.batches, None
        if batches.is_compiled_by_length:
            length = batches.length(done)
        is_new = length not in self.compiled  # compiles, hence alone
        self.compiled.add(length)
        count = 1
        if not is_new:
            count = _steps_in_next_call(
                done, self.step.settings, batches, self.meter
            )
        began = time.monotonic()
        steps, sums = self.step.run(
            self.iterator,
            tf.constant(done, tf.int64),
            tf.constant(count, tf.int64),
            length,
        )
        after = done + int(steps)  # waits for the devices
        seconds = time.monotonic() - began
        if is_new:
            self.report.add(sums, [], seconds)
            what = f" of length {length}" if length else ""
            logging.info("Compiled and ran a step%s in %.1f s", what, seconds)
        else:
            lengths = [batches.length(step) for step in range(done, after)]
            self.report.add(sums, lengths, seconds)
        return after, sums


def _check_finite(
    sums: Mapping, done: int, state: training_state.TrainingState
) -> None:
    """Stop a run whose loss or gradient is no number any more.

    Raises:
        UserError: names the step and the last good checkpoint.
    """
    means = to_means(sums)
    bad = [
        name
        for name in ("loss", "gradient_norm")
        if not math.isfinite(means[name])
    ]
    if bad:
        last = state.latest()
        raise UserError(
            f"{bad[0]} became {means[bad[0]]} at step {done}; nothing was "
            "saved since, the last good checkpoint is "
            f"{last or 'none: the run had not saved yet'}; try a lower "
            "learning_rate, more num_warmup_steps or --dtype=float32"
        )
