"""Pre-train a tiny BERT from text to scores, in minutes on two cores.

    python demo.py

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
import os
import re
import statistics
import subprocess
import sys
import textwrap
import time
from typing import NamedTuple

from base import (
    child_processes,
    file_system,
    script,
    startup,
    text_files,
)
from base.errors import UserError
from base.flags import define, flag, require

from absl import flags

from tools import commands
from tools.demo import corpus as demo_corpus

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """Where the demo works, and how long."""

    work_dir: str = flag("demo_output", is_output=True, alias="output")
    """Directory for corpus, records, model, logs and curves; new, or of an
    earlier run."""

    quick: bool = flag(False)
    """Run a few steps only, to see that everything works; the model learns
    nothing."""


define(Flags)


HERE = os.path.dirname(os.path.abspath(__file__))
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

# The smallest of the published miniatures, with a smaller vocabulary. No
# dropout: it prevents overfitting, which takes longer than minutes. Wider
# initial weights than the usual 0.02: at a hidden size of 128 the loss falls
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

    def run(self, script: str, show: str = "(?!)", **values) -> None:
        """Run a script of this project; print its command line.

        Its standard error goes to a file in `logs`, its standard output to
        the demo's.

        Args:
            show: regular expression; of each line of the log that it matches,
                the match is printed, or its groups if it has any.
            **values: flags; a tuple repeats a flag.

        Raises:
            UserError: the script failed; quotes its last line.
        """
        arguments = [
            f"--{name}={item}"
            for name, value in values.items()
            for item in (value if isinstance(value, tuple) else (value,))
        ]
        words = ["python", script, *arguments]
        command = "$ " + commands.shell_lines(words, MAX_WIDTH - len("$ "))
        print(command, flush=True)
        self.num_runs += 1
        name = f"{self.num_runs}_{script.removesuffix('.py')}.log"
        path = self.path("logs", name)
        last = "no message"
        # Append: a resumed run keeps the log of what came before.
        with open(path, "a", encoding="utf-8") as log:
            log.write(f"{command}\n")
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
    require(FLAGS, "work_dir")
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
    vocab_file = steps.path("vocab.txt")
    steps.run(
        "build_vocab.py",
        r"Wrote [^;(]*\w",
        input_file=steps.path("train.txt"),
        output_file=vocab_file,
        vocab_size=scale.vocab_size,
        num_unused_tokens=0,
    )

    lengths = {
        "max_seq_length": scale.max_seq_length,
        "max_predictions_per_seq": scale.max_predictions_per_seq,
    }
    steps.begin("Making masked records")
    for name, passes in (("train", scale.dupe_factor), ("held_out", 2)):
        steps.run(
            "create_pretraining_data.py",
            r"Wrote [\d,]+ total .*",
            input_file=steps.path(f"{name}.txt"),
            output_file=steps.path(f"{name}.tfrecord"),
            vocab_file=vocab_file,
            dupe_factor=passes,
            **lengths,
        )

    steps.begin("Pre-training and evaluating")
    vocab_size = len(text_files.read_text(vocab_file).splitlines())
    write_json(
        steps.path("bert_config.json"), {**MODEL, "vocab_size": vocab_size}
    )
    count = scale.num_train_steps
    steps.run(
        "run_pretraining.py",
        TRAINING,
        bert_config_file=steps.path("bert_config.json"),
        vocab_file=vocab_file,
        input_file=steps.path("train.tfrecord"),
        eval_input_file=steps.path("held_out.tfrecord"),
        output_dir=steps.path("model"),
        do_train=True,
        do_eval=True,
        **lengths,
        train_batch_size=scale.train_batch_size,
        learning_rate=scale.learning_rate,
        bias_correction=True,
        num_train_steps=count,
        num_warmup_steps=max(1, count // 20),
        eval_steps=max(1, count // 10),
        eval_batch_size=64,
        max_eval_steps=10_000,
        save_checkpoints_steps=max(1, count // 5),
        log_steps=max(1, count // 20),
    )

    steps.begin("Filling masks", ": likeliest tokens and probabilities")
    steps.run(
        "fill_mask.py", init_checkpoint=steps.path("model"), text=SENTENCES
    )

    steps.begin("Results")
    is_better = summarize(steps, vocab_size, **lengths)
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
        write_json(path, scale._asdict())
    elif found != scale._asdict():
        raise UserError(
            f"--work_dir={work_dir} was begun "
            f"{'without' if FLAGS.quick else 'with'} --quick: give the same "
            "flags, or another --work_dir"
        )


def write_json(path: str, value: dict) -> None:
    """Write a JSON file that people may read."""
    file_system.write_text(path, json.dumps(value, indent=2) + "\n")


def summarize(steps: Steps, vocab_size: int, **lengths: int) -> bool:
    """Print the table of scores; return whether they beat the baselines."""
    # Imported late, since TensorFlow takes seconds to import, and memory that
    # the scripts need until here.
    with startup.importing():
        from tools.demo import results as demo_results
        from training import scalars

    train_ids, _ = demo_results.read_labels(
        steps.path("train.tfrecord"), **lengths
    )
    ids, labels = demo_results.read_labels(
        steps.path("held_out.tfrecord"), **lengths
    )
    baseline = demo_results.baseline(train_ids, ids, labels, vocab_size)
    scores = demo_results.read_scores(steps.path("model", "eval_results.txt"))
    print(f"{steps.path('model', 'curves.png')}: loss and accuracy by step")
    print(f"{steps.path('logs')}: the whole logs of the scripts")
    took = steps.durations()
    print(textwrap.fill(took, MAX_WIDTH, subsequent_indent="    "))
    curves = scalars.read_curves(steps.path("model"))
    speeds = curves.get("sequences_per_second", {}).values()
    speed = statistics.median(speeds) if speeds else float("nan")
    print(
        f"\nHeld-out documents, {len(labels):,} sequences, {len(ids):,} masked "
        "tokens:"
    )
    table = demo_results.format_table(scores, baseline, speed)
    print(table, flush=True)
    return demo_results.is_better(scores, baseline)


if __name__ == "__main__":
    script.run(main)
