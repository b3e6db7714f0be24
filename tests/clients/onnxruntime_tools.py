"""ONNX Runtime's optimizer and quantizer: python onnxruntime_tools.py FILE."""

import collections
import json
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
import onnxruntime
from onnxruntime.quantization import quantize_dynamic
from onnxruntime.transformers import optimizer
from tokenizers import Tokenizer

request = json.loads(Path(sys.argv[1]).read_text())
folder = Path(request["folder"]) / "minilm"
source = str(folder / "onnx" / "model.onnx")
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
found = {"version": metadata.version("onnxruntime")}


def vectors_of(path):
    """Return the vectors of the texts by a file, one by one."""
    session, vectors = onnxruntime.InferenceSession(path), []
    for text in request["texts"]:
        row = tokenizer.encode(text)
        inputs = {
            "input_ids": row.ids,
            "attention_mask": row.attention_mask,
            "token_type_ids": row.type_ids,
        }
        inputs = {n: np.array([x], np.int64) for n, x in inputs.items()}
        vectors.append(session.run(["embedding"], inputs)[0][0].tolist())
    return vectors


with tempfile.TemporaryDirectory() as scratch:
    found["onnxruntime"] = vectors_of(source)
    made = optimizer.optimize_model(
        source, model_type="bert", num_heads=12, hidden_size=384
    )
    nodes = collections.Counter(node.op_type for node in made.model.graph.node)
    path = f"{scratch}/optimized.onnx"
    made.save_model_to_file(path)
    found |= {"nodes": nodes, "optimized": vectors_of(path)}
    path = f"{scratch}/int8.onnx"
    quantize_dynamic(source, path, per_channel=True, reduce_range=True)
    found["int8"] = vectors_of(path)
print(json.dumps(found))
