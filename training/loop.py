"""The training loop: call the step, report, evaluate, save, stop."""

import math
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from base import cluster
from base.errors import UserError

import tensorflow as tf
from absl import logging

from checkpoints import training_state
from training import agreement, cluster_watch, reporting
from training.reporting import to_means
from training.settings import Settings
from training.train_step import Step

# Steps run in calls of many: each return to Python leaves the devices idle for
# a moment. A call takes at most about this long, since signals are handled and
# reports are written between calls only.
MAX_SECONDS_PER_CALL = 5.0


class Batches(NamedTuple):
    """How to make a run's batches from any example on, and their lengths.

    Attributes:
        make: (number of the first example, input context) -> dataset from
            that example on.
        length: step -> length of the sequences of its batch.
    """

    make: Callable[[int, tf.distribute.InputContext], tf.data.Dataset]
    length: Callable[[int], int]


class Hooks(NamedTuple):
    """What else a run does between its steps.

    Attributes:
        evaluate: called with the steps done every `eval_steps`; returns
            whether training should end early.
        keep: called with the steps done at each of `keep_steps`.
        begin: called before the first step, not in a run that is finished.
    """

    evaluate: Callable[[int], bool | None]
    keep: Callable[[int], None] = lambda step: None
    begin: Callable[[], None] = lambda: None


def train(
    step: Step,
    state: training_state.TrainingState,
    batches: Batches,
    meter: reporting.Meter,
    hooks: Hooks,
    first: int = 0,
) -> int:
    """Train from step `first` to the end; save, report and evaluate.

    Args:
        step: the compiled step, with its settings.
        state: saves the run.
        batches: of the whole run.
        meter: turns steps and seconds into speed.
        hooks: what else is done.
        first: number of steps done before.

    Returns:
        The number of steps done, fewer than `last_step` after a signal, or
        where `hooks.evaluate` ended the training.
    """
    settings = step.settings
    report = _create_report(step, state, meter, first)
    caller = _Caller(step, batches, meter, report, first)
    stop = _StopRequest(agreement.machines_of(step.strategy))
    with report, stop:
        done, saved = _run_steps(caller, state, hooks, stop, first)
        # The signal came during the evaluation, or training ended early: what
        # was done since the last checkpoint is not to be done again, and the
        # checkpoint shows that output_dir has a run.
        if saved != done:
            _save(state, done)
        stop.log(done)
    if done == settings.last_step:
        stop.end_process()
    return done


def _run_steps(
    caller: "_Caller",
    state: training_state.TrainingState,
    hooks: Hooks,
    stop: "_StopRequest",
    first: int,
) -> tuple[int, int]:
    """Run the steps of `train`; return how many are done, and are saved.

    Args:
        caller: calls the compiled step.
        state: saves the run.
        hooks: what else is done.
        stop: signals that end the run.
        first: number of steps done before, all saved.
    """
    step, settings = caller.step, caller.step.settings
    # The run may have been killed while it evaluated what it had saved.
    is_due = first > 0 and _is_due(first, settings.eval_steps, settings)
    done = saved = first
    ends_early = is_due and bool(hooks.evaluate(first))
    while done < settings.last_step and not stop.is_due and not ends_early:
        is_first, (done, sums) = done == first, caller.call(done)
        _check_good(sums, done, step, state)
        seconds = caller.meter.seconds_per_step
        caller.seconds_per_step = stop.agree(done, seconds)
        is_due = _is_due(done, settings.save_checkpoints_steps, settings)
        is_last = done == settings.last_step
        saves = is_due or stop.is_due or is_last
        _report(caller.report, step, done, is_first, saves)
        # Before the checkpoint: a run that is killed between the two keeps
        # the weights of this step again when it goes on.
        if done in settings.keep_steps:
            hooks.keep(done)
        if saves or stop.is_due:
            saved = _save(state, done)
        # What is saved can be evaluated when the run goes on.
        is_due = _is_due(done, settings.eval_steps, settings)
        if is_due and (is_last or not stop.is_due):
            ends_early = bool(hooks.evaluate(done))
    return done, saved


def _create_report(
    step: Step,
    state: training_state.TrainingState,
    meter: reporting.Meter,
    first: int,
) -> reporting.Report:
    """Return what writes the run's reports."""
    settings = step.settings
    return reporting.Report(
        settings.output_dir,
        meter,
        state.is_chief,
        first,
        settings.last_step,
        step.objective.perplexities,
    )


