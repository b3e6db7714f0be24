"""The programs that the serving benchmark runs, each in a process of its own.

A program gets the path of its model, that of a JSON file of requests,
{name: batches}, and the number of cores. It reads JSON lines {"case": name,
"calls": n} and answers each with the seconds of every call and the vectors of
the last, means over the tokens. None imports a file of this project: they show
what a server does.
"""

# The second half of every program; the first halves are below.
LOOP = """
cases = json.load(open(sys.argv[2]))
print(json.dumps("ready"), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    case, seconds = cases[asked["case"]], []
    for _ in range(asked["calls"]):
        began = time.perf_counter()
        vectors = [call(batch) for batch in case]
        seconds.append(time.perf_counter() - began)
    vectors = [row for batch in vectors for row in batch.tolist()]
    print(json.dumps({"seconds": seconds, "vectors": vectors}), flush=True)
"""

SAVED_MODEL = """
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
    return found["mean_output"].numpy()
"""

TRANSFORMERS = """
import json, sys, time
import torch, transformers
torch.set_num_threads(int(sys.argv[3]))
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
    states = model(**ids).last_hidden_state.numpy()
    mask = ids["attention_mask"].numpy()[..., None]
    return (states * mask).sum(1) / mask.sum(1)
"""

# Batches of about 512 tokens, as litert_model.py makes them: larger ones are
# slower.
LITERT = """
import json, sys, time
import numpy as np
from ai_edge_litert.interpreter import Interpreter
interpreter = Interpreter(
    sys.argv[1], num_threads=int(sys.argv[3]))
runner = interpreter.get_signature_runner("ids")

def call(batch):
    ids = {k: np.array(v, np.int32) for k, v in batch.items()}
    rows, length = ids["input_ids"].shape
    step = max(1, 512 // length)
    return np.concatenate([
        runner(**{k: v[n:n + step] for k, v in ids.items()})["mean_output"]
        for n in range(0, rows, step)])
"""

# The name of the model ends with the type. nncf makes int8 of float32, with the
# requests of ids to calibrate it; it writes to standard output.
OPENVINO = """
import contextlib, json, sys, time
import numpy as np, openvino
NAMES = {"input_ids": "input_ids", "input_mask": "attention_mask",
         "segment_ids": "token_type_ids"}

def inputs(batch):
    return {NAMES[k]: np.array(v, np.int64) for k, v in batch.items()}

model = openvino.Core().read_model(sys.argv[1] + ".onnx")
if sys.argv[1].endswith("int8"):
    with contextlib.redirect_stdout(sys.stderr):
        import nncf
        batches = sum(json.load(open(sys.argv[2])).values(), [])
        batches = [batch for batch in batches if "input_ids" in batch]
        model = nncf.quantize(
            model, nncf.Dataset(batches, inputs), subset_size=len(batches),
            model_type=nncf.ModelType.TRANSFORMER)
request = openvino.Core().compile_model(model, "CPU", {
    "INFERENCE_PRECISION_HINT":
        "bf16" if sys.argv[1].endswith("bfloat16") else "f32",
    "INFERENCE_NUM_THREADS": int(sys.argv[3])}).create_infer_request()

def call(batch):
    return request.infer(inputs(batch))["mean_output"]
"""


# A server, and the flags with which export_saved_model.py writes its model.
SERVERS = {
    "savedmodel": {},
    "bfloat16": {"dtype": "bfloat16"},
    "litert": {"format": "litert"},
    "litert_int8": {"format": "litert", "quantize": "int8"},
    "openvino": {"format": "onnx"},
    "openvino_bfloat16": {"format": "onnx"},
    "openvino_int8": {"format": "onnx"},
}
