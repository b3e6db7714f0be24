"""Pre-train a tiny BERT from text to scores, in minutes on two cores.

    python -m tools.demo

writes out Python's reference manual and docstrings as a corpus, learns a
vocabulary, makes masked records (training and held-out documents apart),
pre-trains a tiny BERT, evaluates it on the held-out documents and fills masks.
Every step is one of the project's scripts, run with the command line that is
printed; its whole log goes to a file in demo_output/logs. At the end there are
demo_output/model/curves.png and a table of scores.

Started again, it resumes where it stopped; finished steps are not repeated.
--quick trains for fewer steps.
"""

import dataclasses
import json
import math
import os
import re
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from base import child_processes, file_system, script, startup, text_files
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags

from tools import commands, demo_corpus

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """Where the demo works, and how long."""

    work_dir: str = flag(
        "demo_output", required=True, is_output=True, alias="output"
    )
    """Directory for corpus, records, model, logs and curves; new, or of an
    earlier run."""

    quick: bool = flag(False)
    """Run a few steps only, to see that everything works; the model learns
    nothing."""


define(Flags)


HERE = str(Path(__file__).resolve().parent.parent)
NUM_STEPS = 6
MAX_WIDTH = 100  # of the command lines, in columns

SENTENCES = (
    "Return [MASK] if the object is callable.",
    "If the key is not found, a KeyError is [MASK].",
    "This method must be overridden by a [MASK].",
    "The [MASK] statement is used to define a function.",
    "Open a [MASK] and return a [MASK] object.",
)


class Scale(NamedTuple):
    """The size of the demo; the defaults take minutes on two cores."""

    documents: int | None = None  # all of them
    vocab_size: int = 4096
    max_seq_length: int = 64
    max_predictions_per_seq: int = 10
    dupe_factor: int = 20
    train_batch_size: int = 32
    num_train_steps: int = 3000


QUICK = Scale(60, 600, 32, 5, 1, 8, 8)

# Matches a report line of training; its groups are shown.
TRAINING = (
    r"\b(step [\d,]+[^|]*) \| (loss [^|]*) .*\| (.*sequences/s).*(ETA .*)"
)


class Steps:
    """Announces the steps, runs scripts and measures how long each took."""

    def __init__(self, work_dir: str):
        self.work_dir = work_dir
        self.began: list[tuple[str, float]] = []
        self.num_runs = 0
        file_system.make_directory(self.path("logs"), "work_dir")

    def begin(self, title: str, note: str = "") -> None:
        """Announce the next step; the line of durations names its title."""
        blank = "\n" if self.began else ""
        self.began.append((title, time.monotonic()))
        print(
            f"{blank}[{len(self.began)}/{NUM_STEPS}] {title}{note}", flush=True
        )

    def durations(self) -> str:
        """Return how long all steps took, and each, in a line."""
        times = [start for _, start in self.began] + [time.monotonic()]
        minutes, seconds = divmod(round(times[-1] - times[0]), 60)
        parts = [
            f"{title.lower()} {end - start:.0f} s"
            for (title, start), end in zip(self.began, times[1:], strict=True)
        ]
        return f"Took {minutes} min {seconds} s: {', '.join(parts)}"

    def path(self, *names: str) -> str:
        """Return a path in the work directory."""
        return os.path.join(self.work_dir, *names)

    def run(
        self, command: str, show: str = "(?!)", texts: Sequence[str] = ()
    ) -> None:
        """Run a script of this project; print its command line.

        Its standard error goes to a file in `logs`, its standard output to
        the demo's.

        Args:
            command: the script and its flags, where $dir is the work directory.
            show: regular expression; of each line of the log that it matches,
                the match is printed, or its groups if it has any.
            texts: values of --text.

        Raises:
            UserError: the script failed; quotes its last line.
        """
        script, *arguments = [
            *(w.replace("$dir", self.work_dir) for w in command.split()),
            *(f"--text={text}" for text in texts),
        ]
        words = ["python", script, *arguments]
        shown_command = commands.shell_lines(words, MAX_WIDTH - len("$ "))
        print(f"$ {shown_command}", flush=True)
        self.num_runs += 1
        name = f"{self.num_runs}_{script.removesuffix('.py')}.log"
        path = self.path("logs", name)
        last = "no message"
        # Append: a resumed run keeps the log of what came before.
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"$ {shown_command}\n")
            process = subprocess.Popen(
                [sys.executable, os.path.join(HERE, script), *arguments],
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                preexec_fn=child_processes.end_with_parent,
            )
            try:
                for line in process.stderr:
                    log.write(line)
                    log.flush()
                    last = line.strip() or last
                    if shown := re.search(show, line.rstrip("\n")):
                        parts = shown.groups() or [shown[0]]
                        print(f"  {' | '.join(parts)}", flush=True)
            except KeyboardInterrupt:
                # Ctrl-C reached the script too: let it save its work.
                log.write(process.communicate()[1])
                raise
        if process.wait():
            last = last.removeprefix("ERROR: ")
            raise UserError(f"{script} failed: {last} (its log: {path})")


