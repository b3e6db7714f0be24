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
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf
from absl import logging

import modeling
from ops import recompute
from training import devices
from training.compilation import Compilation
from training.memory_limits import Limit, find_limit
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


# --- A run -------------------------------------------------------------------


class Run(NamedTuple):
    """A training run, as far as its memory depends on it.

    Attributes:
        model: has its variables.
        num_slots: of each trained variable.
        settings: of the training.
        compilation: what XLA compiles.
        replicas: devices, those of other machines included.
        length: of the longest sequences.
        row: what a row of the batch is.
    """

    model: modeling.TaskModel
    num_slots: int
    settings: Settings
    compilation: Compilation
    replicas: int
    length: int
    row: Rows

    def estimate(self) -> Estimate:
        """Return the bytes of one device."""
        settings, model = self.settings, self.model
        parts = self.replicas * settings.gradient_accumulation_steps
        compilation = self.compilation
        dtype = tf.as_dtype(settings.dtype)
        batch = Batch(
            math.ceil(settings.train_batch_size / parts),
            self.length,
            dtype.size,
            compilation.elementwise or compilation.step,
            settings.recompute,
        )
        one_device = self.replicas == 1
        return estimate(
            _count(model.variables),
            _count(model.trainable_variables),
            self.num_slots,
            activation_bytes(model.config, batch, self.row),
            sums_gradients=parts > 1,
            compiles_update=one_device
            and (compilation.update or compilation.step),
            may_skip=settings.dtype == "float16",
        )

    def with_settings(self, **changes) -> "Run":
        """Return the run with other settings."""
        return self._replace(settings=self.settings._replace(**changes))


def run_of(step: Step, length: int, row: Rows) -> Run:
    """Return the training run that a step is part of.

    Args:
        step: has its optimizer's slots.
        length: tokens of the longest sequences.
        row: what a row of the batch is.
    """
    return Run(
        step.model,
        len(step.optimizer.slot_names),
        step.settings,
        step.compilation,
        step.replicas,
        length,
        row,
    )


def _count(variables: list) -> int:
    """Return how many numbers variables have."""
    return sum(math.prod(variable.shape) for variable in variables)


def longest(length: Callable[[int], int], first: int, last: int) -> int:
    """Return the largest length of the next batches.

    Args:
        length: step -> length of its batch.
        first: the next step.
        last: the step at which the run ends.
    """
    return max(map(length, range(first, min(last, first + _LOOK_AHEAD))))


def log_estimate(run: Run, strategy: tf.distribute.Strategy) -> None:
    """Log what a run will need; warn where that is more than there is."""
    is_cpu = not devices.is_tpu(strategy) and devices.kind() == "CPU"
    sharing = 1  # devices of this machine that share one memory
    if is_cpu and run.replicas > 1:
        sharing = len(strategy.extended.worker_devices)
    own = RUNTIME_BYTES[run.settings.dtype] if is_cpu else 0
    found = run.estimate()
    logging.info("%s", describe(run, found, sharing, own))
    limit = find_limit("TPU" if devices.is_tpu(strategy) else devices.kind())

    def needed(run: Run) -> int:
        return sharing * run.estimate().total + own

    if limit and needed(run) > limit.free:
        logging.warning("%s", warning(run, needed, limit))


def describe(run: Run, found: Estimate, sharing: int, own: int) -> str:
    """Return the line about the memory of a run.

    Args:
        run: the run.
        found: its estimate.
        sharing: devices that share one memory.
        own: bytes of TensorFlow itself.
    """
    each = f" for each of {run.replicas} devices" if run.replicas > 1 else ""
    text = (
        f"Memory, estimated{each}: weights {_text(found.weights)}, optimizer "
        f"slots {_text(found.slots)}, gradients {_text(found.gradients)}, "
        f"activations {_text(found.activations)} "
        f"(--recompute={run.settings.recompute}, length {run.length})"
    )
    if found.update > found.activations:
        text += f", the update {_text(found.update)}"
    text += f"; together at most {_text(sharing * found.total + own)}"
    return text + (f", {_text(own)} of it TensorFlow's own" if own else "")


def warning(run: Run, needed: Callable[[Run], int], limit: Limit) -> str:
    """Return what to do where a run needs more memory than there is.

    Args:
        run: the run.
        needed: a run -> bytes.
        limit: of the memory.
    """
    verb = "is more than" if needed(run) > limit.total else "may be more than"
    text = (
        f"The estimate of {_text(needed(run))} {verb} the memory of "
        f"{limit.what}, {_text(limit.total)}, of which {_text(limit.free)} are "
        "free: the run may be killed without a message. "
    )
    fitting = [
        f"{name} (about {_text(needed(other))})"
        for name, other in _ways_out(run)
        if needed(other) <= limit.free
    ]
    if fitting:
        return text + f"What fits: {'; '.join(fitting)}"
    return text + (
        "Neither --recompute nor --gradient_accumulation_steps makes it fit: "
        "use a smaller model, a shorter --max_seq_length or a larger device"
    )


def _ways_out(run: Run) -> list[tuple[str, Run]]:
    """Return runs that need less memory, each with its flags.

    All but the one of the shorter --max_seq_length compute the same numbers.
    """
    settings, found = run.settings, []
    order = (recompute.NONE, recompute.ATTENTION, recompute.LAYERS)
    for choice in order[order.index(settings.recompute) + 1 :]:
        flag = f"--recompute={choice}"
        found.append((flag, run.with_settings(recompute=choice)))
    rows = settings.train_batch_size // run.replicas
    before = settings.gradient_accumulation_steps
    # The fewest micro-batches of half the size, and those of one row.
    for parts in dict.fromkeys((2 * before, rows)):
        if parts > before and rows % parts == 0:
            flag = f"--gradient_accumulation_steps={parts}"
            found.append(
                (flag, run.with_settings(gradient_accumulation_steps=parts))
            )
            if settings.recompute != recompute.LAYERS:
                both = run.with_settings(
                    gradient_accumulation_steps=parts,
                    recompute=recompute.LAYERS,
                )
                found.append((f"{flag} --recompute={recompute.LAYERS}", both))
    shorter = run._replace(length=run.length // 2)
    found.append((f"--max_seq_length={run.length // 2}", shorter))
    return found


def _text(count: float) -> str:
    """Return bytes for people: 438 MB, 5.4 GB."""
    if count < 1e9:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e9:.1f} GB"
