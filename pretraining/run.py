"""A pre-training run: its records, model, training and evaluation."""

import functools
import gc
import hashlib
import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from base import file_system, hashing
from base.errors import UserError, counted

import tensorflow as tf
from absl import logging

import modeling
import tokenization
from checkpoints import (
    lookup,
    run_settings,
    weight_files,
)
from checkpoints.checkpoint import read_config, write_model
from pretraining import model as pretraining_model
from pretraining import records as pretraining_records
from pretraining.objectives import PretrainingObjective
from pretraining.on_the_fly import Masks
from pretraining.phases import Phase, Plan
from pretraining.records import PretrainingFiles
from records import streaming
from tokenization import Normalization
from training import (
    agreement,
    compilation,
    curves,
    evaluation,
    loop,
    memory,
    reporting,
    start,
    train_step,
)
from training.settings import Settings

# The training records of each length of sequences.
DataByLength = Mapping[int, PretrainingFiles]

_FILES_LOGGED = 20


def read_data(
    patterns: str,
    flag: str,
    config: modeling.BertConfig,
    max_seq_length: int,
    max_predictions_per_seq: int,
    masks: Masks | None,
) -> PretrainingFiles:
    """Return the record files of a flag, checked and logged."""
    files = file_system.find_files(patterns, flag)
    data = pretraining_records.find_data(
        files, config, max_seq_length, max_predictions_per_seq, masks
    )
    logging.info("*** Input Files (--%s) ***", flag)
    for path in files[:_FILES_LOGGED]:
        logging.info("  %s, %s", path, data.describe_file(path))
    if len(files) > _FILES_LOGGED:
        logging.info("  ... and %d more", len(files) - _FILES_LOGGED)
    logging.info(
        "  %d records in %s", data.num_records, counted(len(files), "file")
    )
    if data.is_packed:
        data.log_packing()
    if data.masks:
        found = data.masks.describe().items()
        logging.info(
            "  masks are drawn while reading: %s",
            ", ".join(f"{name} {value}" for name, value in found),
        )
    return data


def warn_of_shared_files(
    train_data: PretrainingFiles, eval_data: PretrainingFiles
) -> None:
    """Warn of evaluation files that are training files too."""
    shared = set(eval_data.files) & set(train_data.files)
    if shared:
        logging.warning(
            "%d evaluation files are training files too, the first: %s",
            len(shared),
            min(shared),
        )


def kept_folder(output_dir: str, step: int) -> str:
    """Return the folder of the weights that --keep_steps keeps at a step."""
    return os.path.join(output_dir, f"step-{step}")


def steps_done(settings: Settings) -> int:
    """Return the step that the run resumes from."""
    latest = lookup.latest_checkpoint(settings.output_dir)
    if settings.resume_from:
        latest = latest or lookup.find_training_checkpoint(settings.resume_from)
    return weight_files.global_step(latest) if latest else 0


def warn_of_missed_steps(settings: Settings) -> None:
    """Warn of steps to keep that the run has passed without keeping them."""
    folders = [settings.output_dir]
    if settings.resume_from:
        folders.append(lookup.folder_of(settings.resume_from))
    done = steps_done(settings)
    missed = [
        step
        for step in settings.keep_steps
        if step <= done
        and not any(
            tf.io.gfile.exists(kept_folder(folder, step)) for folder in folders
        )
    ]
    if missed:
        logging.warning(
            "--keep_steps: %d steps are done, so the weights of %s cannot be "
            "kept in %s",
            done,
            ", ".join(map(str, missed)),
            settings.output_dir,
        )


