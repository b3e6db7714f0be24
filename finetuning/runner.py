"""Fine-tune, score, predict and export a job, once or as a sweep."""

import contextlib
import dataclasses
import math
import shlex
from collections.abc import Callable, Mapping

from base import cluster, file_system, logs
from base.errors import UserError

import keras
import tensorflow as tf
from absl import logging
from absl.flags import FlagValues

from checkpoints import run_folder, weight_files
from checkpoints.model import Checkpoint
from checkpoints.run_folder import Identity, RunFolder
from extras import mistakes
from finetuning.flags import (
    ENOUGH_STEPS,
    FEW_STEPS,
    Work,
    asks_for_sweep,
    read_settings,
)
from tasks import fine_tuned
from tasks.fine_tuned import find_source
from tasks.job import FineTuningJob, Learned, LoadedModel, usual_rate
from tasks.settings import RunSettings, bilstm_in
from training import (
    agreement,
    compilation,
    curves,
    devices,
    dtypes,
    layers,
    loop,
    prediction,
    reporting,
    scalars,
    start,
    train_step,
)
from training.plan import Plan, Run, carry_out
from training.settings import TrainingFlags, TrainingSettings

# By how much an accuracy on the examples of the training has to be above that
# on others to be told.
_BY_HEART = 0.2


# Settings, and the model that a run starts from or uses -> what the flags of a
# script describe.
CreateWork = Callable[[RunSettings, Checkpoint], Work]


def run_script(f: FlagValues, script: str, create_work: CreateWork) -> int:
    """Train, score, predict and export as the flags of a script ask.

    A sweep trains and scores each of its runs, and predicts and exports with
    the best one. Returns the exit status.
    """
    with contextlib.ExitStack() as stack:
        if f.do_train or ("calibrate" in f and f.calibrate):
            stack.enter_context(run_folder.locked(f.output_dir))
        folder = RunFolder.read(f.output_dir)
        is_sweep = asks_for_sweep(f)
        settings = read_settings(f, folder)
        if is_sweep:
            run_sweep(f, script, settings, create_work)
            if not settings.do_predict and not settings.do_export:
                return 0
            settings = dataclasses.replace(
                settings,
                do_train=False,
                do_eval=False,
                folder=RunFolder.read(folder.path),
            )
        plan = make_plan(settings, create_work, stack)
        status = carry_out(FineTuningRun(plan))
        if status and settings.restart:
            logs.say("To go on, leave --restart out: it would begin anew")
        return status


@dataclasses.dataclass(frozen=True, kw_only=True)
class FineTuningPlan(Plan):
    """A fine-tuning, or the use of a fine-tuned model.

    Attributes:
        work: what the flags ask for.
        learned: the training data and the objective; None: nothing is trained,
            or the training has ended early before.
        settings: how to train, and how long; None like `learned`.
    """

    work: Work
    learned: Learned | None = None
    settings: TrainingSettings | None = None


def make_plan(
    settings: RunSettings, create_work: CreateWork, stack: contextlib.ExitStack
) -> FineTuningPlan:
    """Return what the settings ask for, all files checked.

    With --restart the run in output_dir is moved aside, once all is checked.
    The stack gets the lock of the folder that takes its place. Training records
    are written to records_dir, unless they are there: their number makes the
    steps.

    Raises:
        UserError: a file or a flag cannot work, or output_dir holds something
            else.
    """
    folder, restarts = settings.folder, settings.do_train and settings.restart
    if restarts:
        empty = RunFolder(folder.path)
        settings = dataclasses.replace(settings, folder=empty)
    source = find_source(settings)
    strategy = devices.create_strategy(settings)
    continued = [settings.folder] if settings.do_train else ()
    dtype = dtypes.resolve(settings.dtype, strategy, continued)
    settings = dataclasses.replace(settings, dtype=dtype)
    work = create_work(settings, source)
    job = work.job
    if settings.eval_steps:
        job.deciding_metric()  # raises an error without data to score
    identity = None
    if settings.do_train:
        identity = identity_of(work)
        # An output_dir that holds another run keeps its records and scores.
        folder.check_no_sweep()
        agreement.check_same_run(strategy, identity.of_machines)
        settings.folder.check_same(identity)
    if restarts:
        folder.move_aside(job.source.prefix)
        stack.enter_context(run_folder.locked(folder.path))
    logs.say("Model: %s", job.source.in_words())
    plan = FineTuningPlan(
        folder=settings.folder, strategy=strategy, identity=identity, work=work
    )
    patience = settings.early_stopping_patience
    if not identity or fine_tuned.Scores(plan.folder).end_early(patience):
        return plan
    learned = job.learned()
    if work.wrapper:
        learned = work.wrapper.learned(learned)
    training = with_steps(job.settings, job.num_examples(learned.data))
    usual = usual_rate(job.source)
    if usual and not settings.is_rate_given:
        logs.say(
            "Learning rate %g, that of %s; --learning_rate=5e-5 overrides this",
            *usual,
        )
    return dataclasses.replace(plan, learned=learned, settings=training)


