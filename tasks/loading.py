"""From a checkpoint to its task, its model and its graph, for any task.

settings = describe(open_checkpoint("mrpc"))
graph = load_graph(settings)
"""

from collections.abc import Mapping
from typing import Any

from base.errors import UserError

from absl import logging

import modeling
from checkpoints import weight_files
from checkpoints.checkpoint import Checkpoint, read_config
from tasks import graph_tokenizer, registry, saved_model
from tasks.masked_lm import filling
from tasks.task import Settings

_FEATURE_TAGGING = "feature_tagging"  # TrainedFor.task


def describe(
    checkpoint: Checkpoint,
    task: str | None = None,
    given: Mapping[str, Any] | None = None,
    needs_rows: bool = True,
) -> Settings:
    """Return the settings of a checkpoint, from the files beside it.

    Args:
        checkpoint: of any model.
        task: one of registry.NAMES; None: what it has a head for.
        given: fields of Settings that the user gave; None: not given.
        needs_rows: whether the model has to run on rows of ids.

    Raises:
        UserError: it cannot do the task, or lacks files.
    """
    task = choose_task(checkpoint, task, needs_rows)
    found = {name: v for name, v in (given or {}).items() if v is not None}
    found.setdefault("max_seq_length", checkpoint.max_seq_length)
    checkpoint.check_length(found["max_seq_length"])
    found = registry.find(task).options_of(checkpoint, found)
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
        vocab_file=checkpoint.tokenizer.vocab_file,
        do_lower_case=checkpoint.do_lower_case,
        trained_for=checkpoint.trained_for,
        **found,
    )


def choose_task(
    checkpoint: Checkpoint, task: str | None = None, needs_rows: bool = True
) -> str:
    """Return the given task, else that of the checkpoint's head.

    Args:
        checkpoint, task, needs_rows: as for `describe`.

    Raises:
        UserError: the head was fine-tuned on another task or reads words
            alone, or the model sees left of a [MASK] alone.
    """
    prefix, names = checkpoint.prefix, checkpoint.shapes
    if task == "masked_lm":
        filling.check_sees_both_sides(checkpoint.config, prefix)
    fine_tuned_task = checkpoint.trained_for.task
    is_feature_tagger = fine_tuned_task == _FEATURE_TAGGING
    direction = checkpoint.config.attention_direction
    own = "encoder"
    if "cls/squad/output_weights" in names:
        own = "question_answering"
    elif is_feature_tagger:
        own = "token_classification"
    elif "output_weights" in names:
        own = fine_tuned_task or "classifier"
    elif "cls/predictions/output_bias" in names:
        own = "masked_lm" if direction == modeling.BIDIRECTIONAL else own
    if task in (None, own, "encoder"):
        if is_feature_tagger and needs_rows and task != "encoder":
            raise UserError(
                f"{prefix} tags words by a BiLSTM on frozen features: it reads "
                "words, and no rows of ids. Use run_ner.py --do_predict, or a "
                "SavedModel (export_saved_model.py)"
            )
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


def load_graph(
    settings: Settings, has_texts: bool = False
) -> saved_model.Export:
    """Return the graph of a checkpoint, its weights restored.

    Args:
        settings: of the checkpoint.
        has_texts: whether it takes strings, not only ids.

    Raises:
        UserError: the checkpoint lacks variables that the task needs.
    """
    task = registry.create_task(settings)
    config, _ = read_config(settings.path, settings.bert_config_file)
    model = task.create_model(config, settings.dtype)
    weight_files.restore_weights(model.variables, settings.path, task.required)
    tokenizer = None
    if has_texts:
        tokenizer = graph_tokenizer.Tokenizer(
            settings.vocab_file, settings.do_lower_case
        )
    return task.graph(model, tokenizer)
