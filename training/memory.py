"""Estimate the memory of training before it begins; warn if it cannot fit.

A run that needs more memory than there is ends late and without a message: the
kernel kills it. The estimate for each device, in bytes:

    weights      4 P          P: all parameters
    slots        4 s T        T: those that are trained; s: slots of each, 2;
                              Muon has 1 for each kernel of the encoder
    gradients    4 T          8 T where micro-batches or devices are summed up
    step         the larger of activations and update

    activations  E + L K + max(W, 8 V)     the whole batch's, kept for the
                                           backward pass, and what is computed
                                           from them there
    update       4 T          gradients after clipping; weights and moments are
                              written in place. 16 T in float16 and where XLA
                              does not compile the update: new ones, and values
                              in between. 8 T more with Muon, for its directions

With X = B S H e and A = B N S S e bytes for B rows of a micro-batch and numbers
of e bytes (4; 2 for bfloat16), and I = intermediate_size:

    K  kept of a layer: 12 X + 2 X I / H + 2 A. Each operation keeps its inputs:
       x (1), query, key, value before and after the split into heads (6),
       context before and after the merge (2), the input and output of both
       norms (3), of gelu (2 I / H), of softmax (2 A).
       --recompute=layers keeps 3 X, and K for one layer at a time.
       --recompute=attention leaves out the terms with A but for one layer.
    W  one layer's backward pass: 3 X + 2 X I / H + 2 A
    E  embeddings: 8 B S H
    V  logits of the head, B times those of a row; predictions times vocabulary
       in pre-training. Twice, with their gradient.

This is a CPU whose elementwise operations XLA compiles: in float32 within 10%
of measured peaks. Other programs keep more or less: operations that are not
compiled keep values in between, and XLA computes again and frees what it likes
in the one program of a GPU or TPU. SAFETY allows for that.

On CPUs all devices share one memory, and TensorFlow itself, its compiled
programs and libraries take RUNTIME_BYTES. docs/records/memory.md has estimates
beside measured peaks.

Letters are those of modeling.py.
"""

import bisect
import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from base import machine
from base.machine import in_words

import tensorflow as tf
from absl import logging

import modeling
from training import devices
from training.settings import MAX_BATCH_SIZE, TrainingSettings
from training.task_model import RowCost
from training.train_step import Step

# What a process on a CPU needs besides: 0.7 GB when TensorFlow is loaded, 0.2
# to 0.5 GB more with the programs of a step.
RUNTIME_BYTES = 1_000_000_000

# A run should have this much of its estimate; see above.
SAFETY = 1.25

_LOOK_AHEAD = 2000  # steps whose lengths are looked at


class Sizes(NamedTuple):
    """What the memory of a run depends on.

    Attributes:
        on_cpu: whether it trains on CPUs.
        length: tokens of the longest sequences.
        parameters: all weights; trained: those that are trained.
        slots: numbers that the optimizer keeps of a trained weight, on average.
        replicas: all devices; here: those that share the memory of this CPU.
        updates_in_place: whether the update writes over weights and moments.
    """

    on_cpu: bool
    config: modeling.BertConfig
    settings: TrainingSettings
    length: int
    row: RowCost
    parameters: int
    trained: int
    slots: float = 2
    replicas: int = 1
    here: int = 1
    updates_in_place: bool = True

    @property
    def parts(self) -> int:
        """Into how many parts a batch is divided."""
        return self.replicas * self.settings.gradient_accumulation_steps

    def changed(self, **settings: Any) -> "Sizes":
        """Return the sizes with other settings."""
        return self._replace(
            settings=dataclasses.replace(self.settings, **settings)
        )


