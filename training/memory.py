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

import contextlib
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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


class Batch(NamedTuple):
    """A micro-batch of one device, as far as memory depends on it.

    Attributes:
        rows: rows of the micro-batch.
        length: tokens of a row, padding included.
        number_bytes: of a number of the activations, 4 or 2.
        is_fused: whether elementwise operations are compiled.
        choice: of recompute.CHOICES.
    """

    rows: int
    length: int
    number_bytes: int = 4
    is_fused: bool = True
    choice: str = recompute.NONE


class Estimate(NamedTuple):
    """Bytes of one device, see the module."""

    weights: int
    slots: int
    gradients: int
    activations: int
    update: int

    @property
    def total(self) -> int:
        """The bytes at most: activations are freed before the update."""
        kept = self.weights + self.slots + self.gradients
        return kept + max(self.activations, self.update)


# --- The formula -------------------------------------------------------------


def activation_bytes(
    config: modeling.BertConfig, batch: Batch, row: Rows = ONE_SEQUENCE
) -> int:
    """Return the bytes of a micro-batch's activations at most.

    Args:
        config: of the encoder.
        batch: its size, number type and compilation.
        row: what a row of it is.
    """
    size, sequences = batch.number_bytes, batch.rows * row.encoded
    tokens = sequences * batch.length
    x = tokens * config.hidden_size * size
    wide = tokens * config.intermediate_size * size
    scores = tokens * batch.length * config.num_attention_heads * size
    if batch.is_fused:
        layer, attention = 12 * x + 2 * wide, 2 * scores
    else:
        layer = 6 * x + 5 * wide + 18 * x // size
        attention = scores + 5 * scores // size
    count = config.num_hidden_layers
    if batch.choice == recompute.LAYERS:
        kept = 3 * count * x + layer + attention
    elif batch.choice == recompute.ATTENTION:
        kept = count * layer + attention
    else:
        kept = count * (layer + attention)
    backward = 3 * x + 2 * wide + 2 * scores
    head = 2 * 4 * batch.rows * row.logits
    embeddings = 2 * 4 * tokens * config.hidden_size
    head_kept = 4 * batch.rows * batch.length * row.head_numbers
    return embeddings + kept + head_kept + max(backward, head)


def estimate(
    num_parameters: int,
    num_trained: int,
    num_slots: int,
    activations: int,
    sums_gradients: bool = False,
    compiles_update: bool = True,
    may_skip: bool = False,
) -> Estimate:
    """Return the bytes that a device needs.

    Args:
        num_parameters: numbers of all variables.
        num_trained: numbers of the variables that are trained.
        num_slots: slots of each, 2 for AdamW and LAMB.
        activations: their bytes.
        sums_gradients: whether micro-batches or devices are summed up.
        compiles_update: whether XLA compiles the update.
        may_skip: whether steps are skipped, as with a loss scale.
    """
    update = (12 if may_skip else 4) if compiles_update else 16
    return Estimate(
        weights=4 * num_parameters,
        slots=4 * num_slots * num_trained,
        gradients=(8 if sums_gradients else 4) * num_trained,
        activations=activations,
        update=update * num_trained,
    )


def estimate_step(step: Step, length: int, row: Rows) -> Estimate:
    """Return the bytes of a device for training steps.

    Args:
        step: has its optimizer's slots.
        length: tokens of the longest sequences.
        row: what a row of the batch is.
    """
    settings, model, compilation = step.settings, step.model, step.compilation
    parts = step.replicas * settings.gradient_accumulation_steps
    batch = Batch(
        math.ceil(settings.train_batch_size / parts),
        length,
        tf.as_dtype(settings.dtype).size,
        compilation.elementwise or compilation.step,
        settings.recompute,
    )
    return estimate(
        _count(model.variables),
        _count(model.trainable_variables),
        len(step.optimizer.slot_names),
        activation_bytes(model.config, batch, row),
        sums_gradients=parts > 1,
        compiles_update=step.replicas == 1
        and (compilation.update or compilation.step),
        may_skip=settings.dtype == "float16",
    )


def _count(variables: list) -> int:
    """Return how many numbers variables have."""
    return sum(math.prod(variable.shape) for variable in variables)