def _report(
    report: reporting.Report, step: Step, done: int, is_first: bool, saves: bool
) -> None:
    """Write a report line or scalars, if either is due."""
    settings = step.settings
    has_line = _is_due(done, settings.log_steps, settings) or is_first
    has_line = has_line or report.is_late()
    # Also where a checkpoint is saved: a run that goes on from there has the
    # scalars of all of its steps, and its curves are those of a whole run.
    if not has_line and not saves and done % settings.scalar_steps:
        return
    # The last update was number done - 1, with this rate.
    rate = float(step.schedule(tf.constant(done)))
    others = step.loss_scale.means() if step.loss_scale else {}
    (report.write if has_line else report.write_scalars)(done, rate, others)


def _save(state: training_state.TrainingState, done: int) -> int:
    """Save a checkpoint, also where another machine fails meanwhile.

    Returns:
        The number of steps done, as given.
    """
    with cluster_watch.saving():
        logging.info("Saved %s", state.save(done))
    return done


def _is_due(done: int, every: int, settings: Settings) -> bool:
    """Whether something is due that is done every so many steps, and last."""
    return every > 0 and (done % every == 0 or done == settings.last_step)


def _check_good(
    sums: Mapping, done: int, step: Step, state: training_state.TrainingState
) -> None:
    """Stop a run whose loss or gradient is infinite or not a number.

    With a loss scale a gradient may be, until the scale is too small. Called
    before all else, so that NaN weights are never saved.

    Raises:
        UserError: names the step and the last good checkpoint.
    """
    means = to_means(sums)
    problem = None
    if not math.isfinite(means["loss"]):
        problem = f"loss became {means['loss']}"
    elif step.loss_scale:
        scale = step.loss_scale.read()
        if not step.loss_scale.is_usable(scale):
            problem = (
                "gradients overflowed, and a loss scale of "
                f"{float(scale.value):g} is too small,"
            )
    elif not math.isfinite(means["gradient_norm"]):
        problem = f"gradient_norm became {means['gradient_norm']}"
    if problem:
        last = state.latest_checkpoint()
        raise UserError(
            f"{problem} at step {done}, which is not saved; the last good "
            f"checkpoint is {last or 'none: the run had not saved yet'}; try "
            "a lower --learning_rate, more warm-up or --dtype=float32"
        )


# Signals that come closer together are one request.
_ONE_SIGNAL_SECONDS = 0.5


class _StopRequest:
    """Records SIGTERM and Ctrl-C, so that the loop can save and end.

    Args:
        machines: a signal to any of them is a request to all. A machine that
            is about to be switched off is told by a signal, and the others
            cannot go on without it.

    Attributes:
        is_due: whether to save and end now, the same on all machines.
    """

    def __init__(self, machines: agreement.Machines) -> None:
        self._machines = machines
        self._signal = 0  # the number of this process' last signal
        self._times: dict[int, float] = {}  # of the first one of each kind
        self._agreed: tuple[int, int] | None = None  # machine, signal

    def __enter__(self) -> "_StopRequest":
        self._old = {
            number: signal.signal(number, self._note)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        return self

    def _note(self, number: int, frame: Any) -> None:
        del frame
        self._signal = number
        now = time.monotonic()
        # A second signal of the same kind ends the process at once: saving a
        # large model to a slow disk may take longer than the user waits. When
        # the process of a sweep is killed, the kernel sends its run one signal
        # for each thread that ends, at nearly the same time: they are one.
        if now - self._times.setdefault(number, now) > _ONE_SIGNAL_SECONDS:
            signal.signal(number, self._old[number])
            signal.raise_signal(number)

    @property
    def is_due(self) -> bool:
        if self._machines.count == 1:
            return bool(self._signal)
        return self._agreed is not None

    def agree(self, done: int, seconds_per_step: float) -> float:
        """Ask all machines for signals; return the slowest one's speed.

        Args:
            done: number of steps done.
            seconds_per_step: as this machine measured it, NaN without a
                measurement.

        Returns:
            The most seconds per step that a machine measured. All machines
            get the same number, so that they put the same number of steps
            into a call.
        """
        if self._machines.count == 1:
            return seconds_per_step
        cluster_watch.note_done(done)
        seconds = 0.0 if math.isnan(seconds_per_step) else seconds_per_step
        rows = self._machines.gather([self._signal, round(seconds * 1e6)])
        for machine, number in enumerate(rows[:, 0]):
            if number and not self._agreed:
                self._agreed = machine, int(number)
        slowest = int(rows[:, 1].max())
        return slowest / 1e6 if slowest else math.nan

    def log(self, done: int) -> None:
        """Log after which step the run was stopped, if it was."""
        if not self.is_due:
            return
        where = ""
        if self._agreed:
            where = f" to {cluster.machines()[self._agreed[0]]}"
        logging.warning(
            "Stopped by %s%s after step %d; the same command goes on there",
            signal.Signals(self._number()).name,
            where,
            done,
        )

    def end_process(self) -> None:
        """End the process by the signal, if there was one; call outside `with`.

        For a run whose last step is done: what comes after training would
        otherwise begin although the user asked for an end.
        """
        if self.is_due:
            signal.raise_signal(self._number())

    def _number(self) -> int:
        """Return the number of the signal that is obeyed."""
        return self._agreed[1] if self._agreed else self._signal

    def __exit__(self, *exception: Any) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)


