"""Time ways to serve an exported model, and transformers beside them.

All servers get the same weights, vocabulary and inputs, and return vectors,
the means over the tokens. Each runs in a process of its
own, because PyTorch and TensorFlow in one process can interfere. They take
turns call by call, so that the noise of a shared machine slows all of them.
"""

import contextlib
import json
import os
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from base import machine
from base.errors import UserError

import keras
import numpy as np

import modeling
from checkpoints import huggingface
from checkpoints.casing import TokenizerFiles
from checkpoints.checkpoint import write_tokenizer
from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor
from tasks.encoder.model import TextEncoder
from tokenization import FullTokenizer, TokenizerSettings, Vocabulary
from tools.benchmarks import measuring
from tools.benchmarks import serving_programs as programs
from tools.benchmarks.measuring import Row
from tools.benchmarks.serving_programs import SERVERS
from tools.benchmarks.text import Text
from tools.json_process import JsonProcess

SENTENCES_PER_BATCH, MAX_BATCHES, MAX_SEQ_LENGTH = 32, 4, 128

# Batch and length of the requests of ids: one text, short and long, and many.
SHAPES = ((1, 16), (1, 32), (1, 128), (8, 128), (32, 128))

TRANSFORMERS = "transformers"  # reads the model that the others are made from


class Source(NamedTuple):
    """The model that is measured.

    Attributes:
        size: one of modeling.NAMED_SIZES, with random weights.
        init_checkpoint: in its place a folder of transformers' format, or "".
    """

    size: str
    init_checkpoint: str

    def __str__(self) -> str:
        """Return its name in the table."""
        if not self.init_checkpoint:
            return self.size
        return os.path.basename(os.path.abspath(self.init_checkpoint))


class Case(NamedTuple):
    """A request to time: `calls` per turn, each of which serves all batches."""

    name: str
    batches: list[dict[str, Any]]
    calls: int
    rows: int  # texts or rows of ids in all batches


