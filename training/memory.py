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

A GPU or TPU gets forward and backward pass as one program, of which XLA keeps,
computes again and frees what it likes. `WHOLE` has factors of these terms, from
programs compiled for such devices.

On CPUs all devices share one memory, and TensorFlow itself, its compiled
programs and libraries take RUNTIME_BYTES. docs/memory.md compares estimates
with measured peaks.

Letters are those of modeling.py.
"""

import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from base import machine_memory
from base.errors import UserError
from base.machine_memory import in_words

import tensorflow as tf
from absl import logging

import modeling
from ops import recompute
from ops.windows import Windows
from training import devices
from training.compilation import Compilation
from training.settings import Settings
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
    """What a row of the batch costs the model.

    Attributes:
        encoded: sequences that the encoder trains on: 4 for the choices of a
            question, 0 where the encoder is frozen.
        logits: numbers of the largest matrix of logits, where they matter.
        head_numbers: float32 numbers that the head keeps for each token.
        windows: how the encoder reads a sequence; None: at once.
    """

    encoded: int = 1
    logits: int = 0
    head_numbers: int = 0
    windows: Windows | None = None


ONE_SEQUENCE = Rows()


class Whole(NamedTuple):
    """How a program of forward and backward pass differs from the formula.

    XLA keeps, computes again and frees as it sees fit. These factors of its
    terms, by least squares, are those of the programs in docs/accelerators.md.

    Attributes:
        layer, attention: factors of the terms with X and A that a layer keeps.
        head: factor of V, for the logits.
        gradients: share of the gradients that exist when most activations do.
    """

    layer: float
    attention: float
    head: float
    gradients: float


WHOLE = {
    "GPU": Whole(1.0, 1.25, 1.25, 0.55),
    "TPU": Whole(0.7, 0.7, 1.0, 0.3),
}


class Sizes(NamedTuple):
    """What the memory of a run depends on.

    Attributes:
        kind: what the devices are: CPU, GPU or TPU.
        length: tokens of the longest sequences.
        parameters: all weights; trained: those that are trained.
        slots: numbers that the optimizer keeps of a trained weight.
        replicas: all devices; here: those that share the memory of this CPU.
    """

    kind: str
    config: modeling.BertConfig
    settings: Settings
    compilation: Compilation
    length: int
    row: Rows
    parameters: int
    trained: int
    slots: int = 2
    replicas: int = 1
    here: int = 1

    @property
    def whole(self) -> "Whole | None":
        """The numbers for a forward and backward pass that is one program."""
        # strategy.run compiles all that it is given for a TPU.
        if self.kind == "TPU" or self.compilation.step:
            return WHOLE[self.kind]
        return None

    @property
    def parts(self) -> int:
        """Into how many parts a batch is divided."""
        return self.replicas * self.settings.gradient_accumulation_steps

    def changed(self, **settings: Any) -> "Sizes":
        """Return the sizes with other settings."""
        return self._replace(settings=self.settings._replace(**settings))


def sizes_of(step: Step, length: int, row: Rows) -> Sizes:
    """Return the sizes of a step on sequences of so many tokens."""
    is_tpu = devices.is_tpu(step.strategy)
    model = step.model
    if row.windows:
        count = row.windows.count(length)
        row = row._replace(encoded=row.encoded * count)
        length = min(length, row.windows.length)
    return Sizes(
        "TPU" if is_tpu else devices.kind(),
        model.config,
        step.settings,
        step.compilation,
        length,
        row,
        sum(math.prod(v.shape) for v in model.variables),
        sum(math.prod(v.shape) for v in model.trainable_variables),
        len(step.optimizer.slot_names),
        step.replicas,
        # The default strategy does not know its devices.
        len(step.strategy.extended.worker_devices) if step.replicas > 1 else 1,
    )


def activation_bytes(sizes: Sizes) -> int:
    """Return the bytes of a micro-batch's activations at most."""
    config, settings, row = sizes.config, sizes.settings, sizes.row
    rows = math.ceil(settings.train_batch_size / sizes.parts)
    number_bytes = tf.as_dtype(settings.dtype).size
    tokens = rows * row.encoded * sizes.length
    x = tokens * config.hidden_size * number_bytes
    wide = tokens * config.intermediate_size * number_bytes
    scores = tokens * sizes.length * config.num_attention_heads * number_bytes
    whole = sizes.whole
    if whole:
        layer = whole.layer * (12 * x + 2 * wide)
        attention = whole.attention * 2 * scores
    elif sizes.compilation.elementwise:
        layer, attention = 12 * x + 2 * wide, 2 * scores
    else:
        layer = 6 * x + 5 * wide + 18 * x // number_bytes
        attention = scores + 5 * scores // number_bytes
    count = config.num_hidden_layers
    if settings.recompute == recompute.LAYERS:
        kept = 3 * count * x + layer + attention
    elif settings.recompute == recompute.ATTENTION:
        kept = count * layer + attention
    else:
        kept = count * (layer + attention)
    backward = 3 * x + 2 * wide + 2 * scores
    head = (whole.head if whole else 2) * 4 * rows * row.logits
    embeddings = 2 * 4 * tokens * config.hidden_size
    head_kept = 4 * rows * sizes.length * row.head_numbers
    return int(embeddings + kept + head_kept + max(backward, head))


