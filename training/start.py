"""Begin or resume a run: what output_dir holds, its type and its weights."""

from base import logs
from base.errors import UserError

import tensorflow as tf
from absl import logging

from checkpoints import lookup, training_state, weight_files
from checkpoints.run_folder import RunFolder
from training import devices
from training.settings import TrainingSettings
from training.task_model import TaskModel


def say_plan(
    num_records: int,
    settings: TrainingSettings,
    strategy: tf.distribute.Strategy,
) -> None:
    """Say how much there is to train, and how."""
    size, steps = settings.train_batch_size, settings.last_step
    epochs = size * steps / num_records  # 2.98, if 3 end within a batch
    how = f" with {settings.optimizer}" * (settings.optimizer != "adamw")
    if settings.schedule != "linear":
        warmup = settings.num_warmup_steps or 0
        how += f", {settings.schedule} after {warmup:,} steps of warm-up"
    logs.say(
        "Plan: %s steps of %d examples (%s epochs of %s), learning rate %g%s, "
        "%s on %s",
        f"{steps:,}",
        size,
        f"{epochs:.2g}" if epochs < 10 else f"{epochs:,.0f}",
        f"{num_records:,}",
        settings.learning_rate,
        how,  # what is no default of it
        settings.dtype,
        devices.describe(strategy),
    )


def resume_or_start(
    folder: RunFolder,
    state: training_state.TrainingState,
    model: TaskModel,
    settings: TrainingSettings,
) -> int:
    """Set the weights of a run that resumes or begins; return the steps done.

    They come from the first of these that is there: the newest checkpoint of
    output_dir; `resume_from`, with moments and step; `init_checkpoint`.
    Otherwise the weights stay as they were created.

    Raises:
        UserError: the run of `resume_from` has done all steps of this one.
    """
    state.clean()
    # output_dir comes first, so that the command that began a run resumes it.
    if folder.resumed:
        done = state.restore(folder.resumed)
        logs.say("Resuming %s: %d steps are done", folder.resumed, done)
        return done
    if settings.resume_from:
        done = state.restore(settings.resume_from)
        if done >= settings.last_step:
            raise UserError(
                f"--resume_from={settings.resume_from}: {done:,} steps are "
                f"done in it, and this run ends after {settings.last_step:,}: "
                "give a larger --num_train_steps, or --stop_after_steps in the "
                "first phase"
            )
        logs.say("Continuing %s: %d steps are done", settings.resume_from, done)
        return done
    if not settings.init_checkpoint:
        logging.info("Starting from new weights, seed %d", settings.random_seed)
        return 0
    report = weight_files.restore_weights(
        model.variables, lookup.find_checkpoint(settings.init_checkpoint)
    )
    if model.uses_pooler and any("/pooler/" in path for path in report.new):
        logging.warning(
            "%s has no pooler (bert/pooler/...): it starts from new weights",
            settings.init_checkpoint,
        )
    logging.info("Starting from the weights of %s", settings.init_checkpoint)
    return 0
