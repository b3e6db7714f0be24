"""Vectors by sentence-transformers: python sentence_vectors.py FILE."""

import json
import sys
from importlib import metadata
from pathlib import Path

from sentence_transformers import SentenceTransformer

request = json.loads(Path(sys.argv[1]).read_text())
found = {"version": metadata.version("sentence-transformers")}
# Else OpenVINO multiplies in bfloat16 where the processor can.
exact = {"ov_config": {"INFERENCE_PRECISION_HINT": "f32"}}
for name, backend, options in (
    ("onnx", "onnx", {}),
    ("openvino", "openvino", {}),
    ("openvino, float32", "openvino", exact),
):
    model = SentenceTransformer(
        request["folder"] + "/minilm",
        backend=backend,
        device="cpu",
        model_kwargs=options,
    )
    found[name] = model.encode(request["texts"]).tolist()
print(json.dumps(found))
