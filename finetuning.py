"""Fine-tuning: everything a task's runner does that is not the task's own.

A runner defines flags and a `Job`: its data, its model, its loss, its scores.
What is here starts from the right weights, trains, keeps the best, evaluates,
predicts, exports, and makes sweeps of all that.
"""

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import tensorflow as tf
from absl import flags, logging

import checkpoints
import devices
import heads
import length_buckets
import modeling
import prediction
import running
import saved_model
import serving
import sweeps
import task_records
import tokenization
import training
from errors import UserError

_SCORES = "scores.json"  # of every evaluation while training
# What a fine-tuned model's configuration says beyond its encoder's.
ADDED_TO_CONFIG = (
    "id2label",
    "sentence_pairs",
    "task",
    "feature_layers",
    "lstm_units",
    "document_context",
    "max_seq_length",
    "version_2_with_negative",
)


class Start(NamedTuple):
    """What a run stands on: the checkpoint and what lies beside it."""

    prefix: str  # of checkpoints.find_checkpoint; empty without one
    config: modeling.BertConfig
    tokenizer: tokenization.FullTokenizer
    max_seq_length: int  # the flag's, or what a fitted model says

    @property
    def vocab_file(self) -> str:
        """The vocabulary's file."""
        return self.tokenizer.vocab_file

    @property
    def do_lower_case(self) -> bool:
        """Whether text is lower-cased."""
        return self.tokenizer.basic_tokenizer.do_lower_case


class TrainingData(Protocol):
    """What a job trains on; length_buckets.ShortRecords is one."""

    num_records: int

    def training(
        self, batch_size: int, seed: int, is_fine: bool
    ) -> length_buckets.TrainingBatches:
        """Return the endless stream of training batches."""


class Job:
    """A task as fine-tuning sees it; a runner's subclass fills it in.

    Args:
        flag_values: the runner's FLAGS.
        start: model description and tokenizer.
        is_training: whether this is more than scoring what is there.

    Attributes:
        head: pattern of the variables only a fitted model has.
        fits: `task` of a fitted configuration, for heads whose variables do
            not say what they are for.
        loss: what the training loop needs of the task.
        results: what an evaluation leaves in output_dir.
    """

    head: str
    fits: str | None = None
    loss: training.Task
    results: tuple[str, ...] = ("eval_results.txt",)

    def __init__(
        self, flag_values: flags.FlagValues, start: Start, is_training: bool
    ):
        self.flags, self.start = flag_values, start
        self.config, self.tokenizer = start.config, start.tokenizer
        self.model: modeling.TaskModel
        self.predictor: prediction.Predictor
        self.restored_from: str | None = None  # where the weights are on disk

    # What a task says of itself.

    @classmethod
    def deciding_metric(cls, flag_values: flags.FlagValues) -> str:
        """Return the key of eval_results.txt that tells the best weights.

        Raises:
            UserError: there is nothing to score.
        """
        raise NotImplementedError

    def create_model(self) -> modeling.TaskModel:
        """Return the model, its variables made in the caller's scope."""
        raise NotImplementedError

    def forward(self, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return what prediction keeps of a batch, {name: [B, ...]}."""
        return {"logits": self.model(batch)}

    def identity(self) -> dict[str, Any]:
        """Return what the training data are made of."""
        raise NotImplementedError

    def train_data(self) -> TrainingData:
        """Return what to train on; called once output_dir is ours."""
        raise NotImplementedError

    def num_examples(self, data: TrainingData) -> int:
        """Return how many examples make an epoch."""
        return data.num_records

    def flops_per_example(self, length: int) -> float:
        """Return the operations of training on one example."""
        return heads.training_flops(self.config, 1, length)

    def evaluate(self, step: int) -> dict[str, float]:
        """Score the development data; write and return the results."""
        raise NotImplementedError

    def predict(self) -> None:
        """Write the predictions of the test data."""
        raise NotImplementedError

    def describe(self, config: modeling.BertConfig) -> None:
        """Add to an exported configuration what a predictor needs."""

    def saved_model(self, tokenizer: serving.Tokenizer) -> saved_model.Export:
        """Return what --do_export writes."""
        raise NotImplementedError

    # What they have in common.

    def path(self, name: str) -> str:
        """Return the path of a file in output_dir."""
        return checkpoints.join(self.flags.output_dir, name)

    def records_dir(self) -> str:
        """Return where records go."""
        return self.flags.records_dir or self.flags.output_dir

    def write_lines(self, name: str, lines: list[str]) -> None:
        """Write a file of predictions to output_dir; say so."""
        if devices.is_chief():
            checkpoints.write_text(self.path(name), "\n".join(lines) + "\n")
        logging.info("  %s", self.path(name))

    def read_back(self, name: str) -> Any:
        """Return what a JSON file in output_dir holds, None without one."""
        return task_records.read_own_json(self.path(name))


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
    if f.do_export and not (f.do_train and _fitted_in(f.output_dir)):
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
    return checkpoints.join(flag_values.output_dir, "saved_model/1")


def find_start(flag_values: flags.FlagValues, do_train: bool) -> Start:
    """Return configuration, vocabulary and casing of the model meant.

    Training starts from init_checkpoint, whatever output_dir holds: it is
    what the run began with. Without training a fitted model in output_dir is
    described by what lies beside it.
    """
    f = flag_values
    fitted = checkpoints.join(f.output_dir, checkpoints.WEIGHTS_NAME)
    prefix = ""
    if not do_train and tf.io.gfile.exists(fitted + ".index"):
        prefix = fitted
    elif f.init_checkpoint:
        prefix = checkpoints.find_checkpoint(f.init_checkpoint)
    elif not do_train and not tf.train.latest_checkpoint(f.output_dir):
        raise _nothing_fitted(f)
    return read_start(f, prefix, is_fitted=not do_train)


def read_start(
    flag_values: flags.FlagValues, prefix: str, is_fitted: bool = True
) -> Start:
    """Return what lies beside a checkpoint, where no flag says otherwise.

    Args:
        flag_values: the runner's FLAGS.
        prefix: of the checkpoint; empty without one.
        is_fitted: whether the model is used as it is, so that what it was
            fitted with holds.
    """
    f = flag_values
    config = checkpoints.read_config(prefix, f.bert_config_file)
    length = f.max_seq_length
    if is_fitted:
        length = _fitted_length(f, config)
    running.check_length(length, config)
    tokenizer = running.load_tokenizer(
        prefix, config, f.vocab_file, f.do_lower_case
    )
    return Start(prefix, config, tokenizer, length)


def _fitted_length(
    flag_values: flags.FlagValues, config: modeling.BertConfig
) -> int:
    """Return --max_seq_length, where not given the fitted model's own."""
    given = flag_values.max_seq_length
    fitted = getattr(config, "max_seq_length", given)
    if not flag_values["max_seq_length"].present:
        return fitted
    if given != fitted:
        logging.warning(
            "--max_seq_length=%d; the model was fitted with %d", given, fitted
        )
    return given


def _nothing_fitted(flag_values: flags.FlagValues) -> UserError:
    return UserError(
        f"{flag_values.output_dir} holds no fitted model and there is no "
        "--init_checkpoint: --do_train first"
    )


# --- Training ---------------------------------------------------------------


def encoder_config(config: modeling.BertConfig) -> dict[str, Any]:
    """Return what a configuration says of the encoder, fitted or not."""
    return {
        name: value
        for name, value in config.to_dict().items()
        if name not in ADDED_TO_CONFIG
    }


def claim_output_dir(job: Job) -> None:
    """Refuse an output_dir that belongs to another model or other data."""
    running.claim_output_dir(
        job.flags,
        {
            "model": encoder_config(job.config),
            "data": job.identity(),
            "pad_to_max_length": job.flags.pad_to_max_length,
        },
        ("num_train_epochs", "warmup_proportion"),
    )


def create_settings(
    flag_values: flags.FlagValues, num_examples: int
) -> tuple[training.Settings, running.Recipe]:
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
        running.from_flags(training.Settings, f, num_train_steps=steps),
        running.from_flags(running.Recipe, f, num_warmup_steps=warmup),
    )


