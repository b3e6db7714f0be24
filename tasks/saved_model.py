"""Write a SavedModel that takes strings, for servers without this project.

Its signatures are those of graph.py.

assets.extra/export.json says what the model was exported for, so that
batch_predict.py can make the ids of texts itself. It also has a checksum of the
weights, by which a later command knows whether it would export the same ones.
"""

import contextlib
import glob
import hashlib
import json
import os
from collections.abc import Iterator
from typing import Any

from base import file_system, logs, progress, text_files
from base.errors import UserError

import tensorflow as tf
from absl import logging

import modeling
from tasks.graph import TaskGraph

# Below a SavedModel's directory; TensorFlow leaves the second folder to others.
VOCABULARY = "assets/vocab.txt"
DESCRIPTION = "assets.extra/export.json"

CHECKSUM = "weights_sha256"  # its key for the checksum of the weights


def write(graph: TaskGraph, directory: str) -> None:
    """Write a SavedModel; the directory appears only when it is complete.

    TF Serving reads directories whose names are numbers.

    Raises:
        UserError: the directory exists.
    """
    directory = directory.rstrip("/")
    description = _describe(graph)
    graph.skip_padding()
    clock = progress.clock("Writing the SavedModel")
    with clock, _new_directory(directory) as temporary:
        with modeling.kernels_kept() as kept:
            signatures = graph.signatures()
        variables = graph.model.variables
        graph.weights = [kept.get(v.path, v.value) for v in variables]
        signature = signatures["serving_default"]
        specs = signature.structured_input_signature[1]
        first, *others = specs

        def call(texts):
            return signature(**(texts if others else {first: texts}))

        # Programs call it with one argument: strings, or a dict of them where
        # the signature has several inputs. tf.saved_model.load and
        # hub.KerasLayer call the model; TFSMLayer, `serve`.
        graph.__call__ = graph.serve = tf.function(
            call, [specs if others else specs[first]], autograph=False
        )
        tf.saved_model.save(graph, temporary, signatures)
        for name in (VOCABULARY, DESCRIPTION):
            folder = os.path.dirname(os.path.join(temporary, name))
            tf.io.gfile.makedirs(folder)
        path = os.path.join(temporary, VOCABULARY)
        file_system.write_bytes(path, graph.task.tokenizer.vocabulary.content)
        path = os.path.join(temporary, DESCRIPTION)
        text_files.write_json(path, description, ensure_ascii=False)
    logs.say("Wrote the SavedModel to %s", directory)
    for name, function in signatures.items():
        log = logs.say if name == "serving_default" else logging.info
        log(
            "Signature %s takes %s; gives %s",
            name,
            ", ".join(sorted(function.structured_input_signature[1])),
            ", ".join(sorted(function.structured_outputs)),
        )


@contextlib.contextmanager
def _new_directory(directory: str) -> Iterator[str]:
    """Yield a directory to fill, which gets its name when the block ends.

    TF Serving loads a directory as soon as its name is a number. The temporary
    name has the number of the process, since two may write the same export.
    """
    for left in tf.io.gfile.glob(f"{glob.escape(directory)}.*.tmp"):
        number = left.removeprefix(f"{directory}.").removesuffix(".tmp")
        if number.isdecimal() and not file_system.is_running(int(number)):
            tf.io.gfile.rmtree(left)  # left by a process that was killed
    temporary = f"{directory}.{os.getpid()}.tmp"
    try:
        tf.io.gfile.makedirs(temporary)  # and its parents
        yield temporary
        check_new(directory)
        tf.io.gfile.rename(temporary, directory)
    except BaseException:
        if tf.io.gfile.exists(temporary):
            tf.io.gfile.rmtree(temporary)
        raise


def _describe(graph: TaskGraph) -> dict[str, Any]:
    """Return the content of export.json."""
    digest = hashlib.sha256()
    for variable in graph.model.variables:
        digest.update(variable.path.encode())
        digest.update(variable.numpy().tobytes())
    found = graph.task.description() | {CHECKSUM: digest.hexdigest()}
    # Through JSON tuples become lists, as in the file.
    return json.loads(json.dumps(found))


def check_written(graph: TaskGraph, directory: str, prefix: str) -> None:
    """Check that a directory holds the SavedModel of a graph; log it.

    Raises:
        UserError: the directory holds something else, or a SavedModel with
            other weights or settings.
    """
    if not tf.io.gfile.exists(os.path.join(directory, "saved_model.pb")):
        check_new(directory)
    found = text_files.read_own_json(os.path.join(directory, DESCRIPTION))
    for name, value in _describe(graph).items():
        if found.get(name, None if name == CHECKSUM else value) == value:
            continue
        what = f"a SavedModel with {name} = {found.get(name)}, not {value}"
        if name == CHECKSUM:
            what = f"the SavedModel of other weights than {prefix}"
        raise UserError(
            f"--export_dir={directory} holds {what}: give the same command "
            "with a new one, such as a higher number, or remove it"
        )
    logs.say(
        "%s exists already and holds the weights of %s: not written again",
        directory,
        prefix,
    )


def check_new(directory: str) -> None:
    """Check that the path of an export does not exist and can be created.

    Creates its parent, so that a run fails before it trains, not after.

    Raises:
        UserError: the path exists, or its parent cannot be created.
    """
    if tf.io.gfile.exists(directory):
        raise UserError(
            f"--export_dir={directory} exists already: give a new one, such "
            "as a directory with a higher number or another file name"
        )
    file_system.make_directory(os.path.dirname(directory) or ".", "export_dir")
