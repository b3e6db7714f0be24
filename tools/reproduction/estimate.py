"""How long the steps of a plan take, from a training step measured here.

benchmark.py times a pre-training step of one or two published sizes on this
machine. Its operations divided by its seconds are a rate; a step of another
size, length, batch or objective takes its own operations divided by the rate
(of the measured size whose width is nearest: wide models run at a larger share
of the machine's peak). Starting a script and compiling its step is measured in
the same run. Steps that are finished correct the estimate: those of the same
kind that are left are scaled by how much longer or shorter they took.
"""

import functools
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from base import file_system, text_files
from base.errors import UserError

from tools.reproduction import plan as reproduction_plan
from tools.reproduction import tasks as reproduction_tasks
from tools.reproduction.plan import Step
from tools.reproduction.scales import Size

# Widths of the sizes that benchmark.py measures.
_MEASURED = {"tiny": 128, "mini": 256, "small": 512, "base": 768}
_REPEATS = 3
_SPEED_NAME = "speed.json"  # the measurement, in the work directory

# Without a neural network: bytes of text in a second on one core, from
# docs/measurements.md (build_vocab.py, create_pretraining_data.py).
_VOCABULARY_RATE = 1.2e6
_RECORDS_RATE = 2.0e7
_DEALING_RATE = 5e6  # read and deal out, once

# An English word piece of a lower-cased text has about this many bytes.
_BYTES_PER_TOKEN = 4.2
_FEATURE_LSTMS = 2  # layers of the BiLSTM of NER-features (section 5.3)
TRAINING = 3  # forward and backward pass / forward pass


class Speed(NamedTuple):
    """What was measured.

    Attributes:
        rates: {hidden size: floating-point operations in a second}.
        start_seconds: from the start of a command to its second step.
        how: in words.
    """

    rates: dict[int, float]
    start_seconds: float
    how: str

    def rate(self, hidden_size: int) -> float:
        """Return the rate of the measured width that is nearest."""
        distance = {
            width: abs(math.log(width / hidden_size)) for width in self.rates
        }
        return self.rates[min(distance, key=distance.__getitem__)]


# Only ratios count until some steps have finished.
UNMEASURED = Speed({256: 1e11}, 10.0, "a guess")

# --- Operations --------------------------------------------------------------


def encoder_flops(size: Size, length: float) -> float:
    """Return the operations of the encoder's matrix products for a sequence.

    Args:
        size: layers L and width H.
        length: tokens S. A layer has S * 24 H^2 (query, key, value, output
            and the two halves of the feed-forward part, which is 4 H wide)
            and 4 S^2 H (attention scores, weighted sums).
    """
    hidden = size.hidden_size
    each = 24 * hidden**2 * length + 4 * length**2 * hidden
    return size.num_hidden_layers * each


def head_flops(size: Size, positions: float, vocab_size: int) -> float:
    """Return the operations of predicting tokens at some positions."""
    hidden = size.hidden_size
    return positions * (2 * hidden**2 + 2 * hidden * vocab_size)


def pretraining_flops(step: Step, vocab_size: int) -> float:
    """Return the floating-point operations of a step that pre-trains."""
    flags = dict(step.flags)
    length = int(flags["max_seq_length"])
    # The left-to-right language model predicts at every position.
    predicted = (
        length
        if flags.get("objective") == "ltr"
        else int(flags["max_predictions_per_seq"])
    )
    each = encoder_flops(step.size, length)
    each += head_flops(step.size, predicted, vocab_size)
    return (
        TRAINING * each * int(flags["train_batch_size"]) * step.num_train_steps
    )


class Examples(NamedTuple):
    """How much there is to train on and to score.

    Attributes:
        train, dev: number of examples; questions for SQuAD.
        tokens: of an example of the training files, on average.
    """

    train: int
    dev: int
    tokens: float


def bilstm_flops(inputs: int, units: int, layers: int = 1) -> int:
    """Return the floating-point operations of a BiLSTM for one word.

    Those of its matrix products, in the forward pass.

    Args:
        inputs: width I of the first layer's input; later ones have 2 U.
        units: width U of a direction. Each of a layer's two directions has
            products with [I, 4 U] and [U, 4 U], that is 16 U (I + U) in all.
        layers: number of layers.
    """
    first = 16 * units * (inputs + units)
    return first + (layers - 1) * 16 * units * (2 * units + units)


