"""Fine-tune, score, predict and export a job, once or as a sweep."""

import contextlib
import dataclasses
import functools
import math
import shlex
from collections.abc import Callable, Mapping

from base import cluster, file_system, flags, logs
from base.errors import UserError

import tensorflow as tf
from absl import logging
from absl.flags import FlagValues

from checkpoints import run_folder, weight_files
from checkpoints.model import Checkpoint
from checkpoints.run_folder import Identity, RunFolder
from extras import mistakes, sweeps
from finetuning import flags as finetuning_flags
from finetuning.flags import ENOUGH_STEPS, FEW_STEPS
from tasks import bilstm, fine_tuned, saved_model
from tasks.fine_tuned import find_source
from tasks.job import FineTuningJob, LoadedModel
from tasks.settings import RunSettings, usual_rate
from training import (
    agreement,
    compilation,
    curves,
    devices,
    layers,
    loop,
    prediction,
    reporting,
    scalars,
    start,
    train_step,
)
from training.settings import TrainingSettings

# By how much an accuracy on the examples of the training has to be above that
# on others to be told.
_BY_HEART = 0.2

# Settings, and the model that a run starts from or uses -> the job that the
# flags of a script describe.
CreateJob = Callable[[RunSettings, Checkpoint], FineTuningJob]


def run_script(f: FlagValues, script: str, create_job: CreateJob) -> int:
    """Train, score, predict and export as the flags of a script ask.

    A sweep trains and scores each of its runs, and predicts and exports with
    the best one. Returns the exit status.
    """
    finetuning_flags.check(f)
    folder = RunFolder.read(f.output_dir)
    settings = finetuning_flags.read(f, folder)
    finetuning_flags.check_export(f, settings, folder)
    if sweep := sweeps.read(f, script, folder):
        if settings.restart:
            raise UserError(
                "--restart is for a single run: give a sweep another "
                "--output_dir"
            )
        run_sweep(settings, folder, create_job, sweep)
        if not settings.do_predict and not settings.do_export:
            return 0
        settings = dataclasses.replace(settings, do_train=False, do_eval=False)
        folder = RunFolder.read(folder.path)
    job = create_job(settings, find_source(settings, folder))
    do_train = settings.do_train
    if do_train and settings.restart:
        folder = folder.moved_aside()
    locked = run_folder.locked(folder.path)
    is_changed = do_train or job.tune
    with locked if is_changed else contextlib.nullcontext():
        strategy = devices.create_strategy(settings.devices)
        job.settings = settings = dataclasses.replace(
            settings,
            training=start.with_dtype(
                job.settings.training,
                strategy,
                [folder] if do_train else (),
            ),
        )
        if settings.training.eval_steps:
            job.deciding_metric()  # raises an error without data to score
        if do_train:
            identity = identity_of(job)
            # Before anything is written: an output_dir that holds another run
            # must keep its records and scores.
            folder.check_no_sweep()
            start.claim_output_dir(strategy, folder, identity)
        file_system.make_directory(settings.output_dir)
        logs.say("Model: %s", job.source.in_words())
        logs.write_to(settings.output_dir)
        file_system.make_directory(settings.records_dir, "records_dir")
        loaded = create_model(job, strategy)
        if do_train and not is_over(folder, settings, identity):
            training = training_of(job, loaded, strategy, folder, identity)
            done = loop.train(training)
            if not finish(job, loaded, done, training.step.settings):
                if settings.restart:
                    logs.say(
                        "To go on, leave --restart out: it would begin anew"
                    )
                return 1
            del training  # has the moments, which are as large as two models
            agreement.wait_for_all(strategy)  # for the weights to keep
        use_weights(job, loaded)
    return 0


