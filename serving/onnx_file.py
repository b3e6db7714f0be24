"""Write a model as an ONNX file, for ONNX Runtime, OpenVINO and browsers.

The operations are those of modeling.py and of the head; weights have their
names in a checkpoint. Inputs and outputs have the names and the order that
transformers gives them:

    input_ids, attention_mask, token_type_ids   int64 [n, S]
    logits              of classes and numbers [n, K], of tags [n, S, K], of
                        masked words [n, S, V]
    start_logits, end_logits                    of answers [n, S]
    last_hidden_state   of vectors [n, S, H]; then this project's own outputs,
                        mean_output, pooled_output or embedding [n, D]

Programs that optimize or quantize a file look for attention, GELU and layer
norms. They find them here, since a norm is one operation, and the operations of
attention have the order of transformers' export.
"""

import functools
import json
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from base import file_system, logs, packages, progress
from base.errors import UserError

import numpy as np

import modeling
from checkpoints import weight_files
from tasks.graph import TaskGraph
from tasks.openvino_files import INPUTS
from tasks.task import TaskSettings

# The first version with Gelu.
_OPSET = 20

# A file of Protocol Buffers cannot be larger.
_MOST_BYTES = 2**31 - 1


def check(settings: TaskSettings, flag: str, quantize: bool = False) -> None:
    """Check that a model can be written, and that the packages are there."""
    for name in ("onnx", "onnxruntime")[: 1 + quantize]:
        packages.load(name, flag, name, "requirements-onnx.txt")
    checkpoint = settings.checkpoint
    direction = checkpoint.config.attention_direction
    lacking = {
        "scores of sentences": settings.task == "sentence_score",
        "a BiLSTM": checkpoint.trained_for.bilstm_layers,
        "--long_texts=windows": checkpoint.windows,
        f"attention that is {direction}": direction != modeling.BIDIRECTIONAL,
    }
    for what, is_so in lacking.items():
        if is_so:
            raise UserError(
                f"{flag}: an ONNX file lacks {what}; export_saved_model.py "
                "with --format=saved_model or litert has it"
            )
    shapes = checkpoint.shapes
    names = weight_files.weight_names(shapes)
    numbers = sum(np.prod(shapes[name]) for name in names)
    if 4 * numbers > _MOST_BYTES:
        raise UserError(
            f"{checkpoint.prefix} has weights of {4 * numbers / 1e9:.1f} GB, "
            "and an ONNX file holds 2.1 GB: export it with "
            "--format=saved_model"
        )


def write(graph: TaskGraph, path: str, quantize: bool = False) -> None:
    """Write the ONNX file of a model, its weights restored.

    The properties of the file have what programs need to make the ids:
    export.json, as a SavedModel has it, and vocab.txt. `quantize`: whether the
    weights of products and embeddings are int8.
    """
    import onnx

    task = graph.task
    with progress.clock("Writing ONNX"):
        model = _model(graph)
        own = task.checkpoint.trained_for._asdict()
        # What a program does before and behind the file.
        names = "prompts", "default_prompt_name", "output_activation"
        described = task.description() | {name: own[name] for name in names}
        properties = {
            "export.json": json.dumps(described, ensure_ascii=False),
            "vocab.txt": task.tokenizer.vocabulary.content.decode(),
        }
        if quantize:
            # Else onnxruntime recommends to optimize a model first, which
            # changes nothing here.
            properties["onnx.quant.pre_process"] = "onnxruntime.quant"
        onnx.helper.set_model_props(model, properties)
        data = _quantized(model) if quantize else model.SerializeToString()
        file_system.write_bytes(path, data)
    logs.say(
        "Wrote %s: %s, %.1f MB; it takes %s, int64 [n, S]; gives %s",
        path,
        task.name,
        len(data) / 1e6,
        ", ".join(INPUTS),
        ", ".join(output.name for output in model.graph.output),
    )


def _quantized(model: Any) -> bytes:
    """Return the file of a model with weights of int8.

    With the defaults, one scale for a matrix and all 8 bits, products overflow
    on processors without VNNI, and the vectors of MiniLM keep a cosine of 0.958
    to the right ones; here 0.990.
    """
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        quantization.quantize_dynamic(
            model, path, per_channel=True, reduce_range=True
        )
        with open(path, "rb") as file:
            return file.read()


# --- The graph ---------------------------------------------------------------


