r"""Measure what this machine makes of this code: one command, one table.

    python benchmark.py
    python benchmark.py --parts=train --sizes=tiny,mini --dtype=bfloat16
    python benchmark.py --parts=serving --serving_file=glue/MRPC/dev.tsv \
        --vocab_file=vocab.txt --transformers_python=other/bin/python

Every figure comes with its unit. Machines are shared and noisy, so a training
step is told as a share of the matrix-product rate measured right before and
after it, and every time is the best of several; the median stands beside it.
Without --input_file the text is the reference manual and the docstrings that
ship with Python.
"""

import contextlib
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from base import errors, file_system, logs
from base.errors import UserError

import numpy as np
import tensorflow as tf
from absl import flags, logging

import modeling
import optimization
import tokenization
from benchmarks import serving as benchmarks_serving
from benchmarks import tasks as benchmarks_tasks
from pretraining import demo_corpus
from pretraining import model as pretraining_model
from pretraining import schema as pretraining_schema
from records import streaming
from serving import graph_tokenizer
from training import devices, reporting, train_step
from training.settings import Settings

FLAGS = flags.FLAGS

PARTS = ("train", "tokenizer", "generator", "reader", "serving")
# Parts that want data: the flags they want.
DATA_PARTS = {
    "buckets": ("task_name", "data_dir", "vocab_file"),
    "squad": ("squad_file", "vocab_file"),
    "features": ("input_file", "vocab_file"),
}
# Batch sizes of the training step: what the paper's sizes are timed at.
BATCH_SIZES = {"base": 8, "large": 2}
DEFAULT_BATCH_SIZE = 32
MAX_SEQ_LENGTH, MAX_PREDICTIONS, VOCAB_SIZE = 128, 20, 30522
GRAPH_LINES = 20_000  # that the tokenizer in the graph is timed on

flags.DEFINE_list(
    "parts",
    list(PARTS),
    f"What to measure; there are also {', '.join(DATA_PARTS)}.",
)
flags.DEFINE_list(
    "sizes", ["tiny", "mini", "base"], "Models whose training step is timed."
)
flags.DEFINE_integer(
    "repeats", 10, "Timed steps of a training step.", lower_bound=2
)
flags.DEFINE_enum(
    "dtype", "float32", ["float32", "bfloat16"], "Of matrix products."
)
flags.DEFINE_bool("jit_compile", True, "Compile the training step with XLA.")
flags.DEFINE_string(
    "input_file",
    None,
    "Text for all parts but train: globs, separated by commas.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "Vocabulary for them; without it one of 8,000 is learned from the text.",
)
flags.DEFINE_string("task_name", None, "buckets: task of run_classifier.py.")
flags.DEFINE_string("data_dir", None, "buckets: folder of its files.")
flags.DEFINE_string("squad_file", None, "squad: SQuAD's JSON.")
flags.DEFINE_integer("dupe_factor", 10, "Of the generator.", lower_bound=1)
flags.DEFINE_enum(
    "serving_size",
    "base",
    list(modeling.NAMED_SIZES),
    "Model that is served.",
)
flags.DEFINE_string(
    "serving_file",
    None,
    "Sentences to serve, one per line, or a .tsv of GLUE; default: lines of "
    "--input_file.",
)
flags.DEFINE_string(
    "transformers_python",
    None,
    "Interpreter that has transformers and torch, to compare serving with; "
    "default: this one.",
)


class Row(NamedTuple):
    """A line of the table."""

    what: str
    value: str
    note: str


# --- Training step --------------------------------------------------------


def fake_batch(
    rows: int, config: modeling.BertConfig, seed: int = 0
) -> dict[str, tf.Tensor]:
    """Full rows of random ids; a step's time does not depend on the values."""
    rng = np.random.default_rng(seed)
    shape, slots = (rows, MAX_SEQ_LENGTH), (rows, MAX_PREDICTIONS)
    positions = np.argsort(rng.random(shape), axis=1)[:, :MAX_PREDICTIONS]
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


