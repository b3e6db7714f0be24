"""Time whole programs and exact queries, and what other libraries need.

The times are those of the processor. Programs run in turns, each in a process
of its own, from its start to its end.
"""

import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from base.errors import UserError

import numpy as np

from tasks import nearest
from tools.benchmarks import measuring, serving
from tools.benchmarks.measuring import Row
from tools.benchmarks.serving import Source
from tools.benchmarks.text import Text
from tools.json_process import JsonProcess

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
_EXAMPLES = 2000  # of a short fine-tuning
_WIDTH = 384  # numbers of a vector

# Vectors that are searched, and how many queries search them at once.
SEARCHES = {10_000: (1, 200), 100_000: (1, 200), 1_000_000: (1,)}

_PEERS = str(Path(__file__).with_name("peer_programs.py"))


class Program(NamedTuple):
    """A program that is timed, and beside it the same work by a library.

    Attributes:
        command: a script of this project, or "-c", and its arguments.
        out: folder that is empty before it.
        peer: a function of peer_programs.py, which has the library's name, and
            its arguments; or nothing.
    """

    command: list[str]
    out: Path
    peer: tuple[str | Path, ...] = ()


def measure(
    text: Text, source: Source, peer_python: str | None, rounds: int
) -> Iterator[Row]:
    """Time --help, exports, a model on one text and many, and build_vocab.py.

    Args:
        text: the first lines are predicted; the vocabulary is learned from all.
        source: the model.
        peer_python: an interpreter that has tokenizers.
        rounds: of all programs.
    """
    folder = text.folder / "programs"
    folder.mkdir()
    serving.write_models(folder, source, text.vocab_file, ["litert"])
    lines, out = text.lines(), folder / "out"
    one, many, corpus = (
        folder / f"{name}.txt" for name in ("one", "many", "all")
    )
    for path, count in (one, 1), (many, _MANY), (corpus, len(lines)):
        path.write_text("".join(f"{line}\n" for line in lines[:count]))
    count = f"{len(lines[:_MANY])} sentences"
    model = folder / serving.TRANSFORMERS
    flags = measuring.as_flags
    export = {"init_checkpoint": model, "task": "encoder"}
    predict = {"model": model, "task": "encoder", "output_dir": out}
    lite = {"model": folder / "litert", "output_file": out / "out.jsonl"}
    learn = {"vocab_size": 30522, "output_file": out / "vocab.txt"}
    programs = {
        _IMPORT: Program(["-c", _IMPORT], out),
        "--help": Program(["run_classifier.py", "--help"], out),
        "from_texts": Program(["-c", _FROM_TEXTS, str(model)], out),
    }
    for name in "saved_model", "litert", "onnx":
        arguments = flags(**export, format=name, output=out / f"x.{name}")
        command = ["export_saved_model.py", *arguments]
        programs[f"export_saved_model.py, {name}"] = Program(command, out)
    for script, values in ("batch_predict", predict), ("litert_model", lite):
        for name, path in ("one text", one), (count, many):
            command = [f"{script}.py", *flags(**values, input_file=path)]
            programs[f"{script}.py, {name}"] = Program(command, out)
    programs["build_vocab.py"] = Program(
        ["build_vocab.py", *flags(**learn, input_file=corpus)],
        out,
        ("tokenizers", corpus, out),
    )
    yield from _race(source, programs, peer_python, rounds)


def measure_vectors(
    text: Text, source: Source, peer_python: str | None, rounds: int
) -> Iterator[Row]:
    """Time litert_model.py, which writes the vectors of all lines of a text.

    It runs an ONNX file, in bfloat16 where the processor has it.

    Args:
        text: a sentence on each line; empty lines are left out.
        source: the model.
        peer_python: an interpreter that has openvino and tokenizers.
        rounds: of all programs.
    """
    folder = text.folder / "vectors"
    folder.mkdir()
    serving.write_models(folder, source, text.vocab_file, ["openvino"])
    model, texts = folder / "openvino.onnx", folder / "texts.txt"
    ours, theirs = folder / "ours.npy", folder / "theirs.npy"
    lines = list(filter(str.strip, text.lines()))
    texts.write_text("".join(f"{line}\n" for line in lines))
    arguments = measuring.as_flags(
        model=model, input_file=texts, output_file=ours, dtype="bfloat16"
    )
    name = f"litert_model.py, {len(lines):,} sentences, ONNX"
    peer = "openvino", model, text.vocab_file, texts, theirs
    program = Program(["litert_model.py", *arguments], folder / "out", peer)
    best = yield from _race(source, {name: program}, peer_python, rounds)
    if len(best) == 2:
        cosine = measuring.lowest_cosine(np.load(ours), np.load(theirs))
        yield Row(f"vectors {source}, both", {"lowest_cosine": cosine})


