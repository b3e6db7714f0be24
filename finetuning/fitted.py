"""Find, restore and write fine-tuned models."""

import os
import re
from typing import Any, NamedTuple

import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from base import text_files
from base.errors import UserError
from checkpoints import lookup, model_files, weight_files
from finetuning import job as finetuning_job

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


class ModelSource(NamedTuple):
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


def find_source(flag_values: flags.FlagValues, do_train: bool) -> ModelSource:
    """Return configuration, vocabulary and casing of the model meant.

    Training starts from init_checkpoint, whatever output_dir holds: it is
    what the run began with. Without training a fitted model in output_dir is
    described by what lies beside it.
    """
    f = flag_values
    fitted = os.path.join(f.output_dir, lookup.WEIGHTS_NAME)
    prefix = ""
    if not do_train and tf.io.gfile.exists(fitted + ".index"):
        prefix = fitted
    elif f.init_checkpoint:
        prefix = lookup.find_checkpoint(f.init_checkpoint)
    elif not do_train and not tf.train.latest_checkpoint(f.output_dir):
        raise _nothing_fitted(f)
    return read_source(f, prefix, is_fitted=not do_train)


def read_source(
    flag_values: flags.FlagValues, prefix: str, is_fitted: bool = True
) -> ModelSource:
    """Return what lies beside a checkpoint, where no flag says otherwise.

    Args:
        flag_values: the runner's FLAGS.
        prefix: of the checkpoint; empty without one.
        is_fitted: whether the model is used as it is, so that what it was
            fitted with holds.
    """
    f = flag_values
    config = model_files.read_config(prefix, f.bert_config_file)
    length = f.max_seq_length
    if is_fitted:
        length = _fitted_length(f, config)
    model_files.check_length(length, config)
    tokenizer = model_files.load_tokenizer(
        prefix, config, f.vocab_file, f.do_lower_case
    )
    return ModelSource(prefix, config, tokenizer, length)


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


def scores_in(output_dir: str) -> dict[int, float]:
    """Return step -> score of the evaluations while training."""
    path = os.path.join(output_dir, _SCORES)
    found = text_files.read_own_json(path) or {}
    return {int(step): score for step, score in found.items()}


def export(job: finetuning_job.Job) -> None:
    """Write the weights as they are, with all a predictor needs."""
    for name in ADDED_TO_CONFIG:  # of the model it began as
        vars(job.config).pop(name, None)
    if job.fitted_task:
        job.config.task = job.fitted_task
    job.add_to_config(job.config)
    model_files.write_model(
        job.flags.output_dir,
        job.model,
        job.config,
        job.start.vocab_file,
        job.start.do_lower_case,
    )


# --- After training ---------------------------------------------------------


def restore_fitted(job: finetuning_job.Job) -> int:
    """Set the weights to score or predict with; return their step.

    Raises:
        UserError: there are none, none with a fitted head, or its head is
            another task's.
    """
    f = job.flags
    prefix = fitted_in(f.output_dir)
    if not prefix and f.init_checkpoint:
        prefix = lookup.find_checkpoint(f.init_checkpoint)
    if not prefix:
        raise _nothing_fitted(f)
    reader = weight_files.open_reader(prefix)
    paths = [variable.path for variable in job.model.variables]
    wanted = [path for path in paths if re.search(job.head_pattern, path)]
    if not any(map(reader.has_tensor, wanted)):
        raise UserError(
            f"{prefix} has no head for this task ({wanted[0]}): scores of an "
            "untrained head are noise; --do_train first, or name the "
            "output_dir of a fine-tuned model as --init_checkpoint"
        )
    if lookup.beside(prefix, lookup.BERT_CONFIG_NAME) or (
        tf.io.gfile.isdir(prefix)
    ):
        fitted = getattr(model_files.read_config(prefix), "task", None)
        check_fitted_task(fitted, job.fitted_task, prefix, "this runner")
    encoder = "^bert/" if job.model.uses_pooler else weight_files.ENCODER
    weight_files.restore_weights(
        job.model.variables, prefix, required=f"{encoder}|{job.head_pattern}"
    )
    job.restored_from = prefix
    scores = scores_in(f.output_dir)
    if scores:
        return int(max(scores, key=scores.get))
    latest = tf.train.latest_checkpoint(f.output_dir)
    return weight_files.global_step(latest or prefix)


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


def fitted_in(output_dir: str) -> str | None:
    """Return the finished weights in a directory, else its last ones."""
    weights = os.path.join(output_dir, lookup.WEIGHTS_NAME)
    if tf.io.gfile.exists(weights + ".index"):
        return weights
    return tf.train.latest_checkpoint(output_dir)