def identity_of(work: Work) -> Identity:
    """Return what must not change when a run is resumed, and what may.

    The model that a run begins with is compared only if there is one: with
    --bert_config_file and --vocab_file a run is resumed without it.
    """
    job, settings, wrapper = work.job, work.job.settings, work.wrapper
    size = bilstm_in(job.source.trained_for)
    fixed = {
        "model": job.config.to_dict(),
        "data": job.data_fingerprint(),
        # The best weights are chosen by scores of one development set.
        "heldout_data": [job.fingerprint(data) for data in job.dev]
        if settings.eval_steps
        else None,
        "long_texts": job.trained_for().to_dict().get("long_texts"),
        **(size._asdict() if size.bilstm_layers else {}),
        **(wrapper.fingerprint() if wrapper else {}),
        **settings.fingerprint(),
    }
    if prefix := job.source.prefix:
        fixed["init_checkpoint"] = [
            file_system.sha256(path) for path in weight_files.files_of(prefix)
        ]
    results = settings.adjustable() | job.adjustable()
    return Identity(fixed, results, settings.execution())


def with_steps(settings: RunSettings, num_examples: int) -> TrainingSettings:
    """Return how to train, and how many steps by the epochs, as the original.

    Without --num_train_epochs there are 3 epochs, as in the original, or if
    these are few steps as many as make ENOUGH_STEPS.

    Raises:
        UserError: there are too few examples for one step, or too many epochs.
    """
    size, epochs = settings.train_batch_size, settings.num_train_epochs
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
    return TrainingSettings(
        **{
            field.name: getattr(settings, field.name)
            for field in dataclasses.fields(TrainingFlags)
        },
        num_train_steps=steps,
        num_warmup_steps=math.floor(steps * settings.warmup_proportion),
    )


# --- The run -----------------------------------------------------------------


