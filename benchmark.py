r"""Measure the speed of this project on this machine: one command, one table.

    python benchmark.py
    python benchmark.py --parts=train --sizes=tiny,mini --dtype=bfloat16
    python benchmark.py --parts=serving --serving_file=glue/MRPC/dev.tsv \
        --vocab_file=vocab.txt --transformers_python=other/bin/python

The table is Markdown. The last line on standard output is one JSON object with
the same figures, for scripts. Without --input_file the text is the reference
manual and the docstrings that come with Python.

Shared machines are noisy. A training step is therefore also reported as a share
of the matrix-product rate measured right before and after it, and every time is
the best of several, with the median beside it.
"""

import json
from collections.abc import Iterator

from base import interrupts, logs, script
from base.errors import UserError

import tensorflow as tf
from absl import flags, logging

import modeling
from pretraining import objectives
from tools import machine
from tools.benchmarks import measuring, steps
from tools.benchmarks import serving as benchmarks_serving
from tools.benchmarks import text as benchmarks_text
from tools.benchmarks.measuring import Row
from training import devices

FLAGS = flags.FLAGS

PARTS = ("train", "tokenizer", "generator", "reader", "serving")

flags.DEFINE_list("parts", list(PARTS), "What to measure.")
flags.DEFINE_list(
    "sizes",
    ["tiny", "mini", "base"],
    "Sizes of the models whose training step is timed.",
)
flags.DEFINE_list(
    "batch_sizes",
    [],
    "Batch sizes, in rows, at which the training step is timed; default: "
    f"{steps.DEFAULT_BATCH_SIZE}, "
    + ", ".join(f"for {n} {rows}" for n, rows in steps.BATCH_SIZES.items())
    + ".",
)
flags.DEFINE_list(
    "lengths",
    ["128"],
    "Sequence lengths, in tokens, at which the training step is timed.",
)
flags.DEFINE_integer(
    "repeats",
    10,
    "How often a training step or a served request is timed.",
    lower_bound=2,
)
flags.DEFINE_enum(
    "dtype",
    "float32",
    list(modeling.DTYPES),
    "Type of the matrix products.",
)
flags.DEFINE_bool("jit_compile", True, "Compile the training step with XLA.")
flags.DEFINE_enum(
    "objective",
    objectives.DEFAULT,
    list(objectives.OBJECTIVES),
    "For --parts=train: the objective of run_pretraining.py.",
)
flags.DEFINE_string(
    "input_file",
    None,
    "Text for all parts but train: globs, separated by commas.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "Vocabulary of the text; default: a vocabulary of "
    f"{benchmarks_text.VOCAB_SIZE:,} is learned from it.",
)
flags.DEFINE_integer(
    "dupe_factor",
    10,
    "For --parts=generator: passes over the text.",
    lower_bound=1,
)
flags.DEFINE_enum(
    "serving_size",
    "base",
    list(modeling.NAMED_SIZES),
    "For --parts=serving: the size of the model.",
)
flags.DEFINE_string(
    "serving_file",
    None,
    "For --parts=serving: sentences, one per line, or a .tsv of GLUE; default: "
    "lines of --input_file.",
)
flags.DEFINE_list(
    "servers",
    ["savedmodel", "transformers"],
    "For --parts=serving: what to compare, any of "
    f"{', '.join(benchmarks_serving.SERVERS)}.",
)
flags.DEFINE_string(
    "transformers_python",
    None,
    "A Python interpreter that has transformers and torch, to compare with. "
    "Without it, --parts=serving takes the interpreter of this script, and "
    "--parts=train compares nothing.",
)
flags.DEFINE_string(
    "onnxruntime_python",
    None,
    "For --parts=serving: a Python interpreter that also has onnxruntime and "
    "onnx; default: --transformers_python.",
)