def create_step(
    size: str, batch_size: int, dtype: str, jit_compile: bool
) -> train_step.Step:
    """Build the very step run_pretraining.py trains with."""
    config = modeling.BertConfig.from_size(size, vocab_size=VOCAB_SIZE)
    model = pretraining_model.BertForPreTraining(config, dtype)
    optimizer = optimization.create_optimizer()
    optimizer.create_slots(model.trainable_variables)
    settings = Settings(
        output_dir="",
        num_train_steps=1000,
        train_batch_size=batch_size,
        jit_compile=jit_compile,
    )
    return train_step.Step(
        tf.distribute.get_strategy(),
        model,
        pretraining_model.PRETRAINING,
        optimizer,
        optimization.create_schedule(1e-4, 1000, 100),
        settings,
    )


def time_steps(
    step: train_step.Step, repeats: int
) -> tuple[float, list[float]]:
    """Return the seconds of the compiling call and of each later step."""
    batch = fake_batch(step.settings.train_batch_size, step.model.config)
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    one = tf.constant(1, tf.int64)

    def run(number: int) -> float:
        began = time.perf_counter()
        done, _ = step.run(iterator, tf.constant(number, tf.int64), one)
        int(done)  # waits for the device
        return time.perf_counter() - began

    compiling = run(0)
    run(1)
    return compiling, [run(2 + number) for number in range(repeats)]


class Product(NamedTuple):
    """A matrix product of the forward pass, and how often a step makes it."""

    count: int
    left: list[int]  # [..., R, I]
    right: list[int]  # [..., I, O]
    is_tied: bool = False  # right is the embedding table, [O, I]


def step_products(config: modeling.BertConfig, batch: int) -> list[Product]:
    """Return the forward matrix products of a pre-training step."""
    hidden, inner = config.hidden_size, config.intermediate_size
    heads_, layers = config.num_attention_heads, config.num_hidden_layers
    tokens, masked = batch * MAX_SEQ_LENGTH, batch * MAX_PREDICTIONS
    row = [batch, heads_, MAX_SEQ_LENGTH]
    size = hidden // heads_
    return [
        Product(4 * layers, [tokens, hidden], [hidden, hidden]),
        Product(layers, [tokens, hidden], [hidden, inner]),
        Product(layers, [tokens, inner], [inner, hidden]),
        Product(layers, [*row, size], [*row[:2], size, MAX_SEQ_LENGTH]),
        Product(layers, [*row, MAX_SEQ_LENGTH], [*row, size]),
        Product(1, [masked, hidden], [hidden, hidden]),
        Product(1, [masked, hidden], [config.vocab_size, hidden], True),
        Product(1, [batch, hidden], [hidden, hidden]),
        Product(1, [batch, hidden], [hidden, 2]),
    ]


def products_seconds(
    config: modeling.BertConfig, batch: int, dtype: str
) -> float:
    """Return the time of a step's matrix products, forward and backward.

    Each is timed alone, its operands in the cache where they fit: what a step
    of this size can come close to.
    """

    @tf.function(autograph=False, reduce_retracing=False)
    def multiply(left, right, pull, is_tied):
        d_right = (pull, left) if is_tied else (left, pull)
        return (
            tf.matmul(left, right, transpose_b=is_tied),
            tf.matmul(pull, right, transpose_b=not is_tied),
            tf.matmul(*d_right, transpose_a=True),
        )

    total = 0.0
    for product in step_products(config, batch):
        outputs = product.right[-2 if product.is_tied else -1]
        shapes = [product.left, product.right, [*product.left[:-1], outputs]]
        values = [tf.cast(tf.random.normal(s), dtype) for s in shapes]
        values.append(product.is_tied)
        multiply(*values)
        seconds = best_seconds(lambda v=values: multiply(*v), 5)
        total += product.count * seconds
    return total