class Trainer:
    """Trains a job's model and keeps its best weights.

    Args:
        job: the task, its model made.
        strategy: where that was.
        metric: the score that decides.
    """

    def __init__(
        self, job: Job, strategy: tf.distribute.Strategy, metric: str | None
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
            jit_compile=running.compiles(self.strategy, settings, one_length),
            jit_compile_update=settings.jit_compile,
        )
        running.log_beginning(data.num_records, settings)
        by_length = settings.jit_compile or devices.is_tpu(self.strategy)
        batches = data.training(
            f.train_batch_size, f.random_seed, is_fine=not by_length
        )
        done = running.fit(
            self.strategy,
            self.job.model,
            self.job.loss,
            settings,
            recipe,
            training.Batches(
                batches.make, batches.length, by_length and not one_length
            ),
            self.job.flops_per_example,
            self.keep_best,
        )
        return self._finish(done, settings)

    def _finish(self, done: int, settings: training.Settings) -> bool:
        """Keep the last weights where they count; say whether it is over."""
        scores = self.scores_so_far()
        if done < settings.last_step:
            return self._is_enough(scores)
        if not settings.eval_steps and not scores:
            export(self.job)
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
            export(self.job)
        if devices.is_chief():
            checkpoints.write_text(self.job.path(_SCORES), json.dumps(scores))
        return self._is_enough(scores)

    def scores_so_far(self) -> dict[int, float]:
        """Return step -> score of the evaluations while training."""
        return scores_in(self.flags.output_dir)

    def _is_enough(self, scores: Mapping[int, float]) -> bool:
        if not scores or not self.flags.early_stopping_patience:
            return False
        best = max(scores, key=scores.get)
        worse = sum(step > best for step in scores)
        if worse >= self.flags.early_stopping_patience:
            logging.info("No better score in %d evaluations: enough", worse)
            return True
        return False


def scores_in(output_dir: str) -> dict[int, float]:
    """Return step -> score of the evaluations while training."""
    path = checkpoints.join(output_dir, _SCORES)
    found = task_records.read_own_json(path) or {}
    return {int(step): score for step, score in found.items()}