class _Graph:
    """Operations; `graph.MatMul(x, y)` adds one and returns its output's name.

    An input is the name of an output or of a variable, or a constant. Keywords
    are attributes.
    """

    def __init__(self, variables: Mapping[str, np.ndarray]):
        self.variables, self.nodes = variables, []
        self.values: dict[str, np.ndarray] = {}  # variables and constants

    def __getattr__(self, kind: str) -> Callable[..., str]:
        return functools.partial(self._add, kind)

    def _add(self, kind: str, *inputs: Any, **attributes: Any) -> str:
        import onnx

        output, names = f"{kind}_{len(self.nodes)}", []
        for number, value in enumerate(inputs):
            name = value if isinstance(value, str) else f"{output}/{number}"
            value = self.variables.get(name, value)
            if isinstance(value, float):
                value = np.float32(value)
            if not isinstance(value, str):
                self.values[name] = np.asarray(value)
            names.append(name)
        self.nodes.append(
            onnx.helper.make_node(kind, names, [output], output, **attributes)
        )
        return output

    # --- Layers of modeling.py, by their paths in a checkpoint ---------------

    def dense(self, path: str, x: str) -> str:
        """Add x W + b, or x W."""
        product, bias = self.MatMul(x, f"{path}/kernel"), f"{path}/bias"
        return self.Add(product, bias) if bias in self.variables else product

    def norm(self, path: str, x: str, epsilon: float = 1e-12) -> str:
        """Add a layer norm."""
        weights = f"{path}/gamma", f"{path}/beta"
        return self.LayerNormalization(x, *weights, axis=-1, epsilon=epsilon)

    def residual(self, path: str, x: str, residual: str) -> str:
        """Add norm(residual + x W + b)."""
        x = self.dense(f"{path}/dense", x)
        return self.norm(f"{path}/LayerNorm", self.Add(x, residual))

    def activation(self, name: str | None, x: str) -> str:
        """Add a function of modeling.get_activation or heads.ACTIVATIONS."""
        name = str(name or "").lower()
        if name == "gelu":
            # Not Gelu with approximate="tanh": the optimizer of ONNX Runtime
            # takes it for the exact form.
            inner = self.Add(x, self.Mul(self.Pow(x, 3.0), 0.044715))
            inner = self.Tanh(self.Mul(inner, math.sqrt(2 / math.pi)))
            return self.Mul(self.Mul(x, 0.5), self.Add(inner, 1.0))
        if name == "silu":
            return self.Mul(x, self.Sigmoid(x))
        if name in ("", "linear"):
            return x
        kinds = {"gelu_erf": "Gelu", "relu": "Relu", "tanh": "Tanh"}
        return self._add({**kinds, "sigmoid": "Sigmoid"}[name], x)

    def project(self, x: str, path: str, weights: str = "", rows="") -> str:
        """Add x W^T + b of vectors [n, H], or of tokens, with rows [n, S]."""
        weights = weights or f"{path}weights"
        outputs, width = self.variables[weights].shape
        flat = self.Reshape(x, [-1, width]) if rows else x
        found = self.Gemm(flat, weights, f"{path}bias", transB=1)
        if not rows:
            return found
        return self.Reshape(found, self.Concat(rows, [outputs], axis=0))


def _model(graph: TaskGraph) -> Any:
    """Return a model as ONNX describes it, checked."""
    import onnx

    made = _Graph({v.path: v.numpy() for v in graph.model.variables})
    outputs = {x: name for name, x in _outputs(made, graph).items()}
    for node in made.nodes:
        node.input[:] = [outputs.get(name, name) for name in node.input]
        node.output[:] = [outputs.get(name, name) for name in node.output]
    sizes = "batch_size", "sequence_length"
    info, types = onnx.helper.make_tensor_value_info, onnx.TensorProto
    made = onnx.helper.make_graph(
        made.nodes,
        graph.task.name,
        [info(name, types.INT64, sizes) for name in INPUTS],
        [info(name, types.FLOAT, None) for name in outputs.values()],
        [onnx.numpy_helper.from_array(x, n) for n, x in made.values.items()],
    )
    version = onnx.helper.make_opsetid("", _OPSET)
    model = onnx.helper.make_model_gen_version(made, opset_imports=[version])
    # The shapes of the outputs follow from the operations; programs read the
    # names of the sizes.
    model = onnx.shape_inference.infer_shapes(model, data_prop=True)
    del model.graph.value_info[:]
    for output in model.graph.output:
        for number, size in enumerate(output.type.tensor_type.shape.dim):
            if not size.dim_value:
                size.dim_param = sizes[number]
    onnx.checker.check_model(model)
    return model