def benchmark_training() -> Iterator[Row]:
    """Time a step of each size, beside the peak around it."""
    for size in FLAGS.sizes:
        batch_size = BATCH_SIZES.get(size, DEFAULT_BATCH_SIZE)
        before = devices.measure_matmul_peak(FLAGS.dtype)
        step = create_step(size, batch_size, FLAGS.dtype, FLAGS.jit_compile)
        # Large models need few repeats to be told apart from noise.
        repeats = max(2, FLAGS.repeats // (4 if size in BATCH_SIZES else 1))
        compiling, seconds = time_steps(step, repeats)
        after = devices.measure_matmul_peak(FLAGS.dtype)
        peak = max(before, after)
        best, median = min(seconds), statistics.median(seconds)
        operations = reporting.training_flops(
            step.model.config, batch_size, MAX_SEQ_LENGTH, MAX_PREDICTIONS
        )
        products = products_seconds(step.model.config, batch_size, FLAGS.dtype)
        peak = max(peak, devices.measure_matmul_peak(FLAGS.dtype))
        yield Row(
            f"matrix products of a step alone, {size}",
            f"{operations / products / peak:.0%} of matmul peak",
            f"{products:.3f} s: near the ceiling of the step",
        )
        name = f"training step, {size}, batch {batch_size}"
        yield Row(
            name,
            f"{operations / best / peak:.0%} of matmul peak",
            f"median {operations / median / peak:.0%}, peak "
            f"{peak / 1e9:.0f} GFLOP/s",
        )
        yield Row(
            name,
            f"{batch_size / best:.1f} sequences/s",
            f"{best:.3f} s, median {median:.3f} s; first call "
            f"{compiling:.0f} s",
        )


# --- Text -----------------------------------------------------------------


class Text(NamedTuple):
    """Files that tokenizer, generator and reader are measured on."""

    files: list[str]
    vocab_file: str
    folder: Path  # scratch

    @property
    def megabytes(self) -> float:
        return sum(os.path.getsize(path) for path in self.files) / 1e6


@contextlib.contextmanager
def prepared_text() -> Iterator[Text]:
    """Find or write the text, find or learn its vocabulary."""
    with tempfile.TemporaryDirectory(prefix="benchmark") as name:
        folder = Path(name)
        if FLAGS.input_file:
            files = file_system.find_files(FLAGS.input_file)
        else:
            files = [str(folder / "corpus.txt")]
            demo_corpus.write(files[0], list(demo_corpus.documents().values()))
        vocab_file = FLAGS.vocab_file
        if not vocab_file:
            vocab_file = str(folder / "vocab.txt")
            run_script(
                "build_vocab.py",
                input_file=",".join(files),
                output_file=vocab_file,
                vocab_size=8000,
            )
        yield Text(files, vocab_file, folder)


# Runs a command, then prints the peak memory of its largest process in MB.
_WITH_MEMORY = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e3)
sys.exit(status)
"""


def run_script(script: str, **values) -> subprocess.CompletedProcess:
    """Run a script of ours as a user would; show what it says if it fails."""
    path = Path(__file__).resolve().parent / script
    arguments = [f"--{name}={value}" for name, value in values.items()]
    result = subprocess.run(
        [sys.executable, "-c", _WITH_MEMORY, sys.executable, str(path)]
        + arguments,
        capture_output=True,
        text=True,
    )
    if result.returncode:
        raise UserError(f"{script} failed: {result.stderr[-500:]}")
    return result


def best_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Return the shortest of several calls' times."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return min(times)


def benchmark_tokenizer(text: Text) -> Iterator[Row]:
    """Text to ids, from lines in memory, on one core."""
    lines: list[str] = []
    for path in text.files:
        lines += Path(path).read_text(encoding="utf-8").splitlines()
    size = sum(len(line.encode()) + 1 for line in lines) / 1e6

    def whole() -> None:
        tokenization.FullTokenizer(text.vocab_file).lines_to_ids(lines)

    def line_by_line() -> None:
        to_ids = tokenization.FullTokenizer(text.vocab_file).text_to_ids
        for line in lines:
            to_ids(line)

    note = f"{size:.1f} MB, vocabulary loaded and memory cold each time"
    yield Row(
        "tokenizer, lines_to_ids",
        f"{size / best_seconds(whole):.1f} MB/s",
        note,
    )
    yield Row(
        "tokenizer, text_to_ids",
        f"{size / best_seconds(line_by_line):.1f} MB/s",
        note,
    )


def benchmark_graph_tokenizer(text: Text) -> Iterator[Row]:
    """The tokenizer inside the graph, as an export has it, on all cores."""
    lines = [
        line
        for path in text.files
        for line in Path(path).read_text(encoding="utf-8").splitlines()
    ][:GRAPH_LINES]
    size = sum(len(line.encode()) + 1 for line in lines) / 1e6
    batches = [
        tf.constant(lines[at : at + 1000]) for at in range(0, len(lines), 1000)
    ]
    for do_lower_case in (True, False):
        tokenizer = graph_tokenizer.Tokenizer(text.vocab_file, do_lower_case)

        @tf.function(
            autograph=False, input_signature=[tf.TensorSpec([None], tf.string)]
        )
        def tokenize(texts, tokenizer=tokenizer):
            return tokenizer(texts).flat_values

        def whole(tokenize=tokenize) -> None:
            for batch in batches:
                tokenize(batch).numpy()

        whole()  # traces
        casing = "lower-cased" if do_lower_case else "cased"
        yield Row(
            f"tokenizer in the graph, {casing}",
            f"{size / best_seconds(whole):.1f} MB/s",
            f"{size:.1f} MB, 1,000 lines at a time",
        )


def benchmark_served(text: Text) -> Iterator[Row]:
    """A SavedModel's signatures, beside transformers where it is there."""
    path = FLAGS.serving_file or text.files[0]
    folder = text.folder / "serving"
    folder.mkdir()
    lines = benchmarks_serving.measure(
        folder,
        FLAGS.serving_size,
        text.vocab_file,
        benchmarks_serving.read_sentences(path),
        FLAGS.transformers_python,
        rounds=FLAGS.repeats,
    )
    yield from (Row(*line) for line in lines)


