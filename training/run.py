"""The driver of every training run: begin or resume it, train, report, save.

A run is described by a `Training`; `train` brings it to its end. A run that is
killed at any moment resumes from its last checkpoint and ends with the same
bits.
"""

import math
import time
import types
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple

from base import cluster
from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import lookup, run_settings, training_state, weight_files
from training import (
    agreement,
    cluster_watch,
    curves,
    dtypes,
    layers,
    ledger,
    memory,
    reporting,
)
from training.compilation import Compilation
from training.objective import Objective
from training.reporting import to_means
from training.settings import Settings
from training.stop_request import StopRequest
from training.train_step import Step

# Steps run in calls of many: each return to Python leaves the devices idle for
# a moment. A call takes at most about this long, since signals are handled and
# reports are written between calls only.
_MAX_SECONDS_PER_CALL = 5.0

# `seconds_per_step` times steps for so many seconds, at least so many steps.
_TIMED_SECONDS = 10.0
_MIN_TIMED_STEPS = 5


class Identity(NamedTuple):
    """What decides whether a command may resume the run in output_dir."""

    fixed: dict[str, Any]  # may not change when the run is resumed
    adjustable: dict[str, Any]  # may change, which is logged


class Training(NamedTuple):
    """A training run.

    Attributes:
        strategy: the one under which the model was created.
        model: the model whose variables are set and trained.
        objective: losses and metrics.
        settings: how to train.
        compilation: what XLA compiles.
        make_batches: (number of the first example, input context) -> dataset
            of the run's batches from that example on.
        length: step -> length of the sequences of its batch.
        identity: is written when the first step is due.
        evaluate: called with the steps done every `eval_steps`; returns
            whether training should end early.
        keep: called with the steps done at each of `keep_steps`.
        new_variables: paths of variables that stay as they were created where
            the others come from init_checkpoint.
        row: what a row of a batch costs, for the estimate of the memory.
        end: the last step of all trainings in output_dir, if this is one of
            several; 0: that of the settings.
    """

    strategy: tf.distribute.Strategy
    model: modeling.TaskModel
    objective: Objective
    settings: Settings
    compilation: Compilation
    make_batches: Callable[[int, tf.distribute.InputContext], tf.data.Dataset]
    length: Callable[[int], int]
    identity: Identity
    evaluate: Callable[[int], bool | None] = lambda step: None
    keep: Callable[[int], None] = lambda step: None
    new_variables: Container[str] = ()
    row: memory.Rows = memory.ONE_SEQUENCE
    end: int = 0


# --- Before the model is created ---------------------------------------------


def with_dtype(
    settings: Settings, strategy: tf.distribute.Strategy, do_train: bool
) -> Settings:
    """Return the settings with the type that --dtype=auto is, and log it."""
    resumed = []
    if do_train:
        resumed.append(settings.output_dir)
        if settings.resume_from:
            resumed.append(lookup.folder_of(settings.resume_from))
    return settings._replace(
        dtype=dtypes.resolve(settings.dtype, strategy, tuple(resumed))
    )


def claim_output_dir(
    strategy: tf.distribute.Strategy,
    settings: Settings,
    identity: Identity,
    hints: Mapping[str, str] = types.MappingProxyType({}),
) -> None:
    """Begin the run in output_dir, or check that it is the one there.

    `hints` are those of `run_settings.claim_output_dir`.

    Raises:
        UserError: output_dir holds another run, or the machines of a cluster
            differ.
    """
    agreement.check_same_run(strategy, identity.fixed)
    run_settings.claim_output_dir(
        settings.output_dir,
        *identity,
        cluster.is_chief(),
        {
            "bias_correction": "the moments are corrected from here on; "
            "--nobias_correction trains as the run began"
        }
        | dict(hints)
        if settings.bias_correction
        else hints,
    )


def log_beginning(
    num_records: int, settings: Settings, sequences_per_record: float = 1.0
) -> None:
    """Log how much there is to train; packed rows have several sequences."""
    size, steps = settings.train_batch_size, settings.last_step
    batch = f"{size}"
    if sequences_per_record > 1:
        batch += f" rows of about {size * sequences_per_record:,.0f} sequences"
    logging.info(
        "Running training: %s examples, batch size %s, %s steps, %.1f epochs",
        f"{round(num_records * sequences_per_record):,}",
        batch,
        f"{steps:,}",
        size * steps / num_records,
    )


# --- The run -----------------------------------------------------------------


