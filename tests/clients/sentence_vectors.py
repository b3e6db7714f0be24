"""Vectors by sentence-transformers: python sentence_vectors.py FILE."""

import json
import sys
from importlib import metadata
from pathlib import Path

from sentence_transformers import SentenceTransformer

request = json.loads(Path(sys.argv[1]).read_text())
found = {"version": metadata.version("sentence-transformers")}
for backend in ("onnx", "openvino"):
    model = SentenceTransformer(
        request["folder"] + "/minilm",
        backend=backend,
        device="cpu",
        local_files_only=True,
        model_kwargs={"file_name": "onnx/model.onnx"}
        if backend == "onnx"
        else {},
    )
    found[backend] = model.encode(request["texts"]).tolist()
print(json.dumps(found))
