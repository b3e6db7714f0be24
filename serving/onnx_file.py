"""Write a model as an ONNX file, for ONNX Runtime and programs like it.

tf2onnx converts the graph. It copies constants so often that all-MiniLM-L6-v2,
of 90 MB, takes 8 GB and half a minute. So it gets a graph with inputs in place
of the weights, and the weights are put into its result.
"""

import json
from collections.abc import Iterator
from typing import Any

from base import file_system, logs, packages, progress
from base.errors import UserError

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

from tasks.graph import INPUT_NAMES, TaskGraph

# A file of Protocol Buffers cannot be larger.
_MOST_BYTES = 2**31 - 1

# A constant of no more numbers is left where it is: an axis, a shape, a bias.
_SMALL = 64


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
        model = _convert(graph.rows_function().get_concrete_function())
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


def _convert(function: Any) -> Any:
    """Return the ONNX model of a concrete function with a dict of outputs."""
    import onnx
    import tf2onnx

    frozen = convert_to_constants.convert_variables_to_constants_v2(
        function, lower_control_flow=False, aggressive_inlining=True
    )
    graph = frozen.graph.as_graph_def()
    weights = _taken_out(graph)
    outputs = [output.name for output in frozen.outputs]
    names = {f"{name}:0": name for name in INPUT_NAMES}
    renamed = zip(outputs, sorted(function.structured_outputs), strict=True)
    # Its lines would be about functions of TensorFlow that tf2onnx uses.
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")
    try:
        model, _ = tf2onnx.convert.from_graph_def(
            graph,
            input_names=[*names, *weights],
            output_names=outputs,
            tensors_to_rename=names | dict(renamed),
            custom_op_handlers={"Erfc": (_convert_erfc, [])},
        )
    finally:
        logger.setLevel(level)
    inputs = [one for one in model.graph.input if one.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    read = {*_names_read(model.graph)}  # without an unread pooler's
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(value, name)
        for name, value in weights.items()
        if name in read
    )
    # The converter leaves operations that ONNX lacks as they are.
    onnx.checker.check_model(model)
    return model


def _taken_out(graph: tf.compat.v1.GraphDef) -> dict[str, np.ndarray]:
    """Put inputs in place of weights; return {name of the tensor: value}."""
    weights = {}
    for node in graph.node:
        if node.op != "Const":
            continue
        value = node.attr["value"].tensor
        shape = value.tensor_shape
        if np.prod([one.size for one in shape.dim]) > _SMALL:
            weights[f"{node.name}:0"] = tf.make_ndarray(value)
            node.op = "Placeholder"
            node.attr["shape"].shape.CopyFrom(shape)
            del node.attr["value"]
    return weights


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