def measure_classifier(
    text: Text, source: Source, peer_python: str | None, rounds: int
) -> Iterator[Row]:
    """Time a short fine-tuning, whose labels mean nothing, and a sweep.

    Args:
        text: the first lines are the examples.
        source: the model.
        peer_python: an interpreter that has transformers and accelerate.
        rounds: of all programs.
    """
    folder = text.folder / "classifier"
    folder.mkdir()
    serving.write_models(folder, source, text.vocab_file, [])
    model, out = folder / serving.TRANSFORMERS, folder / "out"
    lines = [" ".join(line.split()) for line in text.lines()]
    rows = [f"{x}\t{n % 2}" for n, x in enumerate(filter(None, lines))]
    for name, count in ("train", _EXAMPLES), ("dev", _EXAMPLES // 10):
        table = "\n".join(["sentence\tlabel", *rows[:count], ""])
        (folder / f"{name}.tsv").write_text(table)

    def program(*peer: str | Path, **values) -> Program:
        arguments = measuring.as_flags(
            task_name="sst-2",
            data_dir=folder,
            init_checkpoint=model,
            output_dir=out,
            do_train="true",
            num_train_epochs=1,
            train_batch_size=32,
            max_seq_length=128,
            learning_rate=2e-5,
            **values,
        )
        return Program(["run_classifier.py", *arguments], out, peer)

    train = folder / "train.tsv"
    programs = {
        "run_classifier.py": program("transformers", model, train, out),
        "run_classifier.py, bfloat16": program(dtype="bfloat16"),
    }
    for rates in "2e-5", "2e-5,3e-5,5e-5":
        programs[f"run_classifier.py, sweep of {rates}"] = program(
            do_eval="true", sweep_learning_rates=rates
        )
    best = yield from _race(source, programs, peer_python, rounds)
    sweeps = [best[name] for name in best if "sweep" in name]
    if len(sweeps) == 2:
        further = {"processor_seconds": (sweeps[1] - sweeps[0]) / 2}
        yield Row(f"program {source}, each further run of a sweep", further)


def _race(
    source: Source,
    programs: Mapping[str, Program],
    peer_python: str | None,
    rounds: int,
) -> Generator[Row, None, dict[str, float]]:
    """Run programs in turns; yield their rows, return their least seconds.

    A program that fails, as where an optional library is not installed, has a
    row with the reason.

    Args:
        source: the model that the rows name.
        programs: by their names.
        peer_python: where the peers run; None: they do not.
        rounds: of all programs.
    """
    commands = {}
    for name, program in programs.items():
        out = program.out
        commands[name] = sys.executable, program.command, out
        if program.peer and peer_python:
            peer = [_PEERS, *map(str, program.peer)]
            commands[f"{name}, {program.peer[0]}"] = peer_python, peer, out
    used: dict[str, list[float]] = {name: [] for name in commands}
    megabytes = {}
    for _ in range(rounds):
        for name, (python, command, out) in list(commands.items()):
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir()
            try:
                _, seconds, megabytes[name] = measuring.run_python(
                    *command, python=python
                )
            except UserError as error:
                yield Row(f"program {source}, {name}", note=str(error))
                del commands[name]
            else:
                used[name].append(seconds)
    best = {name: min(used[name]) for name in commands}
    for name, seconds in best.items():
        figures = {
            "processor_seconds": seconds,
            "median_processor_seconds": statistics.median(used[name]),
        }
        if _IMPORT in best:
            figures["of_the_import"] = seconds / best[_IMPORT]
        peer = name in programs and programs[name].peer
        if peer and (beside := f"{name}, {peer[0]}") in best:
            figures[f"share_of_{peer[0]}"] = seconds / best[beside]
        yield Row(
            f"program {source}, {name}", {**figures, "MB": megabytes[name]}
        )
    return best


def measure_queries(rounds: int, peer_python: str | None) -> Iterator[Row]:
    """Time exact queries among vectors, with faiss in turns.

    Args:
        rounds: of each number of queries.
        peer_python: an interpreter that has faiss.
    """
    rng = np.random.default_rng(0)
    for count, batches in SEARCHES.items():
        shape = [count, _WIDTH]
        vectors = nearest.prepared(rng.standard_normal(shape, np.float32))
        with contextlib.ExitStack() as stack:
            faiss = None
            if peer_python:
                folder = stack.enter_context(tempfile.TemporaryDirectory())
                np.save(file := f"{folder}/vectors.npy", vectors)
                command = [peer_python, _PEERS, "faiss", file]
                faiss = stack.enter_context(JsonProcess("faiss", command))
            for queries in batches:
                yield _queries(vectors, queries, rounds, faiss)


def _queries(
    vectors: np.ndarray, count: int, rounds: int, faiss: JsonProcess | None
) -> Row:
    """Return the row of so many queries at once among vectors, [n, D]."""
    ours, theirs, same = [], [], []
    for _ in range(rounds):
        began = time.process_time()
        found = list(nearest.nearest(vectors, vectors[:count], 10))
        ours.append(time.process_time() - began)
        if faiss:
            seconds, rows = faiss.ask(count)
            theirs.append(seconds)
            same += [{*x[0]} == {*y} for x, y in zip(found, rows, strict=True)]
    figures = {"processor_seconds": min(ours)}
    if faiss:
        figures["share_of_faiss"] = min(ours) / min(theirs)
        figures["share_of_equal_answers"] = sum(same) / len(same)
    what = f"search, {count} queries, {len(vectors):,} x {_WIDTH}"
    return Row(what, figures)
