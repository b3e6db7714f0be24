"""Find a model, describe it, load it: a checkpoint or an exported SavedModel.

Both run the same function: `answers` of the task's export, which takes ids.
A SavedModel has it as its signature `ids`.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from base import file_system, packages, text_files
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import logging

import modeling
from checkpoints import hub, huggingface, lookup, weight_files
from checkpoints.checkpoint import Checkpoint, open_checkpoint
from tasks import bilstm, registry, saved_model
from tasks.masked_lm import filling
from tasks.task import Model, Settings

# --- Describing --------------------------------------------------------------


def describe(
    path: str,
    task: str | None = None,
    bert_config_file: str | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    **options: Any,
) -> Settings:
    """Return the settings of the model at a path.

    Args:
        path: a directory with a SavedModel or a checkpoint, or the prefix of
            a checkpoint.
        task: one of registry.NAMES; None: what the model was fine-tuned on.
        bert_config_file: of a checkpoint; None: beside it.
        vocab_file: None: beside the checkpoint, or in the SavedModel.
        do_lower_case: None: as the model was trained.
        **options: more fields of Settings; None: the model's own value, else
            the default.

    Raises:
        UserError: there is no model, it lacks files, or it cannot do the
            task.
    """
    given = {
        name: value for name, value in options.items() if value is not None
    }
    if hub.is_name(path) or not file_system.exists(
        os.path.join(path, "saved_model.pb")
    ):
        checkpoint = open_checkpoint(
            path, bert_config_file, vocab_file, do_lower_case, "model"
        )
        return describe_checkpoint(checkpoint, task, given)
    for name, value in (
        ("bert_config_file", bert_config_file),
        ("vocab_file", vocab_file),
        ("do_lower_case", do_lower_case),
        ("max_seq_length", given.get("max_seq_length")),
        ("top_k", given.get("top_k")),
        ("dtype", given.get("dtype")),
    ):
        if value is not None:
            raise UserError(
                f"--{name} is for checkpoints; the SavedModel {path} has its "
                "own: leave the flag out"
            )
    return _describe_saved_model(path, task, given)


def _describe_saved_model(
    path: str, task: str | None, given: Mapping[str, Any]
) -> Settings:
    """Return the settings of a SavedModel, from its export.json."""
    place = os.path.join(path, saved_model.DESCRIPTION)
    if not file_system.exists(place):
        raise UserError(
            f"--model={path} is a SavedModel without {saved_model.DESCRIPTION}"
            ": export it again with export_saved_model.py or --do_export, or "
            "give the checkpoint it was made from"
        )
    found = text_files.read_json_object(place)
    described = registry.described_settings(found, place)
    if task and task != found["task"]:
        raise UserError(
            f"--task={task}, but {path} was exported with --task="
            f"{found['task']}: export it with --task={task}"
        )
    vocab = os.path.join(path, "assets", lookup.VOCAB_NAME)
    if not file_system.exists(vocab):
        names = tf.io.gfile.glob(os.path.join(path, "assets", "*"))
        if len(names) != 1:
            raise UserError(f"{path}/assets holds no vocabulary: export again")
        vocab = names[0]
    return Settings(
        path,
        is_saved_model=True,
        bert_config_file=None,
        vocab_file=vocab,
        **described | dict(given),
    )


def describe_checkpoint(
    checkpoint: Checkpoint, task: str | None, given: Mapping[str, Any]
) -> Settings:
    """Return the settings of a checkpoint.

    Args:
        checkpoint: with a vocabulary.
        task: see `describe`.
        given: fields of Settings that the user gave.

    Raises:
        UserError: as `describe`.
    """
    task = choose_task(task, checkpoint)
    tokenizer = checkpoint.tokenizer
    given = {"max_seq_length": checkpoint.max_seq_length, **given}
    checkpoint.check_length(given["max_seq_length"])
    given = registry.find(task).options_of(checkpoint, given)
    if checkpoint.trained_for.document_context:
        logging.warning(
            "%s was fine-tuned with document context; here every input is a "
            "document of its own",
            checkpoint.prefix,
        )
    return Settings(
        checkpoint.prefix,
        is_saved_model=False,
        bert_config_file=checkpoint.bert_config_file,
        task=task,
        vocab_file=tokenizer.vocab_file,
        do_lower_case=checkpoint.do_lower_case,
        **given,
    )


def choose_task(task: str | None, checkpoint: Checkpoint) -> str:
    """Return the given task, else that of the checkpoint's head.

    Raises:
        UserError: the head was fine-tuned on another task or reads features, or
            the model sees left of a [MASK] alone.
    """
    prefix, config = checkpoint.prefix, checkpoint.config
    if task == "masked_lm":
        filling.check_sees_both_sides(config, prefix)
    fine_tuned_task = checkpoint.trained_for.task
    if fine_tuned_task == "feature_tagging" and task in (
        None,
        "token_classification",
    ):
        raise UserError(
            f"{prefix} tags words by a BiLSTM on frozen features, which batch "
            "prediction does not do: use run_ner.py --do_predict"
        )
    is_bidirectional = config.attention_direction == modeling.BIDIRECTIONAL
    own, variables = "encoder", checkpoint.shapes
    if "cls/squad/output_weights" in variables:
        own = "question_answering"
    elif "output_weights" in variables:
        own = fine_tuned_task or "classifier"
    elif "cls/predictions/output_bias" in variables and is_bidirectional:
        own = "masked_lm"
    if task in (None, own, "encoder"):
        return task or own
    heads = ("classifier", "multiple_choice", "token_classification")
    if own in heads and task in heads:
        registry.check_task(
            fine_tuned_task,
            None if task == "classifier" else task,
            prefix,
            f"--task={task}",
        )
    raise UserError(
        f"--task={task}, but {prefix} has no head for it: it can do {own}"
        + ("" if own == "encoder" else " and encoder")
    )


def model_fingerprint(settings: Settings) -> dict[str, str]:
    """Return {file: SHA-256} of everything that determines the outputs."""
    if settings.is_saved_model:
        names = [
            name
            for name, _ in file_system.files_below(settings.path)
            # The index has a checksum of every variable.
            if ".data-" not in name and "assets.extra" not in name
        ]
        files = [os.path.join(settings.path, name) for name in sorted(names)]
    else:
        config = settings.bert_config_file or lookup.beside(
            settings.path,
            huggingface.CONFIG_NAME
            if file_system.is_directory(settings.path)
            else lookup.BERT_CONFIG_NAME,
        )
        files = [*weight_files.files_of(settings.path), settings.vocab_file]
        files += [config] if config else []
    return {os.path.basename(p): file_system.sha256(p) for p in files}


# --- Loading -----------------------------------------------------------------


def load(settings: Settings) -> Model:
    """Return the model as a function of batches.

    Raises:
        UserError: weights are missing, or a SavedModel has no signature for
            ids.
    """
    if settings.is_saved_model:
        return _on_arrays(_load_saved_model(settings))
    return run_export(create_export(settings))


def run_export(export: saved_model.Export) -> Model:
    """Return the signature `ids` of an export as a function of batches."""
    export.skip_padding()  # a sixth faster in batches by length too
    return _on_arrays(export.ids_signature())


def _on_arrays(function: Callable) -> Model:
    """Return a function of tensors as one of arrays."""

    def run(features: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        tensors = {n: tf.constant(v) for n, v in features.items()}
        return {n: v.numpy() for n, v in function(**tensors).items()}

    return run


def _load_saved_model(settings: Settings) -> Callable:
    """Return the signature `ids` of a SavedModel."""
    # Registers the operations of the text signatures.
    packages.load("tensorflow_text", "an exported model", "tensorflow-text")
    try:
        loaded = tf.saved_model.load(settings.path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"--model={settings.path} cannot be loaded: {reason}"
        ) from error
    if "ids" not in loaded.signatures:
        raise UserError(
            f"--model={settings.path} has no signature `ids`, only "
            f"{', '.join(sorted(loaded.signatures)) or 'none'}"
        )
    signature = loaded.signatures["ids"]

    def function(**features: tf.Tensor) -> dict[str, tf.Tensor]:
        return signature(**features)

    function.owner = loaded  # the variables live as long as this object
    return function


def create_export(settings: Settings) -> saved_model.Export:
    """Return the graph of a checkpoint, its weights restored.

    It has no tokenizer, so it has the signature `ids` alone.
    """
    task = registry.create_task(settings)
    checkpoint = open_checkpoint(settings.path, settings.bert_config_file)
    if settings.task == "encoder" and "pooled_output" in settings.vectors:
        checkpoint.warn_of_untrained_pooler()
    model = task.create_model(
        checkpoint.config,
        settings.dtype,
        bilstm.size_in(checkpoint.trained_for),
    )
    weight_files.restore_weights(model.variables, settings.path, task.required)
    return task.graph(model)
