"""The programs that the serving benchmark runs, each in a process of its own.

A program gets the path of its model and that of a JSON file of requests,
{name: batches}. It reads JSON lines {"case": name, "calls": n} and answers each
with the seconds of every call and the pooled output of the last. None imports
a file of this project: they show what a server does.
"""

# The second half of every program.
LOOP = """
cases = json.load(open(sys.argv[2]))
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    case, seconds = cases[asked["case"]], []
    for _ in range(asked["calls"]):
        began = time.perf_counter()
        pooled = [call(batch) for batch in case]
        seconds.append(time.perf_counter() - began)
    pooled = [row for batch in pooled for row in batch.tolist()]
    print(json.dumps({"seconds": seconds, "pooled": pooled}), flush=True)
"""

SAVED_MODEL = (
    """
import json, sys, time
import tensorflow as tf, tensorflow_text
signatures = tf.saved_model.load(sys.argv[1]).signatures

def call(batch):
    if "text" in batch:
        found = signatures["serving_default"](text=tf.constant(batch["text"]))
    else:
        ids = {k: tf.constant(v, tf.int32) for k, v in batch.items()}
        found = signatures["ids"](**ids)
    found["sequence_output"].numpy()
    return found["pooled_output"].numpy()
"""
    + LOOP
)

TRANSFORMERS = (
    """
import json, os, sys, time
import torch, transformers
torch.set_num_threads(len(os.sched_getaffinity(0)))
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.BertModel.from_pretrained(sys.argv[1]).eval()
NAMES = {"input_ids": "input_ids", "input_mask": "attention_mask",
         "segment_ids": "token_type_ids"}

@torch.inference_mode()
def call(batch):
    if "text" in batch:
        ids = tokenizer(batch["text"], padding=True, truncation=True,
                        return_tensors="pt")
    else:
        ids = {NAMES[k]: torch.tensor(v) for k, v in batch.items()}
    found = model(**ids)
    found.last_hidden_state.numpy()
    return found.pooler_output.numpy()
"""
    + LOOP
)

ONNX_RUNTIME = (
    """
import json, os, sys, time
import numpy as np, onnxruntime
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = len(os.sched_getaffinity(0))
session = onnxruntime.InferenceSession(
    sys.argv[1], options, providers=["CPUExecutionProvider"])
NAMES = {"input_ids": "input_ids", "input_mask": "attention_mask",
         "segment_ids": "token_type_ids"}

def call(batch):
    ids = {NAMES[k]: np.array(v, np.int64) for k, v in batch.items()}
    return session.run(["last_hidden_state", "pooler_output"], ids)[1]
"""
    + LOOP
)

# Batches of about 512 tokens, as litert_model.py makes them: larger ones are
# slower.
LITERT = (
    """
import json, os, sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(
    sys.argv[1], num_threads=len(os.sched_getaffinity(0)))
runner = interpreter.get_signature_runner("ids")

def call(batch):
    ids = {k: np.array(v, np.int32) for k, v in batch.items()}
    rows, length = ids["input_ids"].shape
    step = max(1, 512 // length)
    return np.concatenate([
        runner(**{k: v[n:n + step] for k, v in ids.items()})["pooled_output"]
        for n in range(0, rows, step)])
"""
    + LOOP
)

# Writes model.onnx and model-int8.onnx: the export of PyTorch, fused by ONNX
# Runtime's own optimizer for BERT, and its dynamic quantization. Arguments: a
# model of transformers, the folder to write to.
WRITE_ONNX = """
import os, sys, torch, transformers
import onnx
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.transformers import optimizer

class Outputs(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, token_type_ids):
        found = self.model(input_ids=input_ids, attention_mask=attention_mask,
                           token_type_ids=token_type_ids)
        return found.last_hidden_state, found.pooler_output

# The optimizer finds the attention of this form only.
model = transformers.BertModel.from_pretrained(
    sys.argv[1], attn_implementation="eager").eval()
ids = torch.ones((2, 16), dtype=torch.int64)
mask = ids.clone()
mask[1, 8:] = 0  # of ones alone, the mask would be left out
names = ["input_ids", "attention_mask", "token_type_ids"]
outputs = ["last_hidden_state", "pooler_output"]
axes = {name: {0: "batch", 1: "length"} for name in [*names, outputs[0]]}
exported = os.path.join(sys.argv[2], "exported.onnx")
torch.onnx.export(
    Outputs(model), (ids, mask, ids * 0), exported, input_names=names,
    output_names=outputs, dynamic_axes=axes | {outputs[1]: {0: "batch"}},
    opset_version=18, dynamo=False)
fused = optimizer.optimize_model(
    exported, model_type="bert", num_heads=model.config.num_attention_heads,
    hidden_size=model.config.hidden_size)
layers = fused.get_fused_operator_statistics()["Attention"]
if layers != model.config.num_hidden_layers:
    sys.exit(f"ONNX Runtime fused {layers} of the attentions")
os.remove(exported)
path = os.path.join(sys.argv[2], "model.onnx")
fused.save_model_to_file(path)
quantize_dynamic(
    path, path.replace("model.onnx", "model-int8.onnx"),
    weight_type=QuantType.QInt8,
    extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT})
"""