class FineTuningRun(Run):
    """The model of a plan, what it learns, and the scores on the way."""

    def __init__(self, plan: FineTuningPlan):
        self.plan, self.work = plan, plan.work
        self.job, self.settings = plan.work.job, plan.work.job.settings
        self.scores = fine_tuned.Scores(plan.folder)
        # New variables are drawn from Keras' global seed, on every machine
        # alike.
        keras.utils.set_random_seed(self.settings.random_seed)
        with plan.strategy.scope():
            model = self.job.task.create_model(self.settings.dtype)
        run = prediction.on_devices(
            plan.strategy, model.outputs, self.settings.jit_compile
        )
        self.loaded = LoadedModel(model, run)

    def training(self) -> loop.Training | None:
        """Return the training; None if it has ended early before.

        A run that stopped early has steps left, which would be trained.

        What XLA compiles depends on the lengths of batches. If it compiles for
        each length, batches have few lengths.
        """
        job, plan, model = self.job, self.plan, self.loaded.model
        if not plan.learned:
            plan.folder.check_finished(plan.identity)
            logs.say("%s ended early: nothing to train", plan.folder.path)
            return None
        if not plan.folder.listed:
            # A run that was killed before its first checkpoint begins again.
            self.scores.forget_from(0)
        settings = plan.settings
        data = job.begin(self.loaded, plan.learned.data)
        size, config = settings.train_batch_size, job.config
        row = job.row_cost()
        batches = data.training(size, settings.random_seed, is_fine=True)
        compiles = compilation.for_training(
            plan.strategy,
            settings,
            None if self.settings.pad_to_max_length else batches.length,
            size * row.encoded * config.num_hidden_layers * config.hidden_size,
        )
        if compiles.per_length:
            batches = data.training(size, settings.random_seed, is_fine=False)
        layers.freeze(model, settings.freeze_layers)
        start.say_plan(data.num_examples, settings, plan.strategy)
        return loop.Training(
            train_step.Step(
                plan.strategy, model, plan.learned.objective, settings, compiles
            ),
            batches.make,
            batches.length,
            plan.folder,
            plan.identity,
            self.score_and_keep,
            row_cost=row,
        )

    def finish(self, done: int, is_last: bool) -> bool:
        """Write or score the last weights; return whether the run is over."""
        if not is_last:
            # A run that stopped early is over; one that got a signal is not.
            return self.scores.end_early(self.settings.early_stopping_patience)
        # If an earlier command has scores, its best weights stay, unless this
        # command has trained further without --eval_steps: then the last
        # weights are kept. What is there already may have been tuned since;
        # only a command that calibrates begins with the weights as trained.
        scores = self.scores.by_step
        eval_steps = self.settings.eval_steps
        if not eval_steps and (not scores or done > max(scores)):
            kept = self.plan.folder.kept
            is_there = kept and weight_files.global_step(kept) == done
            if self.work.calibrate or not is_there:
                fine_tuned.write_model(self.job, self.loaded.model, done)
            self.scores.forget_from(0)
        elif eval_steps and done not in scores:
            # The last step is not a multiple of eval_steps.
            self.score_and_keep(done)
        return True

    def score_and_keep(self, step: int) -> bool:
        """Score the weights, keep them if best; return whether it ends."""
        metric, scores = self.job.deciding_metric(), self.scores
        # Before its end a run may still learn: only its last weights show signs
        # of a failure.
        scored = self.job.evaluate(self.loaded).results
        results = scored | {"global_step": step}
        reporting.write_results(self.plan.folder.path, results, step)
        # A run that was killed resumes from its last checkpoint, and scores
        # some steps again. Scores of later steps are left from before that.
        scores.forget_from(step)
        scores.by_step[step] = results[metric]
        reporting.log_line(
            logs.say,
            [f"Evaluation at step {step:,}", f"{metric} {results[metric]:.4f}"],
            [f"{n} {value:.4f}" for n, value in scored.items() if n != metric],
            [
                f"best {metric} {scores.by_step[scores.best]:.4f} at step "
                f"{scores.best:,}"
            ],
        )
        if scores.best == step:
            fine_tuned.write_model(self.job, self.loaded.model, step)
        scores.write()
        patience = self.settings.early_stopping_patience
        if ends := scores.end_early(patience):
            logs.say(
                "No better score in %d evaluations: training ends", patience
            )
        return ends

    def use(self) -> None:
        """Score the weights that are kept, predict, draw and export.

        eval_results.txt has `degenerate = 1` if there are signs of a failed
        run.
        """
        job, settings = self.job, self.settings
        output_dir = settings.output_dir
        do_train, do_eval = settings.do_train, settings.do_eval
        failure: str | None = None  # of a failed run
        results: dict[str, float] = {}
        counts: dict[str, int] = {}  # of the examples of an accuracy
        # With --eval_steps the scores written last are those of the last
        # weights, which need not be the best: the best ones are scored again.
        scores_best = do_eval or (do_train and settings.eval_steps > 0)
        if scores_best or settings.do_predict or settings.do_export:
            prefix, step = fine_tuned.restore(job, self.loaded.model)
            loaded = self.loaded._replace(prefix=prefix)
            if scores_best:
                scored = job.evaluate(loaded)
                if self.work.calibrate:
                    scored = self.work.calibrate(loaded, scored)
                failure = scored.failure
                for data, part in zip(job.dev, scored.predictions, strict=True):
                    counts[f"{job.prefix(data)}accuracy"] = part.count
                results = scored.results | {"global_step": step}
                if failure:
                    results["degenerate"] = 1
                reporting.write_results(output_dir, results, step)
                mistakes.write(job, scored)
            if settings.do_predict:
                job.predict(loaded)
        if do_train and settings.pictures:
            drawn = curves.read(
                output_dir,
                settings.log_steps,
                ("loss",),
                job.deciding_metric() if scores_best else None,
                is_degenerate=bool(failure),
                # Without scores on the way the last weights are kept.
                kept=self.scores.best if self.scores.by_step else 0,
            )
            curves.write(output_dir, drawn)
        try:
            if settings.do_export:
                # After all else, since an export that exists may be an error.
                write_saved_model(job, loaded)
        finally:
            # The last lines of the run, so that they are read.
            if results:
                titles = " and ".join(data.title for data in job.dev)
                reporting.log_results(
                    reporting.results_path(output_dir),
                    results,
                    f"Evaluation results of {titles}",
                    counts,
                )
            if failure:
                logging.warning(
                    "%s failed: %s. It has learned next to nothing. %s",
                    "This run"
                    if do_train
                    else "The run that fine-tuned this model",
                    failure,
                    _way_out(step, job),
                )
            elif do_train:
                _say_what_was_learned_by_heart(output_dir, results)
                folder = shlex.quote(output_dir)
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
    settings = job.settings
    is_tried = rate == settings.learning_rate
    what = (
        f"What usually helps is {'another ' * is_tried}--learning_rate"
        f"{'' if is_tried else f'={rate:g}'}, "
        f"{'' if settings.bias_correction else '--bias_correction, '}or "
        "several runs (--num_restarts=5), of which the best is kept"
    )
    if steps < FEW_STEPS:
        what = (
            f"{steps} steps are few: train longer, without --num_train_epochs "
            "or with a larger number"
        )
    return f"{what}. Begin anew with another --output_dir, or with --restart"