def export(job: Job) -> None:
    """Write the weights as they are, with all a predictor needs."""
    for name in ADDED_TO_CONFIG:  # of the model it began as
        vars(job.config).pop(name, None)
    if job.fits:
        job.config.task = job.fits
    job.describe(job.config)
    running.export(
        job.flags.output_dir,
        job.model,
        job.config,
        job.start.vocab_file,
        job.start.do_lower_case,
    )


# --- After training ---------------------------------------------------------


def restore_fitted(job: Job) -> int:
    """Set the weights to score or predict with; return their step.

    Raises:
        UserError: there are none, none with a fitted head, or its head is
            another task's.
    """
    f = job.flags
    prefix = _fitted_in(f.output_dir)
    if not prefix and f.init_checkpoint:
        prefix = checkpoints.find_checkpoint(f.init_checkpoint)
    if not prefix:
        raise _nothing_fitted(f)
    reader = checkpoints.open_reader(prefix)
    paths = [variable.path for variable in job.model.variables]
    wanted = [path for path in paths if re.search(job.head, path)]
    if not any(map(reader.has_tensor, wanted)):
        raise UserError(
            f"{prefix} has no head for this task ({wanted[0]}): scores of an "
            "untrained head are noise; --do_train first, or name the "
            "output_dir of a fine-tuned model as --init_checkpoint"
        )
    if checkpoints.beside(prefix, checkpoints.BERT_CONFIG_NAME) or (
        tf.io.gfile.isdir(prefix)
    ):
        fitted = getattr(checkpoints.read_config(prefix), "task", None)
        check_fitted_task(fitted, job.fits, prefix, "this runner")
    encoder = "^bert/" if job.model.uses_pooler else checkpoints.ENCODER
    checkpoints.restore_weights(
        job.model.variables, prefix, required=f"{encoder}|{job.head}"
    )
    job.restored_from = prefix
    scores = scores_in(f.output_dir)
    if scores:
        return int(max(scores, key=scores.get))
    latest = tf.train.latest_checkpoint(f.output_dir)
    return checkpoints.global_step(latest or prefix)


def check_fitted_task(
    fitted: str | None, wanted: str | None, prefix: str, who: str
) -> None:
    """Compare what a head was fitted to with what it is to do.

    A regression's and a multiple-choice head are both [1, H].

    Args:
        fitted: `task` of the configuration beside it; None: a classifier, a
            regression or span head.
        wanted: the same of who is to use it.
        prefix: the checkpoint.
        who: wants it.

    Raises:
        UserError: they differ.
    """
    if fitted != wanted:
        raise UserError(
            f"{prefix} was fitted to another task: task in its configuration "
            f"is {fitted or 'not set'}, {who} wants {wanted or 'none'}; use "
            "what it was fitted with, or mend `task` beside it if that is wrong"
        )


def _fitted_in(output_dir: str) -> str | None:
    """Return the finished weights in a directory, else its last ones."""
    weights = checkpoints.join(output_dir, checkpoints.WEIGHTS_NAME)
    if tf.io.gfile.exists(weights + ".index"):
        return weights
    return tf.train.latest_checkpoint(output_dir)


def write_saved_model(job: Job) -> None:
    """Write the SavedModel of the weights as they are."""
    start, directory = job.start, export_dir(job.flags)
    if job.flags.do_train and tf.io.gfile.exists(directory):
        logging.warning("%s exists already: not written again", directory)
        return
    tokenizer = serving.Tokenizer(start.vocab_file, start.do_lower_case)
    model = job.saved_model(tokenizer)
    if devices.is_chief():
        saved_model.write(model, directory)


# --- The whole --------------------------------------------------------------


def run(
    script: str, flag_values: flags.FlagValues, job_class: type[Job]
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
    job_class: type[Job],
    do_train: bool,
    do_eval: bool,
) -> int:
    f = flag_values
    strategy = running.create_strategy(f)
    job = job_class(f, find_start(f, do_train), do_train)
    metric = job_class.deciding_metric(f) if f.eval_steps else None
    if do_train:
        claim_output_dir(job)
    checkpoints.make_directory(f.output_dir)
    checkpoints.make_directory(job.records_dir(), "records_dir")
    tf.keras.utils.set_random_seed(f.random_seed)
    with strategy.scope():
        job.model = job.create_model()
    job.predictor = prediction.Predictor(strategy, job.forward, f.jit_compile)
    if do_train and not Trainer(job, strategy, metric).train():
        return 1
    # What was scored while training may be of weights that were not kept.
    scores_best = do_eval or (do_train and bool(f.eval_steps))
    if scores_best or f.do_predict or f.do_export:
        step = restore_fitted(job)
        if scores_best:
            job.evaluate(step)
        if f.do_predict:
            job.predict()
        if f.do_export:
            write_saved_model(job)
    return 0


def _sweep(
    script: str, flag_values: flags.FlagValues, job_class: type[Job]
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
    job_class(f, find_start(f, do_train=True), is_training=True)
    checkpoints.make_directory(f.output_dir)

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
