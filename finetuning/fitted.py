"""Find, restore and write fine-tuned models."""

import os
import re
from typing import Any

import tensorflow as tf

import modeling
from base import text_files
from base.errors import UserError
from checkpoints import lookup, model_files, weight_files
from finetuning import job as finetuning_job
from finetuning import source

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
    model_files.export(
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
        raise source.nothing_fitted(f)
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
