#!/usr/bin/env bash
# onnx.helper.set_model_props throws away the properties that a model has.
#
# One would guess that it adds to the metadata of a model, or replaces those of
# the same name, as a function that sets properties and is given a dict does in
# most libraries: a tool that marks a file as quantized would leave the
# vocabulary and the version that the exporter has put there.
# What happens: all properties that are not in the dict are gone, without a word,
# and the model stays valid. ONNX Runtime's custom_metadata_map shows the new
# one alone.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  onnx==1.23.2
"$folder/venv/bin/python" - <<'PYTHON'
import onnx
from onnx import TensorProto, checker, helper

print("onnx", onnx.__version__)
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
node = helper.make_node("Identity", ["x"], ["y"])
model = helper.make_model(helper.make_graph([node], "g", [x], [y]))


def properties():
    return {entry.key: entry.value for entry in model.metadata_props}


helper.set_model_props(model, {"vocabulary": "a b c", "version": "1"})
before = properties()
helper.set_model_props(model, {"quantized": "int8"})
checker.check_model(model)
print("before:", before, "after:", properties())
assert properties() == {"quantized": "int8"}, "other properties stay now"
PYTHON
echo "As described."
