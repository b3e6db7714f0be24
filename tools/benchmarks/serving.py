"""Time ways to serve an exported model, and other libraries beside them.

All servers get the same random weights, vocabulary and inputs, and return the
last hidden state and the pooled output as arrays. Each runs in a process of its
own, because PyTorch and TensorFlow in one process can interfere. They take
turns call by call, so that the noise of a shared machine slows all of them.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from base import machine_memory
from base.errors import UserError

import numpy as np
import tensorflow as tf

import modeling
from checkpoints import huggingface
from checkpoints.casing import TokenizerFiles
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor
from tasks import graph_tokenizer, registry, saved_model
from tasks.encoder.model import TextEncoder
from tasks.task import TaskSettings
from tokenization import TokenizerSettings, Vocabulary
from tools.benchmarks import measuring
from tools.benchmarks import serving_programs as programs
from tools.benchmarks.measuring import Row

SENTENCES_PER_BATCH, MAX_BATCHES, MAX_SEQ_LENGTH = 32, 4, 128

_IDS = ("input_ids", "input_mask", "segment_ids")

# Batch and length of the requests of ids: one short text, one long, many.
SHAPES = ((1, 32), (1, 128), (32, 128))


class ServerSpec(NamedTuple):
    """How to run a server: program, model and libraries."""

    program: str  # of serving_programs.py
    model: str  # file or directory below the folder of the models
    needs: tuple[str, ...] = ()  # libraries
    # The library that ours are compared with; "": ours, in this interpreter.
    library: str = ""
    takes_text: bool = True


_TRANSFORMERS = ("torch", "transformers")
_ONNX = (*_TRANSFORMERS, "onnx", "onnxruntime")
_LITERT = ("ai_edge_litert",)

SERVERS = {
    "savedmodel": ServerSpec(programs.SAVED_MODEL, "savedmodel/1"),
    "bfloat16": ServerSpec(programs.SAVED_MODEL, "bfloat16/1"),
    "litert": ServerSpec(
        programs.LITERT, "float32.tflite", _LITERT, takes_text=False
    ),
    "litert_int8": ServerSpec(
        programs.LITERT, "int8.tflite", _LITERT, takes_text=False
    ),
    "transformers": ServerSpec(
        programs.TRANSFORMERS, "transformers", _TRANSFORMERS, "transformers"
    ),
    "onnxruntime": ServerSpec(
        programs.ONNX_RUNTIME, "onnx/model.onnx", _ONNX, "onnxruntime", False
    ),
    "onnxruntime_int8": ServerSpec(
        programs.ONNX_RUNTIME,
        "onnx/model-int8.onnx",
        _ONNX,
        "onnxruntime",
        False,
    ),
}


class Case(NamedTuple):
    """A request to time: `calls` per turn, each of which serves all batches."""

    name: str
    batches: list[dict[str, Any]]
    calls: int
    rows: int  # texts or rows of ids in all batches


def read_sentences(path: str) -> list[str]:
    """Return the lines of a file, or the sentences in columns of a .tsv.

    A .tsv, such as GLUE's files, has a header; columns with "string" or
    "sentence" in their name hold sentences, as "#1 String" of MRPC and
    "sentence1" of RTE. They are at least a batch, or it ends in a UserError.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--serving_file={path}: {error}") from error
    if path.endswith(".tsv"):
        header, *rows = [line.split("\t") for line in lines] or [[]]
        columns = [
            column
            for column, name in enumerate(header)
            if "string" in name.lower() or "sentence" in name.lower()
        ]
        if not columns:
            raise UserError(
                f"{path}, line 1: no column is named like 'sentence' or "
                f"'#1 String'; found {', '.join(header)[:200]!r}"
            )
        lines = [
            row[column]
            for row in rows
            for column in columns
            if column < len(row)
        ]
    texts = [line.strip() for line in lines if line.strip()]
    if len(texts) < SENTENCES_PER_BATCH:
        raise UserError(
            f"{path}: found {len(texts)} sentences, wanted at least "
            f"{SENTENCES_PER_BATCH}, a batch; give a larger --serving_file"
        )
    return texts


