"""Estimate the memory of training before it begins; warn if it cannot fit.

A run that needs more memory than there is ends late and without a message: the
kernel kills it. The estimate for each device, in bytes:

    weights      4 P          P: all parameters
    slots        4 s T        T: those that are trained; s: slots of each, 2
    gradients    4 T          8 T where micro-batches or devices are summed up
    step         the larger of activations and update

    activations  E + L K + max(W, 8 V)     the whole batch's, kept for the
                                           backward pass, and what is computed
                                           from them there
    update       4 T          gradients after clipping; XLA writes weights and
                              moments in place. 12 T in float16: new ones, until
                              the step is known to be good. 16 T where XLA does
                              not compile the update: new ones and values in
                              between

With X = B S H e and A = B N S S e bytes for B rows of a micro-batch and numbers
of e bytes (4; 2 for bfloat16), and I = intermediate_size:

    K  kept of a layer: 12 X + 2 X I / H + 2 A where elementwise operations are
       compiled. Each operation keeps its inputs: x (1), query, key, value
       before and after the split into heads (6), context before and after the
       merge (2), the input and output of both norms (3), of gelu (2 I / H), of
       softmax (2 A).
       Not compiled, operations keep values in between: 6 X + 5 X I / H + A
       and, of the float32 inside norms, softmax and dropout, (16 / e + 2 / e) X
       + (4 / e + 1 / e) A.
       --recompute=layers keeps 3 X, and K for one layer at a time.
       --recompute=attention leaves out the terms with A but for one layer.
    W  one layer's backward pass: 3 X + 2 X I / H + 2 A
    E  embeddings: 8 B S H
    V  logits of the head, B times those of a row; predictions times vocabulary
       in pre-training. Twice, with their gradient.

On CPUs all devices share one memory, and TensorFlow itself, its compiled
programs and libraries take RUNTIME_BYTES. docs/memory.md compares estimates
with measured peaks.

Letters are those of modeling.py.
"""

import math
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from base import machine_memory
from base.errors import UserError
from base.machine_memory import in_words

import tensorflow as tf
from absl import logging

import modeling
from ops import recompute
from training import devices
from training.train_step import Step

# What a process on a CPU needs besides: 0.7 GB when TensorFlow is loaded, 0.2
# to 0.5 GB more with the programs of a step. Measured: Mini, Base and Large.
RUNTIME_BYTES = {
    "float32": 950_000_000,
    "bfloat16": 1_100_000_000,
    "float16": 1_250_000_000,
}

_LOOK_AHEAD = 2000  # steps whose lengths are looked at


class Rows(NamedTuple):
    """What a row of the batch is for the model.

    Attributes:
        encoded: sequences that the encoder trains on: 4 for the choices of a
            question, 0 where the encoder is frozen.
        logits: numbers of the largest matrix of logits, where they matter.
        head_numbers: float32 numbers that the head keeps for each token.
    """

    encoded: int = 1
    logits: int = 0
    head_numbers: int = 0


ONE_SEQUENCE = Rows()


def activation_bytes(
    config: modeling.BertConfig,
    rows: int,
    length: int,
    row: Rows = ONE_SEQUENCE,
    number_bytes: int = 4,
    is_fused: bool = True,
    choice: str = recompute.NONE,
) -> int:
    """Return the bytes of a micro-batch's activations at most.

    `rows` are those of one device's micro-batch, `length` tokens with padding,
    `number_bytes` those of an activation, `choice` one of recompute.CHOICES.
    """
    tokens = rows * row.encoded * length
    x = tokens * config.hidden_size * number_bytes
    wide = tokens * config.intermediate_size * number_bytes
    scores = tokens * length * config.num_attention_heads * number_bytes
    if is_fused:
        layer, attention = 12 * x + 2 * wide, 2 * scores
    else:
        layer = 6 * x + 5 * wide + 18 * x // number_bytes
        attention = scores + 5 * scores // number_bytes
    count = config.num_hidden_layers
    if choice == recompute.LAYERS:
        kept = 3 * count * x + layer + attention
    elif choice == recompute.ATTENTION:
        kept = count * layer + attention
    else:
        kept = count * (layer + attention)
    backward = 3 * x + 2 * wide + 2 * scores
    head = 2 * 4 * rows * row.logits
    embeddings = 2 * 4 * tokens * config.hidden_size
    head_kept = 4 * rows * length * row.head_numbers
    return embeddings + kept + head_kept + max(backward, head)