def main(_: list[str]) -> int:
    """Run the steps one after the other."""
    scale = QUICK if FLAGS.quick else Scale()
    file_system.check_no_pattern(FLAGS.work_dir, "work_dir")
    claim(FLAGS.work_dir, scale)
    steps = Steps(FLAGS.work_dir)

    steps.begin("Writing the corpus")
    texts = list(demo_corpus.documents().items())[: scale.documents]
    for name, is_held_out in (("train", False), ("held_out", True)):
        chosen = [
            text
            for title, text in texts
            if demo_corpus.is_held_out(title) == is_held_out
        ]
        path = steps.path(f"{name}.txt")
        # A file that is changed would have its records made again.
        if not os.path.exists(path):
            demo_corpus.write(path, chosen)
        print(
            f"  {path}: {len(chosen)} documents, {sum(map(len, chosen)):,} "
            f"sentences, {os.path.getsize(path) / 1e6:.2f} MB"
        )

    steps.begin("Learning a vocabulary")
    steps.run(
        "build_vocab.py --input_file=$dir/train.txt "
        f"--output_file=$dir/vocab.txt --vocab_size={scale.vocab_size} "
        "--num_unused_tokens=0",
        r"Wrote [^;(]*\w",
    )

    lengths = (
        f"--max_seq_length={scale.max_seq_length} "
        f"--max_predictions_per_seq={scale.max_predictions_per_seq}"
    )
    steps.begin("Making masked records")
    for name, passes in (("train", scale.dupe_factor), ("held_out", 2)):
        steps.run(
            f"create_pretraining_data.py --input_file=$dir/{name}.txt "
            f"--output_file=$dir/{name}.tfrecord --vocab_file=$dir/vocab.txt "
            f"--dupe_factor={passes} {lengths}",
            r"Wrote [\d,]+ total .*",
        )

    steps.begin("Pre-training and evaluating")
    count = scale.num_train_steps
    # The smallest of the published miniatures, with a smaller vocabulary. No
    # dropout: it prevents overfitting, which takes longer than minutes. Wider
    # initial weights than the usual 0.02: at a hidden size of 128 the loss
    # falls faster from the start.
    steps.run(
        "run_pretraining.py --size=tiny --dropout=0 --initializer_range=0.05 "
        "--vocab_file=$dir/vocab.txt --input_file=$dir/train.tfrecord "
        "--eval_input_file=$dir/held_out.tfrecord --output_dir=$dir/model "
        f"--do_train=True --do_eval=True {lengths} "
        f"--train_batch_size={scale.train_batch_size} --learning_rate=0.002 "
        f"--bias_correction=True --num_train_steps={count} "
        f"--num_warmup_steps={max(1, count // 20)} "
        f"--eval_steps={max(1, count // 10)} --eval_batch_size=64 "
        "--max_eval_steps=10000 "
        f"--save_checkpoints_steps={max(1, count // 5)} "
        f"--log_steps={max(1, count // 20)}",
        TRAINING,
    )

    steps.begin("Filling masks", ": likeliest tokens and probabilities")
    steps.run("fill_mask.py --init_checkpoint=$dir/model", texts=SENTENCES)

    steps.begin("Results")
    is_better = summarize(steps, scale)
    if not is_better and not FLAGS.quick:
        raise UserError(
            "the model is not better than counting tokens on every score; "
            "found the table above, wanted one like that in README.md"
        )
    return 0


def claim(work_dir: str, scale: Scale) -> None:
    """Check that a directory is new, or was begun by the demo at this scale.

    Raises:
        UserError: it has other files, which the demo might replace.
    """
    file_system.make_directory(work_dir, "work_dir")
    path = os.path.join(work_dir, "scale.json")
    found = text_files.read_own_json(path)
    if found is None:
        file_system.check_new_directory(work_dir, "work_dir", ())
        file_system.write_text(path, json.dumps(scale._asdict()))
    elif found != scale._asdict():
        raise UserError(
            f"--work_dir={work_dir} was begun "
            f"{'without' if FLAGS.quick else 'with'} --quick: give the same "
            "flags, or another --work_dir"
        )


