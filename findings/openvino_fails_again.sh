#!/usr/bin/env bash
# After one input that is too long, OpenVINO refuses good inputs of a shape that
# it has just answered.
#
# One would guess that a request whose shapes do not fit raises an error, and
# that the next good one is answered, as by ONNX Runtime; and that an index that
# Gather does not have is an error in both.
# What happens on a CPU, with a sum of embeddings as BERT has it, words[ids] +
# segments[...] + positions[:length]: after an input that is longer than the
# table of positions, every input of the shape of the last good one raises the
# same error, also in new requests, until one of another shape comes. An index
# behind the last one gives numbers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  numpy==2.4.6 onnx==1.23.2 onnxruntime==1.32.0 openvino==2026.4.1
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import onnxruntime
import openvino
from onnx import TensorProto, helper, numpy_helper

constants = {
    "table": np.ones([4, 3], np.float32),
    "places": np.arange(4)[None],
    "zero": np.array([0]),
    "one": np.array([1]),
    "axis": np.array(1),
}
nodes = [
    helper.make_node(kind, inputs.split(), [output])
    for kind, inputs, output in (
        ("Gather", "table ids", "words"),
        ("Gather", "table segment_ids", "segments"),
        ("Add", "words segments", "sum"),
        ("Shape", "ids", "shape"),
        ("Gather", "shape axis", "number"),
        ("Unsqueeze", "number zero", "length"),
        ("Slice", "places zero length one", "position_ids"),
        ("Gather", "table position_ids", "positions"),
        ("Add", "sum positions", "y"),
    )
]
inputs = [
    helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"])
    for name in ("ids", "segment_ids")
]
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
weights = [numpy_helper.from_array(x, name) for name, x in constants.items()]
graph = helper.make_graph(nodes, "embeddings", inputs, [y], weights)
file = helper.make_model(
    graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
).SerializeToString()
options = onnxruntime.SessionOptions()
options.log_severity_level = 4  # errors are raised as well
session = onnxruntime.InferenceSession(file, options)
core = openvino.Core()
compiled = core.compile_model(core.read_model(file), "CPU")


def outcome(run, ids):
    ids = np.array([ids])
    try:
        return run({"ids": ids, "segment_ids": ids * 0}).shape[1]
    except Exception as error:
        return type(error).__name__


def by_onnxruntime(given):
    return session.run(None, given)[0]


def by_openvino(given):
    return compiled.create_infer_request().infer(given)[0]


print("onnxruntime", onnxruntime.__version__, "openvino", openvino.__version__)
asked = [[1, 9], [1, 2], [1] * 5, [1, 2], [1, 2], [1, 2, 3], [1, 2]]
found = {}
for run in (by_onnxruntime, by_openvino):
    found[run] = [outcome(run, ids) for ids in asked]
    print(run.__name__, [len(ids) for ids in asked], "->", *found[run])
unknown, good, long, *later = found[by_onnxruntime]
assert (good, long, later) == (2, "Fail", [2, 2, 3, 2])
assert unknown == "InvalidArgument"
unknown, good, long, *later = found[by_openvino]
assert unknown == 2, "an index behind the last one is an error now"
assert later == ["RuntimeError", "RuntimeError", 3, 2], "it goes on now"
PYTHON
echo "As described."