def estimate(step: Step, length: int, row: Rows) -> dict[str, int]:
    """Return the bytes of a device, by the names of the formula.

    `length` is that of the longest sequences, in tokens.
    """
    settings, model, compilation = step.settings, step.model, step.compilation
    parts = step.replicas * settings.gradient_accumulation_steps
    trained = sum(math.prod(v.shape) for v in model.trainable_variables)
    if step.replicas > 1 or not (compilation.update or compilation.step):
        update = 16
    else:
        update = 12 if settings.dtype == "float16" else 4
    return {
        "weights": 4 * sum(math.prod(v.shape) for v in model.variables),
        "slots": 4 * len(step.optimizer.slot_names) * trained,
        "gradients": (8 if parts > 1 else 4) * trained,
        "activations": activation_bytes(
            model.config,
            math.ceil(settings.train_batch_size / parts),
            length,
            row,
            tf.as_dtype(settings.dtype).size,
            compilation.elementwise or compilation.step,
            settings.recompute,
        ),
        "update": update * trained,
    }


def total_bytes(step: Step, found: dict[str, int], kind: str) -> int:
    """Return what is needed at most of a device, or of a CPU's memory."""
    kept = found["weights"] + found["slots"] + found["gradients"]
    # Activations are freed before the update.
    total = kept + max(found["activations"], found["update"])
    if kind != "CPU":
        return total
    if step.replicas > 1:
        total *= len(step.strategy.extended.worker_devices)
    return total + RUNTIME_BYTES[step.settings.dtype]


def log_estimate(
    step: Step, length: Callable[[int], int], first: int, row: Rows
) -> None:
    """Log what a run will need; warn where that is more than there is.

    `length` tells the tokens of a step's sequences, `first` the steps done.

    Raises:
        UserError: it is more than twice as much.
    """
    last = min(step.settings.last_step, first + _LOOK_AHEAD)
    longest = max(map(length, range(first, last)))
    found = estimate(step, longest, row)
    kind = "TPU" if devices.is_tpu(step.strategy) else devices.kind()
    total = total_bytes(step, found, kind)
    each = f" for each of {step.replicas} devices" if step.replicas > 1 else ""
    logging.info(
        "Memory, estimated%s: weights %s, optimizer slots %s, gradients %s, "
        "activations %s (--recompute=%s, length %d), update %s; together at "
        "most %s",
        each,
        in_words(found["weights"]),
        in_words(found["slots"]),
        in_words(found["gradients"]),
        in_words(found["activations"]),
        step.settings.recompute,
        longest,
        in_words(found["update"]),
        in_words(total),
    )
    free, where = free_bytes(kind)
    if total > 2 * free:  # no error of the estimate
        raise UserError(
            f"training needs {in_words(total)} of memory, estimated for "
            f"batches of {step.settings.train_batch_size} of length {longest}, "
            f"and {in_words(free)} of {where} are free: use larger "
            "--gradient_accumulation_steps, a smaller --train_batch_size, a "
            "shorter --max_seq_length or a smaller model"
        )
    if total > free:
        logging.warning(
            "The estimate of %s is more than what is free of the memory of "
            "%s, %s: the run may be killed without a message. "
            "--recompute=layers, --gradient_accumulation_steps or a shorter "
            "--max_seq_length needs less",
            in_words(total),
            where,
            in_words(free),
        )


def free_bytes(kind: str) -> tuple[float, str]:
    """Return the bytes that a run may use, and whose memory they are.

    Infinite where that is not known, as on TPUs. `kind` is CPU, GPU or TPU.
    """
    if kind == "CPU":
        return machine_memory.free_bytes()
    return (_largest_gpu(), "a GPU") if kind == "GPU" else (math.inf, "")


def _largest_gpu() -> float:
    """Return the bytes of the largest GPU, as its driver tells them.

    This process has taken the memory already: what is free is not known, and
    TensorFlow tells what it has taken, not what the GPU has. The driver lists
    GPUs that CUDA_VISIBLE_DEVICES hides, too, in an order of its own.
    """
    command = ["nvidia-smi", "--query-gpu=memory.total"]
    try:
        result = subprocess.run(
            [*command, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        return max(map(int, result.stdout.split())) * 2**20
    except (OSError, ValueError, subprocess.SubprocessError):
        return math.inf
