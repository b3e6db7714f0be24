"""The serving part of benchmark.py: a SavedModel against `transformers`.

Both sides get the same random weights, vocabulary and inputs, and return the
last hidden state and the pooled output as arrays. Each lives in a process of
its own, as PyTorch and TensorFlow do not get along in one: ours has TensorFlow
and tensorflow_text and none of this project's files. They take turns call by
call, so that the noise of a shared machine meets both.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from base.errors import UserError

import numpy as np
import tensorflow as tf

import modeling
from checkpoints import huggingface, weight_files
from features import export as features_export
from serving import graph_tokenizer, saved_model

MAX_SEQ_LENGTH = 128

SENTENCES_PER_BATCH, MAX_BATCHES = 32, 4

_IDS = ("input_ids", "input_mask", "segment_ids")

# Batch and length of the ids signature: one short text, one long, many.
SHAPES = ((1, 32), (1, 128), (32, 128))

# What both processes do: answer {"case", "calls"} with the seconds of every
# call and the pooled output of the last.
_LOOP = """
cases = json.load(open(sys.argv[2]))
print("ready", flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    case, seconds = cases[asked["case"]], []
    for _ in range(asked["calls"]):
        began = time.perf_counter()
        pooled = [call(batch) for batch in case]
        seconds.append(time.perf_counter() - began)
    pooled = [row for batch in pooled for row in batch.tolist()]
    print(json.dumps({"seconds": seconds, "pooled": pooled}), flush=True)
"""

OURS = (
    """
import json, sys, time
import tensorflow as tf, tensorflow_text
signatures = tf.saved_model.load(sys.argv[1]).signatures

def call(batch):
    if "text" in batch:
        found = signatures["serving_default"](text=tf.constant(batch["text"]))
    else:
        ids = {k: tf.constant(v, tf.int32) for k, v in batch.items()}
        found = signatures["ids"](**ids)
    found["sequence_output"].numpy()
    return found["pooled_output"].numpy()
"""
    + _LOOP
)

THEIRS = (
    """
import json, os, sys, time
import torch, transformers
torch.set_num_threads(len(os.sched_getaffinity(0)))
tokenizer = transformers.AutoTokenizer.from_pretrained(sys.argv[1])
model = transformers.BertModel.from_pretrained(sys.argv[1]).eval()
NAMES = {"input_ids": "input_ids", "input_mask": "attention_mask",
         "segment_ids": "token_type_ids"}

@torch.inference_mode()
def call(batch):
    if "text" in batch:
        ids = tokenizer(batch["text"], padding=True, truncation=True,
                        return_tensors="pt")
    else:
        ids = {NAMES[k]: torch.tensor(v) for k, v in batch.items()}
    found = model(**ids)
    found.last_hidden_state.numpy()
    return found.pooler_output.numpy()
"""
    + _LOOP
)


class Case(NamedTuple):
    """What is timed: the batches of a call, and how often per turn."""

    name: str
    batches: list[dict[str, Any]]
    calls: int  # per turn
    rows: int  # texts or rows of ids in all batches


class Result(NamedTuple):
    """A case's times on both sides; theirs empty where they are missing."""

    case: Case
    ours: list[float]  # seconds
    theirs: list[float]
    difference: float  # of the pooled outputs

    def rates(self) -> str:
        """Return the speed in words, for the table's second column."""
        if not self.theirs:
            return f"{self.case.rows / min(self.ours):,.1f} rows/s"
        times = min(self.theirs) / min(self.ours)
        return f"{times:.2f} times transformers"

    def note(self) -> str:
        """Return best and median of both sides."""

        def told(seconds: list[float]) -> str:
            middle = statistics.median(seconds)
            return f"{min(seconds) * 1e3:.1f} ms, median {middle * 1e3:.1f}"

        if not self.theirs:
            return told(self.ours)
        times = statistics.median(self.theirs) / statistics.median(self.ours)
        return (
            f"{told(self.ours)}; transformers {told(self.theirs)}; medians "
            f"{times:.2f} times; answers within {self.difference:.0e}"
        )


# --- What is served -------------------------------------------------------


def read_sentences(path: str) -> list[str]:
    """Return the texts of a file: its lines, or the columns of a .tsv.

    Of a .tsv those columns whose header speaks of a string or sentence, as
    GLUE's files have them.

    Raises:
        UserError: cannot be read, or holds too few.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"--serving_file={path}: {error}") from error
    if path.endswith(".tsv"):
        header, *rows = [line.split("\t") for line in lines] or [[]]
        columns = [
            at
            for at, name in enumerate(header)
            if "string" in name.lower() or "sentence" in name.lower()
        ]
        if not columns:
            raise UserError(
                f"{path}, line 1: no column is named like 'sentence' or "
                f"'#1 String', found {', '.join(header)[:200]!r}"
            )
        lines = [row[at] for row in rows for at in columns if at < len(row)]
    texts = [line.strip() for line in lines if line.strip()]
    if len(texts) < SENTENCES_PER_BATCH:
        raise UserError(
            f"{path}: {len(texts)} sentences, a batch has "
            f"{SENTENCES_PER_BATCH}; give a larger --serving_file"
        )
    return texts


def make_cases(texts: list[str], vocab_size: int) -> list[Case]:
    """Return full rows of random ids, and the first batches of texts."""
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
        # Short calls take turns in groups.
        calls = max(1, 512 // (rows * length))
        cases.append(Case(f"ids, {rows} x {length}", [batch], calls, rows))
    size = SENTENCES_PER_BATCH
    count = min(MAX_BATCHES, len(texts) // size)
    batches = [{"text": texts[n * size : (n + 1) * size]} for n in range(count)]
    name = f"text, {count} batches of {size} sentences"
    return [*cases, Case(name, batches, 1, count * size)]


def padding_share(tokenizer: graph_tokenizer.Tokenizer, case: Case) -> float:
    """Return how much of a case's batches is padding."""
    masks = [
        graph_tokenizer.make_features(
            tokenizer, tf.constant(batch["text"]), None, MAX_SEQ_LENGTH
        )["input_mask"].numpy()
        for batch in case.batches
    ]
    return 1 - sum(m.sum() for m in masks) / sum(m.size for m in masks)


def write_models(
    folder: Path, size: str, vocab_file: str
) -> graph_tokenizer.Tokenizer:
    """Write one random model as `ours/1` and, for transformers, `theirs`."""
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    config = modeling.BertConfig.from_size(size, len(tokenizer.tokens))
    # The form of gelu that published checkpoints have over there.
    config.hidden_act = "gelu_erf"
    tf.keras.utils.set_random_seed(1)
    model = modeling.TaskModel(config)
    export = features_export.Encoder(
        model, tokenizer, vocab_file, MAX_SEQ_LENGTH
    )
    saved_model.write(export, str(folder / "ours" / "1"))
    theirs = folder / "theirs"
    theirs.mkdir()
    huggingface.write_config(str(theirs), config, "BertModel")
    weights = weight_files.as_tensors(model.variables)
    huggingface.write_weights(
        str(theirs), {name: value.numpy() for name, value in weights.items()}
    )
    huggingface.write_tokenizer(
        str(theirs), Path(vocab_file).read_bytes(), True, MAX_SEQ_LENGTH
    )
    return tokenizer


# --- The two processes ----------------------------------------------------


class Side:
    """A process that answers questions, one line each.

    Args:
        python: its interpreter.
        program: OURS or THEIRS.
        model: directory.
        cases: file of the cases.
    """

    def __init__(self, python: str, program: str, model: Path, cases: Path):
        self.errors = tempfile.TemporaryFile("w+")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
        environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [python, "-c", program, str(model), str(cases)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=model,
            env=environment,
        )
        self._line()  # ready

    def ask(self, case: str, calls: int) -> dict[str, Any]:
        """Return the seconds of each call and the pooled output."""
        question = json.dumps({"case": case, "calls": calls})
        with contextlib.suppress(BrokenPipeError):  # _line tells why
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        return json.loads(self._line())

    def _line(self) -> str:
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines() or ["nothing"]
            raise UserError(
                f"the serving benchmark's process ended: {said[-1][:500]}"
            )
        return line

    def close(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.errors.close()


def has_transformers(python: str) -> bool:
    """Whether an interpreter can run the other side.

    Raises:
        UserError: it is none.
    """
    try:
        result = subprocess.run(
            [python, "-c", "import torch, transformers"], capture_output=True
        )
    except OSError as error:
        raise UserError(
            f"--transformers_python={python} cannot be run: {error}"
        ) from error
    return result.returncode == 0


def race(sides: list[Side], case: Case, rounds: int) -> Result:
    """Time a case on all sides, in turns; the first call is not counted."""
    pooled = [
        np.array(side.ask(case.name, calls=1)["pooled"]) for side in sides
    ]
    seconds: list[list[float]] = [[] for _ in sides]
    # Calls of seconds need few repeats to be told apart from noise.
    rounds = max(2, rounds // 3) if case.calls == 1 else rounds
    for _ in range(rounds):
        for mine, side in zip(seconds, sides, strict=True):
            mine += side.ask(case.name, case.calls)["seconds"]
    return Result(
        case,
        seconds[0],
        seconds[1] if len(sides) > 1 else [],
        float(np.abs(pooled[0] - pooled[-1]).max()),
    )


def measure(
    folder: Path,
    size: str,
    vocab_file: str,
    texts: list[str],
    transformers_python: str | None,
    rounds: int,
) -> Iterator[tuple[str, str, str]]:
    """Yield the table's rows: what, value, note.

    Args:
        folder: empty, for models.
        size: name of the model's size.
        vocab_file: lower-cased.
        texts: at least SENTENCES_PER_BATCH.
        transformers_python: an interpreter that may have transformers;
            default this one.
        rounds: turns of each side.
    """
    python = transformers_python or sys.executable
    compared = has_transformers(python)
    tokenizer = write_models(folder, size, vocab_file)
    cases = make_cases(texts, len(tokenizer.tokens))
    path = folder / "cases.json"
    path.write_text(json.dumps({case.name: case.batches for case in cases}))
    programs = [(sys.executable, OURS, folder / "ours" / "1")]
    if compared:
        programs.append((python, THEIRS, folder / "theirs"))
    with contextlib.ExitStack() as stack:
        sides = [
            stack.enter_context(contextlib.closing(Side(*program, path)))
            for program in programs
        ]
        for case in cases:
            result = race(sides, case, rounds)
            note = result.note()
            if "text" in case.batches[0]:
                share = padding_share(tokenizer, case)
                note += f"; {share:.0%} of the batches is padding"
            yield f"serving {size}, {case.name}", result.rates(), note
    if not compared:
        yield (
            "serving against transformers",
            "skipped",
            f"no transformers and torch in {python}; name an interpreter "
            "that has them: --transformers_python",
        )