def identity_of(
    settings: Settings,
    config: modeling.BertConfig,
    objective: PretrainingObjective,
    data: DataByLength,
    plan: Plan,
    vocab_file: str | None,
    eval_data: PretrainingFiles | None,
) -> start.Identity:
    """Return what must not change when a run is resumed, and what may."""
    *shorter, longest = (data[length] for length in sorted(data))
    files = [path for length in sorted(data) for path in data[length].files]
    digests = map(file_system.content_digest, files)
    fixed = {
        # First, since another objective changes the model too.
        "objective": objective.name,
        "model": config.to_dict(),
        **longest.describe(),
        "shorter_data": [files.describe() for files in shorter],
        **settings.fingerprint(),
        **plan.describe(settings.num_train_steps),
        # Last, since other records have other names and counts, too.
        "vocabulary": _vocabulary_digest(vocab_file),
        "records": dict(
            zip(pretraining_records.names_of(files), digests, strict=True)
        ),
    }
    adjustable = {
        "heldout_data": eval_data
        and hashing.hash64(*map(file_system.content_digest, eval_data.files)),
        "num_train_steps": settings.num_train_steps,
        "num_warmup_steps": settings.num_warmup_steps,
        **settings.adjustable(),
    }
    return start.Identity(fixed, adjustable)


def _vocabulary_digest(vocab_file: str | None) -> str | None:
    """Return a digest of the tokens, in whatever form a file has them."""
    if not vocab_file:
        return None
    tokens = "\n".join(tokenization.load_vocab(vocab_file))
    return hashlib.sha256(tokens.encode()).hexdigest()


# What to say if the files of a run that is resumed are others.
HINTS = {
    "vocabulary": "its records have ids of that vocabulary: give the "
    "--vocab_file that the run began with, or use another --output_dir",
    "records": "restore them; to train the model further on these records, "
    "give this folder as --resume_from, and another --output_dir",
    "heldout_data": "scores from here on are of other held-out records",
}


def check_same_vocabulary(resume_from: str, vocab_file: str | None) -> None:
    """Check that a run continues another one with the same vocabulary.

    It is not checked where either is unknown.

    Raises:
        UserError: the ids of the records would stand for other tokens.
    """
    folder = lookup.folder_of(lookup.find_training_checkpoint(resume_from))
    found = (run_settings.read_fingerprint(folder) or {}).get("vocabulary")
    own = _vocabulary_digest(vocab_file)
    if found and own and found != own:
        raise UserError(
            f"--resume_from={resume_from} is a run with another vocabulary "
            f"than {vocab_file}, whose ids stand for other tokens: give the "
            "records and the --vocab_file of that vocabulary"
        )


def check_same_objective(
    path: str, objective: PretrainingObjective, flag: str, mend: str
) -> None:
    """Check that a run can be resumed or scored with an objective.

    A path that does not name its objective is not checked.

    Raises:
        UserError: the run has another objective; `mend` says what to do.
    """
    name = _objective_of(lookup.folder_of(path))
    if name and name != objective.name:
        raise UserError(
            f"{flag}={path} is of a run with --objective={name}, not "
            f"{objective.name}: {mend}"
        )


def _objective_of(folder: str) -> str | None:
    """Return the objective of the pre-training in a folder; None: unknown."""
    found = run_settings.read_fingerprint(folder)
    if found:
        # Runs of fine-tuning have such a file too.
        is_ours = found.keys() & {"packing", "max_predictions_per_seq"}
        return found["objective"] if is_ours else None
    # Weights without their run, as --keep_steps leaves them. A configuration
    # without the key may be of any objective, since earlier versions had none.
    path = os.path.join(folder, lookup.BERT_CONFIG_NAME)
    if not tf.io.gfile.exists(path):
        return None
    return read_config(folder, path)[1].objective


def lengths_of(data: PretrainingFiles) -> tuple[int, int]:
    """Return tokens and predictions of a record, unused places included."""
    schema = data.batch_schema
    return schema["input_ids"].length, schema["masked_lm_ids"].length


def _free_step() -> None:
    """Free the moments of the last training, which reference cycles keep.

    The next one has its own, as large as two models.
    """
    gc.collect()


class TokenizerFiles(NamedTuple):
    """The vocabulary to write beside the weights, and the text it is for.

    Attributes:
        vocab_file: path of the vocabulary.
        normalization: how the records' text was normalized.
    """

    vocab_file: str
    normalization: Normalization


