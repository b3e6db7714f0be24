"""Time the training step of run_pretraining.py.

A step's speed is reported as a share of the rate of a large matrix product
that is measured right before and after it: a shared machine changes its speed
from minute to minute, and the share changes less than the time does.
"""

import collections
import itertools
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

import modeling
from ops.choices import OBJECTIVES
from pretraining import objectives
from pretraining.data import schema
from pretraining.model import BertForPreTraining
from records import streaming
from tools.benchmarks import measuring
from tools.benchmarks.measuring import Row
from tools.json_process import JsonProcess
from training import compilation, train_step
from training.settings import TrainingSettings

VOCAB_SIZE = 30522


class Program(NamedTuple):
    """A step that is timed."""

    objective: str
    size: str
    length: int  # tokens of a sequence
    batch: int  # sequences
    dtype: str

    def __str__(self) -> str:
        """Return its name in the table, "training step, base, 8 x 128"."""
        return f"training step, {self.size}, {self.batch} x {self.length}"

    @property
    def predictions(self) -> int:
        """The masked tokens of a sequence, 15%: 20 of 128, 77 of 512."""
        return -(-self.length * 15 // 100)


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
    features = schema.schema(program.length, program.predictions)
    specs = streaming.batch_specs(features, program.batch)
    return {
        name: tf.constant(rng.integers(0, limits[name], x.shape), x.dtype)
        if name in limits
        else tf.ones(x.shape, x.dtype)
        for name, x in specs.items()
    }


def training_flops(config: modeling.BertConfig, program: Program) -> int:
    """Return the matrix-product operations of a step.

    A product [R, I] x [I, O] counts 2 R I O; the backward pass has two of the
    same size, hence the factor 6. Table lookups, norms, softmax, dropout and
    the optimizer count nothing.
    """
    objective = objectives.OBJECTIVES[program.objective]
    hidden, length = config.hidden_size, program.length
    # Of a token in a layer: query, key, value and the attention's output; the
    # two halves of the feed-forward layer; scores, and weighted sums of values.
    layer = hidden * (4 * hidden + 2 * config.intermediate_size + 2 * length)
    # Language model: transform, vocabulary. Next sentence: pooler, logits.
    words = program.predictions
    if objective.attention_direction != modeling.BIDIRECTIONAL:
        words = length
    head = words * hidden * (hidden + config.vocab_size)
    pooled = objective.predicts_next_sentence * hidden * (hidden + 2)
    tokens = length * config.num_hidden_layers
    return 6 * program.batch * (tokens * layer + head + pooled)


_TRANSFORMERS = Path(__file__).with_name("transformers_steps.py")


def measure(
    programs: Sequence[Program],
    repeats: int,
    jit_compile: bool,
    optimizer: str,
    peer_python: str | None = None,
) -> Iterator[Row]:
    """Time each training step; yield its rows.

    The weights are random. With an interpreter that has transformers and torch
    their step is timed too, eager and with torch.compile, before the first of
    ours: TensorFlow keeps the memory of a GPU.
    """
    # Of each program: how it ran -> seconds.
    theirs: dict[Program, dict[str, float]] = collections.defaultdict(dict)
    if peer_python:
        with JsonProcess(
            f"--peer_python={peer_python}",
            [peer_python, str(_TRANSFORMERS)],
        ) as process:
            for program, how in itertools.product(
                programs, ("eager", "torch.compile")
            ):
                config = modeling.BertConfig.from_size(program.size, VOCAB_SIZE)
                answer = process.ask(
                    {
                        **program._asdict(),
                        "config": config.to_dict(),
                        "predictions": program.predictions,
                        "compiles": how == "torch.compile",
                        "repeats": repeats,
                    }
                )
                what = f"{program}, transformers, {how}"
                if "error" in answer:
                    yield Row(what, note=f"failed: {answer['error']}")
                    continue
                figures = _time_figures(program, **answer)
                theirs[program][how] = figures["seconds"]
                yield Row(what, figures, process.first)
    for program in programs:
        try:
            figures = _measure_ours(program, repeats, jit_compile, optimizer)
        except tf.errors.ResourceExhaustedError:
            yield Row(str(program), note="out of memory")
            continue
        for how, seconds in theirs[program].items():
            figures[f"share_of_{how}"] = figures["seconds"] / seconds
        objective = f", {program.objective}"
        is_usual = program.objective == OBJECTIVES[0]
        yield Row(f"{program}{'' if is_usual else objective}", figures)


def _time_figures(
    program: Program,
    seconds: list[float],
    first: float,
    memory: int | None = None,
) -> dict[str, float]:
    """Return the figures of a step's time, with a GPU's peak memory."""
    best = min(seconds)
    figures = {
        "sequences_per_second": program.batch / best,
        "seconds": best,
        "median_seconds": statistics.median(seconds),
        "first_call_seconds": first,
    }
    return figures if memory is None else {**figures, "memory_bytes": memory}


def _measure_ours(
    program: Program, repeats: int, jit_compile: bool, optimizer: str
) -> dict[str, float]:
    """Return the figures of this project's step."""
    strategy = tf.distribute.get_strategy()
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        tf.config.experimental.reset_memory_stats("GPU:0")
    objective = objectives.OBJECTIVES[program.objective]
    config = modeling.BertConfig.from_size(program.size, VOCAB_SIZE)
    config.attention_direction = objective.attention_direction
    settings = TrainingSettings(
        output_dir="",
        num_train_steps=1000,
        train_batch_size=program.batch,
        dtype=program.dtype,
        jit_compile=jit_compile,
        optimizer=optimizer,
    )
    step = train_step.Step(
        strategy,
        BertForPreTraining(
            config, program.dtype, objective.predicts_next_sentence
        ),
        objective.objective,
        settings,
        compilation.for_training(strategy, settings),
    )
    peaks = [measuring.matmul_peak(program.dtype)]
    iterator = iter(tf.data.Dataset.from_tensors(fake_batch(program)).repeat())
    one = tf.constant(1, tf.int64)
    seconds = []
    for number in range(2 + repeats):
        began = time.perf_counter()
        done, _ = step.repeat(iterator, tf.constant(number, tf.int64), one)
        int(done)  # waits for the device
        seconds.append(time.perf_counter() - began)
    memory = None
    if gpus:
        memory = tf.config.experimental.get_memory_info("GPU:0")["peak"]
    peaks += [measuring.matmul_peak(program.dtype) for _ in range(2)]
    # The first call after compilation still allocates memory.
    figures = _time_figures(program, seconds[2:], seconds[0], memory)
    rate = training_flops(config, program) / figures["seconds"]
    share = rate / max(peaks)
    return figures | {"matmul_peak_share": share, "peak_flops": max(peaks)}