def use_weights(job: FineTuningJob, loaded: LoadedModel) -> None:
    """Score the weights that are kept, predict, draw and export.

    eval_results.txt has `degenerate = 1` if there are signs of a failed run.
    """
    settings = job.settings
    do_train, do_eval = settings.do_train, settings.do_eval
    sign: str | None = None  # of a failed run
    results: dict[str, float] = {}
    counts: dict[str, int] = {}  # of the examples of an accuracy
    # With --eval_steps the scores written last are those of the last weights,
    # which need not be the best: the best ones are scored again.
    scores_best = do_eval or (do_train and settings.training.eval_steps > 0)
    if scores_best or settings.do_predict or settings.do_export:
        prefix, step = fine_tuned.restore(job, loaded.model)
        loaded = loaded._replace(prefix=prefix)
        if scores_best:
            scored = job.evaluate(loaded)
            if job.tune:
                scored = job.tune(loaded, scored)
            sign = scored.sign
            for data, own in zip(job.dev, scored.predictions, strict=True):
                counts[f"{job.prefix(data)}accuracy"] = own.count
            results = scored.results | {"global_step": step}
            if sign:
                results["degenerate"] = 1
            reporting.write_results(settings.output_dir, results, step)
            mistakes.write(job, scored)
        if settings.do_predict:
            job.predict(loaded)
    if do_train and settings.training.pictures:
        draw_curves(job, bool(scores_best), is_degenerate=bool(sign))
    try:
        if settings.do_export:
            # After all else, since an export that exists may be an error.
            write_saved_model(job, loaded)
    finally:
        # The last lines of the run, so that they are read.
        if results:
            titles = " and ".join(data.title for data in job.dev)
            reporting.log_results(
                reporting.results_path(settings.output_dir),
                results,
                f"Evaluation results of {titles}",
                counts,
            )
        if sign:
            logging.warning(
                "%s failed: %s. It has learned next to nothing. %s",
                "This run"
                if do_train
                else "The run that fine-tuned this model",
                sign,
                _way_out(step, job),
            )
        elif do_train:
            _say_what_was_learned_by_heart(settings.output_dir, results)
            folder = shlex.quote(settings.output_dir)
            logs.say(
                "The model is in %s; for answers: python batch_predict.py "
                "--model=%s --input_file=FILE --output_dir=answers",
                folder,
                folder,
            )


def _say_what_was_learned_by_heart(
    output_dir: str, results: Mapping[str, float]
) -> None:
    """Tell if the training's examples are answered far better than others."""
    seen = scalars.read_curves(output_dir).get("accuracy")
    if not seen or "accuracy" not in results:
        return
    last = seen[max(seen)]
    if last - results["accuracy"] > _BY_HEART:
        logs.say(
            "The training examples are answered with an accuracy of %.4f in "
            "the last steps: they are learned by heart. More examples help "
            "more than more epochs",
            last,
        )


def _way_out(steps: int, job: FineTuningJob) -> str:
    """Return what to try after a failed run of so many steps."""
    # Small models need larger rates, docs/fine_tuning.md; Base and Large fail
    # at rates that are too large.
    is_base = job.config.hidden_size >= 768
    rate, _ = usual_rate(job.source) or (2e-5 if is_base else 2e-4, "")
    training = job.settings.training
    is_tried = rate == training.learning_rate
    what = (
        f"What usually helps is {'another ' * is_tried}--learning_rate"
        f"{'' if is_tried else f'={rate:g}'}, "
        f"{'' if training.bias_correction else '--bias_correction, '}or "
        "several runs (--num_restarts=5), of which the best is kept"
    )
    if steps < FEW_STEPS:
        what = (
            f"{steps} steps are few: train longer, without --num_train_epochs "
            "or with a larger number"
        )
    return f"{what}. Begin anew with another --output_dir, or with --restart"


def create_model(
    job: FineTuningJob, strategy: tf.distribute.Strategy
) -> LoadedModel:
    """Return the job's model with new weights, and how it runs."""
    # New variables are drawn from Keras' global seed, on every machine alike.
    tf.keras.utils.set_random_seed(job.settings.training.random_seed)
    with strategy.scope():
        model = job.create_model()
    jit_compile = job.settings.training.jit_compile
    return LoadedModel(
        model, prediction.on_devices(strategy, model.outputs, jit_compile)
    )


def identity_of(job: FineTuningJob) -> Identity:
    """Return what must not change when a run is resumed, and what may.

    The model that a run begins with is compared only if there is one: with
    --bert_config_file and --vocab_file a run is resumed without it.
    """
    settings, wrapper = job.settings, job.wrapper
    size = bilstm.size_in(job.source.trained_for)
    fixed = {
        "model": job.config.to_dict(),
        "data": job.data_fingerprint(),
        # The best weights are chosen by scores of one development set.
        "heldout_data": [job.fingerprint(data) for data in job.dev]
        if settings.training.eval_steps
        else None,
        "long_texts": job.trained_for().to_dict().get("long_texts"),
        **(size._asdict() if size.bilstm_layers else {}),
        **(wrapper.fingerprint() if wrapper else {}),
        **flags.recorded(settings, "fixed"),
        **settings.training.fingerprint(),
    }
    if prefix := job.source.prefix:
        fixed["init_checkpoint"] = [
            file_system.sha256(path) for path in weight_files.files_of(prefix)
        ]
    results = {
        **flags.recorded(settings, "results"),
        **settings.training.adjustable(),
        **job.adjustable(),
    }
    return Identity(fixed, results, settings.training.execution())


