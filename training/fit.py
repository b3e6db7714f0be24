"""Begin or resume a training run, and train to its end."""

import functools
from collections.abc import Callable, Container

from base import cluster
from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
import optimization
from checkpoints import lookup, training_state, weight_files
from training import (
    agreement,
    cluster_watch,
    devices,
    loop,
    loss_scale,
    memory,
    reporting,
)
from training.compilation import Compilation
from training.objective import Objective
from training.settings import Settings
from training.train_step import Step


def fit(
    strategy: tf.distribute.Strategy,
    model: modeling.TaskModel,
    objective: Objective,
    settings: Settings,
    compilation: Compilation,
    batches: loop.Batches,
    flops_per_row: Callable[[int], float],
    hooks: loop.Hooks,
    new_variables: Container[str] = (),
    row: memory.Rows = memory.ONE_SEQUENCE,
) -> int:
    """Train a model to the end of its run; return the number of steps done.

    A run that output_dir holds is resumed. Otherwise a run begins from
    `resume_from`, from `init_checkpoint` or from new weights.

    Args:
        strategy: the one under which the model was created.
        model: its variables are set and trained.
        objective: losses and metrics.
        settings: how to train.
        compilation: what XLA compiles.
        batches: of the whole run.
        flops_per_row: see reporting.Meter.
        hooks: what is done between steps.
        new_variables: see `resume_or_start`.
        row: what a row of a batch is, for the estimate of the memory.
    """
    scale = loss_scale.create(settings)
    optimizer, state = _create_state(strategy, model, settings, scale)
    first = resume_or_start(state, model, settings, new_variables)
    check_same_start(strategy, state, settings, first)
    if _is_finished(settings, first):
        return first
    schedule = _create_schedule(settings)
    parts = (strategy, model, objective, optimizer, schedule)
    step = Step(*parts, settings, compilation, scale)
    longest = memory.longest(batches.length, first, settings.last_step)
    memory.log_estimate(memory.run_of(step, longest, row), strategy)
    _warn_of_a_single_step(settings)
    hooks.begin()
    peak = _measured_peak(settings.dtype, strategy)
    meter = reporting.Meter(settings.train_batch_size, flops_per_row, peak)
    done = loop.train(step, state, batches, meter, hooks, first)
    if scale:
        scale.log(done)
    return done


def _is_finished(settings: Settings, first: int) -> bool:
    """Return whether output_dir holds a finished run; log it if so."""
    if first < settings.last_step:
        return False
    logging.info(
        "%s holds a finished run of %d steps: nothing to train",
        settings.output_dir,
        first,
    )
    return True


@functools.cache
def _measured_peak(dtype: str, strategy: tf.distribute.Strategy) -> float:
    """Return the matrix-product rate in FLOP/s, measured once in a process."""
    peak = devices.measure_matmul_peak(dtype, strategy)
    logging.info("Matrix-product peak, measured: %.1f GFLOP/s", peak / 1e9)
    return peak


def _create_schedule(
    settings: Settings,
) -> Callable[[tf.Tensor], tf.Tensor]:
    """Return the learning rate as a function of the step."""
    return optimization.create_schedule(
        settings.learning_rate,
        settings.num_train_steps,
        settings.num_warmup_steps,
        settings.continuous_schedule,
    )


def _warn_of_a_single_step(settings: Settings) -> None:
    """Log a warning if the only step of the run changes no weight."""
    if settings.num_train_steps == 1:
        logging.warning(
            "The only step has learning rate 0, as the last step of every "
            "run, and changes nothing: train for more steps"
        )


def _create_state(
    strategy: tf.distribute.Strategy,
    model: modeling.TaskModel,
    settings: Settings,
    scale: loss_scale.LossScale | None,
) -> tuple[optimization.AdamWeightDecay, training_state.TrainingState]:
    """Return the optimizer with its slots, and the run's checkpoints."""
    with strategy.scope():
        optimizer = optimization.create_optimizer(
            settings.optimizer,
            settings.weight_decay_rate,
            settings.bias_correction,
        )
        slots = optimizer.create_slots(model.trainable_variables)
    return optimizer, training_state.TrainingState(
        settings.output_dir,
        model.variables,
        slots,
        settings.keep_checkpoint_max,
        cluster.is_chief(),
        scale.variables if scale else None,
    )


def resume_or_start(
    state: training_state.TrainingState,
    model: modeling.TaskModel,
    settings: Settings,
    new_variables: Container[str] = (),
) -> int:
    """Set the weights a run goes on or begins with; return the steps done.

    They come from the first of these that is there: the newest checkpoint of
    output_dir; `resume_from`, with moments and step; `init_checkpoint`. Else
    the weights stay as they were created.

    Args:
        state: the checkpoints of output_dir.
        model: just created.
        settings: names the checkpoints.
        new_variables: paths of variables that stay as they were created where
            the others come from init_checkpoint.
    """
    state.clean()
    latest = state.latest_checkpoint()
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
        _check_steps_left(settings, source, done)
        logging.info("Continuing %s: %d steps are done", source, done)
        return done
    if settings.init_checkpoint:
        _start_from(settings.init_checkpoint, model, new_variables)
    else:
        logging.info("Starting from new weights, seed %d", settings.random_seed)
    return 0


def _check_steps_left(settings: Settings, source: str, done: int) -> None:
    """Check that a run which continues another one has steps of its own.

    Args:
        settings: of the run.
        source: the checkpoint of --resume_from.
        done: its step.

    Raises:
        UserError: it has none.
    """
    if done >= settings.last_step:
        raise UserError(
            f"--resume_from={settings.resume_from}: {done:,} steps are done in "
            f"{source}, and this run ends after {settings.last_step:,}: give a "
            "larger --num_train_steps, or --stop_after_steps in the first phase"
        )


def _start_from(
    checkpoint: str, model: modeling.TaskModel, new_variables: Container[str]
) -> None:
    """Set the weights of a model, but for the new variables."""
    variables = [v for v in model.variables if v.path not in new_variables]
    weight_files.restore_weights(variables, checkpoint)
    logging.info("Starting from the weights of %s", checkpoint)
    new = [v.path for v in model.variables if v.path in new_variables]
    if new:
        # bert/encoder/layer_11/output/... -> bert/encoder/layer_11
        parts = ["/".join(path.split("/")[:3]) for path in new]
        logging.info(
            "except %d variables with new weights, in %s",
            len(new),
            ", ".join(dict.fromkeys(parts)),
        )


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


def log_beginning(
    num_records: int, settings: Settings, sequences_per_record: float = 1.0
) -> None:
    """Log how much there is to train.

    Args:
        num_records: records of an epoch.
        settings: batch size and steps.
        sequences_per_record: more than 1 for packed rows.
    """
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
