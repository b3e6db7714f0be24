"""keras-hub's encoder: python keras_hub_vectors.py FILE.

The ids come from tokenizer.json, since its own tokenizer keeps accents.
"""

import json
import sys
from importlib import metadata
from pathlib import Path

import keras_hub
import numpy as np
from tokenizers import Tokenizer

request = json.loads(Path(sys.argv[1]).read_text())
folder = request["folder"] + "/minilm"
backbone = keras_hub.models.BertBackbone.from_preset(folder)
tokenizer = Tokenizer.from_file(folder + "/tokenizer.json")
vectors = []
for text in request["texts"]:
    ids = np.array([tokenizer.encode(text).ids])
    inputs = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    found = np.array(backbone(inputs)["sequence_output"][0]).mean(0)
    vectors.append((found / np.linalg.norm(found)).tolist())
version = metadata.version("keras-hub")
print(json.dumps({"version": version, "vectors": vectors}))
