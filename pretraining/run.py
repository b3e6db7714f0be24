"""A pre-training run: its records, model, training and evaluation."""

import dataclasses
import functools
import gc
import hashlib
import json
import math
import os
import shlex
from collections.abc import Callable, Collection
from typing import NamedTuple

from base import file_system, hashing, logs
from base.errors import UserError

import keras
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import lookup, published, weight_files
from checkpoints.checkpoint import (
    open_checkpoint,
    read_trained_for,
    write_model,
)
from checkpoints.model import Checkpoint
from checkpoints.run_folder import Identity, RunFolder, differing
from checkpoints.tokenizer_folder import Folder
from pretraining import records as pretraining_records
from pretraining.model import BertForPreTraining, PreTrainingHeads
from pretraining.objectives import PretrainingObjective
from pretraining.records import PretrainingFiles
from tokenization import Vocabulary
from training import agreement, compilation, loop, reporting, start, train_step
from training.plan import Plan, Run
from training.settings import TrainingSettings
from training.task_model import RowCost


class Runs(NamedTuple):
    """The run in output_dir, and the one that --resume_from names.

    Attributes:
        folder: what output_dir holds.
        resume_from: the newest checkpoint of the other run; None: there is no
            other one.
        before: its folder.
    """

    folder: RunFolder
    resume_from: str | None = None
    before: RunFolder | None = None

    @classmethod
    def read(cls, output_dir: str, resume_from: str | None) -> "Runs":
        """Return what both folders hold now."""
        folder = RunFolder.read(output_dir)
        if not resume_from:
            return cls(folder)
        prefix = lookup.find_training_checkpoint(resume_from)
        return cls(folder, prefix, RunFolder.read(lookup.folder_of(prefix)))

    @property
    def both(self) -> list[RunFolder]:
        """The folders of both runs, output_dir first."""
        return [run for run in (self.folder, self.before) if run]

    @property
    def place(self) -> str | None:
        """The checkpoint that the command goes on from; None: a new run."""
        return self.folder.resumed or self.resume_from

    @property
    def continued(self) -> RunFolder:
        """The folder of the run that the command goes on with."""
        before = None if self.folder.resumed else self.before
        return before or self.folder


def warn_of_missed_steps(settings: TrainingSettings, runs: Runs) -> None:
    """Warn of steps to keep that the run has passed without keeping them."""
    done = weight_files.global_step(runs.place) if runs.place else 0
    kept = set().union(*(run.names for run in runs.both))
    missed = [
        step
        for step in settings.keep_steps
        if step <= done and f"step-{step}" not in kept
    ]
    if missed:
        logging.warning(
            "--keep_steps: %d steps are done, so the weights of %s cannot be "
            "kept in %s",
            done,
            ", ".join(map(str, missed)),
            settings.output_dir,
        )


def with_casing(source: Checkpoint, resume_from: str | None) -> Checkpoint:
    """Return the model with the casing that is written beside its vocabulary.

    The flag says it, else the checkpoint that the run begins with, else the
    vocabulary.

    Raises:
        UserError: the flag contradicts the checkpoint, or there is no
            vocabulary beside which it could be written.
    """
    files = source.files
    if not files.vocabulary:
        if files.do_lower_case is not None:
            raise UserError(
                "--do_lower_case is written beside the vocabulary: give "
                "--vocab_file"
            )
        return source
    if resume_from and not source.prefix:
        folder = Folder(lookup.folder_of(resume_from))
        files = dataclasses.replace(files, folder=folder, prefix=resume_from)
    if "do_lower_case" not in files.said:
        # The vocabulary decides, also for a model of the hub.
        files = dataclasses.replace(files, folder=None, prefix="")
    _ = files.settings  # errors come before the training
    return dataclasses.replace(source, files=files)


def vocabulary_digest(vocabulary: Vocabulary | None) -> str | None:
    """Return a digest of the tokens, in whatever form a file has them."""
    if not vocabulary:
        return None
    tokens = "\n".join(vocabulary.tokens)
    return hashlib.sha256(tokens.encode()).hexdigest()


