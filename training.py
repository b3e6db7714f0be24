"""The one training loop: step, accumulate, log, evaluate, save, resume.

A task is three pure functions (`Task`). Everything that is random in a step
is a function of (seed, step), the data of a step is a function of (seed,
step), and so weights, optimizer slots and the step are the whole state: a run
that was killed and started again ends with the same bits.

One code path serves every tf.distribute.Strategy; one device is the default
strategy. The batch size is global.
"""

import functools
import math
import signal
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import checkpoints
import devices
import numerics
import optimization
import reporting
from errors import UserError
from input_pipeline import Batch
from reporting import Means, to_means

MAX_SECONDS_PER_CALL = 5.0  # host looks at the loop at least this often

# name -> (sum, count), both float32 scalars: means are formed once, on the
# host, from sums over all steps, replicas and micro-batches.
Sums = dict[str, tuple[tf.Tensor, tf.Tensor]]


class Task(NamedTuple):
    """What a task is to the loop: pure functions of model and batch.

    Attributes:
        loss_weights: batch -> {loss name: weight}, the loss's denominator in
            this batch. It depends on labels alone, so that the weights of the
            global batch are known before the first gradient.
        forward: (model, batch, training, dropout_seed) -> Sums; holds every
            loss (sum over examples, not mean), every metric, and
            `tokens`: (real tokens, examples).
        total_loss: ({loss name: sum}, {loss name: weight}) -> scalar, the
            loss to minimize.
        names: the names `forward` returns.
    """

    loss_weights: Callable[[Batch], dict[str, tf.Tensor]]
    forward: Callable[..., Sums]
    total_loss: Callable[[dict, dict], tf.Tensor]
    names: tuple[str, ...]


class Settings(NamedTuple):
    """How to train; fields have the names of flags."""

    output_dir: str
    num_train_steps: int
    train_batch_size: int
    stop_after_steps: int = 0  # 0: at num_train_steps
    random_seed: int = 12345
    gradient_accumulation_steps: int = 1
    jit_compile: bool = True
    # The update is of one shape whatever the lengths; None: as jit_compile.
    jit_compile_update: bool | None = None
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    iterations_per_loop: int = 1000
    log_steps: int = 100
    eval_steps: int = 0
    clip_norm: float = 1.0

    @property
    def last_step(self) -> int:
        """Where this run ends; the schedule may go on to num_train_steps."""
        stop = self.stop_after_steps or self.num_train_steps
        return min(stop, self.num_train_steps)


# --- One step -------------------------------------------------------------


def _compiled(function: Callable) -> Callable:
    """Return the function as one XLA program."""
    return tf.function(function, jit_compile=True, autograph=False)