def finetuning_flops(step: Step, examples: Examples) -> float:
    """Return the floating-point operations of a step that fine-tunes.

    Scoring is counted too. A BiLSTM reads words; each counts as one token.
    """
    flags = dict(step.flags)
    tokens = min(examples.tokens, int(flags["max_seq_length"]))
    encoder = encoder_flops(step.size, tokens)
    passes = float(flags["num_train_epochs"]) * TRAINING * examples.train
    passes += examples.dev
    hidden = step.size.hidden_size
    if flags.get("feature_based") == "true":
        # The encoder runs once; all runs of a sweep share its activations.
        once = encoder * (examples.train + examples.dev)
        each = tokens * bilstm_flops(
            reproduction_tasks.FEATURE_LAYERS * hidden,
            int(flags["lstm_units"]),
            _FEATURE_LSTMS,
        )
        return once + num_runs(step) * each * passes
    if layers := int(flags.get("bilstm_layers", 0)):
        units = int(flags["bilstm_units"])
        encoder += tokens * bilstm_flops(hidden, units, layers)
    return num_runs(step) * encoder * passes


def num_runs(step: Step) -> int:
    """Return the training runs of a step: one for each learning rate."""
    rates = dict(step.flags).get("sweep_learning_rates", "")
    return rates.count(",") + 1


def count_examples(task: str, data: reproduction_tasks.Data) -> Examples:
    """Return the sizes of a task's files, tokens guessed from their bytes.

    Raises:
        UserError: a file cannot be read.
    """
    files = data.files(task)
    if task == reproduction_tasks.SQUAD:
        parts = ((data.squad_train_file or ""), (data.squad_dev_file or ""))
        (train, size), (dev, _) = (_count_questions(p) for p in parts)
        return Examples(train, dev, size / _BYTES_PER_TOKEN)
    if task in reproduction_tasks.GLUE:
        rows = [reproduction_tasks.count_rows(task, path) for path in files]
        train, dev = (max(1, count) for count in rows)
    else:
        texts = [text_files.read_text(path) for path in files]
        train, dev = (text.strip().count("\n\n") + 1 for text in texts)
    size = os.path.getsize(files[0]) / train
    return Examples(train, dev, size / _BYTES_PER_TOKEN)


def _count_questions(files: str) -> tuple[int, float]:
    """Return questions, and bytes of a question with its paragraph."""
    count, size = 0, 0
    for path in files.split(","):
        articles = text_files.read_json_object(path).get("data", ())
        try:
            for paragraph in (p for a in articles for p in a["paragraphs"]):
                questions = len(paragraph["qas"])
                count += questions
                size += questions * (len(paragraph["context"]) + 60)
        except (KeyError, TypeError) as error:
            raise UserError(f"{path} is not in the layout of SQuAD") from error
    return max(count, 1), size / max(count, 1)


# --- Seconds -----------------------------------------------------------------


class Estimator:
    """Estimates the seconds of steps.

    Args:
        speed: measured here.
        data: of the tasks.
        text_bytes: bytes of training and of held-out text.
        vocab_size: of the models.
    """

    def __init__(
        self,
        speed: Speed,
        data: reproduction_tasks.Data,
        text_bytes: Mapping[str, int],
        vocab_size: int,
    ):
        self.speed, self.data = speed, data
        self.text_bytes, self.vocab_size = text_bytes, vocab_size
        self._examples = functools.cache(
            lambda task: count_examples(task, data)
        )

    def seconds(self, step: Step) -> float:
        """Return the seconds of a step."""
        if step.kind == reproduction_plan.VOCABULARY:
            return 2 + self.text_bytes["train"] / _VOCABULARY_RATE
        if step.kind == reproduction_plan.RECORDS:
            is_held_out = "/held_out" in step.output
            size = self.text_bytes["held_out" if is_held_out else "train"]
            passes = int(dict(step.flags)["dupe_factor"])
            return 3 + size / _DEALING_RATE + size * passes / _RECORDS_RATE
        if step.kind == reproduction_plan.PRETRAINING:
            flops = pretraining_flops(step, self.vocab_size)
        else:
            flops = finetuning_flops(step, self._examples(step.task))
        rate = self.speed.rate(step.size.hidden_size)
        # Each run of a sweep is a command of its own, beside that of the sweep.
        starts = 1 + num_runs(step) if num_runs(step) > 1 else 1
        return starts * self.speed.start_seconds + flops / rate


