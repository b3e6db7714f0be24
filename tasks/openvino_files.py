"""Run ONNX files by OpenVINO: the fastest engine for vectors on a CPU.

serving/onnx_file.py writes such a file; its properties say what it is. Programs
without TensorFlow import this module.
"""

import functools
import logging as standard_logging
import math
import os
from collections.abc import Mapping
from typing import Any

from base import machine, packages, text_files
from base.errors import UserError

import numpy as np
from absl import logging

from tasks import registry
from tasks.file_model import FileModel
from tasks.rows import INPUT_NAMES
from tasks.task import Outputs, TaskSettings, softmax
from tokenization import Vocabulary

SUFFIX = ".onnx"

# Of a file, in the order of rows.INPUT_NAMES.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")

# OpenVINO's names of the types.
_PRECISION = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}

_erf = np.vectorize(math.erf)

# TrainedFor.output_activation -> the function, as heads.ACTIVATIONS.
ACTIVATIONS = {
    None: np.asarray,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu_erf": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
}


def _read(path: str) -> Any:
    """Return OpenVINO's model of a file, read again if it is another one."""
    if not os.path.exists(path):
        raise UserError(f"{path} does not exist")
    return _read_once(path, os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=1)
def _read_once(path: str, changed_at: int) -> Any:
    log = standard_logging.getLogger()
    handlers = log.handlers[:]
    packages.load("openvino", path, "openvino", "requirements-openvino.txt")
    # Importing OpenVINO 2026.4 removes absl's handler; later messages would not
    # appear on standard error.
    log.handlers[:] = handlers
    try:
        return _core().read_model(path)
    except RuntimeError as error:
        raise _unusable(path, error) from error


@functools.cache
def _core() -> Any:
    """Return the only core of OpenVINO, which lasts as long as the process.

    OpenVINO 2026.4 gives the thread that loads it another stack for handlers of
    signals. With a core for each model that stack could be freed while in use:
    the next signal, such as Ctrl-C, was a segmentation fault.
    """
    import openvino

    return openvino.Core()


def _unusable(path: str, error: Exception) -> UserError:
    reason = " ".join(str(error).split())[-200:]
    return UserError(f"{path} cannot be used: {reason}")


def settings_of(path: str) -> TaskSettings:
    """Return the settings of the model in a file.

    Raises:
        UserError: there is no such file, or not one of this project.
    """
    model, found = _read(path), {}
    for name in ("export.json", "vocab.txt"):
        if not model.has_rt_info(["framework", name]):
            raise UserError(
                f"{path} has no property {name}: write it with "
                "export_saved_model.py --format=onnx or convert_checkpoint.py "
                "--onnx"
            )
        found[name] = model.get_rt_info(["framework", name]).value
    place = f"{path}: export.json inside"
    described = text_files.json_object(place, found["export.json"])
    vocabulary = Vocabulary("vocab.txt inside", found["vocab.txt"].encode())
    return registry.described(described, place, path, vocabulary)


def find(path: str, task: str | None = None, **options: Any) -> TaskSettings:
    """Return the settings of the model in a file, as loading.find does.

    Without `dtype` it computes in float32.

    Raises:
        UserError: the file cannot be used, is for another task, or has its own
            value of an option.
    """
    given = {name: v for name, v in options.items() if v is not None}
    dtype = given.pop("dtype", "float32")
    if dtype not in _PRECISION:
        raise UserError(
            f"--dtype={dtype} chooses among the types of TensorFlow, and "
            f"OpenVINO runs {path}: give {' or '.join(_PRECISION)}"
        )
    settings = registry.of_export(settings_of(path), task, given)
    return settings._replace(dtype=dtype)


class OpenVinoModel(FileModel):
    """A model in an ONNX file: `OpenVinoModel(settings_of("mrpc.onnx"))`.

    Args:
        settings: see FileModel; dtype is the type of the matrix products.
        num_threads: None: all cores that the process may use.
        batch_size: see FileModel.
    """

    any_length = True  # no need to round lengths up
    batch_tokens = 1024  # 3% less time than with 512, 5% less than with 8,192

    def __init__(
        self,
        settings: TaskSettings,
        num_threads: int | None = None,
        batch_size: int | None = None,
    ):
        super().__init__(settings, batch_size)
        model = _read(self.path)
        import openvino

        # What no prediction has need not be stored.
        unused, of = "last_hidden_state", model.outputs
        outputs = [output for output in of if output.any_name != unused]
        model = openvino.Model(outputs, model.get_parameters())
        core, precision = _core(), _PRECISION[settings.dtype]
        if precision not in core.get_property(
            "CPU", "OPTIMIZATION_CAPABILITIES"
        ):
            # Otherwise OpenVINO 2026.4 takes float32 for float16 silently, and
            # emulates bfloat16, which takes 40 times as long as float32.
            logging.warning(
                "--dtype=%s: OpenVINO has no products of this type on this "
                "processor, so it computes in float32",
                settings.dtype,
            )
            precision = _PRECISION["float32"]
        options = {
            "INFERENCE_PRECISION_HINT": precision,
            "INFERENCE_NUM_THREADS": num_threads or machine.num_cores(),
            "PERFORMANCE_HINT": "LATENCY",
        }
        compiled = core.compile_model(model, "CPU", options)
        self._request = compiled.create_infer_request()

    def __call__(self, features: Mapping[str, np.ndarray]) -> Outputs:
        """Return the outputs of input_ids and so on, [B, S] or [B, C, S]."""
        *leading, length = features["input_ids"].shape
        rows = {
            theirs: features[ours].reshape(-1, length).astype(np.int64)
            for theirs, ours in zip(INPUTS, INPUT_NAMES, strict=True)
        }
        try:
            found = self._request.infer(rows, share_inputs=True)
        except RuntimeError as error:
            raise _unusable(self.path, error) from error
        outputs = {output.any_name: x for output, x in found.items()}
        if "logits" in outputs:
            logits = outputs["logits"]
            logits = logits.reshape(*leading, *logits.shape[1:])
            outputs = self._of_logits(logits, features["input_ids"])
        return self.task.outputs_of(outputs)

    def _of_logits(self, logits: np.ndarray, ids: np.ndarray) -> Outputs:
        """Return `numbers` of the task's graph for the logits of a file."""
        task = self.task
        if task.name == "multiple_choice":
            return {"logits": logits[..., 0]}
        if task.name == "multi_label_classification":
            return {"probabilities": ACTIVATIONS["sigmoid"](logits)}
        if task.name == "masked_lm":
            vocab = task.tokenizer.vocab
            is_mask = ids == vocab["[MASK]"]  # [B, S]
            # The masks of each row come first, in order.
            at = np.argsort(~is_mask, axis=1, kind="stable")[..., None]
            at = at[:, : is_mask.sum(1).max()]  # [B, M, 1]
            shares = np.take_along_axis(logits, at, 1)[..., : len(vocab)]
            best = np.argsort(-shares, axis=-1, kind="stable")
            best = best[..., : task.options.top_k]
            scores = np.take_along_axis(softmax(shares), best, -1)
            return {"token_ids": best, "scores": scores}
        if task.labels is None:
            name = task.checkpoint.trained_for.output_activation
            return {"value": ACTIVATIONS[name](logits)[:, 0]}
        return {"probabilities": softmax(logits)}