# What to say if the files of a run that is resumed are others.
_HINTS = {
    "vocabulary": "its records have ids of that vocabulary: give the "
    "--vocab_file that the run began with, or use another --output_dir",
    "records": "restore them; to train the model further on these records, "
    "give this folder as --resume_from, and another --output_dir",
    "heldout_data": "scores from here on are of other held-out records",
}

# What a phase of a run has of its own, besides what open_source checks.
_OF_A_PHASE = (
    "records file_order max_seq_length max_predictions_per_seq packing "
    "vocabulary num_train_steps train_hours"
).split()


def check_same_objective(
    run: RunFolder, objective: str, what: str, mend: str
) -> None:
    """Check that a run can be resumed or scored with an objective.

    A run that does not name its objective is not checked. A configuration
    without the key may be of any objective, since earlier versions had none.

    Raises:
        UserError: the run has another objective. The message begins with
            `what`; `mend` says what to do.
    """
    name = None
    if run.fixed:
        # Runs of fine-tuning have such a file too.
        if run.fixed.keys() & {"packing", "max_predictions_per_seq"}:
            name = run.fixed["objective"]
    # Weights without their run, as --keep_steps leaves them.
    elif published.BERT_CONFIG_NAME in run.names:
        path = os.path.join(run.path, published.BERT_CONFIG_NAME)
        name = read_trained_for(path).objective
    if name and name != objective:
        raise UserError(
            f"{what} is of a run with --objective={name}, not {objective}: "
            f"{mend}"
        )


