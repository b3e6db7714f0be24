"""Train a model from wherever its output_dir says it is."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from absl import flags, logging

import optimization
from base import cluster
from checkpoints import lookup, training_state, weight_files
from training import devices, loop, reporting, train_step
from training.objective import Objective
from training.settings import Recipe, Settings

# What a run may not change when it goes on, and what it may.
_FIXED = ("train_batch_size", "random_seed", "optimizer")

_ADJUSTABLE = (
    "learning_rate",
    "weight_decay_rate",
    "bias_correction",
    "continuous_schedule",
    "gradient_accumulation_steps",
    "dtype",
    "jit_compile",
)

# A CPU takes some 40 s to compile all lengths and gains a fifth of a step.
_STEPS_THAT_PAY = 2000


def strategy_from_flags(
    flag_values: flags.FlagValues,
) -> tf.distribute.Strategy:
    """Return where the flags say to run; call before other TensorFlow work."""
    f = flag_values
    devices.avoid_broken_amx(f.dtype)
    return devices.create_strategy(
        f.use_tpu,
        f.tpu_name,
        f.tpu_zone,
        f.gcp_project,
        f.master,
        f.num_tpu_cores,
    )


def claim_output_dir(
    flag_values: flags.FlagValues,
    identity: Mapping[str, Any],
    adjustable: Sequence[str],
) -> None:
    """Refuse an output_dir that belongs to another model or other data.

    Args:
        flag_values: FLAGS of a runner.
        identity: model and data of the run; what may not change.
        adjustable: flags that may, beside those all runners have.

    Raises:
        UserError: names what differs.
    """

    def values(names: Sequence[str]) -> dict[str, Any]:
        return {name: flag_values[name].value for name in names}

    training_state.claim_output_dir(
        flag_values.output_dir,
        {**identity, **values(_FIXED)},
        values((*_ADJUSTABLE, *adjustable)),
        cluster.is_chief(),
    )


def compiles(
    strategy: tf.distribute.Strategy,
    settings: Settings,
    is_one_length: bool,
) -> bool:
    """Whether XLA pays: on a CPU each length costs seconds to compile."""
    is_cpu = devices.what_compiles(strategy, True) == "pieces"
    if not settings.jit_compile or not is_cpu or is_one_length:
        return settings.jit_compile
    pays = settings.last_step >= _STEPS_THAT_PAY
    if not pays:
        logging.info(
            "XLA compiles the update alone: more pays from %d steps on where "
            "every length is compiled apart",
            _STEPS_THAT_PAY,
        )
    return pays


def fit(
    strategy: tf.distribute.Strategy,
    model,
    task: Objective,
    settings: Settings,
    recipe: Recipe,
    batches: loop.Batches,
    flops_per_example: Callable[[int], float],
    evaluate: Callable[[int], bool | None],
) -> int:
    """Train a model from wherever output_dir says it is; return steps done.

    Args:
        strategy: where the model's variables were made.
        model: callable by `task`.
        task: see training.Task.
        settings: of the loop.
        recipe: of the optimizer, and what to start from.
        batches: see training.Batches.
        flops_per_example: see reporting.Meter.
        evaluate: see training.train.
    """
    optimizer, state = _create_state(strategy, model, settings, recipe)
    first = begin(
        state,
        model,
        recipe.init_checkpoint,
        settings.random_seed,
        recipe.resume_from,
    )
    if first >= settings.last_step:
        logging.info(
            "%s holds a finished run of %d steps: nothing to train",
            settings.output_dir,
            first,
        )
        return first
    peak = devices.measure_matmul_peak(recipe.dtype, strategy)
    logging.info("Matrix-product peak, measured: %.1f GFLOP/s", peak / 1e9)
    schedule = optimization.create_schedule(
        recipe.learning_rate,
        settings.num_train_steps,
        recipe.num_warmup_steps,
        recipe.continuous_schedule,
    )
    return loop.train(
        train_step.Step(strategy, model, task, optimizer, schedule, settings),
        state,
        batches,
        reporting.Meter(settings.train_batch_size, flops_per_example, peak),
        evaluate,
        first,
    )


def _create_state(
    strategy: tf.distribute.Strategy,
    model,
    settings: Settings,
    recipe: Recipe,
) -> tuple[optimization.AdamWeightDecay, training_state.TrainingState]:
    """Return the optimizer, its slots made, and what is saved of both."""
    with strategy.scope():
        optimizer = optimization.create_optimizer(
            recipe.optimizer, recipe.weight_decay_rate, recipe.bias_correction
        )
        slots = optimizer.create_slots(model.trainable_variables)
    return optimizer, training_state.TrainingState(
        settings.output_dir,
        model.variables,
        slots,
        recipe.keep_checkpoint_max,
        cluster.is_chief(),
    )


def log_beginning(num_records: int, settings: Settings) -> None:
    """Say how much there is to train, as the original does."""
    size, steps = settings.train_batch_size, settings.last_step
    logging.info("***** Running training *****")
    logging.info("  Num examples = %d", num_records)
    logging.info("  Batch size = %d", size)
    logging.info("  Num steps = %d", steps)
    logging.info("  Num epochs = %.1f", size * steps / num_records)


def begin(
    state: training_state.TrainingState,
    model,
    init_checkpoint: str | None,
    random_seed: int,
    resume_from: str | None = None,
) -> int:
    """Resume, continue, warm-start or start anew; return the steps done.

    Args:
        state: of the run; what output_dir holds comes first.
        model: its variables are set.
        init_checkpoint: weights alone.
        random_seed: for the message.
        resume_from: weights, moments and step of another run.
    """
    state.clean()
    latest = state.latest()
    if latest:
        done = state.restore(latest)
        logging.info("Resuming %s: %d steps are done", latest, done)
        if init_checkpoint:
            logging.info("init_checkpoint is not read: output_dir has a run")
        if resume_from:
            logging.info("resume_from is not read: output_dir has a run")
        return done
    if resume_from:
        source = lookup.find_training_checkpoint(resume_from)
        done = state.restore(source)
        logging.info("Continuing %s: %d steps are done", source, done)
        return done
    if init_checkpoint:
        weight_files.restore_weights(model.variables, init_checkpoint)
        logging.info("Starting from the weights of %s", init_checkpoint)
    else:
        logging.info("Starting from new weights, seed %d", random_seed)
    return 0
