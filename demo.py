"""The whole main job on text that every Python installation carries.

    python demo.py

writes out Python's reference manual and docstrings as a corpus, learns a
vocabulary, makes masked records (training and held-out documents apart),
pre-trains a tiny BERT, evaluates it on the held-out documents and fills masks.
Every step is one of the project's scripts, run with the command line shown.
Started again, it goes on where it was; finished steps are not repeated.
"""

import glob
import json
import math
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from base import errors
from base.errors import UserError

import numpy as np
from absl import flags

from pretraining import demo_corpus
from pretraining import schema as pretraining_schema
from records import tfrecord

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "work_dir", "demo_output", "Where corpus, records and model go."
)
flags.DEFINE_bool(
    "quick",
    False,
    "A few steps only, to see that everything runs; the model learns nothing.",
)

HERE = os.path.dirname(os.path.abspath(__file__))
NUM_STEPS = 6

SENTENCES = (
    "Return [MASK] if the object is callable.",
    "If the key is not found, a KeyError is [MASK].",
    "This method must be overridden by a [MASK].",
    "The [MASK] statement is used to define a function.",
    "Open a [MASK] and return a [MASK] object.",
)


class Scale(NamedTuple):
    """How large the demo is; the defaults fit into minutes on two cores."""

    documents: int | None = None  # all of them
    vocab_size: int = 4096
    max_seq_length: int = 64
    max_predictions_per_seq: int = 10
    dupe_factor: int = 20
    train_batch_size: int = 32
    num_train_steps: int = 3000
    learning_rate: float = 2e-3


QUICK = Scale(
    documents=60,
    vocab_size=600,
    max_seq_length=32,
    max_predictions_per_seq=5,
    dupe_factor=1,
    train_batch_size=8,
    num_train_steps=8,
)

# The tiniest of the published miniatures, with a smaller vocabulary. Dropout
# is for models that would learn their text by heart, not for minutes of
# training; at a width of 128 weights drawn wider than the usual 0.02 learn
# faster from the start.
MODEL = {
    "hidden_act": "gelu",
    "hidden_size": 128,
    "initializer_range": 0.05,
    "intermediate_size": 512,
    "max_position_embeddings": 128,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "type_vocab_size": 2,
}


class Baseline(NamedTuple):
    """What can be said of masked tokens without reading the text."""

    loss: float
    accuracy: float
    positions: int


def unigram_baseline(
    train_ids: np.ndarray, held_out_ids: np.ndarray, vocab_size: int
) -> Baseline:
    """Score the token frequencies of training on held-out positions.

    Args:
        train_ids: the true tokens at the masked positions of training.
        held_out_ids: the same of the held-out text.
        vocab_size: every token is counted once more than it occurs.
    """
    counts = np.bincount(train_ids, minlength=vocab_size) + 1
    log_probs = np.log(counts / counts.sum())
    return Baseline(
        float(-log_probs[held_out_ids].mean()),
        float((held_out_ids == counts.argmax()).mean()),
        len(held_out_ids),
    )


class Steps:
    """Announces the steps, runs scripts, and knows how long each took."""

    def __init__(self, work_dir: str):
        self.work_dir = work_dir
        self.began: list[tuple[str, float]] = []

    def begin(self, title: str) -> None:
        """Announce the next step."""
        self.began.append((title, time.monotonic()))
        print(f"\n[{len(self.began)}/{NUM_STEPS}] {title}", flush=True)

    def durations(self) -> list[tuple[str, float]]:
        """Return title and seconds of every step, the last one until now."""
        ends = [start for _, start in self.began[1:]] + [time.monotonic()]
        return [
            (title, end - start)
            for (title, start), end in zip(self.began, ends, strict=True)
        ]

    def path(self, *names: str) -> str:
        """Return a path in the work directory."""
        return os.path.join(self.work_dir, *names)

    def run(self, script: str, keep_output: bool = False, **values) -> str:
        """Run a script of this project, showing its command line.

        Args:
            script: file name.
            keep_output: return what it prints instead of showing it.
            **values: its flags; a list repeats a flag.
        """
        arguments = []
        for name, value in values.items():
            for item in value if isinstance(value, tuple) else (value,):
                arguments.append(f"--{name}={item}")
        print("$ " + shlex.join(["python", script, *arguments]), flush=True)
        environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ}
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, script), *arguments],
            stdout=subprocess.PIPE if keep_output else None,
            text=True,
            encoding="utf-8",
            env={**environment, "PYTHONIOENCODING": "utf-8"},
        )
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:
            process.wait()  # Ctrl-C reached it too: let it save its work
            raise
        if process.returncode:
            raise UserError(
                f"{script} ended with status {process.returncode}; its own "
                "message stands above"
            )
        return output or ""