# In fewer steps new weights may learn no more than the frequencies of tokens.
# In so many, of the recipe small_budget, 4 layers of 256 came to a perplexity
# of 138 where frequencies have 528 (docs/records/small_budgets.md).
_FEWEST_STEPS = 570


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingPlan(Plan):
    """A pre-training, or the evaluation of a pre-trained model.

    Attributes:
        source: a checkpoint, or a configuration and a vocabulary, which are
            written beside the weights.
        settings: how to train.
        runs: what output_dir and the folder of resume_from hold.
        config: the configuration in this run, whose dropout and deviation of
            new weights may be others.
        objective: what the model is trained for.
        data: the training records; None: the weights are scored alone.
        eval_data: the records to evaluate on, which may be `data`, or None.
        do_eval: whether to evaluate at the end.
        eval_batch_size: records of an evaluation batch.
        max_eval_steps: the most batches of an evaluation.
        train_hours: the time that decides the number of steps, if one does.
        new_head: whether a head that the source lacks has new weights.
    """

    source: Checkpoint
    settings: TrainingSettings
    runs: Runs
    config: modeling.BertConfig
    objective: PretrainingObjective
    data: PretrainingFiles | None
    eval_data: PretrainingFiles | None
    do_eval: bool
    eval_batch_size: int
    max_eval_steps: int
    train_hours: float | None = None
    new_head: bool = False

    def check_heads(self, prefix: str) -> None:
        """Check that a checkpoint has the heads that the objective needs.

        Raises:
            UserError: it lacks one, and --new_head is not given; or it has all,
                and --new_head is given.
        """
        shapes = weight_files.Reader(prefix).get_variable_to_shape_map()
        cls = PreTrainingHeads(self.config)
        heads = {"masked LM": cls.predictions}
        if self.objective.predicts_next_sentence:
            heads["next sentence"] = cls.seq_relationship
        lacks = [
            name
            for name, head in heads.items()
            if any(variable.path not in shapes for variable in head.weights)
        ]
        if not lacks and self.new_head:
            raise UserError(
                f"--new_head: {prefix} has all heads of "
                f"--objective={self.objective.name}; leave it out"
            )
        problem = f"{prefix} has no {' or '.join(lacks)} head (cls/...)"
        if lacks and self.new_head:
            logs.say("%s: new weights take its place", problem)
        elif lacks:
            ways = [published.WITH_MASKED_LM]
            if lacks == ["next sentence"]:
                ways = ["--objective=mlm does without it"]
            if self.data:
                ways.append("--new_head trains a new one")
            raise UserError(f"{problem}; {'; '.join(ways)}")

    def eval_batches(
        self, context: tf.distribute.InputContext
    ) -> tf.data.Dataset:
        """Return the batches of an evaluation."""
        return self.eval_data.evaluation(
            self.eval_batch_size, self.max_eval_steps, context
        )

    def identified(self) -> "PretrainingPlan":
        """Return the plan with what may change when the run is resumed, or not.

        Warns of heads without training that a new run begins with.

        Raises:
            UserError: output_dir holds another run, the machines of a cluster
                differ, or what a new run begins with lacks a head.
        """
        prefix, name = self.source.prefix, self.source.trained_for.objective
        if prefix and not self.folder.resumed:
            self.check_heads(prefix)
            if name and self.objective.predicts_next_sentence:
                logging.warning(
                    "%s was pre-trained with --objective=%s, which leaves "
                    "pooler and next sentence head as they were",
                    prefix,
                    name,
                )
        files, settings = self.data.files, self.settings
        digests = map(file_system.content_digest, files)
        names = pretraining_records.names_of(files)
        fixed = {
            "objective": self.objective.name,
            "model": self.config.to_dict(),
            **self.data.describe(),
            **settings.fingerprint(),
            "train_hours": self.train_hours,
            "vocabulary": vocabulary_digest(self.source.files.vocabulary),
            "records": dict(zip(names, digests, strict=True)),
        }
        heldout = None
        if self.eval_data and self.eval_data is not self.data:
            digests = map(file_system.content_digest, self.eval_data.files)
            heldout = hashing.hash64(*digests)
        # Other held-out data are scored, and the model is the same.
        execution = {"heldout_data": heldout, **settings.execution()}
        identity = Identity(fixed, settings.adjustable(), execution, _HINTS)
        agreement.check_same_run(self.strategy, identity.of_machines)
        self.folder.check_same(identity)
        return dataclasses.replace(self, identity=identity)

    def warn_of_training_files(self, records: Collection[str]) -> None:
        """Warn if files to evaluate on have the content of these records."""
        files = self.eval_data.files if self.eval_data else ()
        shared = [f for f in files if file_system.content_digest(f) in records]
        if shared:
            logging.warning(
                "%d evaluation files are training files too, the first: %s; "
                "their scores are better than those of other text",
                len(shared),
                shared[0],
            )

    def steps_that_fit(self) -> int:
        """Return how many steps train_hours are; times some of them."""
        logs.report("Timing steps, to know how many fit")
        settings = dataclasses.replace(
            self.settings, num_train_steps=1, num_warmup_steps=0
        )
        run = PretrainingRun(dataclasses.replace(self, settings=settings))
        seconds = loop.seconds_per_step(run.all_steps())
        # Reference cycles keep the moments, which are as large as two models.
        # The training has its own.
        del run
        gc.collect()
        steps = max(1, round(3600 * self.train_hours / seconds))
        logs.say(
            "--train_hours=%g: %s steps of %.4g s",
            self.train_hours,
            f"{steps:,}",
            seconds,
        )
        if steps < _FEWEST_STEPS and not self.settings.init_checkpoint:
            logging.warning(
                "%d steps from new weights are few: the model may end no "
                "better than the frequencies of tokens. What usually helps: %s",
                steps,
                self.what_helps(steps),
            )
        return steps

    def what_helps(self, steps: int) -> str:
        """Return advice on a run of these steps that learns too little."""
        is_new = self.train_hours and not self.settings.init_checkpoint
        if not is_new or steps >= _FEWEST_STEPS:
            return (
                "more steps, a larger batch, another --learning_rate or a "
                "longer warm-up"
            )
        # A tenth more, since no two timings are equal.
        hours = 1.1 * self.train_hours * _FEWEST_STEPS / steps
        ways = [f"--train_hours={hours:.2g}, for {_FEWEST_STEPS} steps or more"]
        if self.config.hidden_size > modeling.NAMED_SIZES["tiny"][1]:
            ways.append("a smaller model")
        return f"{', or '.join(ways)} (docs/small_budgets.md)"


