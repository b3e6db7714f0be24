r"""Measure the speed of this project on this machine: one command, one table.

    python -m tools.benchmark
    python -m tools.benchmark --parts=train --sizes=tiny,mini --dtype=bfloat16
    python -m tools.benchmark --parts=serving --input_file=sentences.txt \
        --vocab_file=vocab.txt --peer_python=other/bin/python

The table is Markdown. Without --input_file the text is the reference manual and
the docstrings that come with Python.

Shared machines are noisy. A training step is therefore also reported as a share
of the matrix-product rate measured right before and after it, and every time is
the best of several, with the median beside it.
"""

import dataclasses
import os
from collections.abc import Iterator

from base import interrupts, script, startup
from base.errors import UserError
from base.flags import define, flag

from absl import flags

from ops.choices import DTYPES, NAMED_SIZES, OBJECTIVES, OPTIMIZERS
from tools import machine
from tools.benchmarks import measuring
from tools.benchmarks.measuring import Row
from tools.benchmarks.serving_programs import SERVERS

FLAGS = flags.FLAGS

# Large models get the batch that fits into the memory of a small machine.
BATCH_SIZES = {"base": 8, "large": 2}
DEFAULT_BATCH_SIZE = 32

PARTS = (
    *("train", "tokenizer", "generator", "reader", "serving"),
    *("programs", "search", "vectors", "classifier"),
)


@dataclasses.dataclass(frozen=True)
class Flags:
    """What is measured, and of what."""

    parts: tuple[str, ...] = flag(PARTS[:-2], choices=PARTS, required=True)
    """What to measure."""

    sizes: tuple[str, ...] = flag(
        ("tiny", "mini", "base"), choices=NAMED_SIZES, required=True
    )
    """Sizes of the models whose training step is timed."""

    batch_sizes: tuple[int, ...] = flag((), low=1, high=2**20)
    """Batch sizes, in rows, at which the training step is timed; default:
    {batch_sizes}."""

    lengths: tuple[int, ...] = flag((128,), low=1, high=512)
    """Sequence lengths, in tokens, at which the training step is timed."""

    repeats: int = flag(10, low=2)
    """How often a training step, a served request or a query is timed; whole
    programs a third as often."""

    dtype: str = flag("float32", choices=list(DTYPES))
    """Type of the matrix products."""

    jit_compile: bool = flag(True)
    """Compile the training step with XLA."""

    objective: str = flag(OBJECTIVES[0], choices=OBJECTIVES)
    """For --parts=train: the objective of run_pretraining.py."""

    optimizer: str = flag("adamw", choices=OPTIMIZERS)
    """For --parts=train: the optimizer."""

    input_file: str | None = flag()
    """Text for all parts but train and search: globs, separated by commas."""

    vocab_file: str | None = flag()
    """Vocabulary of the text; default: one that is learned from it."""

    serving_size: str = flag("base", choices=list(NAMED_SIZES))
    """Size of the model that is served, exported and fine-tuned, with random
    weights."""

    init_checkpoint: str = flag("", exists="directory")
    """In place of random weights a model in the format of transformers, whose
    vocabulary is then that of the text."""

    servers: tuple[str, ...] = flag(
        ("savedmodel",),
        choices=list(SERVERS),
        required=True,
    )
    """For --parts=serving: what to compare, any of {choices}."""

    peer_python: str | None = flag()
    """A Python interpreter that has the libraries to compare with: transformers
    and torch for --parts=train, serving and classifier, which also needs
    accelerate; tokenizers for programs and vectors; openvino for vectors; faiss
    for search; openvino and nncf for the servers of OpenVINO, which run in this
    interpreter without the flag."""


define(
    Flags,
    words={
        "batch_sizes": f"{DEFAULT_BATCH_SIZE}, "
        + ", ".join(f"for {n} {rows}" for n, rows in BATCH_SIZES.items()),
    },
)


def main(_: list[str]) -> None:
    """Measure what --parts names, and print the table."""
    if "reader" in FLAGS.parts and "generator" not in FLAGS.parts:
        raise UserError("--parts=reader needs generator beside it")
    with startup.importing():
        import tensorflow as tf

        from tools.benchmarks.steps import VOCAB_SIZE
        from training import devices
    devices.avoid_broken_products(FLAGS.dtype)
    # Otherwise TensorFlow takes all memory of a GPU, and other processes have
    # none.
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    gpus = [d.name for d in tf.config.list_logical_devices("GPU")]
    facts = machine.describe() | {"GPUs": ", ".join(gpus) or "none"}
    print(", ".join(f"{name}: {value}" for name, value in facts.items()))
    print(
        f"vocabulary {VOCAB_SIZE}, dropout 0.1, {FLAGS.dtype}, "
        f"{'XLA' if FLAGS.jit_compile else 'no XLA'}\n"
    )
    print("| what | measured | |\n|---|---:|---|", flush=True)
    with interrupts.ending_on_sigterm():  # removes temporary folders
        for row in rows():
            print(row, flush=True)


def rows() -> Iterator[Row]:
    """Measure all that --parts names; yield rows as they are ready."""
    from tools.benchmarks import programs, serving, steps, text
    from tools.benchmarks.serving import Source

    peak = measuring.matmul_peak(FLAGS.dtype)
    yield Row(f"matrix product, {FLAGS.dtype}", {"flops": peak})
    if "search" in FLAGS.parts:
        yield from programs.measure_queries(FLAGS.repeats, FLAGS.peer_python)
    # Training last: a process that has trained is slower at everything else.
    if {*FLAGS.parts} - {"train", "search"}:
        source = Source(FLAGS.serving_size, FLAGS.init_checkpoint)
        vocab_file = FLAGS.vocab_file
        if source.init_checkpoint and not vocab_file:
            vocab_file = os.path.join(source.init_checkpoint, "vocab.txt")
        with text.prepared_text(FLAGS.input_file, vocab_file) as prepared:
            if "tokenizer" in FLAGS.parts:
                yield from text.measure_tokenizer(prepared)
            if "generator" in FLAGS.parts:
                yield from text.measure_generator(prepared)
            if "reader" in FLAGS.parts:
                yield from text.measure_reader(prepared)
            # They take seconds, and vary less than milliseconds do.
            rounds = max(2, FLAGS.repeats // 3)
            for part, measure in {
                "programs": programs.measure,
                "vectors": programs.measure_vectors,
                "classifier": programs.measure_classifier,
            }.items():
                if part in FLAGS.parts:
                    yield from measure(
                        prepared, source, FLAGS.peer_python, rounds
                    )
            if "serving" in FLAGS.parts:
                yield from serving.measure(
                    prepared,
                    source,
                    FLAGS.servers,
                    FLAGS.peer_python,
                    FLAGS.repeats,
                )
    if "train" in FLAGS.parts:
        yield from steps.measure(
            [
                steps.Program(FLAGS.objective, size, length, rows, FLAGS.dtype)
                for size in FLAGS.sizes
                for length in FLAGS.lengths
                for rows in FLAGS.batch_sizes
                or [BATCH_SIZES.get(size, DEFAULT_BATCH_SIZE)]
            ],
            FLAGS.repeats,
            FLAGS.jit_compile,
            FLAGS.optimizer,
            FLAGS.peer_python,
        )


if __name__ == "__main__":
    script.run(main)
