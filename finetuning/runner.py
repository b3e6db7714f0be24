"""Fine-tune, score, predict and export a job, once or as a sweep."""

import json
import math
import os
from collections.abc import Mapping

import tensorflow as tf
from absl import flags, logging

from base import cluster, file_system
from base.errors import UserError
from finetuning import fitted, source, sweeps
from finetuning import job as finetuning_job
from serving import graph_tokenizer, saved_model
from training import devices, fit, loop, prediction
from training.settings import Recipe, Settings, from_flags

# --- Before a run -----------------------------------------------------------


def validate_flags(flag_values: flags.FlagValues) -> None:
    """Check what can be checked before anything is read.

    Raises:
        UserError: names the flags.
    """
    f = flag_values
    jobs = ("do_train", "do_eval", "do_predict", "do_export")
    if not any(f[name].value for name in jobs):
        raise UserError(f"give --{', --'.join(jobs)} or several")
    if not f.output_dir:
        raise UserError("--output_dir is required")
    # A finished run that is repeated has been exported already.
    if f.do_export and not (f.do_train and fitted.fitted_in(f.output_dir)):
        saved_model.check_new(export_dir(f))
    if f.early_stopping_patience and not f.eval_steps:
        raise UserError("--early_stopping_patience needs --eval_steps")
    if f.train_batch_size % f.gradient_accumulation_steps:
        raise UserError(
            f"--train_batch_size={f.train_batch_size} does not divide by "
            f"--gradient_accumulation_steps={f.gradient_accumulation_steps}"
        )


def export_dir(flag_values: flags.FlagValues) -> str:
    """Return where the SavedModel goes."""
    if flag_values.export_dir:
        return flag_values.export_dir.rstrip("/")
    return os.path.join(flag_values.output_dir, "saved_model/1")


def claim_output_dir(job: finetuning_job.Job) -> None:
    """Refuse an output_dir that belongs to another model or other data."""
    fit.claim_output_dir(
        job.flags,
        {
            "model": fitted.encoder_config(job.config),
            "data": job.data_fingerprint(),
            "pad_to_max_length": job.flags.pad_to_max_length,
        },
        ("num_train_epochs", "warmup_proportion"),
    )


def create_settings(
    flag_values: flags.FlagValues, num_examples: int
) -> tuple[Settings, Recipe]:
    """Return how to train: steps from epochs, as the original counts them."""
    f = flag_values
    steps = int(num_examples / f.train_batch_size * f.num_train_epochs)
    if steps < 1:
        raise UserError(
            f"{num_examples} training examples in batches of "
            f"{f.train_batch_size} for {f.num_train_epochs} epochs "
            "make no step; use a smaller --train_batch_size or more epochs"
        )
    warmup = math.floor(steps * f.warmup_proportion)
    return (
        from_flags(Settings, f, num_train_steps=steps),
        from_flags(Recipe, f, num_warmup_steps=warmup),
    )


class Trainer:
    """Trains a job's model and keeps its best weights.

    Args:
        job: the task, its model made.
        strategy: where that was.
        metric: the score that decides.
    """

    def __init__(
        self,
        job: finetuning_job.Job,
        strategy: tf.distribute.Strategy,
        metric: str | None,
    ):
        self.job, self.strategy, self.metric = job, strategy, metric
        self.flags = job.flags

    def train(self) -> bool:
        """Fine-tune; return whether the end was reached."""
        f = self.flags
        if self._is_enough(self.scores_so_far()):
            logging.info("%s ended early: nothing to train", f.output_dir)
            return True
        data = self.job.train_data()
        settings, recipe = create_settings(f, self.job.num_examples(data))
        one_length = f.pad_to_max_length
        settings = settings._replace(
            jit_compile=fit.compiles(self.strategy, settings, one_length),
            jit_compile_update=settings.jit_compile,
        )
        fit.log_beginning(data.num_records, settings)
        by_length = settings.jit_compile or devices.is_tpu(self.strategy)
        batches = data.training(
            f.train_batch_size, f.random_seed, is_fine=not by_length
        )
        done = fit.fit(
            self.strategy,
            self.job.model,
            self.job.objective,
            settings,
            recipe,
            loop.Batches(
                batches.make, batches.length, by_length and not one_length
            ),
            self.job.flops_per_example,
            self.keep_best,
        )
        return self._finish(done, settings)

    def _finish(self, done: int, settings: Settings) -> bool:
        """Keep the last weights where they count; say whether it is over."""
        scores = self.scores_so_far()
        if done < settings.last_step:
            return self._is_enough(scores)
        if not settings.eval_steps and not scores:
            fitted.export(self.job)
        elif settings.eval_steps and done not in scores:
            self.keep_best(done)  # between two evaluations
        return True

    def keep_best(self, step: int) -> bool:
        """Score; keep the weights if better; say whether that is enough."""
        results = self.job.evaluate(step)
        scores = {k: v for k, v in self.scores_so_far().items() if k < step}
        scores[step] = results[self.metric]
        best = max(scores, key=scores.get)  # the first of equals
        logging.info(
            "Best %s so far: %.4f at step %d", self.metric, scores[best], best
        )
        if best == step:
            fitted.export(self.job)
        if cluster.is_chief():
            file_system.write_text(
                self.job.path(fitted._SCORES), json.dumps(scores)
            )
        return self._is_enough(scores)

    def scores_so_far(self) -> dict[int, float]:
        """Return step -> score of the evaluations while training."""
        return fitted.scores_in(self.flags.output_dir)

    def _is_enough(self, scores: Mapping[int, float]) -> bool:
        if not scores or not self.flags.early_stopping_patience:
            return False
        best = max(scores, key=scores.get)
        worse = sum(step > best for step in scores)
        if worse >= self.flags.early_stopping_patience:
            logging.info("No better score in %d evaluations: enough", worse)
            return True
        return False