def benchmark_generator(text: Text) -> Iterator[Row]:
    """The real script, process start included, with one and two workers."""
    rates = {}
    for num_workers in (1, 2):
        output = text.folder / f"records-{num_workers}"
        began = time.perf_counter()
        result = run_script(
            "create_pretraining_data.py",
            input_file=",".join(text.files),
            output_file=f"{output}@4",
            vocab_file=text.vocab_file,
            num_workers=num_workers,
            dupe_factor=FLAGS.dupe_factor,
        )
        seconds = time.perf_counter() - began
        memory = float(result.stdout.split()[-1])
        instances = told(result.stderr, "Wrote ", " total instances")
        inside = told(result.stderr, "Took ", " s")
        rates[num_workers] = instances / inside
        yield Row(
            f"generator, {num_workers} worker" + "s" * (num_workers > 1),
            f"{instances / inside:,.0f} instances/s",
            f"first byte read to last written; {instances:,.0f} in "
            f"{inside:.1f} s, {seconds:.1f} s with process start; largest "
            f"process {memory:.0f} MB",
        )
    yield Row(
        "generator, 2 workers against 1", f"{rates[2] / rates[1]:.2f} times", ""
    )


def told(log: str, before: str, after: str) -> float:
    """Return the number between two strings in a script's log."""
    return float(log.rsplit(before, 1)[1].split(after, 1)[0].replace(",", ""))