class Step:
    """The compiled training step of one model, task and optimizer.

    Args:
        strategy: where model and optimizer variables were created.
        model: has `trainable_variables` (keras.Variable) and is callable by
            `task.forward`.
        task: the three functions.
        optimizer: see optimization.py; its slots exist already.
        schedule: step -> learning rate.
        settings: batch, seed, accumulation, compilation.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model,
        task: Task,
        optimizer,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        settings: Settings,
    ):
        self.strategy = strategy
        self.model = model
        self.task = task
        self.optimizer = optimizer
        self.schedule = schedule
        self.settings = settings
        self.replicas = strategy.num_replicas_in_sync
        self.replica_batch_size = check_batch_size(settings, self.replicas)
        one_device = self.replicas == 1
        compiles = devices.what_compiles(strategy, settings.jit_compile)
        self._fuses = compiles == "pieces"
        self._gradients, self._apply = self._gradients_eager, self._apply_eager
        self.replica_step = self._replica_step
        updates = settings.jit_compile_update
        updates = settings.jit_compile if updates is None else updates
        if one_device and devices.what_compiles(strategy, updates) == "pieces":
            self._apply = _compiled(self._apply_eager)
        elif compiles == "step" and one_device:
            self.replica_step = _compiled(self._replica_step)
        elif compiles == "step":  # collectives stay outside XLA
            self._gradients = _compiled(self._gradients_eager)

    def _gradients_eager(
        self, batch: Batch, weights: dict, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], Sums]:
        """Gradients and sums of this replica's part of the batch."""
        micro_batches = self.settings.gradient_accumulation_steps
        if micro_batches == 1:
            return self._micro_gradients(batch, weights, seed)
        size = self.replica_batch_size // micro_batches

        def split(value: tf.Tensor) -> tf.Tensor:
            # Uncompiled, a batch's length is not known beforehand.
            inner = [-1 if n is None else n for n in value.shape[1:]]
            return tf.reshape(value, [micro_batches, size, *inner])

        parts = {name: split(value) for name, value in batch.items()}
        zero = tf.zeros([])
        start = (
            tf.constant(0),
            [tf.zeros(v.shape) for v in self.model.trainable_variables],
            {name: (zero, zero) for name in self.task.names},
        )

        def add_one(index, gradients, sums):
            part = {name: value[index] for name, value in parts.items()}
            more = self._micro_gradients(
                part, weights, numerics.fold_seed(seed, index)
            )
            total = tf.nest.map_structure(tf.add, (gradients, sums), more)
            return index + 1, *total

        _, gradients, sums = tf.while_loop(
            lambda index, *_: index < micro_batches, add_one, start
        )
        return gradients, sums

    def _micro_gradients(
        self, batch: Batch, weights: dict, seed: tf.Tensor
    ) -> tuple[list[tf.Tensor], Sums]:
        values = [v.value for v in self.model.trainable_variables]
        with tf.GradientTape() as tape, numerics.fusing(self._fuses):
            sums = self.task.forward(
                self.model, batch, training=True, dropout_seed=seed
            )
            loss = self.task.total_loss(
                {name: sums[name][0] for name in weights}, weights
            )
        gradients = tape.gradient(loss, values)
        for variable, gradient in zip(
            self.model.trainable_variables, gradients, strict=True
        ):
            if gradient is None:
                raise AssertionError(f"{variable.path} has no gradient")
        # Dense gradients: sparse ones neither all-reduce nor compile well.
        return [tf.convert_to_tensor(g) for g in gradients], sums

    def _replica_step(
        self, batch: Batch, step: tf.Tensor, length: int | None = None
    ) -> Sums:
        """Train on this replica's part of the batch of `step`."""
        context = tf.distribute.get_replica_context()
        batch = {
            name: tf.ensure_shape(value, self._shape_of(value, length))
            for name, value in batch.items()
        }
        weights = self._all_reduce(context, self.task.loss_weights(batch))
        seed = numerics.fold_seed(
            self.settings.random_seed, step, context.replica_id_in_sync_group
        )
        gradients, sums = self._gradients(batch, weights, seed)
        gradients, sums = self._all_reduce(context, (gradients, sums))
        norm = optimization.global_norm(gradients)
        self._apply(gradients, norm, step)
        loss = self.task.total_loss(
            {name: sums[name][0] for name in weights}, weights
        )
        one = tf.ones([])
        return {**sums, "loss": (loss, one), "gradient_norm": (norm, one)}

    def _shape_of(self, value: tf.Tensor, length: int | None) -> list:
        """Shapes have to be static; distributed iterators forget some."""
        inner = [length if n is None else n for n in value.shape[1:]]
        return [self.replica_batch_size, *inner]

    def _apply_eager(
        self, gradients: list[tf.Tensor], norm: tf.Tensor, step: tf.Tensor
    ) -> None:
        """Clip the gradients, whose joint norm is `norm`, and update."""
        gradients, _ = optimization.clip_by_global_norm(
            gradients, self.settings.clip_norm, norm
        )
        self.optimizer.apply_gradients(
            self.model.trainable_variables,
            gradients,
            self.schedule(step),
            step,
        )

    def _all_reduce(self, context, values):
        if self.replicas == 1:
            return values
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    # Nothing here needs autograph, which would double the time of tracing.
    @functools.partial(tf.function, autograph=False)
    def run(
        self,
        iterator,
        start: tf.Tensor,
        count: tf.Tensor,
        length: int | None = None,
    ):
        """Run up to `count` steps; stop at the first non-finite one.

        Args:
            iterator: of the batches from step `start` on.
            start: int64, steps done.
            count: int64.
            length: of the sequences in these batches, where the iterator
                does not know; traced and compiled anew for each.

        Returns:
            (steps done, Sums in float64 over them).
        """
        names = (*self.task.names, "loss", "gradient_norm")
        zero = tf.zeros([], tf.float64)
        totals = {name: (zero, zero) for name in names}

        def go_on(done, is_finite, totals):
            del totals
            return tf.logical_and(done < count, is_finite)

        def run_one(done, is_finite, totals):
            del is_finite
            sums = self.strategy.run(
                self.replica_step, args=(next(iterator), start + done, length)
            )
            sums = tf.nest.map_structure(self._on_host, sums)
            watched = sums["loss"][0] + sums["gradient_norm"][0]
            totals = tf.nest.map_structure(tf.add, totals, sums)
            return done + 1, tf.math.is_finite(watched), totals

        done, _, totals = tf.while_loop(
            go_on,
            run_one,
            (tf.zeros([], tf.int64), tf.constant(True), totals),
        )
        return done, totals

    def _on_host(self, value: tf.Tensor) -> tf.Tensor:
        """Return what all replicas have alike, in float64 for long sums."""
        value = self.strategy.experimental_local_results(value)[0]
        return tf.cast(value, tf.float64)


def check_batch_size(settings: Settings, replicas: int) -> int:
    """Return the examples of a step that each of `replicas` devices gets.

    Raises:
        UserError: the batch does not divide.
    """
    size = settings.train_batch_size
    parts = replicas * settings.gradient_accumulation_steps
    if size % parts:
        raise UserError(
            f"--train_batch_size={size} does not divide by {replicas} devices "
            f"times --gradient_accumulation_steps="
            f"{settings.gradient_accumulation_steps}; the batch size is "
            f"global: use a multiple of {parts}"
        )
    return size // replicas


# --- Evaluation -----------------------------------------------------------


class Evaluator:
    """Sums of `task.forward` over held-out batches, dropout off."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model,
        task: Task,
        make_batches: Callable[[tf.distribute.InputContext], tf.data.Dataset],
        jit_compile: bool,
    ):
        self.strategy = strategy
        self.make_batches = make_batches
        self.task = task

        def forward(batch: Batch) -> Sums:
            return task.forward(model, batch, training=False, dropout_seed=None)

        if jit_compile and not devices.is_tpu(strategy):
            forward = _compiled(forward)

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
        make: number of the first example -> dataset function of an input
            context.
        length: step -> length of its sequences.
        is_compiled_by_length: whether each length is traced and compiled
            apart; else one program takes them all.
    """

    make: Callable[
        [int], Callable[[tf.distribute.InputContext], tf.data.Dataset]
    ]
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
    if not devices.has_other_workers():
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
    step: Step,
    state: checkpoints.TrainingState,
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
        step: Step,
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
                batches.make(first * step.settings.train_batch_size)
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
    sums: Mapping, done: int, state: checkpoints.TrainingState
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