# --- The steps --------------------------------------------------------------


def write_corpus(steps: Steps, scale: Scale) -> None:
    """Write train.txt and held_out.txt; unchanged files stay untouched."""
    texts = list(demo_corpus.documents().items())[: scale.documents]
    for name, is_wanted in (("train", False), ("held_out", True)):
        chosen = [
            text
            for title, text in texts
            if demo_corpus.is_held_out(title) == is_wanted
        ]
        path = steps.path(f"{name}.txt")
        demo_corpus.write(path, chosen)
        print(
            f"{path}: {len(chosen)} documents, {sum(map(len, chosen)):,} "
            f"sentences, {os.path.getsize(path) / 1e6:.2f} MB"
        )


def make_records(steps: Steps, scale: Scale) -> None:
    """Run create_pretraining_data.py on both texts."""
    for name, passes in (("train", scale.dupe_factor), ("held_out", 2)):
        steps.run(
            "create_pretraining_data.py",
            input_file=steps.path(f"{name}.txt"),
            output_file=steps.path(f"{name}.tfrecord"),
            vocab_file=steps.path("vocab.txt"),
            max_seq_length=scale.max_seq_length,
            max_predictions_per_seq=scale.max_predictions_per_seq,
            dupe_factor=passes,
        )


def pretrain(steps: Steps, scale: Scale) -> None:
    """Run run_pretraining.py: train, evaluate on the held-out records."""
    with open(steps.path("vocab.txt"), encoding="utf-8") as file:
        vocab_size = sum(1 for _ in file)
    with open(steps.path("bert_config.json"), "w", encoding="utf-8") as file:
        json.dump({**MODEL, "vocab_size": vocab_size}, file, indent=2)
        file.write("\n")
    count = scale.num_train_steps
    steps.run(
        "run_pretraining.py",
        bert_config_file=steps.path("bert_config.json"),
        vocab_file=steps.path("vocab.txt"),
        input_file=steps.path("train.tfrecord"),
        eval_input_file=steps.path("held_out.tfrecord"),
        output_dir=steps.path("model"),
        do_train=True,
        do_eval=True,
        max_seq_length=scale.max_seq_length,
        max_predictions_per_seq=scale.max_predictions_per_seq,
        train_batch_size=scale.train_batch_size,
        learning_rate=scale.learning_rate,
        bias_correction=True,
        num_train_steps=count,
        num_warmup_steps=max(1, count // 20),
        eval_steps=max(1, count // 5),
        eval_batch_size=64,
        max_eval_steps=10_000,
        save_checkpoints_steps=max(1, count // 5),
        log_steps=max(1, count // 30),
    )


# --- What came of it --------------------------------------------------------


# TensorFlow is imported here, not above: the first step is to show at once, and
# the steps are to have the memory.


def read_labels(path: str, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Return the masked tokens' ids and the next-sentence labels of a file."""
    import input_pipeline
    import tensorflow as tf

    schema = pretraining_schema.schema(
        scale.max_seq_length, scale.max_predictions_per_seq
    )
    ids, labels = [], []
    for serialized in tf.data.TFRecordDataset(path, "", 1 << 20).batch(1024):
        batch = input_pipeline.parse_batch(serialized, schema)
        is_masked = batch["masked_lm_weights"] > 0
        ids.append(tf.boolean_mask(batch["masked_lm_ids"], is_masked).numpy())
        labels.append(batch["next_sentence_labels"].numpy())
    return np.concatenate(ids), np.concatenate(labels)


def read_speed(model_dir: str) -> float:
    """Return the median of the sequences/s reported while training."""
    import tensorflow as tf

    speeds = []
    for path in glob.glob(os.path.join(model_dir, "events.*")):
        for record in tfrecord.read_records(path):
            for value in tf.compat.v1.Event.FromString(record).summary.value:
                if value.tag == "sequences_per_second":
                    speeds.append(float(tf.make_ndarray(value.tensor)))
    return float(np.median(speeds)) if speeds else math.nan


def read_scores(path: str) -> dict[str, float]:
    """Read the `key = value` lines of eval_results.txt."""
    with open(path, encoding="utf-8") as file:
        pairs = (line.split(" = ") for line in file if " = " in line)
        return {name: float(value) for name, value in pairs}


def chance(labels: np.ndarray) -> float:
    """Return the accuracy of giving the more frequent label always."""
    return float(max(labels.mean(), 1 - labels.mean()))


def format_table(
    scores: dict[str, float],
    baseline: Baseline,
    labels: np.ndarray,
    speed: float,
) -> str:
    """Return the closing table: the model beside what needs no model."""
    perplexity = math.exp(baseline.loss)
    rows = [
        ("", "BERT", "unigram"),
        ("masked LM loss", scores["masked_lm_loss"], baseline.loss),
        ("masked LM perplexity", scores["masked_lm_perplexity"], perplexity),
        (
            "masked LM accuracy",
            f"{scores['masked_lm_accuracy']:.1%}",
            f"{baseline.accuracy:.1%}",
        ),
        (
            "next sentence accuracy",
            f"{scores['next_sentence_accuracy']:.1%}",
            f"{chance(labels):.1%} (the more frequent answer)",
        ),
        ("training speed", f"{speed:,.0f} sequences/s", ""),
    ]
    lines = [
        f"Held-out documents, {len(labels):,} sequences, "
        f"{baseline.positions:,} masked tokens:"
    ]
    for row in rows:
        cells = [f"{x:.2f}" if isinstance(x, float) else x for x in row]
        lines.append(f"    {cells[0]:<25}{cells[1]:<17}{cells[2]}".rstrip())
    return "\n".join(lines)


def format_durations(durations: Sequence[tuple[str, float]]) -> str:
    """Return one line with the seconds of each step and the whole."""
    parts = ", ".join(f"{title.lower()} {s:.0f} s" for title, s in durations)
    minutes, seconds = divmod(round(sum(s for _, s in durations)), 60)
    return f"Took {minutes} min {seconds} s: {parts}"


def summarize(steps: Steps, scale: Scale) -> bool:
    """Print the closing table; return whether the model beats counting."""
    with open(steps.path("vocab.txt"), encoding="utf-8") as file:
        vocab_size = sum(1 for _ in file)
    train_ids, _ = read_labels(steps.path("train.tfrecord"), scale)
    ids, labels = read_labels(steps.path("held_out.tfrecord"), scale)
    baseline = unigram_baseline(train_ids, ids, vocab_size)
    scores = read_scores(steps.path("model", "eval_results.txt"))
    speed = read_speed(steps.path("model"))
    print(format_table(scores, baseline, labels, speed), flush=True)
    return (
        scores["masked_lm_loss"] < baseline.loss
        and scores["masked_lm_accuracy"] > baseline.accuracy
        and scores["next_sentence_accuracy"] > chance(labels)
    )


def main(_: list[str]) -> None:
    """Run the steps one after the other."""
    scale = QUICK if FLAGS.quick else Scale()
    steps = Steps(FLAGS.work_dir)
    os.makedirs(FLAGS.work_dir, exist_ok=True)
    steps.begin("Writing the corpus")
    write_corpus(steps, scale)
    steps.begin("Learning a vocabulary")
    steps.run(
        "build_vocab.py",
        input_file=steps.path("train.txt"),
        output_file=steps.path("vocab.txt"),
        vocab_size=scale.vocab_size,
        num_unused_tokens=0,
    )
    steps.begin("Making masked records")
    make_records(steps, scale)
    steps.begin("Pre-training and evaluating")
    pretrain(steps, scale)
    steps.begin("Filling masks")
    fillings = steps.run(
        "fill_mask.py",
        keep_output=True,
        init_checkpoint=steps.path("model"),
        text=SENTENCES,
    )
    steps.begin("Results")
    is_better = summarize(steps, scale)
    print(f"\nWhat it fills in (probability):\n{fillings}")
    print(format_durations(steps.durations()))
    if not is_better and not FLAGS.quick:
        raise UserError(
            "the model is not better than counting tokens on every score; "
            "the figures above should look like those in README.md"
        )


if __name__ == "__main__":
    errors.run(main)