def log_estimate(
    step: Step, length: Callable[[int], int], first: int, row: Rows
) -> None:
    """Log what a run will need; warn where that is more than there is.

    Args:
        step: of the run.
        length: number of a step -> tokens of its sequences.
        first: number of steps done.
        row: what a row of the batch is.
    """
    settings, strategy = step.settings, step.strategy
    last = min(settings.last_step, first + _LOOK_AHEAD)
    longest = max(map(length, range(first, last)))
    found = estimate_step(step, longest, row)
    kind = "TPU" if devices.is_tpu(strategy) else devices.kind()
    total = found.total
    if kind == "CPU":  # whose devices share one memory
        if step.replicas > 1:
            total *= len(strategy.extended.worker_devices)
        total += RUNTIME_BYTES[settings.dtype]
    each = f" for each of {step.replicas} devices" if step.replicas > 1 else ""
    logging.info(
        "Memory, estimated%s: weights %s, optimizer slots %s, gradients %s, "
        "activations %s (--recompute=%s, length %d), update %s; together at "
        "most %s",
        each,
        _text(found.weights),
        _text(found.slots),
        _text(found.gradients),
        _text(found.activations),
        settings.recompute,
        longest,
        _text(found.update),
        _text(total),
    )
    limit = find_limit(kind)
    if limit and total > limit.free:
        logging.warning(
            "The estimate of %s is more than what is free of the memory of "
            "%s, %s: the run may be killed without a message. "
            "--recompute=layers, --gradient_accumulation_steps or a shorter "
            "--max_seq_length needs less",
            _text(total),
            limit.what,
            _text(limit.free),
        )


def _text(count: float) -> str:
    """Return bytes for people: 438 MB, 5.4 GB."""
    if count < 1e9:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e9:.1f} GB"


# --- How much there is -------------------------------------------------------


class Limit(NamedTuple):
    """The memory that a run may use, in bytes.

    Attributes:
        what: whose memory it is, for messages.
        free: what other processes leave of it, as far as known: for a
            container at most its limit, for a GPU all of it.
    """

    what: str
    free: int


def find_limit(kind: str, root: str = "/") -> Limit | None:
    """Return the limit of a kind of device; None if it is not known.

    Args:
        kind: CPU, GPU or TPU.
        root: of the file system, for tests.
    """
    if kind == "GPU":
        return _gpu_limit()
    return _machine_limit(Path(root)) if kind == "CPU" else None


def _machine_limit(root: Path) -> Limit | None:
    """Return the machine's memory, or the control group's if that is less."""
    entries = proc_entries(root / "proc/meminfo")
    if "MemTotal" not in entries:
        return None  # not Linux
    own = proc_entries(root / "proc/self/status").get("VmRSS", 0)
    free = own + entries.get("MemAvailable", entries["MemTotal"])
    group = _group_limit(root)
    if group and group < entries["MemTotal"]:
        return Limit("this control group (container)", min(group, free))
    return Limit("this machine", free)


def proc_entries(path: Path) -> dict[str, int]:
    """Return the sizes in a file such as /proc/meminfo, {name: bytes}.

    It is empty where there is no such file.
    """
    found = {}
    with contextlib.suppress(OSError):
        for line in path.read_text("utf-8").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                found[name] = 1024 * int(value.split()[0])
    return found


def _group_limit(root: Path) -> int | None:
    """Return the least memory limit of the process' control groups."""
    groups, found = ["/"], []
    with contextlib.suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            # 0::/user.slice/job, or in version 1 5:memory:/docker/1f
            _, controllers, group = line.split(":", 2)
            if controllers in ("", "memory"):
                groups.append(group)
    for group in groups:
        # A group is limited by those above it too.
        place = Path(group.lstrip("/"))
        for part in (place, *place.parents):
            for name in ("memory.max", "memory/{}/memory.limit_in_bytes"):
                if "{}" in name:
                    path = root / "sys/fs/cgroup" / name.format(part)
                else:
                    path = root / "sys/fs/cgroup" / part / name
                with contextlib.suppress(OSError, ValueError):
                    found.append(int(path.read_text("utf-8")))  # or "max"
    return min(found, default=None)


def _gpu_limit() -> Limit | None:
    """Return the memory of the smallest GPU, as its driver tells it."""
    # TensorFlow tells what it has taken of a GPU, not what the GPU has.
    command = ["nvidia-smi", "--query-gpu=memory.total"]
    try:
        result = subprocess.run(
            [*command, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
        total = min(map(int, result.stdout.split()))
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    # This process has taken the memory already: what is free is not known.
    return Limit("a GPU", total * 2**20)