def train(run: Training) -> int:
    """Train a model to the end of its run; return the number of steps done.

    A signal, or `evaluate`, may end the training before the last step. A run
    that output_dir holds is resumed. Otherwise a run begins
    from `resume_from`, from `init_checkpoint` or from new weights. With an
    ema_decay, `evaluate` finds the averages of the weights in the model, and so
    does the caller at the end.

    Raises:
        UserError: no step is left of a run that had other settings.
    """
    settings, strategy = run.settings, run.strategy
    layers.freeze(run.model, settings.freeze_layers)
    step = Step(strategy, run.model, run.objective, settings, run.compilation)
    scale = step.loss_scale
    state = training_state.TrainingState(
        settings.output_dir,
        run.model.variables,
        step.optimizer.slots,
        settings.keep_checkpoint_max,
        cluster.is_chief(),
        scale.variables if scale else None,
    )
    first = resume_or_start(state, run.model, settings, run.new_variables)
    check_same_start(strategy, state, settings, first)
    last = settings.last_step
    if first >= last:
        run_settings.check_finished(
            settings.output_dir, run.identity.adjustable
        )
        logging.info(
            "%s holds a finished run of %d steps: nothing to train",
            settings.output_dir,
            first,
        )
        step.use_averages(first)
        return first
    if settings.num_train_steps == 1:
        logging.warning(
            "The only step has learning rate 0, as the last step of every "
            "run, and changes nothing: train for more steps"
        )
    state.check_space(
        -(-(last - first) // settings.save_checkpoints_steps),
        1 + sum(step > first for step in settings.keep_steps),
        settings.save_checkpoints_minutes > 0,
    )
    memory.log_estimate(step, run.length, first, run.row)
    if cluster.is_chief():
        run_settings.write_settings(settings.output_dir, *run.identity)
    pace = Pace(run)
    book = None
    if settings.ledger:
        if cluster.has_other_workers():
            raise UserError(
                "--ledger is of runs on one machine: each machine of a cluster "
                "reads a part of the records"
            )
        book = ledger.Ledger(settings.output_dir, state, first)

    def make_batches(context: tf.distribute.InputContext) -> tf.data.Dataset:
        batches = run.make_batches(start, context)
        return book.watch(batches, context) if book else batches

    # One iterator for the whole run. It continues where the last call stopped,
    # so only the first example of the run has to be given.
    start = first * settings.train_batch_size
    iterator = iter(strategy.distribute_datasets_from_function(make_batches))
    end = run.end or last
    report = reporting.Report(
        settings.output_dir, first, end, run.objective.perplexities
    )
    machines = agreement.machines_of(strategy)
    stop = StopRequest(is_shared=machines.count > 1)
    with report, stop:
        done = saved = first
        saved_at = time.monotonic()

        def evaluate(done: int) -> bool:
            with step.with_averages(done):
                return bool(run.evaluate(done))

        # The run may have been killed while it evaluated what it had saved.
        ends_early = (
            first > 0
            and is_due(first, settings.eval_steps, last)
            and evaluate(first)
        )
        while done < last and not stop.is_requested and not ends_early:
            call = pace.next_call(done)
            began = time.monotonic()
            # Start and count are tensors: Python numbers would be constants of
            # the graph, and every call would trace and compile anew. The
            # length is a Python number, since each is to have a graph of its
            # own.
            steps, sums = step.run(
                iterator,
                tf.constant(done, tf.int64),
                tf.constant(call.count, tf.int64),
                call.length,
            )
            is_first, done = done == first, done + int(steps)  # waits
            seconds = time.monotonic() - began
            # The time of a call that compiles is no part of the speed.
            report.add(sums, int(steps), seconds, not call.compiles)
            if call.compiles:
                what = f" of length {call.length}" if call.length else ""
                logging.info(
                    "The first step%s took %.1f s, with tracing and compiling",
                    what,
                    seconds,
                )
            # Before all else, so that NaN weights are never saved.
            _check_good(sums, done, step)
            pace.seconds_per_step, minutes = _agree(
                machines,
                stop,
                done,
                report.seconds_per_step,
                (time.monotonic() - saved_at) / 60,
            )
            stays = stop.is_requested or is_due(
                done, settings.save_checkpoints_steps, last
            )
            saves = stays or 0 < settings.save_checkpoints_minutes <= minutes
            has_line = (
                is_first
                or is_due(done, settings.log_steps, last)
                or report.is_late()
            )
            # Also where a checkpoint is saved: a run that resumes from there
            # has the scalars of all its steps, and so the curves of a run that
            # was not interrupted.
            if has_line or saves or done % settings.scalar_steps == 0:
                others = {
                    # The last update was number done - 1, with this rate.
                    "learning_rate": float(step.schedule(tf.constant(done))),
                    **(scale.means() if scale else {}),
                }
                report.write(done, others, has_line)
            # Before the checkpoint: a run that is killed between the two does
            # both again when it is resumed.
            if book and (saves or is_due(done, settings.ledger, last)):
                book.write(done)
            if done in settings.keep_steps:
                run.keep(done)
            if saves:
                _save(state.save if stays else state.save_passing, done)
                saved, saved_at = done, time.monotonic()
            # What is saved can be evaluated when the run is resumed.
            if is_due(done, settings.eval_steps, last) and (
                done == last or not stop.is_requested
            ):
                ends_early = evaluate(done)
        # The signal came during the evaluation, or training ended early: what
        # was done since the last checkpoint is not to be done again, and the
        # checkpoint shows that output_dir has a run.
        if saved != done:
            if book:
                book.write(done)
            _save(state.save, done)
        stop.log(done)
    if done == last:
        stop.end_process()
        step.use_averages(done)
    if scale:
        scale.log(done)
    if done == end and curves.does_not_fall(settings.output_dir):
        logging.warning(
            "The training loss of the last tenth of the steps is not below "
            "that of the first tenth"
        )
    return done


def is_due(done: int, every: int, last: int) -> bool:
    """Whether something is due that is done every few steps and at the end."""
    return every > 0 and (done % every == 0 or done == last)


def _agree(
    machines: agreement.Machines,
    stop: StopRequest,
    done: int,
    seconds_per_step: float,
    minutes: float,
) -> tuple[float, float]:
    """Let all machines obey the same signal; return speed and minutes of all.

    All of them have to make the same calls, to save and to end after the same
    step. The speed is the slowest one's, NaN without a measurement; the minutes
    since the last checkpoint are the chief's.
    """
    if machines.count == 1:
        return seconds_per_step, minutes
    cluster_watch.note_done(done)
    seconds = 0.0 if math.isnan(seconds_per_step) else seconds_per_step
    rows = machines.gather(
        [stop.signal, round(seconds * 1e6), round(minutes * 1e6)]
    )
    stop.obey(rows[:, 0])
    slowest = int(rows[:, 1].max())
    return slowest / 1e6 if slowest else math.nan, rows[0, 2] / 1e6


def _save(save: Callable[[int], str], done: int) -> None:
    """Save a checkpoint, also where another machine fails meanwhile."""
    with cluster_watch.saving():
        logging.info("Saved %s", save(done))


def _check_good(sums: Mapping, done: int, step: Step) -> None:
    """Stop a run whose loss or gradient is infinite or not a number.

    With a loss scale a gradient may be, until the scale is too small.

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
        last = lookup.latest_checkpoint(step.settings.output_dir)
        raise UserError(
            f"{problem} at step {done}, which is not saved; the last good "
            f"checkpoint is {last or 'none: the run had not saved yet'}; try "
            "a lower --learning_rate, more warm-up or --dtype=float32"
        )


def seconds_per_step(run: Training) -> float:
    """Time steps on the first batches; the model stays as it is.

    Of several machines it is the time of the slowest.
    """
    # After the last step the rate is 0: the weights do not change.
    settings = run.settings._replace(num_train_steps=1, num_warmup_steps=0)
    step = Step(
        run.strategy, run.model, run.objective, settings, run.compilation
    )
    memory.log_estimate(step, run.length, 0, run.row)
    iterator = iter(
        run.strategy.distribute_datasets_from_function(
            lambda context: run.make_batches(0, context)
        )
    )
    length = run.length(0) if run.compilation.per_length else None
    machines = agreement.machines_of(run.strategy)

    def seconds_of(count: int) -> float:
        began = time.monotonic()
        first, count = tf.constant(1, tf.int64), tf.constant(count, tf.int64)
        int(step.run(iterator, first, count, length)[0])  # waits
        microseconds = round((time.monotonic() - began) * 1e6)
        return machines.gather([microseconds]).max() / 1e6

    seconds_of(1)  # compiles
    count = max(_MIN_TIMED_STEPS, round(_TIMED_SECONDS / seconds_of(1)))
    return seconds_of(count) / count


# --- How many steps go into one call -----------------------------------------


class Call(NamedTuple):
    """The next call of the step."""

    count: int  # steps in it
    length: int | None  # of sequences, where each length is traced separately
    compiles: bool  # whether it is the first of its length


class Pace:
    """Decides how many steps go into the next call of a run.

    `seconds_per_step` is NaN where it is not known, and the same on all
    machines of a cluster.
    """

    def __init__(self, run: Training):
        self.settings, self.length = run.settings, run.length
        self.per_length = run.compilation.per_length
        self.compiled: set[int | None] = set()
        self.seconds_per_step = math.nan

    def next_call(self, done: int) -> Call:
        """Return the call after `done` steps; one that compiles has one step.

        Others end with a report, a checkpoint or before another length: at
        step 130 with reports every 100 steps, checkpoints every 1,000 and
        0.2 s per step, the next call has min(70, 870, 25) steps.
        """
        length = self.length(done) if self.per_length else None
        if length not in self.compiled:
            self.compiled.add(length)
            return Call(1, length, True)
        if math.isnan(self.seconds_per_step):
            return Call(1, length, False)  # no step is measured yet
        settings = self.settings
        stops = [
            settings.iterations_per_loop,
            settings.last_step - done,
            max(1, int(_MAX_SECONDS_PER_CALL / self.seconds_per_step)),
        ]
        stops += [step - done for step in settings.keep_steps if step > done]
        for every in (
            settings.log_steps,
            settings.scalar_steps,
            settings.save_checkpoints_steps,
            settings.eval_steps,
            settings.ledger,
        ):
            if every > 0:
                stops.append(every - done % every)
        count = min(stops)
        if self.per_length:
            same = 1
            while same < count and self.length(done + same) == length:
                same += 1
            count = same
        return Call(count, length, False)


# --- Where it begins ---------------------------------------------------------


def resume_or_start(
    state: training_state.TrainingState,
    model: modeling.TaskModel,
    settings: Settings,
    new_variables: Container[str] = (),
) -> int:
    """Set the weights of a run that resumes or begins; return the steps done.

    They come from the first of these that is there: the newest checkpoint of
    output_dir; `resume_from`, with moments and step; `init_checkpoint`, but for
    the new variables. Otherwise the weights stay as they were created.

    Raises:
        UserError: the run of `resume_from` has done all steps of this one.
    """
    state.clean()
    latest = lookup.checkpoint_to_resume(settings.output_dir)
    # output_dir comes first, so that the command that began a run resumes it.
    if latest:
        done = state.restore(latest)
        logging.info("Resuming %s: %d steps are done", latest, done)
        if settings.init_checkpoint:
            logging.info("--init_checkpoint is not read: output_dir has a run")
        if settings.resume_from:
            logging.info("--resume_from is not read: output_dir has a run")
        return done
    if settings.resume_from:
        source = lookup.find_training_checkpoint(settings.resume_from)
        done = state.restore(source)
        if done >= settings.last_step:
            raise UserError(
                f"--resume_from={settings.resume_from}: {done:,} steps are "
                f"done in {source}, and this run ends after "
                f"{settings.last_step:,}: give a larger --num_train_steps, or "
                "--stop_after_steps in the first phase"
            )
        logging.info("Continuing %s: %d steps are done", source, done)
        return done
    if not settings.init_checkpoint:
        logging.info("Starting from new weights, seed %d", settings.random_seed)
        return 0
    new = [v.path for v in model.variables if v.path in new_variables]
    report = weight_files.restore_weights(
        [v for v in model.variables if v.path not in new_variables],
        settings.init_checkpoint,
    )
    if model.uses_pooler and any("/pooler/" in path for path in report.new):
        logging.warning(
            "%s has no pooler (bert/pooler/...): it starts from new weights",
            settings.init_checkpoint,
        )
    logging.info("Starting from the weights of %s", settings.init_checkpoint)
    if new:
        # bert/encoder/layer_11/output/... -> bert/encoder/layer_11
        parts = ["/".join(path.split("/")[:3]) for path in new]
        logging.info(
            "except %d variables with new weights, in %s",
            len(new),
            ", ".join(dict.fromkeys(parts)),
        )
    return 0


def check_same_start(
    strategy: tf.distribute.Strategy,
    state: training_state.TrainingState,
    settings: Settings,
    first: int,
) -> None:
    """Check that all machines of a cluster begin with the same run.

    Raises:
        UserError: a machine has other settings, or other checkpoints.
    """
    if not cluster.has_other_workers():
        return
    values = settings._asdict()
    # The same files may have other paths on another machine.
    for name in ("output_dir", "init_checkpoint", "resume_from"):
        del values[name]
    agreement.check_same_run(strategy, values)
    agreement.check_same_start(
        strategy, settings.output_dir, first, state.checksum()
    )
    cluster_watch.note_start(first, settings.output_dir)