# --- How many steps go into one call -----------------------------------------


class _Caller:
    """Calls the compiled step for as many batches as may go together."""

    def __init__(
        self,
        step: Step,
        batches: Batches,
        meter: reporting.Meter,
        report: reporting.Report,
        first: int,
    ):
        self.step, self.batches = step, batches
        self.meter, self.report = meter, report
        self.compiled: set[int | None] = set()
        # The loop sets it after each call. In a cluster all machines have to
        # make the same calls, so it is the same on all of them.
        self.seconds_per_step = math.nan
        # One iterator for the whole run. It goes on where the last call
        # stopped, so only the first example of the run has to be given.
        start = first * step.settings.train_batch_size
        self.iterator = iter(
            step.strategy.distribute_datasets_from_function(
                lambda context: batches.make(start, context)
            )
        )

    def call(self, done: int) -> tuple[int, Mapping]:
        """Run the next few steps; return the number done then, and sums."""
        length = None
        if self.step.compilation.per_length:
            length = self.batches.length(done)
        is_new = length not in self.compiled
        self.compiled.add(length)
        # A call that compiles runs one step: its time is logged, and is not
        # part of the measured speed.
        count = 1 if is_new else self._steps_in_next_call(done)
        began = time.monotonic()
        # Start and count are tensors: Python numbers would be constants of the
        # graph, and every call would trace and compile anew. The length is a
        # Python number, since each length is to have a graph of its own.
        steps, sums = self.step.run(
            self.iterator,
            tf.constant(done, tf.int64),
            tf.constant(count, tf.int64),
            length,
        )
        after = done + int(steps)  # waits for the devices
        seconds = time.monotonic() - began
        if is_new:
            self.report.add(sums, int(steps), [], seconds)
            what = f" of length {length}" if length else ""
            logging.info(
                "The first step%s took %.1f s, with tracing and compiling",
                what,
                seconds,
            )
        else:
            lengths = [self.batches.length(n) for n in range(done, after)]
            self.report.add(sums, int(steps), lengths, seconds)
        return after, sums

    def _steps_in_next_call(self, done: int) -> int:
        """Return the steps until a report, a checkpoint or another length.

        Example: at step 130 with reports every 100 steps, checkpoints every
        1,000 and 0.2 s per step, the next call has min(70, 870, 25) steps.
        """
        settings = self.step.settings
        stops = [settings.iterations_per_loop, settings.last_step - done]
        stops += [step - done for step in settings.keep_steps if step > done]
        for every in (
            settings.log_steps,
            settings.scalar_steps,
            settings.save_checkpoints_steps,
            settings.eval_steps,
        ):
            if every > 0:
                stops.append(every - done % every)
        if math.isnan(self.seconds_per_step):
            return 1  # no step is measured yet
        stops.append(max(1, int(MAX_SECONDS_PER_CALL / self.seconds_per_step)))
        count = min(stops)
        if not self.step.compilation.per_length:
            return count
        length, same = self.batches.length(done), 1
        while same < count and self.batches.length(done + same) == length:
            same += 1
        return same
