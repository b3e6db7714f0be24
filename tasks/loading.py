"""From a checkpoint or a SavedModel to its task and its model, for any task.

    settings = find("mrpc")
    run = load(settings)
    predictions = predict.predict(create_task(settings), run, inputs, 32)

Both run the same function: `answers` of the task's graph, which takes ids. A
SavedModel has it as its signature `ids`.
"""

import os
from collections.abc import Mapping
from typing import Any

from base import file_system, packages, text_files
from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
from checkpoints import lookup, published, weight_files
from checkpoints.checkpoint import open_checkpoint
from checkpoints.model import Checkpoint
from checkpoints.run_folder import RunFolder
from checkpoints.trained_for import TAIL, LongTexts
from tasks import long_texts, openvino_files, registry, saved_model
from tasks.embeddings.task import Embeddings
from tasks.graph import TaskGraph
from tasks.openvino_files import OpenVinoModel
from tasks.task import Model, TaskSettings
from tokenization import Vocabulary
from training import prediction


def find(path: str, task: str | None = None, **options: Any) -> TaskSettings:
    """Return the settings of the checkpoint or exported model at a path.

    The path is a directory, the prefix of a checkpoint, a name of the hub, or
    an ONNX file.
    The task is one of registry.TASKS; None: what the model has a head for.
    The options are flags of the checkpoint's files and those of `describe`;
    None stands for the model's own value.

    Raises:
        UserError: there is no model, it lacks files, or it cannot do the
            task.
    """
    given = {name: v for name, v in options.items() if v is not None}
    is_onnx = path.endswith(openvino_files.SUFFIX)
    if published.is_of_hub(path) or not (
        is_onnx or file_system.exists(os.path.join(path, "saved_model.pb"))
    ):
        files = {name: given.pop(name, None) for name in registry.FILES}
        checkpoint = open_checkpoint(path, **files, flag="model")
        return describe(checkpoint, task, given)
    if is_onnx:
        return openvino_files.find(path, task, **given)
    place = os.path.join(path, saved_model.DESCRIPTION)
    if not file_system.exists(place):
        raise UserError(
            f"--model={path} is a SavedModel without "
            f"{saved_model.DESCRIPTION}: export it again with "
            "export_saved_model.py or --do_export, or give the checkpoint it "
            "was made from"
        )
    keys = text_files.read_json_object(place)
    names = tf.io.gfile.glob(os.path.join(path, "assets", "*"))
    if len(names) != 1:
        raise UserError(f"{path}/assets holds no vocabulary: export again")
    settings = registry.described(keys, place, path, Vocabulary(names[0]))
    return registry.of_export(settings, task, given)


def describe(
    checkpoint: Checkpoint,
    task: str | None = None,
    given: Mapping[str, Any] | None = None,
    needs_rows: bool = True,
) -> TaskSettings:
    """Return the settings of a checkpoint, from the files beside it.

    `given` are the fields that the user gave. For the task see `find`.
    `needs_rows`: the model has to run on rows of ids.

    Raises:
        UserError: it cannot do the task, or lacks files.
    """
    task = choose_task(checkpoint, task, needs_rows)
    found = {name: v for name, v in (given or {}).items() if v is not None}
    length = found.setdefault("max_seq_length", checkpoint.max_seq_length)
    checkpoint.fitting_length(length, is_given=True)
    task_class, own = registry.find(task), LongTexts()
    if task_class.takes_long_texts:
        own = checkpoint.long_texts
    elif "long_texts" in found:
        raise UserError(
            f"--long_texts={found['long_texts'].how} is for classes, numbers "
            f"and vectors of texts; the model does {task}: leave it out"
        )
    elif checkpoint.long_texts.how == TAIL:
        logging.warning(
            "truncation_side of %s is left, which is not applied in %s: the "
            "beginning of a text is read",
            checkpoint.prefix,
            task,
        )
    found["long_texts"] = long_texts.checked(
        found.get("long_texts", own), length
    )
    settings = TaskSettings(checkpoint, task, task_class.options_type())
    settings = registry.with_options(settings, found)
    settings = task_class.completed(settings)
    if checkpoint.trained_for.document_context:
        logging.warning(
            "%s was fine-tuned with document context; here every input is a "
            "document of its own",
            checkpoint.prefix,
        )
    _ = checkpoint.tokenizer  # reports what is missing
    return settings