# --- Training ----------------------------------------------------------------


def is_over(
    folder: RunFolder, settings: RunSettings, identity: Identity
) -> bool:
    """Return whether output_dir holds a run that stopped early.

    It has steps left, which `loop.train` would train.

    Raises:
        UserError: it was trained with other settings.
    """
    scores = folder.scores
    if fine_tuned.stops_early(scores, settings.early_stopping_patience):
        folder.check_finished(identity)
        logs.say("%s ended early: nothing to train", settings.output_dir)
        return True
    if scores and not folder.listed:
        # The run was killed before its first checkpoint, and begins again.
        fine_tuned.write_scores(settings.output_dir, {})
    return False


def training_of(
    job: FineTuningJob,
    loaded: LoadedModel,
    strategy: tf.distribute.Strategy,
    folder: RunFolder,
    identity: Identity,
) -> loop.Training:
    """Return the training run of a job; reads its data.

    What XLA compiles depends on the lengths of batches. If it compiles for each
    length, batches have few lengths.
    """
    data, objective = job.train_data(loaded), job.objective
    if job.wrapper:
        data = job.wrapper.train_data(data)
        objective = job.wrapper.objective()
    settings = with_steps(job.settings, job.num_examples(data))
    usual = usual_rate(job.source)
    if usual and not job.settings.is_rate_given:
        logs.say(
            "Learning rate %g, that of %s; --learning_rate=5e-5 overrides this",
            *usual,
        )
    size, row = settings.train_batch_size, job.row()
    batches = data.training(size, settings.random_seed, is_fine=True)
    config = job.config
    compiles = compilation.for_training(
        strategy,
        settings,
        None if job.settings.pad_to_max_length else batches.length,
        size * row.encoded * config.num_hidden_layers * config.hidden_size,
    )
    if compiles.per_length:
        batches = data.training(size, settings.random_seed, is_fine=False)
    layers.freeze(loaded.model, settings.freeze_layers)
    start.say_plan(data.num_examples, settings, strategy)
    return loop.Training(
        train_step.Step(strategy, loaded.model, objective, settings, compiles),
        batches.make,
        batches.length,
        folder,
        identity,
        functools.partial(score_and_keep, job, loaded),
        new_variables=layers.new_variables(
            loaded.model, job.settings.reinit_top_layers
        ),
        row=row,
    )


def with_steps(settings: RunSettings, num_examples: int) -> TrainingSettings:
    """Return the training settings with steps from epochs, as the original.

    Without --num_train_epochs there are 3 epochs, as in the original, or if
    these are few steps as many as make ENOUGH_STEPS.

    Raises:
        UserError: there are too few examples for one step, or too many epochs.
    """
    size, epochs = settings.training.train_batch_size, settings.num_train_epochs
    few = int(num_examples / size * 3) < FEW_STEPS
    enough = math.ceil(ENOUGH_STEPS * size / num_examples) if few else 3.0
    if epochs is None:
        epochs = enough
        if few:
            logs.say(
                "%d epochs (%d steps) instead of 3, which are only %d steps "
                "for %d examples; --num_train_epochs=3 overrides this",
                enough,
                num_examples / size * enough,
                num_examples / size * 3,
                num_examples,
            )
    # In the original's order of operations: 3 epochs of 10 examples in batches
    # of 4 are int(7.5) = 7 steps, not 3 * int(2.5) = 6.
    exact = num_examples / size * epochs
    if exact >= 2**31:
        raise UserError(
            f"--num_train_epochs={epochs:g}: {num_examples} training examples "
            f"in batches of {size} make {exact:.0e} steps, wanted fewer than "
            f"{2**31:,}"
        )
    steps = int(exact)
    if steps < 1:
        raise UserError(
            f"{num_examples} training examples in batches of {size} for "
            f"{epochs} epochs make no step; use a smaller --train_batch_size "
            "or more epochs"
        )
    if steps < FEW_STEPS:
        logging.warning(
            "%d steps are few to learn from %d examples: without "
            "--num_train_epochs there are %d epochs, %d steps",
            steps,
            num_examples,
            enough,
            int(num_examples / size * enough),
        )
    return dataclasses.replace(
        settings.training,
        num_train_steps=steps,
        num_warmup_steps=math.floor(steps * settings.warmup_proportion),
    )