def write_saved_model(job: finetuning_job.Job) -> None:
    """Write the SavedModel of the weights as they are."""
    start, directory = job.start, export_dir(job.flags)
    if job.flags.do_train and tf.io.gfile.exists(directory):
        logging.warning("%s exists already: not written again", directory)
        return
    tokenizer = graph_tokenizer.Tokenizer(start.vocab_file, start.do_lower_case)
    model = job.saved_model(tokenizer)
    if cluster.is_chief():
        saved_model.write(model, directory)


# --- The whole --------------------------------------------------------------


def run(
    script: str,
    flag_values: flags.FlagValues,
    job_class: type[finetuning_job.Job],
) -> int:
    """Train, score, predict, export as the flags say; return exit status.

    Args:
        script: the runner's file, for the runs of a sweep.
        flag_values: its FLAGS.
        job_class: the task.
    """
    f = flag_values
    if not sweeps.is_asked_for(f):
        return _run_once(f, job_class, f.do_train, f.do_eval)
    _sweep(script, f, job_class)
    if f.do_export or f.do_predict:
        return _run_once(f, job_class, do_train=False, do_eval=False)
    return 0


def _run_once(
    flag_values: flags.FlagValues,
    job_class: type[finetuning_job.Job],
    do_train: bool,
    do_eval: bool,
) -> int:
    f = flag_values
    strategy = fit.strategy_from_flags(f)
    job = job_class(f, source.find_source(f, do_train), do_train)
    metric = job_class.deciding_metric(f) if f.eval_steps else None
    if do_train:
        claim_output_dir(job)
    file_system.make_directory(f.output_dir)
    file_system.make_directory(job.records_dir(), "records_dir")
    tf.keras.utils.set_random_seed(f.random_seed)
    with strategy.scope():
        job.model = job.create_model()
    job.predictor = prediction.Predictor(strategy, job.forward, f.jit_compile)
    if do_train and not Trainer(job, strategy, metric).train():
        return 1
    # What was scored while training may be of weights that were not kept.
    scores_best = do_eval or (do_train and bool(f.eval_steps))
    if scores_best or f.do_predict or f.do_export:
        step = fitted.restore_fitted(job)
        if scores_best:
            job.evaluate(step)
        if f.do_predict:
            job.predict()
        if f.do_export:
            write_saved_model(job)
    return 0


def _sweep(
    script: str,
    flag_values: flags.FlagValues,
    job_class: type[finetuning_job.Job],
) -> None:
    """Make every run of a sweep, keep the best one's model."""
    f, metric = flag_values, job_class.deciding_metric(flag_values)
    todo = sweeps.runs(f)
    if not f.do_train:
        raise UserError(
            "restarts and sweeps need --do_train: --num_restarts and --sweep_* "
            "make training runs"
        )
    # Reads the files of every job: here rather than in the first run, or,
    # those to predict, after the last one.
    job_class(f, source.find_source(f, do_train=True), is_training=True)
    file_system.make_directory(f.output_dir)

    def command(run: sweeps.SweepRun, folder: str) -> list[str]:
        return sweeps.command_of(
            script,
            f,
            run,
            folder,
            do_eval=True,
            records_dir=f.records_dir or f.output_dir,
        )

    best = sweeps.run_all(f.output_dir, todo, command, metric)
    sweeps.copy_best(best, f.output_dir, job_class.results)
