"""Time the training step of run_pretraining.py.

A step's speed is reported as a share of the rate of a large matrix product
that is measured right before and after it: a shared machine changes its speed
from minute to minute, and the share changes less than the time does.
"""

import dataclasses
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

import modeling
from pretraining import objectives
from tools.accelerators.rows import Program
from tools.accelerators.steps import (
    KINDS,
    VOCAB_SIZE,
    model_of,
    predictions_of,
    settings_of,
)
from tools.benchmarks import measuring
from tools.benchmarks.measuring import Row
from tools.json_process import JsonProcess
from training import compilation, train_step


def fake_batch(program: Program) -> dict[str, tf.Tensor]:
    """Return a batch of random ids without padding.

    The time of a step does not depend on the values, only on the shapes.
    """
    rng = np.random.default_rng(0)
    limits = {
        "input_ids": VOCAB_SIZE,
        "masked_lm_ids": VOCAB_SIZE,
        "masked_lm_positions": program.length,
        "next_sentence_labels": 2,
        "segment_ids": 2,
    }
    specs = KINDS[program.step].features(program.batch, program.length)
    return {
        name: tf.constant(rng.integers(0, limits[name], x.shape), x.dtype)
        if name in limits
        else tf.ones(x.shape, x.dtype)
        for name, x in specs.items()
    }


def time_steps(
    step: train_step.Step, batch: dict[str, tf.Tensor], repeats: int
) -> tuple[float, list[float]]:
    """Return the seconds of the compiling call and of each later step."""
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    one = tf.constant(1, tf.int64)
    seconds = []
    for number in range(2 + repeats):
        began = time.perf_counter()
        done, _ = step.repeat(iterator, tf.constant(number, tf.int64), one)
        int(done)  # waits for the device
        seconds.append(time.perf_counter() - began)
    # The first call after compilation still allocates memory.
    return seconds[0], seconds[2:]


def training_flops(
    config: modeling.BertConfig,
    batch: int,
    length: int,
    objective_name: str,
) -> int:
    """Return the matrix-product operations of a pre-training step.

    A product [R, I] x [I, O] counts 2 R I O; the backward pass has two of the
    same size, hence the factor 6. Table lookups, norms, softmax, dropout and
    the optimizer count nothing.
    """
    objective = objectives.OBJECTIVES[objective_name]
    hidden = config.hidden_size
    # Of a token in a layer: query, key, value and the attention's output; the
    # two halves of the feed-forward layer; scores, and weighted sums of values.
    layer = hidden * (4 * hidden + 2 * config.intermediate_size + 2 * length)
    # Language model: transform, vocabulary. Next sentence: pooler, logits.
    words = predictions_of(length)
    if objective.attention_direction != modeling.BIDIRECTIONAL:
        words = length
    head = words * hidden * (hidden + config.vocab_size)
    pooled = objective.predicts_next_sentence * hidden * (hidden + 2)
    tokens = length * config.num_hidden_layers
    return 6 * batch * (tokens * layer + head + pooled)


def _title(program: Program) -> str:
    """Return what the table calls a step: "training step, base, 8 x 128"."""
    _, size, length, batch, *_ = program
    return f"training step, {size}, {batch} x {length}"


def measure(
    programs: Sequence[Program],
    repeats: int,
    jit_compile: bool,
    optimizer: str,
    transformers_python: str | None = None,
) -> Iterator[Row]:
    """Time each training step; yield its rows.

    The weights are random. With an interpreter that has transformers and torch
    their step is timed too, before the first of ours: TensorFlow keeps the
    memory of a GPU.
    """
    theirs: dict[Program, dict[str, float]] = {}
    if transformers_python:
        for program, how, row in _measure_transformers(
            transformers_python, programs, repeats
        ):
            yield row
            if row.figures:
                theirs.setdefault(program, {})[how] = row.figures["seconds"]
    for program in programs:
        try:
            yield _measure_ours(
                program,
                repeats,
                jit_compile,
                optimizer,
                theirs.get(program, {}),
            )
        except tf.errors.ResourceExhaustedError:
            yield Row(_title(program), note="out of memory")


_TRANSFORMERS = Path(__file__).with_name("transformers_steps.py")


def _measure_transformers(
    python: str, programs: Sequence[Program], repeats: int
) -> Iterator[tuple[Program, str, Row]]:
    """Yield the rows of transformers: each step eager, and torch.compile."""
    with JsonProcess(
        f"--transformers_python={python}", [python, str(_TRANSFORMERS)]
    ) as process:
        for program, compiles in itertools.product(programs, (False, True)):
            config = modeling.BertConfig.from_size(program.size, VOCAB_SIZE)
            job = {
                "config": config.to_dict(),
                "batch": program.batch,
                "length": program.length,
                "predictions": predictions_of(program.length),
                "dtype": program.dtype,
                "compiles": compiles,
                "repeats": repeats,
            }
            found = process.ask(job)
            how = "torch.compile" if compiles else "eager"
            row = Row(f"{_title(program)}, transformers, {how}")
            if "error" in found:
                row = row._replace(note=f"failed: {found['error']}")
            else:
                figures = _time_figures(program.batch, **found)
                row = row._replace(figures=figures, note=process.first)
            yield program, how, row


def _time_figures(
    batch: int, seconds: list[float], first: float, memory: int | None = None
) -> dict[str, float]:
    """Return the figures of a step's time, with a GPU's peak memory."""
    best = min(seconds)
    figures = {
        "sequences_per_second": batch / best,
        "seconds": best,
        "median_seconds": statistics.median(seconds),
        "first_call_seconds": first,
    }
    return figures if memory is None else {**figures, "memory_bytes": memory}


def _measure_ours(
    program: Program,
    repeats: int,
    jit_compile: bool,
    optimizer: str,
    theirs: dict[str, float],
) -> Row:
    """Return the row of this project's step; `theirs` are seconds."""
    strategy = tf.distribute.get_strategy()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.experimental.reset_memory_stats("GPU:0")
    name, _, length, batch, dtype, _ = program
    model = model_of(program)
    settings = dataclasses.replace(
        settings_of(program), jit_compile=jit_compile, optimizer=optimizer
    )
    step = train_step.Step(
        strategy,
        model,
        KINDS[name].objective,
        settings,
        compilation.for_training(strategy, settings),
    )
    before = measuring.matmul_peak(dtype)
    first, seconds = time_steps(step, fake_batch(program), repeats)
    memory = None
    if gpus:
        memory = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    after = measuring.matmul_peak(dtype)
    peak = max(before, after, measuring.matmul_peak(dtype))
    figures = _time_figures(batch, seconds, first, memory)
    operations = training_flops(model.config, batch, length, name)
    share = operations / figures["seconds"] / peak
    figures |= {"matmul_peak_share": share, "peak_flops": peak}
    for how, other in theirs.items():
        figures[f"share_of_{how}"] = figures["seconds"] / other
    objective = f", {name}" if name != next(iter(objectives.OBJECTIVES)) else ""
    return Row(_title(program) + objective, figures)