def make_cases(texts: list[str], vocab_size: int) -> list[Case]:
    """Return the requests: rows of random ids, then whole batches of texts."""
    rng = np.random.default_rng(0)
    cases = []
    for rows, length in SHAPES:
        shape = [rows, length]
        values = (
            rng.integers(0, vocab_size, shape),
            np.ones(shape, int),
            np.zeros(shape, int),
        )
        batch = {k: v.tolist() for k, v in zip(_IDS, values, strict=True)}
        # Short calls are grouped: a turn would cost more than one of them.
        calls = max(1, 512 // (rows * length))
        cases.append(Case(f"ids, {rows} x {length}", [batch], calls, rows))
    size = SENTENCES_PER_BATCH
    count = min(MAX_BATCHES, len(texts) // size)
    batches = [{"text": texts[n * size : (n + 1) * size]} for n in range(count)]
    name = f"text, {count} batches of {size} sentences"
    return [*cases, Case(name, batches, 1, count * size)]


def write_models(
    folder: Path,
    size: str,
    vocab_file: str,
    pythons: Mapping[str, str],
) -> int:
    """Write a random model in the formats of some servers.

    `pythons` has the interpreters of the servers. The folder also gets
    `transformers`, from which the models in other formats are made.

    Returns:
        The number of tokens.
    """
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    config = modeling.BertConfig.from_size(size, len(tokenizer.tokens))
    # transformers computes "gelu" with erf.
    config.hidden_act = "gelu_erf"

    def random_model(dtype: str) -> TextEncoder:
        tf.keras.utils.set_random_seed(1)  # the same weights always
        return TextEncoder(config, dtype)

    for name in ("savedmodel", "bfloat16"):
        if name in pythons:
            dtype = "bfloat16" if name == "bfloat16" else "float32"
            files = TokenizerFiles(
                vocabulary=Vocabulary(vocab_file), known=TokenizerSettings.of()
            )
            checkpoint = Checkpoint("", config, files=files)
            settings = TaskSettings(
                checkpoint.trained(max_seq_length=MAX_SEQ_LENGTH), "encoder"
            )
            export = registry.create_graph(
                registry.create_task(settings), random_model(dtype), True
            )
            saved_model.write(export, str(folder / SERVERS[name].model))
    theirs = folder / SERVERS["transformers"].model
    theirs.mkdir()
    huggingface.write_config(str(theirs), config, "BertModel")
    variables = random_model("float32").variables
    huggingface.write_weights(
        str(theirs), {v.path: v.numpy() for v in variables}
    )
    huggingface.write_tokenizer(
        str(theirs),
        Path(vocab_file).read_bytes(),
        TokenizerSettings.of(),
        config,
        TrainedFor(max_seq_length=MAX_SEQ_LENGTH),
    )
    onnx = folder / "onnx"
    for name, python in pythons.items():
        if SERVERS[name].library == "onnxruntime" and not onnx.exists():
            onnx.mkdir()
            # By its own tools, in a process.
            result = subprocess.run(
                [python, "-c", programs.WRITE_ONNX, str(theirs), str(onnx)],
                capture_output=True,
                text=True,
                env={**os.environ, "HF_HUB_OFFLINE": "1"},
            )
            if result.returncode:
                lines = (result.stderr.strip() or "no message").splitlines()
                raise UserError(f"the export to ONNX failed: {lines[-1][:500]}")
        if SERVERS[name].program == programs.LITERT:
            measuring.run_script(
                "export_saved_model.py",
                format="litert",
                init_checkpoint=theirs,
                task="encoder",
                do_lower_case="true",
                quantize="int8" if name.endswith("int8") else "none",
                export_dir=folder / SERVERS[name].model,
            )
    return len(tokenizer.tokens)


class Server:
    """A process that serves a model; requests and answers are JSON lines.

    It runs one of serving_programs.py on a model and a JSON file, {name of a
    case: its batches}. `start_seconds` is how long it took until it can answer.

    Raises:
        UserError: the process ended; quotes the last line it wrote.
    """

    def __init__(self, python: str, program: str, model: Path, cases: Path):
        self.errors = tempfile.TemporaryFile("w+")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        environment.pop("PYTHONPATH", None)
        began = time.perf_counter()
        self.process = subprocess.Popen(
            [python, "-c", program, str(model), str(cases)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=model.parent,
            env=environment,
        )
        self._line()  # ready
        self.start_seconds = time.perf_counter() - began

    def ask(self, case: str, calls: int) -> dict[str, Any]:
        """Make calls; return their {"seconds"} and the {"pooled"} output."""
        question = json.dumps({"case": case, "calls": calls})
        with contextlib.suppress(BrokenPipeError):  # _line reports it
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        return json.loads(self._line())

    def _line(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            lines = self.errors.read().strip().splitlines()
            reason = lines[-1][:500] if lines else "no message"
            raise UserError(f"the serving benchmark's process ended: {reason}")
        return line

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.errors.close()


def race(
    size: str, case: Case, servers: Mapping[str, Server], rounds: int
) -> Iterator[Row]:
    """Time a case on all servers in turns; yield a row for each.

    Each note has its time as a share of the times of the other libraries, and
    the largest difference between its pooled output and the first server's.
    """
    # The first call compiles and is not timed.
    pooled = {
        name: np.array(server.ask(case.name, calls=1)["pooled"])
        for name, server in servers.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    # Calls that take seconds vary less than calls of milliseconds.
    rounds = max(2, rounds // 3) if case.calls == 1 else rounds
    for _ in range(rounds):
        for name, server in servers.items():
            seconds[name] += server.ask(case.name, case.calls)["seconds"]
    first = next(iter(servers))
    for name in servers:
        best, median = min(seconds[name]), statistics.median(seconds[name])
        figures = {
            "rows_per_second": case.rows / best,
            "seconds": best,
            "median_seconds": median,
        }
        note = f"median {median * 1e3:.1f}, {case.rows / best:,.1f} rows/s"
        for other in servers:
            if SERVERS[other].library and other != name:
                share = best / min(seconds[other])
                figures[f"share_of_{other}"] = share
                note += f"; {share:.2f} of {other}"
        if name != first:
            difference = np.abs(pooled[name] - pooled[first]).max()
            note += f"; answers within {difference:.0e}"
        yield Row(
            f"serving {size}, {case.name}, {name}",
            f"{best * 1e3:.1f} ms",
            note,
            figures,
        )


def measure(
    folder: Path,
    size: str,
    vocab_file: str,
    texts: list[str],
    names: Sequence[str],
    pythons: Mapping[str, str],
    rounds: int,
) -> Iterator[Row]:
    """Time ways to serve a model on requests of ids and of texts.

    Args:
        folder: an empty folder for the models.
        size: one of modeling.NAMED_SIZES; the weights are random.
        vocab_file: a lower-cased vocabulary.
        texts: at least SENTENCES_PER_BATCH.
        names: keys of SERVERS; those whose libraries are missing are skipped.
        pythons: "transformers" or "onnxruntime" -> an interpreter that has that
            library; default: this one.
        rounds: turns of each.
    """
    present = {}  # name -> interpreter
    for name in names:
        spec = SERVERS[name]
        python = pythons.get(spec.library) or sys.executable
        if not is_missing(spec.needs, python, f"--{spec.library}_python"):
            present[name] = python
            continue
        remedy = "install requirements-litert.txt"
        if spec.library:
            remedy = (
                f"name an interpreter that has them: --{spec.library}_python"
            )
        yield Row(
            f"serving with {name}",
            "skipped",
            f"{python} does not have {', '.join(spec.needs)}; {remedy}",
        )
    vocab_size = write_models(folder, size, vocab_file, present)
    cases = make_cases(texts, vocab_size)
    path = folder / "cases.json"
    path.write_text(json.dumps({case.name: case.batches for case in cases}))
    with contextlib.ExitStack() as stack:
        servers = {}
        for name, python in present.items():
            spec = SERVERS[name]
            server = Server(python, spec.program, folder / spec.model, path)
            servers[name] = stack.enter_context(contextlib.closing(server))
        for case in cases:
            is_text = "text" in case.batches[0]
            takers = {
                name: server
                for name, server in servers.items()
                if SERVERS[name].takes_text or not is_text
            }
            if takers:
                yield from race(size, case, takers, rounds)
        for name, server in servers.items():
            model = folder / SERVERS[name].model
            files = [model] if model.is_file() else model.rglob("*")
            stored = sum(path.stat().st_size for path in files)
            status = Path(f"/proc/{server.process.pid}/status")
            resident = machine_memory.proc_entries(status).get("VmRSS", 0)
            yield Row(
                f"serving {size}, start and memory, {name}",
                f"{server.start_seconds:.1f} s",
                f"{resident / 1e6:,.0f} MB resident, {stored / 1e6:,.0f} MB of "
                "files",
                {
                    "start_seconds": server.start_seconds,
                    "resident_bytes": resident,
                    "file_bytes": stored,
                },
            )


def is_missing(needs: Sequence[str], python: str, flag: str) -> bool:
    """Return whether the interpreter that a flag names lacks a library."""
    if not needs:
        return False
    program = f"import {', '.join(needs)}"
    try:
        result = subprocess.run([python, "-c", program], capture_output=True)
    except OSError as error:
        raise UserError(f"{flag}={python} cannot be run: {error}") from error
    return result.returncode != 0
