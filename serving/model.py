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

from checkpoints import hub, huggingface, lookup, weight_files
from checkpoints.checkpoint import open_checkpoint
from tasks import loading, registry, saved_model
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
        settings = loading.describe(checkpoint, task, given)
        if settings.task == "encoder" and "pooled_output" in settings.vectors:
            checkpoint.warn_of_untrained_pooler()
        return settings
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
    return run_export(loading.load_graph(settings))


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