class PretrainingRun:
    """The model of a run, and the files it leaves in output_dir.

    The tokenizer's files are written beside the weights, if there are some; the
    held-out records are evaluated, if there are some.

    Raises:
        UserError: an evaluation batch does not divide among the devices.
    """

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: pretraining_model.BertForPreTraining,
        objective: PretrainingObjective,
        settings: Settings,
        plan: Plan,
        tokenizer: TokenizerFiles | None,
        eval_data: PretrainingFiles | None,
        eval_batch_size: int,
        max_eval_steps: int,
    ):
        self.strategy, self.model = strategy, model
        self.objective = objective
        self.settings, self.plan, self.tokenizer = settings, plan, tokenizer
        self.evaluated_step: int | None = None
        self.results: dict[str, float] = {}  # of that step
        if eval_data:  # before the training, not after it
            streaming.check_divides(
                eval_batch_size,
                strategy.num_replicas_in_sync,
                "--eval_batch_size=",
            )
        self._batches = eval_data and functools.partial(
            eval_data.evaluation, eval_batch_size, max_eval_steps
        )
        self.evaluator = eval_data and evaluation.Evaluator(
            strategy,
            model,
            objective.objective,
            self._batches,
            settings.jit_compile,
        )
        self.is_degenerate = False

    def train(self, data: DataByLength, identity: start.Identity) -> int:
        """Train and write the weights; return the number of steps done.

        After SIGTERM or Ctrl-C they are fewer than all; the same command then
        resumes the run. A finished run may have more than this command asks
        for.
        """
        settings, done = self.settings, steps_done(self.settings)
        phases = [
            phase
            for phase in self.plan.phases(settings.num_train_steps)
            if phase.first_step < settings.last_step
        ]
        trainings = [
            self._training(data[phase.length], phase, identity)
            for phase in phases
        ]
        for training in trainings:  # before the first, not after it
            replicas = self.strategy.num_replicas_in_sync
            train_step.check_batch_size(training.settings, replicas)
        for number, (phase, training) in enumerate(
            zip(phases, trainings, strict=True), 1
        ):
            if done >= phase.last_step and phase is not phases[-1]:
                continue
            if len(phases) == 1:
                files = data[phase.length]
                per_record = files.num_sequences / files.num_records
                start.log_beginning(files.num_records, settings, per_record)
            else:
                logging.info("Phase %d/%d: %s", number, len(phases), phase)
            done = loop.train(training)
            _free_step()
            if done < training.settings.last_step:
                return done
            # The next phase reads the checkpoint that the chief has written.
            agreement.wait_for_all(self.strategy)
        self._write_model(settings.output_dir)
        return done

    def seconds_per_step(self, data: DataByLength) -> float:
        """Return the mean time of the steps of a run, by timing some of each.

        The model stays as it is.
        """
        seconds, steps = 0.0, 1_000_000
        for phase in self.plan.phases(steps):
            share = (phase.last_step - phase.first_step) / steps
            phase = phase._replace(first_step=0, last_step=1, first_example=0)
            training = self._training(
                data[phase.length], phase, start.Identity({}, {})
            )
            seconds += share * loop.seconds_per_step(training)
            _free_step()
        return seconds

    def _training(
        self, data: PretrainingFiles, phase: Phase, identity: start.Identity
    ) -> loop.Training:
        """Return the training of a phase, up to its last step."""
        length, predictions = lengths_of(data)
        settings = self.settings._replace(
            train_batch_size=phase.batch_size,
            stop_after_steps=min(phase.last_step, self.settings.last_step),
        )
        # Where the stream would begin if all steps were as those of the phase.
        begin = phase.first_example - phase.first_step * phase.batch_size

        def make_batches(
            example: int, context: tf.distribute.InputContext
        ) -> tf.data.Dataset:
            return data.in_phase(phase).training(
                phase.batch_size, settings.random_seed, begin + example, context
            )

        return loop.Training(
            self.strategy,
            self.model,
            self.objective.objective,
            settings,
            compilation.for_training(self.strategy, settings.jit_compile),
            make_batches,
            lambda step: length,
            identity,
            self.evaluate,
            self.keep,
            row=memory.Rows(logits=predictions * self.model.config.vocab_size),
            end=self.settings.last_step,
        )

    def _write_model(self, folder: str, step: int | None = None) -> None:
        """Write the weights, and the files that belong to them, to a folder."""
        vocab_file, normalization = self.tokenizer or (None, None)
        write_model(
            folder,
            self.model,
            self.model.config,
            self.objective.trained_for(),
            vocab_file,
            normalization,
            step,
        )

    def keep(self, step: int) -> None:
        """Write the weights after a step of --keep_steps to a folder."""
        folder = kept_folder(self.settings.output_dir, step)
        file_system.make_directory(folder)
        self._write_model(folder, step)

    def evaluate(self, step: int) -> None:
        """Evaluate; write the scores to summaries and eval_results.txt.

        They have `degenerate = 1` if the perplexity is not at least a tenth
        below that of the tokens' frequencies, as it is in most runs for a
        while, and in some to their end.
        """
        if self.evaluated_step == step:  # at the end of the last phase
            return
        means = self.evaluator()
        means.pop("tokens")
        (perplexity,) = self.objective.objective.perplexities.values()
        limit = math.exp(self._frequency_loss)
        self.is_degenerate = means[perplexity] > 0.9 * limit
        if not self.objective.predicts_next_sentence:
            means.pop("loss")  # the only loss has a name of its own
        results = {**means, "global_step": step}
        if self.is_degenerate:
            results["degenerate"] = 1
            # Before the last step the model may still learn more.
            if step >= self.settings.last_step:
                logging.warning(
                    "%s %.2f: to know only how frequent each token is gives "
                    "%.2f. What usually helps: more steps, a larger batch, "
                    "another --learning_rate or a longer warm-up",
                    perplexity,
                    means[perplexity],
                    limit,
                )
        reporting.write_results(self.settings.output_dir, results, step)
        if step < self.settings.last_step:
            reporting.log_line(
                [f"Evaluation at step {step:,}"],
                [f"{name} {value:.4f}" for name, value in means.items()],
            )
        self.evaluated_step, self.results = step, results

    @functools.cached_property
    def _frequency_loss(self) -> float:
        alone = tf.distribute.InputContext()
        return self.objective.frequency_loss(self._batches(alone))

    def draw_curves(self) -> None:
        """Draw curves.png of the finished run."""
        names = self.objective.objective.names
        losses = [name for name in names if name.endswith("_loss")]
        accuracies = [name for name in names if name.endswith("_accuracy")]
        found = curves.read(
            self.settings.output_dir,
            self.settings.log_steps,
            # If there are several losses, their sum is minimized.
            ("loss", losses[0]),
            accuracies[0],
        )
        if found:
            found = found._replace(is_degenerate=self.is_degenerate)
        curves.write(self.settings.output_dir, found)

    def restore_for_evaluation(self) -> int:
        """Set the weights to evaluate without training; return their step.

        Raises:
            UserError: there are none, or they were trained for another
                objective.
        """
        latest = lookup.latest_checkpoint(self.settings.output_dir)
        source = latest or self.settings.init_checkpoint
        if not source:
            raise UserError(
                f"--do_eval: {self.settings.output_dir} holds no checkpoint "
                "and there is no --init_checkpoint; untrained weights would "
                "score noise"
            )
        self._check_source(source)
        # Pooler and next sentence head have no part in the other objectives.
        required = rf"{weight_files.ENCODER}|^cls/predictions/"
        if self.objective.predicts_next_sentence:
            required = r"^(bert|cls)/"
        weight_files.restore_weights(self.model.variables, source, required)
        return weight_files.global_step(source)

    def _check_source(self, source: str) -> None:
        """Raise an error for weights of another objective or direction.

        The configuration of the flags may not be the one beside the weights.
        """
        prefix = lookup.find_checkpoint(source)
        latest = lookup.latest_checkpoint(self.settings.output_dir)
        flag = "--output_dir" if latest else "--init_checkpoint"
        check_same_objective(
            source, self.objective, flag, "score it with its own"
        )
        if not lookup.config_beside(prefix):
            return
        found = read_config(prefix)[0].attention_direction
        if found != self.objective.attention_direction:
            raise UserError(
                f"--do_eval: {prefix} is a {found} model, "
                f"--objective={self.objective.name} scores "
                f"{self.objective.attention_direction} ones"
            )