def benchmark_reader(text: Text) -> Iterator[Row]:
    """Records through the real pipeline: shuffle, decode, check, batch."""
    files = sorted(str(path) for path in text.folder.glob("records-1-*"))
    if not files:
        raise UserError("--parts=reader needs generator beside it")
    bound = streaming.Bound(
        len(tokenization.load_vocab(text.vocab_file)), "vocabulary"
    )
    data = streaming.RecordFiles(
        files,
        pretraining_schema.schema(MAX_SEQ_LENGTH, MAX_PREDICTIONS),
        {"input_ids": bound},
        {},
    )
    context = tf.distribute.InputContext(1, 0, 1)
    batch_size, batches = 32, 1000
    iterator = iter(data.training(batch_size, 1, 0, context))
    next(iterator)  # fills the shuffle buffer

    def read() -> None:
        for _ in range(batches):
            next(iterator)

    rate = batch_size * batches / best_seconds(read)
    yield Row(
        "reader, shuffled and decoded",
        f"{rate:,.0f} records/s",
        f"batches of {batch_size}",
    )


# --- main -----------------------------------------------------------------


def describe_machine() -> str:
    """Name processor, cores and versions."""
    model = platform.processor() or platform.machine()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    gpus = [d.name for d in tf.config.list_logical_devices("GPU")]
    return (
        f"{model}, {os.cpu_count()} cores{', ' if gpus else ''}"
        f"{', '.join(gpus)}; Python {platform.python_version()}, TensorFlow "
        f"{tf.__version__}, numpy {np.__version__}"
    )


def rows() -> Iterator[Row]:
    """Yield the table's lines as they are measured."""
    peak = devices.measure_matmul_peak(FLAGS.dtype)
    yield Row(f"matrix product, {FLAGS.dtype}", f"{peak / 1e9:.0f} GFLOP/s", "")
    # Text first: a process that has trained is slower at everything else.
    if ({*PARTS} - {"train"}) & {*FLAGS.parts}:
        with prepared_text() as text:
            if "tokenizer" in FLAGS.parts:
                yield from benchmark_tokenizer(text)
                yield from benchmark_graph_tokenizer(text)
            if "generator" in FLAGS.parts:
                yield from benchmark_generator(text)
            if "reader" in FLAGS.parts:
                yield from benchmark_reader(text)
            if "serving" in FLAGS.parts:
                yield from benchmark_served(text)
    if "squad" in FLAGS.parts:
        lines = benchmarks_tasks.measure_squad(
            FLAGS.squad_file, FLAGS.vocab_file
        )
        yield from (Row(*line) for line in lines)
    if "buckets" in FLAGS.parts:
        for size in FLAGS.sizes:
            lines = benchmarks_tasks.measure_buckets(
                FLAGS.task_name, FLAGS.data_dir, FLAGS.vocab_file, size
            )
            yield from (Row(*line) for line in lines)
    if "features" in FLAGS.parts:
        for size in FLAGS.sizes:
            lines = benchmarks_tasks.measure_features(
                FLAGS.input_file, FLAGS.vocab_file, size
            )
            yield from (Row(*line) for line in lines)
    if "train" in FLAGS.parts:
        yield from benchmark_training()


def check_flags() -> None:
    """Refuse parts and sizes nobody knows."""
    parts = (*PARTS, *DATA_PARTS)
    for name, known in (("parts", parts), ("sizes", modeling.NAMED_SIZES)):
        for value in FLAGS[name].value:
            if value not in known:
                raise UserError(
                    f"--{name}={value}: unknown; choose from {', '.join(known)}"
                )
    for part, names in DATA_PARTS.items():
        for name in names:
            if part in FLAGS.parts and not FLAGS[name].value:
                raise UserError(f"--parts={part} needs --{name}")


def main(_: list[str]) -> None:
    """Measure and print."""
    logs.set_level(logging.WARNING)
    check_flags()
    devices.avoid_broken_amx(FLAGS.dtype)
    print(describe_machine())
    print(
        f"length {MAX_SEQ_LENGTH}, {MAX_PREDICTIONS} predictions, vocabulary "
        f"{VOCAB_SIZE}, dropout 0.1, {FLAGS.dtype}, "
        f"{'XLA' if FLAGS.jit_compile else 'no XLA'}\n"
    )
    print("| what | measured | |\n|---|---:|---|", flush=True)
    for row in rows():
        print(f"| {row.what} | {row.value} | {row.note} |", flush=True)


if __name__ == "__main__":
    errors.run(main)
