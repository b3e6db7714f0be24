"""Vectors of texts by fastembed: python fastembed_vectors.py FILE."""

import json
import sys
from importlib import metadata
from pathlib import Path

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

request = json.loads(Path(sys.argv[1]).read_text())
TextEmbedding.add_custom_model(
    model="own/minilm",
    pooling=PoolingType.MEAN,
    normalization=True,
    sources=ModelSource(hf="own/minilm"),
    dim=384,
    model_file="onnx/model.onnx",
)
folder = request["folder"] + "/minilm"
model = TextEmbedding("own/minilm", specific_model_path=folder)
vectors = [vector.tolist() for vector in model.embed(request["texts"])]
version = metadata.version("fastembed")
print(json.dumps({"version": version, "vectors": vectors}))