class PretrainingRun(Run):
    """The model of a plan, and the files that it leaves in output_dir."""

    def __init__(self, plan: PretrainingPlan):
        self.plan, self.settings = plan, plan.settings
        self.objective = plan.objective
        self.step = 0  # of the weights
        self.is_of_run = True  # what is evaluated
        self.results: dict[str, float] = {}  # of the last evaluation
        keras.utils.set_random_seed(self.settings.random_seed)
        with plan.strategy.scope():
            self.model = BertForPreTraining(
                plan.config,
                self.settings.dtype,
                self.objective.predicts_next_sentence,
            )
        if not plan.data:
            self.step = self._restore()

    @functools.cached_property
    def evaluator(self) -> Callable[[], reporting.Means]:
        """Scores the model on `eval_data`."""
        from training import evaluation  # where something is scored

        return evaluation.Evaluator(
            self.plan.strategy,
            self.model,
            self.objective.objective,
            self.plan.eval_batches,
            self.settings.jit_compile,
        )

    # --- Training ------------------------------------------------------------

    def training(self) -> loop.Training:
        """Say what there is to train; return it."""
        plan, settings = self.plan, self.settings
        if plan.runs.before and not plan.folder.resumed:
            values = plan.identity.fixed | plan.identity.results
            plan.runs.before.warn_of_other_phase(
                {n: x for n, x in values.items() if n not in _OF_A_PHASE}
            )
        if plan.eval_data is not plan.data:
            records = plan.identity.fixed["records"].values()
            plan.warn_of_training_files(records)
        warn_of_missed_steps(settings, plan.runs)
        if settings.num_warmup_steps > settings.num_train_steps:
            logging.warning(
                "num_warmup_steps=%d exceeds num_train_steps=%d: the learning "
                "rate never reaches %g; give --num_warmup_steps=%d, a tenth",
                settings.num_warmup_steps,
                settings.num_train_steps,
                settings.learning_rate,
                settings.num_train_steps // 10,
            )
        start.say_plan(plan.data.num_records, settings, plan.strategy)
        return self.all_steps()

    def all_steps(self) -> loop.Training:
        """Return the training of the run."""
        plan, settings = self.plan, self.settings
        length, predictions = plan.data.lengths
        return loop.Training(
            train_step.Step(
                plan.strategy,
                self.model,
                self.objective.objective,
                settings,
                compilation.for_training(plan.strategy, settings),
            ),
            functools.partial(
                plan.data.training,
                settings.train_batch_size,
                settings.random_seed,
            ),
            lambda step: length,
            plan.folder,
            plan.identity,
            self.evaluate,
            self.keep,
            row_cost=RowCost(logits=predictions * plan.config.vocab_size),
        )

    def finish(self, done: int, is_last: bool) -> bool:
        """Write the weights of a run that is over; return whether it is."""
        self.step = done
        if is_last:
            self._write_model(self.settings.output_dir)
        return is_last

    def _write_model(self, folder: str, step: int | None = None) -> None:
        """Write the weights, and the files that belong to them, to a folder."""
        write_model(
            folder,
            self.model,
            dataclasses.replace(
                self.plan.source, trained_for=self.objective.trained_for
            ),
            step,
        )

    def keep(self, step: int) -> None:
        """Write the weights after a step of --keep_steps to a folder."""
        folder = os.path.join(self.settings.output_dir, f"step-{step}")
        file_system.make_directory(folder)
        self._write_model(folder, step)

    # --- Evaluation ----------------------------------------------------------

    def evaluate(self, step: int) -> None:
        """Evaluate; write the scores to summaries and eval_results.txt.

        Those of a run have `degenerate = 1` if the perplexity is not at least a
        tenth below that of the tokens' frequencies, as it is in most runs for a
        while, and in some to their end.
        """
        if self.results.get("global_step") == step:  # the end of the training
            return
        means = self.evaluator()
        means.pop("tokens")
        (perplexity,) = self.objective.objective.perplexities.values()
        limit = math.exp(self._frequency_loss)
        is_degenerate = means[perplexity] > 0.9 * limit
        if not self.objective.predicts_next_sentence:
            means.pop("loss")  # the only loss has a name of its own
        results = {**means, "global_step": step}
        if is_degenerate and self.is_of_run:
            results["degenerate"] = 1
        # Before the last step the model may still learn more.
        is_trained = self.plan.identity is not None
        is_last = not is_trained or step >= self.settings.last_step
        if is_degenerate and is_last:
            helps = self.plan.what_helps(self.settings.num_train_steps)
            logging.warning(
                "%s %.2f: to know only how frequent each token is gives %.2f. "
                "%s",
                perplexity,
                means[perplexity],
                limit,
                f"What usually helps: {helps}"
                if self.is_of_run
                else "The model knows next to nothing of this text",
            )
        reporting.write_results(self.settings.output_dir, results, step)
        if not is_last:
            reporting.log_line(
                logs.say,
                [f"Evaluation at step {step:,}"],
                [f"{name} {value:.4f}" for name, value in means.items()],
            )
        self.results = results

    @functools.cached_property
    def _frequency_loss(self) -> float:
        alone = tf.distribute.InputContext()
        return self.objective.frequency_loss(self.plan.eval_batches(alone))

    def use(self) -> None:
        """Evaluate; draw curves.png of a training; say scores and model."""
        plan, folder = self.plan, shlex.quote(self.settings.output_dir)
        if plan.do_eval:
            self.evaluate(self.step)
        if plan.identity and self.settings.pictures:
            from training import curves

            loss, accuracy, *_ = self.objective.objective.names
            plot = curves.read(
                self.settings.output_dir,
                self.settings.log_steps,
                # If there are several losses, their sum is minimized.
                ("loss", loss),
                accuracy,
                is_degenerate="degenerate" in self.results,
            )
            curves.write(self.settings.output_dir, plot)
        if self.results:
            files = plan.eval_data.files
            others = f" and {len(files) - 1} more" if len(files) > 1 else ""
            reporting.log_results(
                reporting.results_path(self.settings.output_dir),
                self.results,
                f"Evaluation results of {files[0]}{others}",
                notes={
                    name: "  (token frequencies alone: "
                    f"{math.exp(self._frequency_loss):.2f})"
                    for name in self.objective.objective.perplexities.values()
                },
            )
        if plan.identity:
            fills = self.objective.attention_direction == modeling.BIDIRECTIONAL
            logs.say(
                "The model is in %s%s",
                folder,
                f"; try: python fill_mask.py --init_checkpoint={folder} "
                "--text='The capital of France is [MASK].'"
                if fills and plan.source.files.vocabulary
                else "",
            )

    def _restore(self) -> int:
        """Set the weights to evaluate without training; return their step.

        Raises:
            UserError: there are none, or they were trained for another
                objective.
        """
        run, flag = self.plan.folder, "--output_dir"
        source = run.latest
        if not source and self.settings.init_checkpoint:
            source = lookup.find_checkpoint(self.settings.init_checkpoint)
            run = RunFolder.read(lookup.folder_of(source))
            flag, self.is_of_run = "--init_checkpoint", False
        if not source:
            raise UserError(
                f"--do_eval: {self.settings.output_dir} holds no checkpoint "
                "and there is no --init_checkpoint; untrained weights would "
                "score noise"
            )
        check_same_objective(
            run,
            self.objective.name,
            f"{flag}={source}",
            "score it with its own",
        )
        # The configuration of the flags may not be the one beside the weights.
        wanted = self.objective.attention_direction
        if lookup.config_beside(source):
            direction = open_checkpoint(source).config.attention_direction
            if direction != wanted:
                raise UserError(
                    f"--do_eval: {source} is a {direction} model, "
                    f"--objective={self.objective.name} scores {wanted} ones"
                )
        self.plan.check_heads(source)
        records = run.fixed.get("records") or {}
        self.plan.warn_of_training_files(records.values())
        if "masking" in run.fixed and (masks := self.plan.eval_data.masks):
            before = run.fixed["masking"]
            masking = json.loads(json.dumps(masks.describe()))
            if masking != before:
                logging.warning(
                    "The run drew its masks with %s: scores of the run and "
                    "of this command are not alike",
                    differing("masking", before, masking),
                )
        weight_files.restore_weights(
            self.model.variables, source, self.model.required
        )
        return weight_files.global_step(source)
