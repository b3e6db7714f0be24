"""Time the training step of run_pretraining.py and the products inside it.

A step's speed is reported as a share of the rate of a large matrix product
that is measured right before and after it: a shared machine changes its speed
from minute to minute, and the share changes less than the time does. The
step's own matrix products, timed one by one, bound the share from above.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import modeling
import optimization
from pretraining import model as pretraining_model
from pretraining import objectives
from tools.accelerators import compiler
from tools.benchmarks import measuring
from tools.benchmarks.measuring import Row
from tools.json_process import JsonProcess
from training import compilation, train_step
from training.settings import TrainingSettings

VOCAB_SIZE = 30522

# Large models get the batch that fits into the memory of a small machine.
BATCH_SIZES = {"base": 8, "large": 2}
DEFAULT_BATCH_SIZE = 32


def predictions_of(length: int) -> int:
    """Return the masked tokens of a record, 15%: 20 of 128, 77 of 512."""
    return -(-length * 15 // 100)


class Shape(NamedTuple):
    """The step that is timed: a named size, rows of a batch, their tokens."""

    size: str
    batch: int
    length: int

    def __str__(self) -> str:
        """Return the shape in words: "base, 8 x 128"."""
        return f"{self.size}, {self.batch} x {self.length}"


def fake_batch(
    rows: int, length: int, config: modeling.BertConfig
) -> dict[str, tf.Tensor]:
    """Return a batch of random ids without padding, [rows, length].

    The time of a step does not depend on the values, only on the shapes.
    """
    rng = np.random.default_rng(0)
    shape, slots = (rows, length), (rows, predictions_of(length))
    # The first columns of a permutation of each row: positions without
    # repetition.
    positions = np.argsort(rng.random(shape), axis=1)[:, : slots[1]]
    batch = {
        "input_ids": rng.integers(0, config.vocab_size, shape),
        "input_mask": np.ones(shape),
        "segment_ids": rng.integers(0, 2, shape),
        "masked_lm_positions": np.sort(positions, axis=1),
        "masked_lm_ids": rng.integers(0, config.vocab_size, slots),
        "next_sentence_labels": rng.integers(0, 2, rows),
    }
    batch = {k: tf.constant(v.astype(np.int32)) for k, v in batch.items()}
    batch["masked_lm_weights"] = tf.ones(slots)
    return batch


def time_steps(
    step: train_step.Step, length: int, repeats: int
) -> tuple[float, list[float]]:
    """Return the seconds of the compiling call and of each later step."""
    rows = step.settings.train_batch_size
    batch = fake_batch(rows, length, step.model.config)
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    one = tf.constant(1, tf.int64)
    seconds = []
    for number in range(2 + repeats):
        began = time.perf_counter()
        done, _ = step.run(iterator, tf.constant(number, tf.int64), one)
        int(done)  # waits for the device
        seconds.append(time.perf_counter() - began)
    # The first call after compilation still allocates memory.
    return seconds[0], seconds[2:]


class Product(NamedTuple):
    """A matrix product of the forward pass, computed `count` times."""

    count: int
    left: list[int]  # [..., R, I]
    right: list[int]  # [..., I, O]
    is_tied: bool = False  # right is the embedding table, [O, I]

    @property
    def outputs(self) -> int:
        """Return O."""
        return self.right[-2 if self.is_tied else -1]


def step_products(
    config: modeling.BertConfig,
    batch: int,
    length: int,
    objective_name: str,
) -> list[Product]:
    """Return the forward matrix products of a pre-training step."""
    objective = objectives.OBJECTIVES[objective_name]
    hidden, inner = config.hidden_size, config.intermediate_size
    num_heads, layers = config.num_attention_heads, config.num_hidden_layers
    tokens = batch * length
    words = batch * objective.projections(length, predictions_of(length))
    sentences = batch if objective.predicts_next_sentence else 0
    row = [batch, num_heads, length]
    size = hidden // num_heads
    products = [
        # Query, key, value and the attention's output.
        Product(4 * layers, [tokens, hidden], [hidden, hidden]),
        # The two halves of the feed-forward layer.
        Product(layers, [tokens, hidden], [hidden, inner]),
        Product(layers, [tokens, inner], [inner, hidden]),
        # Attention scores, then the weighted sums of values.
        Product(layers, [*row, size], [*row[:2], size, length]),
        Product(layers, [*row, length], [*row, size]),
        # Language model: transform, vocabulary.
        Product(1, [words, hidden], [hidden, hidden]),
        Product(1, [words, hidden], [config.vocab_size, hidden], True),
        # Next sentence: pooler, logits.
        Product(1, [sentences, hidden], [hidden, hidden]),
        Product(1, [sentences, hidden], [hidden, 2]),
    ]
    return [product for product in products if product.left[0]]


def training_flops(
    config: modeling.BertConfig,
    batch: int,
    length: int,
    objective_name: str,
) -> int:
    """Return the matrix-product operations of a pre-training step.

    A product [R, I] x [I, O] counts 2 R I O; the backward pass has two of the
    same size, hence the factor 3. Table lookups, norms, softmax, dropout and
    the optimizer count nothing.
    """
    return 6 * sum(
        product.count * math.prod(product.left) * product.outputs
        for product in step_products(config, batch, length, objective_name)
    )


def products_seconds(
    config: modeling.BertConfig,
    batch: int,
    length: int,
    dtype: str,
    objective_name: str,
) -> float:
    """Return the time of a step's matrix products, forward and backward.

    Each is timed by itself, with operands that stay in the cache if they fit:
    a lower bound of the step's time on this machine.
    """

    # A product left x right has two products in its backward pass:
    # d_left = pull x right^T and d_right = left^T x pull, where pull is the
    # gradient of the output.
    @tf.function(autograph=False, reduce_retracing=False)
    def multiply(left, right, pull, is_tied):
        d_right = (pull, left) if is_tied else (left, pull)
        return (
            tf.matmul(left, right, transpose_b=is_tied),
            tf.matmul(pull, right, transpose_b=not is_tied),
            tf.matmul(*d_right, transpose_a=True),
        )

    total = 0.0
    for product in step_products(config, batch, length, objective_name):
        pull = [*product.left[:-1], product.outputs]
        shapes = [product.left, product.right, pull]
        values = [tf.cast(tf.random.normal(s), dtype) for s in shapes]
        values.append(product.is_tied)
        multiply(*values)  # traces
        total += product.count * measuring.best_seconds(
            lambda v=values: multiply(*v), 5
        )
    return total


# Weights, gradients and two moments are read, all but gradients written.
_PASSES_OF_UPDATE = 7

_COPIED = 2**26  # float32 numbers, 268 MB: more than caches hold

_UPDATES = 10  # timed ones: a tenth of a second each at Base size


def time_update(step: train_step.Step) -> tuple[float, float, float]:
    """Time the update of a step alone, which changes its weights, and a copy.

    Returns:
        The seconds of clipping and the update; its bytes per second, if every
        number is read and written once; and the bytes per second of an
        operation that reads and writes an array, compiled in the same way.
    """
    variables = step.model.trainable_variables
    gradients = [tf.fill(v.shape, 1e-3) for v in variables]
    norm = optimization.global_norm(gradients)
    number = tf.constant(1, tf.int64)
    update = tf.function(
        lambda: step.update(gradients, norm, number),
        autograph=False,
        jit_compile=step.compilation.step,  # else it is a program already
    )
    values = tf.fill([_COPIED], 1.0)
    copy = tf.function(
        lambda: values + 1.0,
        autograph=False,
        jit_compile=step.compilation.update or step.compilation.step,
    )

    def seconds_of(function: Callable[[], object]) -> float:
        def call() -> None:
            function()
            tf.test.experimental.sync_devices()  # a GPU is still at work

        call()  # compiles
        return measuring.best_seconds(call, _UPDATES)

    seconds = seconds_of(update)
    numbers = sum(math.prod(v.shape) for v in variables)
    return (
        seconds,
        4 * _PASSES_OF_UPDATE * numbers / seconds,
        4 * 2 * _COPIED / seconds_of(copy),
    )


def measure(
    shapes: Sequence[Shape],
    repeats: int,
    dtype: str,
    jit_compile: bool,
    objective_name: str,
    transformers_python: str | None = None,
) -> Iterator[Row]:
    """Time the training step of each shape; yield its rows.

    The weights are random. A large step is timed a quarter of `repeats` times.
    With an interpreter that has transformers and torch their step is timed
    too, before the first of ours: TensorFlow keeps the memory of a GPU.
    """
    theirs: dict[Shape, dict[str, float]] = {}
    if transformers_python:
        for shape, how, row in _measure_transformers(
            transformers_python, shapes, repeats, dtype
        ):
            yield row
            if row.figures:
                theirs.setdefault(shape, {})[how] = row.figures["seconds"]
    for shape in shapes:
        try:
            yield from _measure_ours(
                shape,
                _count(shape.size, repeats),
                dtype,
                jit_compile,
                objective_name,
                theirs.get(shape, {}),
            )
        except tf.errors.ResourceExhaustedError:
            yield Row(f"training step, {shape}", "out of memory", "")


def _count(size: str, repeats: int) -> int:
    # Steps that take seconds vary less than steps of milliseconds.
    return max(2, repeats // (4 if size in BATCH_SIZES else 1))


_TRANSFORMERS = Path(__file__).with_name("transformers_steps.py")


def _measure_transformers(
    python: str, shapes: Sequence[Shape], repeats: int, dtype: str
) -> Iterator[tuple[Shape, str, Row]]:
    """Yield the rows of transformers: each shape eager, and torch.compile."""
    with JsonProcess("transformers_python", python, _TRANSFORMERS) as process:
        for shape, compiles in itertools.product(shapes, (False, True)):
            config = modeling.BertConfig.from_size(shape.size, VOCAB_SIZE)
            job = {
                "config": config.to_dict(),
                "batch": shape.batch,
                "length": shape.length,
                "predictions": predictions_of(shape.length),
                "dtype": dtype,
                "compiles": compiles,
                "repeats": _count(shape.size, repeats),
            }
            found = process.ask(job)
            how = "torch.compile" if compiles else "eager"
            name = f"training step, {shape}, transformers, {how}"
            if "error" in found:
                yield shape, how, Row(name, "failed", found["error"])
                continue
            row = _time_row(
                name,
                shape,
                found["seconds"],
                found["first"],
                found.get("memory"),
                process.first,
            )
            yield shape, how, row


def _time_row(
    name: str,
    shape: Shape,
    seconds: list[float],
    first: float,
    memory: int | None,
    note: str = "",
) -> Row:
    """Return the row of a step's time, with a GPU's peak memory."""
    best, median = min(seconds), statistics.median(seconds)
    figures = {
        "sequences_per_second": shape.batch / best,
        "seconds": best,
        "median_seconds": median,
        "first_call_seconds": first,
    }
    words = f"{best:.3f} s, median {median:.3f} s; first call {first:.0f} s"
    if memory is not None:
        figures["memory_bytes"] = memory
        words += f"; memory {memory / 1e6:,.0f} MB"
    if note:
        words += f"; {note}"
    value = f"{shape.batch / best:.1f} sequences/s"
    return Row(name, value, words, figures)


def _measure_ours(
    shape: Shape,
    count: int,
    dtype: str,
    jit_compile: bool,
    objective_name: str,
    theirs: dict[str, float],
) -> Iterator[Row]:
    """Yield the rows of this project's step; `theirs` are seconds."""
    objective = objectives.OBJECTIVES[objective_name]
    strategy = tf.distribute.get_strategy()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.experimental.reset_memory_stats("GPU:0")
    size, rows, length = shape
    config = modeling.BertConfig.from_size(size, VOCAB_SIZE)
    config.attention_direction = objective.attention_direction
    step = train_step.Step(
        strategy,
        pretraining_model.BertForPreTraining(
            config, dtype, objective.predicts_next_sentence
        ),
        objective.objective,
        TrainingSettings(
            output_dir="",
            num_train_steps=1000,
            train_batch_size=rows,
            dtype=dtype,
            jit_compile=jit_compile,
        ),
        compilation.for_training(strategy, jit_compile),
    )
    before = measuring.matmul_peak(dtype)
    first, seconds = time_steps(step, length, count)
    memory = None
    if gpus:
        memory = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    after = measuring.matmul_peak(dtype)
    peak = max(before, after, measuring.matmul_peak(dtype))
    best, median = min(seconds), statistics.median(seconds)
    updating, rate, copy_rate = time_update(step)
    operations = training_flops(config, rows, length, objective_name)
    if not gpus:  # there the calls take longer than the products
        products = products_seconds(config, rows, length, dtype, objective_name)
        share = operations / products / peak
        yield Row(
            f"matrix products of a step alone, {shape}",
            f"{share:.0%} of matmul peak",
            f"{products:.3f} s: the step cannot be much faster",
            {"matmul_peak_share": share, "seconds": products},
        )
    yield Row(
        f"update of the weights alone, {shape}",
        f"{rate / 1e9:.1f} GB/s",
        f"{updating:.4f} s, {updating / best:.1%} of the step; a copy: "
        f"{copy_rate / 1e9:.1f} GB/s",
        {
            "bytes_per_second": rate,
            "seconds": updating,
            "copy_bytes_per_second": copy_rate,
        },
    )
    name = f"training step, {shape}"
    if objective_name != objectives.DEFAULT:
        name += f", {objective_name}"
    figures = {
        "matmul_peak_share": operations / best / peak,
        "peak_flops": peak,
    }
    note = (
        f"median {operations / median / peak:.0%}, peak "
        f"{peak / 1e9:.0f} GFLOP/s"
    )
    card = _card(gpus)
    if card and dtype != "float32":
        figures["data_sheet_share"] = operations / best / card.tflops / 1e12
        note += (
            f"; {figures['data_sheet_share']:.0%} of the data sheet's "
            f"{card.tflops} TFLOP/s"
        )
    yield Row(
        name,
        f"{figures['matmul_peak_share']:.0%} of matmul peak",
        note,
        figures,
    )
    row = _time_row(name, shape, seconds, first, memory)
    for how, other in theirs.items():
        words = f"; {best / other:.2f} of transformers, {how}"
        row = row._replace(
            note=row.note + words,
            figures={**row.figures, f"share_of_{how}": best / other},
        )
    yield row


def _card(gpus: Sequence[Any]) -> compiler.Gpu | None:
    """Return the first GPU as the table of cards has it."""
    if not gpus:
        return None
    details = tf.config.experimental.get_device_details(gpus[0])
    for name, card in compiler.DEVICES.items():
        if name in details.get("device_name", ""):  # "NVIDIA H100 80GB HBM3"
            return card
    return None