def choose_task(
    checkpoint: Checkpoint, task: str | None = None, needs_rows: bool = True
) -> str:
    """Return the given task, else that of the checkpoint's head.

    Raises:
        UserError: the head was fine-tuned on another task or reads words
            alone, the model sees only the text before a [MASK], or no task is
            given and its sentence vectors cannot be made.
    """
    if task in (None, Embeddings.name):
        checkpoint.check_vectors(
            "take the encoder alone, where there is a flag --task "
            "(--task=encoder), or fine-tune it"
        )
    tasks = {name: registry.find(name) for name in registry.TASKS}
    able = [name for name in tasks if tasks[name].fits(checkpoint)]
    chosen = tasks[task or able[0]]
    chosen.check_model(checkpoint, needs_rows)
    if chosen.name in able:
        return chosen.name
    if chosen.head and chosen.head in checkpoint.shapes:
        registry.check_task(
            checkpoint.trained_for.task,
            chosen.trained_as[0],
            checkpoint.prefix,
            f"--task={task}",
        )
    raise UserError(
        f"{checkpoint.prefix} cannot do {task}, as it has no head for it: it "
        f"can do {' and '.join(able)}"
        + f"; {published.WITH_MASKED_LM}"
        * chosen.head.startswith("cls/predictions/")
    )


def trained_columns(checkpoint: Checkpoint) -> tuple[str, ...]:
    """Return the columns from which training read the texts; (): not known.

    They stand in the training_config.json of the run; of a sweep, of its runs;
    of a SavedModel, in the folder of the run that has exported it; of an ONNX
    file, in its own.
    """
    folder = lookup.folder_of(checkpoint.prefix)
    is_onnx = checkpoint.prefix.endswith(openvino_files.SUFFIX)
    if checkpoint.is_exported and not is_onnx:  # saved_model/1
        folder = os.path.join(folder, "../..")
    run = RunFolder.read(folder)
    for place in (run, *run.runs):
        data = place.fixed.get("data")
        columns = data.get("columns") if isinstance(data, dict) else None
        if isinstance(columns, dict):
            found = columns.get("text_a"), columns.get("text_b")
            return tuple(name for name in found if isinstance(name, str))
    return ()


def load_graph(settings: TaskSettings) -> TaskGraph:
    """Return the graph of a checkpoint, its weights restored.

    Raises:
        UserError: the checkpoint lacks variables that the task needs.
    """
    task, checkpoint = registry.create_task(settings), settings.checkpoint
    with modeling.to_be_read(checkpoint.shapes):
        model = task.create_model(settings.dtype)
    weight_files.restore_weights(
        model.variables, checkpoint.prefix, model.required
    )
    return task.create_graph(model)


def load(settings: TaskSettings) -> Model:
    """Return a model as a function of the features of a batch.

    Raises:
        UserError: weights are missing, or a SavedModel has no signature `ids`.
    """
    if not settings.checkpoint.is_exported:
        return run_graph(load_graph(settings))
    path = settings.checkpoint.prefix
    if path.endswith(openvino_files.SUFFIX):
        return OpenVinoModel(settings)
    # Registers the operations of the text signatures.
    packages.load("tensorflow_text", "an exported model", "tensorflow-text")
    try:
        loaded = tf.saved_model.load(path)
    except (OSError, ValueError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"--model={path} cannot be loaded: {reason}") from error
    if "ids" not in loaded.signatures:
        raise UserError(
            f"--model={path} has no signature `ids`, only "
            f"{', '.join(sorted(loaded.signatures)) or 'none'}"
        )
    return prediction.OnDevices(lambda batch: loaded.signatures["ids"](**batch))


def run_graph(graph: TaskGraph) -> Model:
    """Return the signature `ids` of a graph as a function of a batch."""
    graph.skip_padding()  # a sixth faster in batches by length too
    ids = graph.ids_signature()
    run = prediction.OnDevices(lambda batch: ids(**batch))
    run.owner = graph  # the variables live as long as this object
    return run


def fingerprint(settings: TaskSettings) -> list[tuple[str, str]]:
    """Return (file, SHA-256) of everything that determines the outputs."""
    checkpoint = settings.checkpoint
    prefix, config = checkpoint.prefix, checkpoint.bert_config_file
    if prefix.endswith(openvino_files.SUFFIX):
        files = [prefix]
    elif checkpoint.is_exported:
        files = [
            os.path.join(prefix, name)
            for name, _ in file_system.files_below(prefix)
            # The index has a checksum of every variable.
            if ".data-" not in name and "assets.extra" not in name
        ]
    else:
        config = config or lookup.config_beside(prefix)
        files = [*weight_files.files_of(prefix), checkpoint.vocab_file]
        files += [config] if config else []
    return [
        (os.path.basename(path), file_system.sha256(path))
        for path in sorted(files)
    ]