def _outputs(made: _Graph, graph: TaskGraph) -> dict[str, str]:
    """Add the operations of a model; return {name of an output: tensor}."""
    task, config = graph.task, graph.model.config
    ids, mask, segments = INPUTS
    rows = made.Shape(ids)  # [n, S]
    length = made.Unsqueeze(made.Gather(rows, 1), [0])  # [1]
    positions = np.arange(config.max_position_embeddings)[None]
    positions = made.Slice(positions, [0], length, [1])  # [1, S]
    path = "bert/embeddings"
    x = made.Gather(f"{path}/word_embeddings", ids)
    x = made.Add(x, made.Gather(f"{path}/token_type_embeddings", segments))
    x = made.Add(x, made.Gather(f"{path}/position_embeddings", positions))
    x = made.norm(f"{path}/LayerNorm", x)  # [n, S, H]
    x = _layers(made, config, x, mask)

    if task.name == "question_answering":
        logits = made.project(x, "cls/squad/output_", rows=rows)
        names = "start_logits", "end_logits"
        return {n: made.Gather(logits, i, axis=2) for i, n in enumerate(names)}
    if task.name == "masked_lm":
        path = "cls/predictions/transform"
        x = made.activation(config.hidden_act, made.dense(f"{path}/dense", x))
        table = "bert/embeddings/word_embeddings"
        path, x = "cls/predictions/output_", made.norm(f"{path}/LayerNorm", x)
        return {"logits": made.project(x, path, table, rows)}
    if task.name == "token_classification":
        return {"logits": made.project(x, "output_", rows=rows)}

    def pooled() -> str:
        return made.Tanh(made.dense("bert/pooler/dense", pool("cls")))

    def pool(pooling: str) -> str:  # as tasks.embeddings.model.pool
        if pooling == "cls":
            return made.Gather(x, 0, axis=1)
        if pooling == "lasttoken":
            last = made.ReduceMax(made.Mul(positions, mask), [1])  # [n, 1]
            return made.GatherND(x, last, batch_dims=1)
        there = made.Unsqueeze(made.Cast(mask, to=1), [2])  # [n, S, 1]
        if pooling == "max":
            away = made.Mul(made.Sub(there, 1.0), 1e9)
            return made.ReduceMax(made.Add(x, away), [1], keepdims=0)
        if pooling == "weightedmean":
            there = made.Mul(there, made.CumSum(there, 1))
        total = made.ReduceSum(made.Mul(x, there), [1], keepdims=0)
        count = made.Max(made.ReduceSum(there, [1], keepdims=0), 1.0)
        if pooling == "mean_sqrt_len_tokens":
            count = made.Sqrt(count)
        return made.Div(total, count)

    if task.head == "output_weights":
        return {"logits": made.project(pooled(), "output_")}

    def unit(vector: str) -> str:
        square = made.ReduceSum(made.Mul(vector, vector), [1])
        return made.Div(vector, made.Sqrt(made.Max(square, 1e-24)))

    found, own = {"last_hidden_state": x}, task.checkpoint.trained_for
    if task.name != "embeddings":
        found["mean_output"] = pool("mean")
        if "bert/pooler/dense/kernel" in task.checkpoint.shapes:
            found["pooled_output"] = pooled()
        return found
    vector, *others = map(pool, graph.model.poolings)
    if others:
        vector = made.Concat(vector, *others, axis=1)
    for step in graph.model.steps:
        kind, path = step.module.kind, step.name
        if kind == "Normalize":
            vector = unit(vector)
        elif kind == "LayerNorm":
            vector = made.norm(path, vector, epsilon=1e-5)
        else:
            vector = made.dense(path, vector)
            vector = made.activation(step.module.activation, vector)
    if size := task.options.embedding_size:
        vector = made.Slice(vector, [0], [size], [1])
    if graph.model.normalize:
        vector = unit(vector)
    if own.truncate_dim:
        vector = made.Slice(vector, [0], [task.width], [1])
    return found | {"embedding": vector}


def _layers(
    made: _Graph, config: modeling.BertConfig, x: str, mask: str
) -> str:
    """Add the layers of an encoder, on x [n, S, H] with a mask [n, S]."""
    # As modeling.attention_bias.
    visible = made.Unsqueeze(made.Unsqueeze(mask, [1]), [2])
    visible = made.Cast(visible, to=1)  # float32 [n, 1, 1, S]
    bias = made.Mul(made.Sub(1.0, visible), -10000.0)
    hidden, heads = config.hidden_size, config.num_attention_heads
    for number in range(config.num_hidden_layers):
        path, parts = f"bert/encoder/layer_{number}", []
        for name in ("query", "key", "value"):
            part = made.dense(f"{path}/attention/self/{name}", x)
            part = made.Reshape(part, [0, 0, heads, hidden // heads])
            order = [0, 2, 3, 1] if name == "key" else [0, 2, 1, 3]
            parts.append(made.Transpose(part, perm=order))
        query, key, value = parts
        scores = made.MatMul(query, key)  # [n, N, S, S]
        scores = made.Div(scores, math.sqrt(hidden // heads))
        shares = made.Softmax(made.Add(scores, bias), axis=-1)
        context = made.Transpose(made.MatMul(shares, value), perm=[0, 2, 1, 3])
        context = made.Reshape(context, [0, 0, hidden])
        x = made.residual(f"{path}/attention/output", context, x)
        inner = made.dense(f"{path}/intermediate/dense", x)
        inner = made.activation(config.hidden_act, inner)
        x = made.residual(f"{path}/output", inner, x)
    return x
