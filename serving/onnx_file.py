"""Write a model as an ONNX file, for ONNX Runtime and programs like it.

tf2onnx converts the graph. It copies constants so often that all-MiniLM-L6-v2,
of 90 MB, takes 8 GB and half a minute. So its graph has inputs in place of the
weights, which are put into the result.
"""

import json
from collections.abc import Iterator
from typing import Any

from base import file_system, logs, packages, progress
from base.errors import UserError

import keras
import numpy as np
import tensorflow as tf

from tasks.graph import INPUT_NAMES, Outputs, TaskGraph

# A file of Protocol Buffers cannot be larger.
_MOST_BYTES = 2**31 - 1


def check_converter() -> None:
    """Raise a UserError if tf2onnx is not installed."""
    packages.load(
        "tf2onnx", "--format=onnx", "tf2onnx", "requirements-onnx.txt"
    )


def write(graph: TaskGraph, path: str) -> None:
    """Write the ONNX file of a model, its weights restored.

    Inputs and outputs are those of `TaskGraph.rows_function`. The properties of
    the file have what programs need to make the ids: export.json, as a
    SavedModel has it, and vocab.txt.

    Raises:
        UserError: the model is too large for a file.
    """
    import onnx

    task = graph.task
    size = sum(4 * int(x.shape.num_elements()) for x in graph.weights)
    if size > _MOST_BYTES:
        raise UserError(
            f"{task.checkpoint.prefix} has weights of {size / 1e9:.1f} GB, and "
            "an ONNX file holds 2.1 GB: export it with --format=saved_model"
        )
    with progress.clock("Converting to ONNX"):
        model = _convert(graph)
        properties = {
            "export.json": json.dumps(task.description(), ensure_ascii=False),
            "vocab.txt": task.tokenizer.vocabulary.content.decode(),
        }
        onnx.helper.set_model_props(model, properties)
        data = model.SerializeToString()
        file_system.write_bytes(path, data)
    logs.say(
        "Wrote %s: %s, %.1f MB; it takes %s, int32 [n, S]; gives %s",
        path,
        task.name,
        len(data) / 1e6,
        ", ".join(INPUT_NAMES),
        ", ".join(sorted(output.name for output in model.graph.output)),
    )


def _convert(graph: TaskGraph) -> Any:
    """Return the ONNX model of a graph."""
    import onnx
    import tf2onnx

    function = graph.rows_function()
    variables = graph.model.variables

    def numbers(rows: list[tf.Tensor], weights: list[tf.Tensor]) -> Outputs:
        pairs = zip(variables, weights, strict=True)
        with keras.StatelessScope(list(pairs)):
            return function.python_function(*rows)

    concrete = tf.function(numbers, autograph=False).get_concrete_function(
        list(function.input_signature),
        [tf.TensorSpec(x.shape, x.dtype, x.path) for x in variables],
    )
    # Inputs that are no arguments are constants of the model.
    inputs = [tensor.name for tensor in concrete.inputs]
    values = [*variables, *concrete.captured_inputs]
    names = {name: name.removesuffix(":0") for name in inputs}
    weights = dict(
        zip([*names.values()][len(INPUT_NAMES) :], values, strict=True)
    )
    outputs = [tensor.name for tensor in concrete.outputs]
    names |= zip(outputs, sorted(concrete.structured_outputs), strict=True)
    # Its lines would be about functions of TensorFlow that tf2onnx uses.
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        model, _ = tf2onnx.convert.from_graph_def(
            concrete.graph.as_graph_def(),
            input_names=inputs,
            output_names=outputs,
            tensors_to_rename=names,
            custom_op_handlers={"Erfc": (_convert_erfc, [])},
        )
    finally:
        logger.setLevel(level)
    # The converter leaves operations that ONNX lacks as they are.
    onnx.checker.check_model(model)
    kept = [one for one in model.graph.input if one.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    read = {*_names_read(model.graph)}  # without an unread pooler's
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value.numpy(), name)
        for name, value in weights.items()
        if name in read
    )
    return model


def _names_read(graph: Any) -> Iterator[str]:
    """Yield the names of tensors that a graph and those inside it read."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            yield from _names_read(attribute.g)  # of a loop; else empty


def _convert_erfc(graph: Any, node: Any, name: str, _: list) -> None:
    """Convert erfc(x) of the exact GELU, which ONNX lacks, to 1 - erf(x)."""
    node.type = "Erf"
    one = graph.make_const(f"{name}/one", np.float32(1))
    graph.insert_new_node_on_output(
        "Sub",
        node.output[0],
        f"{name}/complement",
        [one.output[0], node.output[0]],
    )