# --- Export and sweeps -------------------------------------------------------


def write_saved_model(job: FineTuningJob, loaded: LoadedModel) -> None:
    """Write the SavedModel of the restored weights, unless it is there.

    Raises:
        UserError: there is one of other weights, or something else.
    """
    from tasks import saved_model  # where one is written

    directory = job.settings.export_dir
    graph = job.create_graph(loaded)
    if not cluster.is_chief():
        return
    # Of a command that is repeated until its run is finished. Of others
    # flags.check has refused a directory that exists.
    if tf.io.gfile.exists(directory):
        saved_model.check_written(graph, directory, loaded.prefix)
    else:
        saved_model.write(graph, directory)


def run_sweep(
    f: FlagValues, script: str, settings: RunSettings, create_work: CreateWork
) -> None:
    """Make every run of a sweep; copy the best one's model and results."""
    from extras import sweeps

    if cluster.has_other_workers():
        raise UserError(
            "a sweep runs on one machine: unset TF_CONFIG, or give the "
            "commands of its runs one by one"
        )
    if settings.restart:
        raise UserError(
            "--restart is for a single run: give a sweep another --output_dir"
        )
    settings.folder.check_no_run()
    # Reads all files now: what is wrong in them is found before the first run,
    # not after the last one.
    work = create_work(settings, find_source(settings))
    job, identity = work.job, identity_of(work)
    metric = job.deciding_metric()
    heldout = [job.fingerprint(data) for data in job.dev]
    inputs = [identity.fixed, identity.adjustable, heldout]
    logs.write_to(settings.output_dir)
    of_hub = identity.results.get("init_checkpoint")
    sweep = sweeps.from_flags(f, script, of_hub)
    best = sweeps.run_all(sweep, settings.output_dir, metric, inputs)
    results = (*job.result_files, *mistakes.files(job))
    sweeps.copy_best(best, settings.output_dir, results)