def finish(
    job: FineTuningJob,
    loaded: LoadedModel,
    done: int,
    training: TrainingSettings,
) -> bool:
    """Write or score the last weights; return whether training is complete.

    `done` steps are fewer than all after a signal or an early stop.
    """
    settings = job.settings
    folder = RunFolder.read(settings.output_dir)
    scores = folder.scores
    if done < training.last_step:
        # A run that stopped early is over; one that got a signal is not.
        return fine_tuned.stops_early(scores, settings.early_stopping_patience)
    # If an earlier command has scores, its best weights stay, unless this
    # command has trained further without --eval_steps: then the last weights
    # are kept. What is there already may have been tuned since; only a command
    # that tunes begins with the weights as trained.
    if not training.eval_steps and (not scores or done > max(scores)):
        kept = folder.kept
        is_there = kept and weight_files.global_step(kept) == done
        if job.tune or not is_there:
            fine_tuned.write_model(job, loaded.model, done)
        if scores:
            fine_tuned.write_scores(settings.output_dir, {})
    elif training.eval_steps and done not in scores:
        # The last step is not a multiple of eval_steps.
        score_and_keep(job, loaded, done)
    return True


def score_and_keep(job: FineTuningJob, loaded: LoadedModel, step: int) -> bool:
    """Score the weights, keep them if best; return whether training ends."""
    output_dir, metric = job.settings.output_dir, job.deciding_metric()
    # Before its end a run may still learn: only its last weights show signs of
    # a failure.
    scored = job.evaluate(loaded).results
    results = scored | {"global_step": step}
    reporting.write_results(output_dir, results, step)
    # A run that was killed resumes from its last checkpoint, and scores some
    # steps again. Scores of later steps are left from before it was killed.
    scores = {
        number: score
        for number, score in RunFolder.read(output_dir).scores.items()
        if number < step
    }
    scores[step] = results[metric]
    best = fine_tuned.best_step(scores)
    reporting.log_line(
        logs.say,
        [f"Evaluation at step {step:,}", f"{metric} {scores[step]:.4f}"],
        [f"{n} {value:.4f}" for n, value in scored.items() if n != metric],
        [f"best {metric} {scores[best]:.4f} at step {best:,}"],
    )
    if best == step:
        fine_tuned.write_model(job, loaded.model, step)
    fine_tuned.write_scores(output_dir, scores)
    patience = job.settings.early_stopping_patience
    ends = fine_tuned.stops_early(scores, patience)
    if ends:
        logs.say("No better score in %d evaluations: training ends", patience)
    return ends


def draw_curves(
    job: FineTuningJob, is_scored: bool, is_degenerate: bool
) -> None:
    """Draw the curves of a finished run, with scores where it has some."""
    settings = job.settings
    found = curves.read(
        settings.output_dir,
        settings.training.log_steps,
        ("loss",),
        job.deciding_metric() if is_scored else None,
    )
    if found:
        scores = RunFolder.read(settings.output_dir).scores
        # Without scores on the way the last weights are kept.
        kept = fine_tuned.best_step(scores) if scores else max(found.loss)
        found = found._replace(
            best=kept, best_name="weights kept", is_degenerate=is_degenerate
        )
    curves.write(settings.output_dir, found)


# --- Export and sweeps -------------------------------------------------------


def write_saved_model(job: FineTuningJob, loaded: LoadedModel) -> None:
    """Write the SavedModel of the restored weights, unless it is there.

    Raises:
        UserError: there is one of other weights, or something else.
    """
    directory = job.settings.export_dir
    graph = job.create_graph(loaded)
    if not cluster.is_chief():
        return
    # Of a command that is repeated until its run is finished. Of others
    # flags.check has refused a directory that exists.
    if tf.io.gfile.exists(directory):
        saved_model.check_same(graph, directory, loaded.prefix)
    else:
        saved_model.write(graph, directory)


def run_sweep(
    settings: RunSettings,
    folder: RunFolder,
    create_job: CreateJob,
    sweep: sweeps.Sweep,
) -> None:
    """Make every run of a sweep; copy the best one's model and results."""
    if cluster.has_other_workers():
        raise UserError(
            "a sweep runs on one machine: unset TF_CONFIG, or give the "
            "commands of its runs one by one"
        )
    with run_folder.locked(folder.path):
        folder.check_no_run()
        # Reads all files now: what is wrong in them is found before the first
        # run, not after the last one.
        job = create_job(settings, find_source(settings, folder))
        metric = job.deciding_metric()
        identity = identity_of(job)
        heldout = [job.fingerprint(data) for data in job.dev]
        inputs = [identity.fixed, identity.adjustable, heldout]
        file_system.make_directory(settings.output_dir)
        logs.write_to(settings.output_dir)
        best = sweeps.run_all(sweep, settings.output_dir, metric, inputs)
        results = (*job.result_files, *mistakes.files(job))
        sweeps.copy_best(best, settings.output_dir, results)