def make_cases(texts: list[str], ids: Sequence[int]) -> list[Case]:
    """Return the requests: rows full of ids, then whole batches of texts.

    Args:
        texts: of the last request.
        ids: tokens of a text, from which the rows are cut; repeated if needed.
    """
    cases = []
    for rows, length in SHAPES:
        shape = [rows, length]
        batch = {
            "input_ids": np.resize(ids, shape).tolist(),
            "input_mask": np.ones(shape, int).tolist(),
            "segment_ids": np.zeros(shape, int).tolist(),
        }
        # Short calls are grouped: a turn would cost more than one of them.
        calls = max(1, 512 // (rows * length))
        cases.append(Case(f"ids, {rows} x {length}", [batch], calls, rows))
    size = SENTENCES_PER_BATCH
    count = min(MAX_BATCHES, len(texts) // size)
    batches = [{"text": texts[n * size : (n + 1) * size]} for n in range(count)]
    name = f"text, {count} batches of {size} sentences"
    return [*cases, Case(name, batches, 1, count * size)]


def write_models(
    folder: Path, source: Source, vocab_file: str, names: Sequence[str]
) -> None:
    """Write a model in the formats of some servers, one by each name.

    The folder also gets TRANSFORMERS, from which the others are made.
    """
    theirs = folder / TRANSFORMERS
    if source.init_checkpoint:
        theirs.symlink_to(os.path.abspath(source.init_checkpoint))
    else:
        _write_random(theirs, source.size, vocab_file)
    for name in names:
        suffix = ".onnx" if name.startswith("openvino") else ""
        measuring.run_script(
            "export_saved_model.py",
            init_checkpoint=theirs,
            task="encoder",
            output=folder / f"{name}{suffix}",
            **SERVERS[name],
        )


def _write_random(theirs: Path, size: str, vocab_file: str) -> None:
    """Write a model with random weights in the format of transformers."""
    vocabulary = Vocabulary(vocab_file)
    config = modeling.BertConfig.from_size(size, len(vocabulary.tokens))
    # transformers computes "gelu" with erf.
    config.hidden_act = "gelu_erf"
    keras.utils.set_random_seed(1)  # the same weights always
    variables = TextEncoder(config, "float32").variables
    theirs.mkdir()
    huggingface.write_config(str(theirs), config, "BertModel")
    huggingface.write_weights(
        str(theirs), {v.path: v.numpy() for v in variables}
    )
    files = TokenizerFiles(vocabulary=vocabulary, known=TokenizerSettings.of())
    trained_for = TrainedFor(max_seq_length=MAX_SEQ_LENGTH)
    write_tokenizer(str(theirs), Checkpoint("", config, trained_for, files))


def race(
    source: Source,
    case: Case,
    servers: Mapping[str, JsonProcess],
    rounds: int,
) -> Iterator[Row]:
    """Time a case on all servers in turns; yield a row for each.

    Each has its time as a share of the times of the others' libraries, and the
    largest difference between its vectors and the first server's, with the
    lowest cosine.
    """
    question = {"case": case.name, "calls": case.calls}
    # The first call compiles and is not timed.
    vectors = {
        name: np.array(server.ask({**question, "calls": 1})["vectors"])
        for name, server in servers.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in servers}
    # Calls that take seconds vary less than calls of milliseconds.
    rounds = max(2, rounds // 3) if case.calls == 1 else rounds
    for _ in range(rounds):
        for name, server in servers.items():
            seconds[name] += server.ask(question)["seconds"]
    first = next(iter(servers), "")
    for name in servers:
        best, median = min(seconds[name]), statistics.median(seconds[name])
        figures = {
            "seconds": best,
            "median_seconds": median,
            "rows_per_second": case.rows / best,
        }
        for other in servers:
            if _is_peer(other) and not _is_peer(name):
                share = best / min(seconds[other])
                figures[f"share_of_{other}"] = share
        if name != first:
            difference = np.abs(vectors[name] - vectors[first]).max()
            figures["difference_of_answers"] = difference
            cosine = measuring.lowest_cosine(vectors[name], vectors[first])
            figures["lowest_cosine"] = cosine
        yield Row(f"serving {source}, {case.name}, {name}", figures)


def _is_peer(server: str) -> bool:
    return server == TRANSFORMERS or server.startswith("openvino")


def measure(
    text: Text,
    source: Source,
    names: Sequence[str],
    peer_python: str | None,
    rounds: int,
) -> Iterator[Row]:
    """Time ways to serve a model on requests of ids and of texts.

    Args:
        text: at least SENTENCES_PER_BATCH lines, and a lower-cased vocabulary.
        source: the model.
        names: keys of SERVERS.
        peer_python: an interpreter that has transformers, which is then timed
            too, and, for servers of OpenVINO, openvino and nncf.
        rounds: turns of each.
    """
    lines = list(filter(str.strip, text.lines()))
    if len(lines) < SENTENCES_PER_BATCH:
        raise UserError(
            f"--input_file has {len(lines)} lines with text, wanted at least "
            f"{SENTENCES_PER_BATCH}, a batch for --parts=serving"
        )
    folder = text.folder / "serving"
    folder.mkdir()
    write_models(folder, source, text.vocab_file, names)
    tokenizer = FullTokenizer(text.vocab_file)
    cases = make_cases(lines, tokenizer.text_to_ids(" ".join(lines)))
    path = folder / "cases.json"
    path.write_text(json.dumps({case.name: case.batches for case in cases}))
    pythons = dict.fromkeys(names, sys.executable)
    if peer_python:
        peers = [TRANSFORMERS, *filter(_is_peer, names)]
        pythons |= dict.fromkeys(peers, peer_python)
    with contextlib.ExitStack() as stack:
        servers = {
            name: stack.enter_context(start(name, python, folder, path))
            for name, python in pythons.items()
        }
        for case in cases:
            takers = {
                name: server
                for name, server in servers.items()
                if "ids" in case.name
                or not name.startswith(("litert", "openvino"))
            }
            yield from race(source, case, takers, rounds)


def start(name: str, python: str, folder: Path, cases: Path) -> JsonProcess:
    """Return the process of a server when it can answer.

    The server is one of SERVERS, or TRANSFORMERS. Questions are {"case": name,
    "calls": n}, answers {"seconds", "pooled"}. `cases` is a JSON file, {name of
    a case: its batches}.
    """
    program = programs.SAVED_MODEL
    if name == TRANSFORMERS:
        program = programs.TRANSFORMERS
    elif name.startswith("litert"):
        program = programs.LITERT
    elif name.startswith("openvino"):
        program = programs.OPENVINO
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    arguments = (folder / name, cases, machine.num_cores())
    return JsonProcess(
        f"the server {name}",
        [python, "-c", program + programs.LOOP, *map(str, arguments)],
        cwd=folder,
        env=environment,
    )