def sizes_of(step: Step, length: int, row: RowCost) -> Sizes:
    """Return the sizes of a step on sequences of so many tokens."""
    is_tpu = devices.is_tpu(step.strategy)
    model, compiled = step.model, step.compilation
    trained = sum(math.prod(v.shape) for v in model.trainable_variables)
    slots = [s for kept in step.optimizer.slots.values() for s in kept.values()]
    if row.windows:
        count = row.windows.count(length)
        row = row._replace(encoded=row.encoded * count)
        length = min(length, row.windows.length)
    return Sizes(
        devices.kind() == "CPU" and not is_tpu,
        model.config,
        step.settings,
        length,
        row,
        sum(math.prod(v.shape) for v in model.variables),
        trained,
        sum(math.prod(slot.shape) for slot in slots) / trained,
        step.replicas,
        # The default strategy does not know its devices.
        len(step.strategy.extended.worker_devices) if step.replicas > 1 else 1,
        # strategy.run compiles all that it is given for a TPU. In float16
        # the old weights stay until the step is known to be good.
        is_tpu
        or step.replicas == 1
        and (compiled.step or compiled.update)
        and not step.loss_scale,
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
    layer, attention = 12 * x + 2 * wide, 2 * scores
    count = config.num_hidden_layers
    if settings.recompute == "layers":
        kept = 3 * count * x + layer + attention
    elif settings.recompute == "attention":
        kept = count * layer + attention
    else:
        kept = count * (layer + attention)
    backward = 3 * x + 2 * wide + 2 * scores
    head = 2 * 4 * rows * row.logits
    embeddings = 2 * 4 * tokens * config.hidden_size
    head_kept = 4 * rows * sizes.length * row.head_numbers
    return embeddings + kept + head_kept + max(backward, head)


def estimate(sizes: Sizes) -> dict[str, int]:
    """Return the bytes of a device, by their names in the log."""
    trained = sizes.trained
    return {
        "weights": 4 * sizes.parameters,
        "optimizer slots": round(4 * sizes.slots * trained),
        "gradients": (8 if sizes.parts > 1 else 4) * trained,
        "activations": activation_bytes(sizes),
        "update": (4 if sizes.updates_in_place else 16) * trained
        + 8 * trained * (sizes.settings.optimizer == "muon"),
    }


def total_bytes(sizes: Sizes) -> int:
    """Return the most memory that is needed at once, of a device or the CPU."""
    needs = estimate(sizes)
    total = needs["weights"] + needs["optimizer slots"] + needs["gradients"]
    # Activations are freed before the update.
    total += max(needs["activations"], needs["update"])
    return total * sizes.here + RUNTIME_BYTES if sizes.on_cpu else total


def what_fits(sizes: Sizes, free: float) -> list[str]:
    """Return the flags that make the run fit safely, each of them alone."""
    settings, replicas = sizes.settings, sizes.replicas
    size = settings.train_batch_size
    is_free = settings.recompute == "none"
    counts = range(1, size // replicas + 1)
    choices = {
        "recompute": ["attention", "layers"] if is_free else [],
        "gradient_accumulation_steps": [
            count for count in counts if size % (count * replicas) == 0
        ],
    }
    fits = []
    for name, values in choices.items():
        for value in values:
            changed = sizes.changed(**{name: value})
            if SAFETY * total_bytes(changed) <= free:
                fits.append(f"--{name}={value}")
                break
    if largest := largest_batch(sizes, free):
        fits.append(f"--train_batch_size={largest}")
    return fits


def largest_batch(sizes: Sizes, free: float) -> int:
    """Return the largest safe batch, a multiple of the parts; or 0."""
    parts = sizes.parts

    def needed(count: int) -> float:
        more = sizes.changed(train_batch_size=count * parts)
        return SAFETY * total_bytes(more)

    counts = range(1, MAX_BATCH_SIZE // parts + 1)
    return parts * bisect.bisect_right(counts, free, key=needed)


def log_estimate(
    step: Step, length: Callable[[int], int], first: int, row: RowCost
) -> None:
    """Log the memory that a run will need; warn if this machine lacks it.

    `length` tells the tokens of a step's sequences, `first` the steps done.
    """
    last = min(step.settings.last_step, first + _LOOK_AHEAD)
    longest = max(map(length, range(first, last)))
    sizes = sizes_of(step, longest, row)
    needs, total = estimate(sizes), total_bytes(sizes)
    each = f" for each of {step.replicas} devices" if step.replicas > 1 else ""
    logging.info(
        "Memory, estimated%s, with --recompute=%s and length %d: %s; "
        "together %s",
        each,
        step.settings.recompute,
        longest,
        ", ".join(f"{name} {in_words(n)}" for name, n in needs.items()),
        in_words(total),
    )
    if not sizes.on_cpu:
        return  # a GPU has memory of its own, and says when it is full
    free, where = machine.free_bytes()
    if SAFETY * total <= free:
        return
    flags = what_fits(sizes, free)
    advice = (
        f"by the estimate each of these fits: {', '.join(flags)}"
        if flags
        else "not even a batch of one row fits: use a shorter --max_seq_length "
        "or a smaller model"
    )
    logging.warning(
        "The run may be killed without a message, or run out of memory: of the "
        "memory of %s %s are free, and %s, the estimate and a quarter, are "
        "safe; %s",
        where,
        in_words(free),
        in_words(SAFETY * total),
        advice,
    )
