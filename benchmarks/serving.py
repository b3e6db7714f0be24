"""Time an exported SavedModel, and Hugging Face transformers beside it.

Both sides get the same random weights, vocabulary and inputs, and return the
last hidden state and the pooled output as arrays. Each runs in a process of its
own, because PyTorch and TensorFlow in one process can interfere: ours
imports TensorFlow and tensorflow_text and no file of this project. They take
turns call by call, so that the noise of a shared machine slows both.
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
from benchmarks.table import Row
from checkpoints import huggingface, weight_files
from features import export as features_export
from serving import graph_tokenizer, saved_model

MAX_SEQ_LENGTH = 128

SENTENCES_PER_BATCH, MAX_BATCHES = 32, 4

_IDS = ("input_ids", "input_mask", "segment_ids")

# Batch and length of the ids signature: one short text, one long, many.
SHAPES = ((1, 32), (1, 128), (32, 128))

# The second half of both programs. It reads a JSON line {"case": name,
# "calls": n} and writes one with the seconds of each call and the pooled
# output of the last.
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
    """A request to time.

    Attributes:
        name: in the table.
        batches: the inputs; one timed call serves all of them.
        calls: how many calls a side makes per turn.
        rows: texts or rows of ids in all batches.
    """

    name: str
    batches: list[dict[str, Any]]
    calls: int
    rows: int


class Result(NamedTuple):
    """The times of a case on both sides.

    Attributes:
        case: what was timed.
        ours: seconds of each call.
        theirs: the same of transformers; empty if it is not installed.
        difference: the largest between the two pooled outputs.
    """

    case: Case
    ours: list[float]
    theirs: list[float]
    difference: float

    def rates(self) -> str:
        """Return the speed with its unit, for the table's second column."""
        if not self.theirs:
            return f"{self.case.rows / min(self.ours):,.1f} rows/s"
        times = min(self.theirs) / min(self.ours)
        return f"{times:.2f} times transformers"

    def note(self) -> str:
        """Return best and median of both sides, for the third column."""

        def words(seconds: list[float]) -> str:
            median = statistics.median(seconds)
            return f"{min(seconds) * 1e3:.1f} ms, median {median * 1e3:.1f}"

        if not self.theirs:
            return words(self.ours)
        times = statistics.median(self.theirs) / statistics.median(self.ours)
        return (
            f"{words(self.ours)}; transformers {words(self.theirs)}; medians "
            f"{times:.2f} times; answers within {self.difference:.0e}"
        )

    def figures(self) -> dict[str, float]:
        """Return the same as numbers."""
        found = {
            "rows_per_second": self.case.rows / min(self.ours),
            "seconds": min(self.ours),
            "median_seconds": statistics.median(self.ours),
        }
        if self.theirs:
            found["transformers_seconds"] = min(self.theirs)
            found["transformers_median_seconds"] = statistics.median(
                self.theirs
            )
        return found


# --- Models and requests -----------------------------------------------------


def read_sentences(path: str) -> list[str]:
    """Return the lines of a file, or the sentences of a .tsv of GLUE.

    A .tsv has a header; the columns with "string" or "sentence" in their name
    hold sentences, e.g. "#1 String" of MRPC and "sentence1" of RTE.

    Raises:
        UserError: the file cannot be read, has no such column, or has too few
            sentences for a batch.
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
    """Return the requests to time: rows of random ids, then batches of texts.

    Args:
        texts: at least SENTENCES_PER_BATCH.
        vocab_size: bound of the ids.
    """
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
        # Short calls are grouped, else the turns would cost more than they.
        calls = max(1, 512 // (rows * length))
        cases.append(Case(f"ids, {rows} x {length}", [batch], calls, rows))
    size = SENTENCES_PER_BATCH
    count = min(MAX_BATCHES, len(texts) // size)
    batches = [{"text": texts[n * size : (n + 1) * size]} for n in range(count)]
    name = f"text, {count} batches of {size} sentences"
    return [*cases, Case(name, batches, 1, count * size)]


def padding_share(tokenizer: graph_tokenizer.Tokenizer, case: Case) -> float:
    """Return the share of padding in the batches of a text case."""
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
    """Write a random model as SavedModel `ours/1` and for transformers.

    Args:
        folder: gets `ours/1` and `theirs`, Hugging Face's files.
        size: one of modeling.NAMED_SIZES.
        vocab_file: a lower-cased vocabulary.
    """
    tokenizer = graph_tokenizer.Tokenizer(vocab_file)
    config = modeling.BertConfig.from_size(size, len(tokenizer.tokens))
    # transformers computes "gelu" with erf.
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


# --- The two processes -------------------------------------------------------


class Side:
    """A process that serves a model; requests and answers are JSON lines.

    Args:
        python: its interpreter.
        program: OURS or THEIRS.
        model: directory of the model.
        cases: JSON file, {name of a case: its batches}.

    Raises:
        UserError: the process ended; quotes the last line it wrote.
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
        """Make calls; return their {"seconds"} and the {"pooled"} output.

        Raises:
            UserError: the process ended; quotes the last line it wrote.
        """
        question = json.dumps({"case": case, "calls": calls})
        with contextlib.suppress(BrokenPipeError):  # _line reports it
            self.process.stdin.write(question + "\n")
            self.process.stdin.flush()
        return json.loads(self._line())

    def _line(self) -> str:
        """Return the next line of the process; raise a UserError without."""
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


def has_transformers(python: str) -> bool:
    """Return whether an interpreter can import torch and transformers.

    Raises:
        UserError: it cannot be run.
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
    """Time a case on all sides in turns.

    Args:
        sides: ours, then perhaps theirs.
        case: what to call.
        rounds: turns of each side; cases with one call per turn get a third.
    """
    # The first call compiles and is not timed.
    pooled = [
        np.array(side.ask(case.name, calls=1)["pooled"]) for side in sides
    ]
    seconds: list[list[float]] = [[] for _ in sides]
    # Calls that take seconds vary less than calls of milliseconds.
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
) -> Iterator[Row]:
    """Time an exported model on requests of ids and of texts.

    Args:
        folder: an empty folder for the models.
        size: one of modeling.NAMED_SIZES; the weights are random.
        vocab_file: a lower-cased vocabulary.
        texts: at least SENTENCES_PER_BATCH.
        transformers_python: an interpreter to run transformers with; None:
            this one. Without transformers the comparison is skipped.
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
            yield _row(size, race(sides, case, rounds), tokenizer)
    if not compared:
        yield Row(
            "serving against transformers",
            "skipped",
            f"{python} has no transformers and torch; name an interpreter "
            "that has them: --transformers_python",
        )


def _row(
    size: str, result: Result, tokenizer: graph_tokenizer.Tokenizer
) -> Row:
    """Return the row of a case; texts with their share of padding."""
    note = result.note()
    if "text" in result.case.batches[0]:
        share = padding_share(tokenizer, result.case)
        note += f"; {share:.0%} of the batches is padding"
    return Row(
        f"serving {size}, {result.case.name}",
        result.rates(),
        note,
        result.figures(),
    )
