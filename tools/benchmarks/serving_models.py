"""Models for serving.py to compare: one encoder in many formats."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from base.errors import UserError

import tensorflow as tf

import modeling
from checkpoints import huggingface
from tasks import graph_tokenizer, saved_model
from tasks.encoder import export as features_export
from tools.benchmarks import measuring
from tools.benchmarks import serving_programs as programs
from tools.benchmarks.serving_requests import MAX_SEQ_LENGTH

# --- What can be compared ----------------------------------------------------


class ServerSpec(NamedTuple):
    """How to run a server: program, model and libraries.

    Attributes:
        program: of serving_programs.py.
        model: its file or directory, below the folder of the models.
        needs: libraries that its interpreter has to have.
        library: another library that ours are compared with; "": it is one of
            ours and runs in the interpreter of the benchmark.
        takes_text: whether it takes strings.
        has_answers: whether its outputs are those of the encoder.
    """

    program: str
    model: str
    needs: tuple[str, ...] = ()
    library: str = ""
    takes_text: bool = True
    has_answers: bool = True


_TRANSFORMERS = ("torch", "transformers")
_ONNX = (*_TRANSFORMERS, "onnx", "onnxruntime")

SERVERS = {
    "savedmodel": ServerSpec(programs.SAVED_MODEL, "savedmodel/1"),
    "frozen": ServerSpec(programs.SAVED_MODEL, "frozen/1"),
    "bfloat16": ServerSpec(programs.SAVED_MODEL, "bfloat16/1"),
    "products": ServerSpec(
        programs.SAVED_MODEL,
        "products/1",
        takes_text=False,
        has_answers=False,
    ),
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

# --- Writing them ------------------------------------------------------------


def write_models(
    folder: Path, size: str, vocab_file: str, names: Sequence[str]
) -> graph_tokenizer.Tokenizer:
    """Write a random model in the formats of this project and of transformers.

    Args:
        folder: gets the SavedModels of `names`, and `transformers`, of which
            the others are made.
        size: one of modeling.NAMED_SIZES.
        vocab_file: a lower-cased vocabulary.
        names: of SERVERS.
    """
    for name in names:
        if SERVERS[name].program == programs.SAVED_MODEL:
            # TensorFlow keeps the constants of frozen variables, several
            # gigabytes of Base, until its process ends.
            measuring.call_apart(
                f"the export of {name}",
                write_saved_model,
                str(folder),
                size,
                vocab_file,
                name,
            )
    tokenizer, model = _random_model(size, vocab_file)
    theirs = folder / SERVERS["transformers"].model
    theirs.mkdir()
    huggingface.write_config(str(theirs), model.config, "BertModel")
    huggingface.write_weights(
        str(theirs), {v.path: v.numpy() for v in model.variables}
    )
    huggingface.write_tokenizer(
        str(theirs), Path(vocab_file).read_bytes(), True, MAX_SEQ_LENGTH
    )
    return tokenizer


def _random_model(
    size: str, vocab_file: str, dtype: str = "float32"
) -> tuple[graph_tokenizer.Tokenizer, modeling.TaskModel]:
    """Return a tokenizer, and an encoder that has always the same weights."""
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    config = modeling.BertConfig.from_size(size, len(tokenizer.tokens))
    # transformers computes "gelu" with erf.
    config.hidden_act = "gelu_erf"
    tf.keras.utils.set_random_seed(1)
    return tokenizer, modeling.TaskModel(config, dtype)


class DenseProducts(features_export.Encoder):
    """The dense products of an encoder's layers, and nothing between them.

    The least time that TensorFlow needs for the encoder. The outputs have its
    shapes; their values mean nothing.
    """

    def numbers(self, features: dict[str, tf.Tensor]) -> saved_model.Outputs:
        """Return the outputs of a batch; see `features_export.Encoder`."""
        weights = {v.path: v.value for v in self.model.variables}
        ids = features["input_ids"]  # [n, S]
        table = weights["bert/embeddings/word_embeddings"]
        x = tf.gather(table, tf.reshape(ids, [-1]))  # [n * S, H]
        for layer in range(self.model.config.num_hidden_layers):
            name = f"bert/encoder/layer_{layer}"
            x = tf.add_n(
                [
                    x @ weights[f"{name}/attention/self/{part}/kernel"]
                    for part in ("query", "key", "value")
                ]
            )
            for part in ("attention/output", "intermediate", "output"):
                x = x @ weights[f"{name}/{part}/dense/kernel"]
        shape = tf.concat([tf.shape(ids), [x.shape[-1]]], axis=0)
        x = tf.reshape(x, shape)  # [n, S, H]
        first = x[:, 0]  # [n, H]
        return {
            "pooled_output": first,
            "sequence_output": x,
            "mean_output": first,
        }


def write_saved_model(
    folder: str, size: str, vocab_file: str, name: str
) -> None:
    """Write the SavedModel of one of SERVERS; see `write_models`."""
    dtype = "bfloat16" if name == "bfloat16" else "float32"
    tokenizer, model = _random_model(size, vocab_file, dtype)
    kind = DenseProducts if name == "products" else features_export.Encoder
    export = kind(model, tokenizer, vocab_file, MAX_SEQ_LENGTH)
    directory = os.path.join(folder, SERVERS[name].model)
    freeze = name in ("frozen", "bfloat16")
    saved_model.write(export, directory, freeze=freeze)


def write_onnx(python: str, folder: Path) -> None:
    """Write the models of ONNX Runtime, by its own tools, in a process.

    They are made of the model of `transformers`.

    Args:
        python: an interpreter that has what SERVERS["onnxruntime"] needs.
        folder: of the models; gets `onnx`.

    Raises:
        UserError: it failed; quotes the last line it wrote.
    """
    (folder / "onnx").mkdir()
    theirs = folder / SERVERS["transformers"].model
    result = subprocess.run(
        [python, "-c", programs.WRITE_ONNX, str(theirs), str(folder / "onnx")],
        capture_output=True,
        text=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    if result.returncode:
        lines = (result.stderr.strip() or "no message").splitlines()
        raise UserError(f"the export to ONNX failed: {lines[-1][:500]}")


def write_litert(folder: Path, name: str) -> None:
    """Write the LiteRT file of one of SERVERS from `transformers`."""
    measuring.run_script(
        "export_litert.py",
        init_checkpoint=folder / SERVERS["transformers"].model,
        task="encoder",
        do_lower_case="true",
        quantize="int8" if name.endswith("int8") else "none",
        export_path=folder / SERVERS[name].model,
    )


def convert_models(
    folder: Path, names: Sequence[str], pythons: Mapping[str, str]
) -> None:
    """Write the models of `write_models` as ONNX and LiteRT, where needed."""
    onnx = [name for name in names if SERVERS[name].library == "onnxruntime"]
    if onnx:
        write_onnx(python_of(onnx[0], pythons), folder)
    for name in names:
        if SERVERS[name].program == programs.LITERT:
            write_litert(folder, name)


def python_of(name: str, pythons: Mapping[str, str]) -> str:
    """Return the interpreter of one of SERVERS."""
    return pythons.get(SERVERS[name].library) or sys.executable