def main(_: list[str]) -> int:
    """Measure; print the table and the JSON object."""
    logs.set_level(logging.WARNING)
    check_flags()
    devices.avoid_broken_products(FLAGS.dtype)
    # Otherwise TensorFlow takes all memory of a GPU, and other processes have
    # none.
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, True)
    found = machine.describe()
    gpus = [d.name for d in tf.config.list_logical_devices("GPU")]
    print(
        ", ".join([found["processor"], f"{found['cores']} cores", *gpus])
        + f"; Python {found['Python']}, TensorFlow {found['TensorFlow']}, "
        f"numpy {found['numpy']}"
    )
    print(
        f"vocabulary {steps.VOCAB_SIZE}, dropout 0.1, {FLAGS.dtype}, "
        f"{'XLA' if FLAGS.jit_compile else 'no XLA'}\n"
    )
    print("| what | measured | |\n|---|---:|---|", flush=True)
    figures: dict[str, dict[str, float]] = {}
    with interrupts.ending_on_sigterm():  # removes temporary folders
        for row in rows():
            print(f"| {row.what} | {row.value} | {row.note} |", flush=True)
            if row.figures:
                figures.setdefault(row.what, {}).update(row.figures)
    values = {
        "machine": {
            "processor": found["processor"],
            "cores": int(found["cores"]),
            "gpus": gpus,
            **{n.lower(): found[n] for n in ("Python", "TensorFlow", "numpy")},
        },
        "dtype": FLAGS.dtype,
        "jit_compile": FLAGS.jit_compile,
        "figures": figures,
    }
    # json cannot write numpy's numbers; float() makes Python's of them.
    print("\n" + json.dumps(values, default=float), flush=True)
    return 0


def text_rows() -> Iterator[Row]:
    """Measure the parts that need text and a vocabulary; yield their rows."""
    with benchmarks_text.prepared_text(
        FLAGS.input_file, FLAGS.vocab_file
    ) as found:
        if "tokenizer" in FLAGS.parts:
            yield from benchmarks_text.measure_tokenizer(found)
            yield from benchmarks_text.measure_graph_tokenizer(found)
        if "generator" in FLAGS.parts:
            yield from benchmarks_text.measure_generator(
                found, FLAGS.dupe_factor
            )
        if "reader" in FLAGS.parts:
            yield from benchmarks_text.measure_reader(found)
        if "serving" in FLAGS.parts:
            folder = found.folder / "serving"
            folder.mkdir()
            yield from benchmarks_serving.measure(
                folder,
                FLAGS.serving_size,
                found.vocab_file,
                benchmarks_serving.read_sentences(
                    FLAGS.serving_file or found.files[0]
                ),
                FLAGS.servers,
                {
                    "transformers": FLAGS.transformers_python,
                    "onnxruntime": FLAGS.onnxruntime_python
                    or FLAGS.transformers_python,
                },
                rounds=FLAGS.repeats,
            )


def rows() -> Iterator[Row]:
    """Measure all that --parts names; yield rows as they are ready."""
    peak = measuring.matmul_peak(FLAGS.dtype)
    yield Row(
        f"matrix product, {FLAGS.dtype}",
        f"{peak / 1e9:.0f} GFLOP/s",
        "",
        {"flops": peak},
    )
    # Training last: a process that has trained is slower at everything else.
    if {*FLAGS.parts} - {"train"}:
        yield from text_rows()
    if "train" in FLAGS.parts:
        yield from steps.measure(
            [
                steps.Shape(size, int(rows), int(length))
                for size in FLAGS.sizes
                for length in FLAGS.lengths
                for rows in FLAGS.batch_sizes
                or [steps.BATCH_SIZES.get(size, steps.DEFAULT_BATCH_SIZE)]
            ],
            FLAGS.repeats,
            FLAGS.dtype,
            FLAGS.jit_compile,
            FLAGS.objective,
            FLAGS.transformers_python,
        )


def check_flags() -> None:
    """Check that parts, sizes and servers exist, and that numbers are some."""
    for name, known in (
        ("parts", PARTS),
        ("sizes", modeling.NAMED_SIZES),
        ("servers", benchmarks_serving.SERVERS),
    ):
        if not FLAGS[name].value:
            raise UserError(f"--{name}=: empty; choose from {', '.join(known)}")
        for value in FLAGS[name].value:
            if value not in known:
                raise UserError(
                    f"--{name}={value}: unknown; choose from {', '.join(known)}"
                )
    for name, most in (("batch_sizes", 2**20), ("lengths", 512)):
        for value in FLAGS[name].value:
            if not value.isdecimal() or not 1 <= int(value) <= most:
                raise UserError(
                    f"--{name}={value}: not a number from 1 to {most}"
                )
    if "reader" in FLAGS.parts and "generator" not in FLAGS.parts:
        raise UserError("--parts=reader needs generator beside it")


if __name__ == "__main__":
    script.run(main)