def corrections(
    finished: Iterable[tuple[str, float, float]],
) -> dict[str, float]:
    """Return how much longer the steps of a kind took than estimated.

    Args:
        finished: (kind, seconds, estimated seconds) of steps.

    Returns:
        {kind: ratio}, {} before a training step has finished. A training kind
        without a finished step has the ratio of the other one; the remaining
        kinds, which depend on other speeds, have 1.
    """
    sums = {kind: [0.0, 0.0] for kind in reproduction_plan.KINDS}
    for kind, seconds, estimated in finished:
        sums[kind][0] += seconds
        sums[kind][1] += estimated
    ratios = {kind: took / e for kind, (took, e) in sums.items() if e}
    training = [ratios[k] for k in reproduction_plan.SCORED if k in ratios]
    if not training:
        return {}
    found = dict.fromkeys(reproduction_plan.KINDS, 1.0)
    found |= dict.fromkeys(reproduction_plan.SCORED, training[0])
    return found | ratios


def known_speed(work_dir: str) -> Speed:
    """Return the speed that an earlier --dry_run measured, else a guess."""
    values = text_files.read_own_json(os.path.join(work_dir, _SPEED_NAME))
    return _speed(values) if values else UNMEASURED


def sizes_to_measure(hidden_sizes: Sequence[int]) -> list[str]:
    """Return the published sizes nearest to the narrowest and the widest."""
    found = []
    for hidden in (min(hidden_sizes), max(hidden_sizes)):
        # Narrow ones are cheap to measure; "base" takes half a minute.
        name = min(
            _MEASURED, key=lambda n: abs(math.log(_MEASURED[n] / hidden))
        )
        if name not in found:
            found.append(name)
    return found


def measure(
    hidden_sizes: Sequence[int], dtype: str, script_dir: str, work_dir: str
) -> Speed:
    """Return the speed of this machine; measure it unless it is known.

    Args:
        hidden_sizes: of the models of the plan.
        dtype: of matrix products.
        script_dir: where benchmark.py is.
        work_dir: keeps the measurement, in speed.json.

    Raises:
        UserError: benchmark.py failed.
    """
    path = os.path.join(work_dir, _SPEED_NAME)
    sizes = sizes_to_measure(hidden_sizes)
    command = [
        "benchmark.py",
        "--parts=train",
        f"--sizes={','.join(sizes)}",
        f"--repeats={_REPEATS}",
        f"--dtype={dtype}",
    ]
    known = text_files.read_own_json(path)
    if known and known["command"] == command:
        return _speed(known)
    began, load = time.monotonic(), _load()
    script = os.path.join(script_dir, command[0])
    result = subprocess.run(
        [sys.executable, script, *command[1:]], capture_output=True, text=True
    )
    if result.returncode:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"benchmark.py failed: {last.removeprefix('ERROR: ')}")
    measured = json.loads(result.stdout.strip().splitlines()[-1])
    values = {
        "command": command,
        "seconds": time.monotonic() - began,
        "load": load,
        "machine": measured["machine"],
        "figures": measured["figures"],
    }
    if os.path.isdir(work_dir):
        file_system.write_text(path, json.dumps(values, indent=1))
    return _speed(values)


def _speed(values: Mapping) -> Speed:
    """Return the rates of what benchmark.py printed."""
    rates, first_calls, timed = {}, [], []
    for what, figures in values["figures"].items():
        if not what.startswith("training step"):
            continue
        size = what.split(", ")[1]
        flops = figures["matmul_peak_share"] * figures["peak_flops"]
        rates[_MEASURED[size]] = flops
        first_calls.append(figures["first_call_seconds"])
        timed.append(f"{size} {figures['seconds']:.2f} s")
    # Importing TensorFlow and reading files, besides compiling.
    start = 5.0 + min(first_calls)
    rates_text = ", ".join(f"{r / 1e9:.0f}" for r in rates.values())
    how = (
        f"python {' '.join(values['command'])} took "
        f"{values['seconds']:.0f} s: a step of {', '.join(timed)}, that is "
        f"{rates_text} GFLOP/s; {start:.0f} s to start a command"
    )
    if values["load"] > 1:
        how += (
            f"; the machine was busy with {values['load']:.1f} processes per "
            "core, so the times are too long: delete speed.json to measure "
            "again"
        )
    return Speed(rates, start, how)


def _load() -> float:
    """Return the mean number of runnable processes per core, last minute."""
    try:
        return os.getloadavg()[0] / (os.cpu_count() or 1)
    except OSError:  # no such number on this system
        return 0.0
