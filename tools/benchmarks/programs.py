"""Time whole programs beside the import of TensorFlow, and exact queries.

The times are those of the processor. Programs run in turns, each in a process
of its own, from its start to its end.
"""

import shutil
import statistics
import time
from collections.abc import Iterator

import numpy as np

from tasks import nearest
from tools.benchmarks import measuring, serving
from tools.benchmarks.measuring import Row
from tools.benchmarks.text import Text

_IMPORT = "import tensorflow, tensorflow_text"

# As in README.
_FROM_TEXTS = """
import sys
import tensorflow as tf
from tasks import loading
graph = loading.load_graph(loading.find(sys.argv[1], task="encoder"))
graph.from_texts(tf.constant(["A man plays the guitar."]))
"""

_MANY = 1000  # sentences
_WIDTH = 384  # numbers of a vector


def measure(text: Text, size: str, rounds: int) -> Iterator[Row]:
    """Time --help, and programs that run a model on one text and on many."""
    folder = text.folder / "programs"
    folder.mkdir()
    serving.write_models(folder, size, text.vocab_file, ["litert"])
    model, answers = folder / serving.TRANSFORMERS, folder / "answers"
    lines = text.lines()[:_MANY]
    one, many = folder / "one.txt", folder / "many.txt"
    one.write_text(f"{lines[0]}\n")
    many.write_text("".join(f"{line}\n" for line in lines))
    predict = {"model": model, "task": "encoder", "output_dir": answers}
    lite = {"model": folder / "litert", "output_file": folder / "out.jsonl"}
    count = f"{len(lines)} sentences"
    flags = measuring.as_flags
    programs = {
        _IMPORT: ["-c", _IMPORT],
        "run_classifier.py --help": ["run_classifier.py", "--help"],
        "from_texts": ["-c", _FROM_TEXTS, str(model)],
        "batch_predict.py, one text": [
            "batch_predict.py",
            *flags(**predict, input_file=one),
        ],
        f"batch_predict.py, {count}": [
            "batch_predict.py",
            *flags(**predict, input_file=many),
        ],
        "litert_model.py, one text": [
            "litert_model.py",
            *flags(**lite, input_file=one),
        ],
        f"litert_model.py, {count}": [
            "litert_model.py",
            *flags(**lite, input_file=many),
        ],
    }
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    megabytes = {}
    for _ in range(rounds):
        for name, command in programs.items():
            _, used, megabytes[name] = measuring.run_python(*command)
            seconds[name].append(used)
            shutil.rmtree(answers, ignore_errors=True)
    for name, found in seconds.items():
        figures = {
            "processor_seconds": min(found),
            "median_processor_seconds": statistics.median(found),
            "of_the_import": min(found) / min(seconds[_IMPORT]),
            "MB": megabytes[name],
        }
        yield Row(f"program {size}, {name}", figures)


def measure_queries(rounds: int) -> Iterator[Row]:
    """Time exact queries among vectors; set OPENBLAS_NUM_THREADS=1 for one."""
    rng = np.random.default_rng(0)
    for count in (10_000, 100_000):
        shape = [count, _WIDTH]
        vectors = nearest.prepared(rng.standard_normal(shape, np.float32))
        for queries in (vectors[:1], vectors[:200]):
            seconds = measuring.best_seconds(
                lambda v=vectors, q=queries: list(nearest.nearest(v, q, 10)),
                rounds,
                time.process_time,
            )
            what = f"search, {len(queries)} queries, {count:,} x {_WIDTH}"
            yield Row(what, {"processor_seconds": seconds})