# --- Results -----------------------------------------------------------------


def summarize(steps: Steps, scale: Scale) -> bool:
    """Print the table of scores; return whether they beat the baselines."""
    train_ids, _ = read_labels(steps.path("train.tfrecord"), scale)
    ids, labels = read_labels(steps.path("held_out.tfrecord"), scale)
    vocabulary = text_files.read_text(steps.path("vocab.txt")).splitlines()
    counted = baseline(train_ids, ids, labels, len(vocabulary))
    path = steps.path("model", "eval_results.txt")
    pairs = re.findall("(.+) = (.+)", text_files.read_text(path))
    scores = {name: float(value) for name, value in pairs}
    print(f"{steps.path('model', 'curves.png')}: loss and accuracy by step")
    print(f"{steps.path('logs')}: the whole logs of the scripts")
    took = steps.durations()
    print(textwrap.fill(took, MAX_WIDTH, subsequent_indent="    "))
    print(
        f"\nHeld-out documents, {len(labels):,} sequences, {len(ids):,} masked "
        f"tokens:\n    {'':<25}{'BERT':<17}unigram"
    )
    for name, form, note in (
        ("masked_lm_loss", ".2f", ""),
        ("masked_lm_perplexity", ".2f", ""),
        ("masked_lm_accuracy", ".1%", ""),
        ("next_sentence_accuracy", ".1%", " (the more frequent answer)"),
    ):
        title = name.replace("_", " ").replace("lm", "LM")
        score, base = f"{scores[name]:{form}}", f"{counted[name]:{form}}"
        print(f"    {title:<25}{score:<17}{base}{note}")
    from training import scalars

    curves = scalars.read_curves(steps.path("model"))
    speeds = curves.get("sequences_per_second", {}).values()
    speed = statistics.median(speeds) if speeds else math.nan
    print(f"    {'training speed':<25}{speed:,.0f} sequences/s", flush=True)
    return is_better(scores, counted)


def baseline(
    train_ids: np.ndarray,
    held_out_ids: np.ndarray,
    held_out_labels: np.ndarray,
    vocab_size: int,
) -> dict[str, float]:
    """Return the scores of what is most frequent, on the held-out records.

    It predicts the most frequent token of the training text for every masked
    position. It needs no model and reads no context, so what BERT scores beyond
    it comes from reading the text around the mask.

    Args:
        train_ids: the true tokens at the masked positions of training.
        held_out_ids: the same for the held-out text.
        held_out_labels: next-sentence labels of that text, 0 or 1.
        vocab_size: number of tokens. Each is counted once more than it occurs
            (add-one smoothing), so that an unseen token has a finite loss.
    """
    counts = np.bincount(train_ids, minlength=vocab_size) + 1
    loss = float(-np.log(counts / counts.sum())[held_out_ids].mean())
    share = float(held_out_labels.mean())
    return {
        "masked_lm_loss": loss,
        "masked_lm_perplexity": math.exp(loss),
        "masked_lm_accuracy": float((held_out_ids == counts.argmax()).mean()),
        "next_sentence_accuracy": max(share, 1 - share),
    }


def read_labels(path: str, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    """Return the true tokens [masked tokens] and labels [records] of a file."""
    # Imported late, since TensorFlow takes seconds to import, and memory that
    # the scripts need until here.
    with startup.importing():
        import tensorflow as tf

        from pretraining.data import schema as pretraining_schema
        from records import streaming

    schema = pretraining_schema.schema(
        scale.max_seq_length, scale.max_predictions_per_seq
    )
    ids, labels = [], []
    for serialized in tf.data.TFRecordDataset(path).batch(1024):
        batch = streaming.parse_batch(serialized, schema)
        is_masked = batch["masked_lm_weights"] > 0
        ids.append(tf.boolean_mask(batch["masked_lm_ids"], is_masked).numpy())
        labels.append(batch["next_sentence_labels"].numpy())
    return np.concatenate(ids), np.concatenate(labels)


def is_better(
    scores: Mapping[str, float], baseline: Mapping[str, float]
) -> bool:
    """Return whether the model's scores are all better than the baselines."""
    return scores["masked_lm_loss"] < baseline["masked_lm_loss"] and all(
        scores[name] > baseline[name]
        for name in ("masked_lm_accuracy", "next_sentence_accuracy")
    )


if __name__ == "__main__":
    script.run(main)
