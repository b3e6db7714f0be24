"""Models for serving.py to compare: one encoder in many formats."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf

import modeling
from checkpoints import huggingface
from tasks import graph_tokenizer, registry, saved_model
from tasks.task import Settings
from tools.benchmarks import measuring
from tools.benchmarks import serving_programs as programs

MAX_SEQ_LENGTH = 128


class ServerSpec(NamedTuple):
    """How to run a server: program, model and libraries."""

    program: str  # of serving_programs.py
    model: str  # file or directory below the folder of the models
    needs: tuple[str, ...] = ()  # libraries
    # That ours are compared with; "": one of ours, in this interpreter.
    library: str = ""
    takes_text: bool = True


_TRANSFORMERS = ("torch", "transformers")
_ONNX = (*_TRANSFORMERS, "onnx", "onnxruntime")

SERVERS = {
    "savedmodel": ServerSpec(programs.SAVED_MODEL, "savedmodel/1"),
    "bfloat16": ServerSpec(programs.SAVED_MODEL, "bfloat16/1"),
    "litert": ServerSpec(
        programs.LITERT, "float32.tflite", ("ai_edge_litert",), takes_text=False
    ),
    "litert_int8": ServerSpec(
        programs.LITERT, "int8.tflite", ("ai_edge_litert",), takes_text=False
    ),
    "transformers": ServerSpec(
        programs.TRANSFORMERS, "transformers", _TRANSFORMERS, "transformers"
    ),
    "onnxruntime": ServerSpec(
        programs.ONNX_RUNTIME, "onnx/model.onnx", _ONNX, "onnxruntime", False
    ),
    "onnxruntime_int8": ServerSpec(
        programs.ONNX_RUNTIME,
        "onnx/model-int8.onnx",
        _ONNX,
        "onnxruntime",
        False,
    ),
}


def write_models(
    folder: Path,
    size: str,
    vocab_file: str,
    pythons: Mapping[str, str],
) -> int:
    """Write a random model in the formats of some servers.

    `pythons` has the interpreters of the servers. The folder gets
    `transformers` too, of which those in other formats are made.

    Returns:
        The number of tokens.
    """
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    config = modeling.BertConfig.from_size(size, len(tokenizer.tokens))
    # transformers computes "gelu" with erf.
    config.hidden_act = "gelu_erf"
    for name in ("savedmodel", "bfloat16"):
        if name in pythons:
            dtype = "bfloat16" if name == "bfloat16" else "float32"
            model = _random_model(config, dtype)
            settings = Settings(
                "", False, None, "encoder", vocab_file, True, MAX_SEQ_LENGTH
            )
            export = registry.create_task(settings).graph(model, tokenizer)
            saved_model.write(export, str(folder / SERVERS[name].model))
    theirs = folder / SERVERS["transformers"].model
    theirs.mkdir()
    huggingface.write_config(str(theirs), config, "BertModel")
    model = _random_model(config, "float32")
    huggingface.write_weights(
        str(theirs), {v.path: v.numpy() for v in model.variables}
    )
    huggingface.write_tokenizer(
        str(theirs), Path(vocab_file).read_bytes(), True, MAX_SEQ_LENGTH
    )
    onnx = folder / "onnx"
    for name, python in pythons.items():
        if SERVERS[name].library == "onnxruntime" and not onnx.exists():
            onnx.mkdir()
            # By its own tools, in a process.
            result = subprocess.run(
                [python, "-c", programs.WRITE_ONNX, str(theirs), str(onnx)],
                capture_output=True,
                text=True,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},
            )
            if result.returncode:
                lines = (result.stderr.strip() or "no message").splitlines()
                raise UserError(f"the export to ONNX failed: {lines[-1][:500]}")
        if SERVERS[name].program == programs.LITERT:
            measuring.run_script(
                "export_litert.py",
                init_checkpoint=theirs,
                task="encoder",
                do_lower_case="true",
                quantize="int8" if name.endswith("int8") else "none",
                export_path=folder / SERVERS[name].model,
            )
    return len(tokenizer.tokens)


def _random_model(
    config: modeling.BertConfig, dtype: str
) -> modeling.TaskModel:
    """Return an encoder that has always the same weights."""
    tf.keras.utils.set_random_seed(1)
    return modeling.TaskModel(config, dtype)