def estimate(sizes: Sizes) -> dict[str, int]:
    """Return the bytes of a device, by the names of the formula."""
    compilation, trained = sizes.compilation, sizes.trained
    if sizes.whole and (sizes.replicas == 1 or sizes.kind == "TPU"):
        update = 4
    elif sizes.replicas > 1 or not compilation.update:
        update = 16
    else:
        update = 12 if sizes.settings.dtype == "float16" else 4
    return {
        "weights": 4 * sizes.parameters,
        "slots": 4 * sizes.slots * trained,
        "gradients": (8 if sizes.parts > 1 else 4) * trained,
        "activations": activation_bytes(sizes),
        "update": update * trained,
    }


def total_bytes(sizes: Sizes) -> int:
    """Return the most memory that is needed at once, of a device or the CPU."""
    found, whole = estimate(sizes), sizes.whole
    # Activations are freed before the update.
    total = (
        found["weights"]
        + found["slots"]
        + max(
            found["activations"]
            + int((whole.gradients if whole else 1) * found["gradients"]),
            found["update"] + found["gradients"],
        )
    )
    if sizes.kind != "CPU":
        return total
    return total * sizes.here + RUNTIME_BYTES[sizes.settings.dtype]


def what_fits(sizes: Sizes, free: float) -> list[str]:
    """Return the flags that make the run fit, each of them alone."""
    settings, replicas = sizes.settings, sizes.replicas
    size = settings.train_batch_size

    def fits(**changes: Any) -> bool:
        return total_bytes(sizes.changed(**changes)) <= free

    found = [
        f"--recompute={choice}"
        for choice in (recompute.ATTENTION, recompute.LAYERS)
        if settings.recompute == recompute.NONE and fits(recompute=choice)
    ][:1]
    accumulation = next(
        (
            count
            for count in range(1, size // replicas + 1)
            if size % (count * replicas) == 0
            and fits(gradient_accumulation_steps=count)
        ),
        None,
    )
    if accumulation:
        found.append(f"--gradient_accumulation_steps={accumulation}")
    largest = largest_batch(sizes, free)
    if largest:
        found.append(f"--train_batch_size={largest}")
    return found


def largest_batch(sizes: Sizes, free: float) -> int:
    """Return the largest batch that fits, a multiple of the parts; or 0."""
    parts = sizes.parts

    def fits(count: int) -> bool:
        return (
            total_bytes(sizes.changed(train_batch_size=count * parts)) <= free
        )

    low, high = 0, 1  # low fits, or is 0
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * parts


def log_estimate(
    step: Step, length: Callable[[int], int], first: int, row: Rows
) -> None:
    """Log the memory that a run will need; warn if less is free.

    `length` tells the tokens of a step's sequences, `first` the steps done.

    Raises:
        UserError: the run needs more than twice what is free.
    """
    last = min(step.settings.last_step, first + _LOOK_AHEAD)
    longest = max(map(length, range(first, last)))
    sizes = sizes_of(step, longest, row)
    found, total = estimate(sizes), total_bytes(sizes)
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
    free, where = free_bytes(sizes.kind)
    if total <= free:
        return
    flags = what_fits(sizes, free)
    advice = (
        f"by the estimate each of these fits: {', '.join(flags)}"
        if flags
        else "not even a batch of one row fits: use a shorter --max_seq_length "
        "or a smaller model"
    )
    if total > 2 * free:  # more than an error of the estimate explains
        raise UserError(
            f"training needs {in_words(total)} of memory, estimated for "
            f"batches of {step.settings.train_batch_size} of length {longest}, "
            f"and {in_words(free)} of {where} are free; {advice}"
        )
    logging.warning(
        "The estimate of %s is more than what is free of the memory of %s, "
        "%s: the run may be killed without a message, or run out of memory; %s",
        in_words(total),
        where,
        in_words(free),
        advice,
    )


# What a program can have of the memory of a GPU or TPU: the runtime, libraries
# and fragments take the rest.
USABLE = 0.92

# A chip of this machine, by the number of its kind on the PCI bus: its memory
# in GiB, from Google's documents. v2 and v3 share a number and are not here.
_GOOGLE = "0x1ae0"
_TPUS = {
    "0x005e": ("v4", 32),
    "0x0062": ("v5p", 95),
    "0x0063": ("v5e", 16),
    "0x006f": ("v6e", 32),
}


def free_bytes(kind: str, root: Path = Path("/")) -> tuple[float, str]:
    """Return the bytes that a run may use, and whose memory they are.

    Infinite where that is not known, as on TPUs of another machine. `kind` is
    CPU, GPU or TPU. Another `root` of the file system is for tests.
    """
    if kind == "CPU":
        return machine_memory.free_bytes()
    if kind == "GPU":
        return USABLE * _largest_gpu(), "a GPU"
    for path in root.glob("sys/bus/pci/devices/*/vendor"):
        device = path.with_name("device").read_text().strip()
        if path.read_text().strip() == _GOOGLE and device in _TPUS:
            name, gib = _TPUS[device]
            return USABLE * gib * 2**30, f"a TPU {name}"
    return math.inf, ""


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
