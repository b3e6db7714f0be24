"""Pre-train a tiny BERT from text to scores, in minutes on two cores.

    python demo.py

writes out Python's reference manual and docstrings as a corpus, learns a
vocabulary, makes masked records (training and held-out documents apart),
pre-trains a tiny BERT, evaluates it on the held-out documents and fills masks.
Every step is one of the project's scripts, run with the command line that is
printed; its whole log goes to a file in demo_output/logs. At the end there are
demo_output/curves.png and a table of scores.

Started again, it continues where it stopped; finished steps are not repeated.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from typing import NamedTuple

from base import (
    child_processes,
    errors,
    file_system,
    pictures,
    startup,
    text_files,
)
from base.errors import UserError

from absl import flags

from tools import commands
from tools.demo import corpus as demo_corpus

FLAGS = flags.FLAGS

flags.DEFINE_string(
    "work_dir",
    "demo_output",
    "Directory for corpus, records, model, logs and curves.",
)
flags.DEFINE_bool(
    "quick",
    False,
    "Run a few steps only, to see that everything works; the model learns "
    "nothing.",
)

HERE = os.path.dirname(os.path.abspath(__file__))
NUM_STEPS = 6
NUM_REPORTS = 15  # lines about training
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


def main(_: list[str]) -> int:
    """Run the steps one after the other."""
    scale = QUICK if FLAGS.quick else Scale()
    if not FLAGS.work_dir:
        raise UserError("--work_dir is required")
    file_system.check_no_pattern(FLAGS.work_dir, "work_dir")
    steps = Steps(FLAGS.work_dir)
    claim(steps, scale)
    steps.begin("Writing the corpus")
    write_corpus(steps, scale)
    steps.begin("Learning a vocabulary")
    build_vocab(steps, scale)
    steps.begin("Making masked records")
    make_records(steps, scale)
    steps.begin("Pre-training and evaluating")
    pretrain(steps, scale)
    steps.begin("Filling masks", ": likeliest tokens and probabilities")
    fill_masks(steps)
    steps.begin("Results")
    is_better = summarize(steps, scale)
    if not is_better and not FLAGS.quick:
        raise UserError(
            "the model is not better than counting tokens on every score; "
            "found the table above, wanted one like that in README.md"
        )
    return 0


def matching(pattern: str) -> Callable[[str], str]:
    """Return a function: log line -> the part that matches, else ""."""

    def select(line: str) -> str:
        found = re.search(pattern, line)
        return found[0] if found else ""

    return select


def training_report(num_steps: int) -> Callable[[str], str]:
    """Return a function: log line -> a short report of training, else "".

    It reports about NUM_REPORTS times in the whole training.
    """
    every = max(1, num_steps // NUM_REPORTS)

    def select(line: str) -> str:
        found = re.search(r"\bstep ([\d,]+).* \| .*", line)
        if not found or int(found[1].replace(",", "")) % every:
            return ""
        first, *parts = found[0].split(" | ")
        kept = r"loss |.*sequences/s|ETA "
        return " | ".join([first, *(p for p in parts if re.match(kept, p))])

    return select


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

    def run(self, script: str, show: Callable[[str], str], **values) -> None:
        """Run a script of this project; print its command line.

        Its standard error goes to a file in `logs`, its standard output to
        the demo's.

        Args:
            script: file name.
            show: log line -> what to print of it, "" for nothing.
            **values: its flags; a tuple repeats a flag.

        Raises:
            UserError: the script failed; quotes its last line.
        """
        arguments = []
        for name, value in values.items():
            for item in value if isinstance(value, tuple) else (value,):
                arguments.append(f"--{name}={item}")
        words = ["python", script, *arguments]
        command = "$ " + commands.shell_lines(words, MAX_WIDTH - len("$ "))
        print(command, flush=True)
        self.num_runs += 1
        name = f"{self.num_runs}_{script.removesuffix('.py')}.log"
        path = self.path("logs", name)
        last = "no message"
        # Appended: a run that continues another one keeps its log.
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
                    if shown := show(line.rstrip("\n")):
                        print(f"  {shown}", flush=True)
            except KeyboardInterrupt:
                # Ctrl-C reached the script too: let it save its work.
                log.write(process.communicate()[1])
                raise
        if process.wait():
            last = last.removeprefix("ERROR: ")
            raise UserError(f"{script} failed: {last} (its log: {path})")


def claim(steps: Steps, scale: Scale) -> None:
    """Note the size of the demo, or check that it is that of an earlier run.

    Raises:
        UserError: another size was begun in the work directory.
    """
    path = steps.path("scale.json")
    found, own = text_files.read_own_json(path), scale._asdict()
    if found not in (None, own):
        raise UserError(
            f"--work_dir={FLAGS.work_dir} was begun "
            f"{'without' if FLAGS.quick else 'with'} --quick: give the same "
            "flags, or another --work_dir"
        )
    file_system.write_text(path, json.dumps(own, indent=1) + "\n")


def write_corpus(steps: Steps, scale: Scale) -> None:
    """Write train.txt and held_out.txt; unchanged files stay untouched."""
    texts = list(demo_corpus.documents().items())[: scale.documents]
    for name, is_held_out in (("train", False), ("held_out", True)):
        chosen = [
            text
            for title, text in texts
            if demo_corpus.is_held_out(title) == is_held_out
        ]
        path = steps.path(f"{name}.txt")
        demo_corpus.write(path, chosen)
        print(
            f"  {path}: {len(chosen)} documents, {sum(map(len, chosen)):,} "
            f"sentences, {os.path.getsize(path) / 1e6:.2f} MB"
        )


def build_vocab(steps: Steps, scale: Scale) -> None:
    """Run build_vocab.py on the training text."""
    steps.run(
        "build_vocab.py",
        matching(r"Wrote [^;(]*\w"),
        input_file=steps.path("train.txt"),
        output_file=steps.path("vocab.txt"),
        vocab_size=scale.vocab_size,
        num_unused_tokens=0,
    )


def make_records(steps: Steps, scale: Scale) -> None:
    """Run create_pretraining_data.py on both texts."""
    for name, passes in (("train", scale.dupe_factor), ("held_out", 2)):
        steps.run(
            "create_pretraining_data.py",
            matching(r"Wrote [\d,]+ total .*"),
            input_file=steps.path(f"{name}.txt"),
            output_file=steps.path(f"{name}.tfrecord"),
            vocab_file=steps.path("vocab.txt"),
            max_seq_length=scale.max_seq_length,
            max_predictions_per_seq=scale.max_predictions_per_seq,
            dupe_factor=passes,
        )


def vocab_size(steps: Steps) -> int:
    """Return the number of tokens in the vocabulary."""
    return len(text_files.read_text(steps.path("vocab.txt")).splitlines())


def pretrain(steps: Steps, scale: Scale) -> None:
    """Run run_pretraining.py: train, evaluate on the held-out records."""
    with open(steps.path("bert_config.json"), "w", encoding="utf-8") as file:
        json.dump({**MODEL, "vocab_size": vocab_size(steps)}, file, indent=2)
        file.write("\n")
    count = scale.num_train_steps
    steps.run(
        "run_pretraining.py",
        training_report(count),
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
        eval_steps=max(1, count // 10),
        eval_batch_size=64,
        max_eval_steps=10_000,
        save_checkpoints_steps=max(1, count // 5),
        log_steps=max(1, count // 30),
    )


def fill_masks(steps: Steps) -> None:
    """Run fill_mask.py, which prints the likeliest tokens of each mask."""
    steps.run(
        "fill_mask.py",
        matching(r"(?!)"),  # nothing: the results are on standard output
        init_checkpoint=steps.path("model"),
        text=SENTENCES,
    )


def summarize(steps: Steps, scale: Scale) -> bool:
    """Draw curves.png, print the table; return if all baselines are beaten."""
    # Imported here, since it imports TensorFlow: that takes seconds, and
    # memory that the scripts can use better until now.
    with startup.importing():
        from tools.demo import results as demo_results
        from training import reporting, scalars

    lengths = (scale.max_seq_length, scale.max_predictions_per_seq)
    train_ids, _ = demo_results.read_labels(
        steps.path("train.tfrecord"), *lengths
    )
    ids, labels = demo_results.read_labels(
        steps.path("held_out.tfrecord"), *lengths
    )
    baseline = demo_results.baseline(train_ids, ids, labels, vocab_size(steps))
    scores = demo_results.read_scores(steps.path("model", "eval_results.txt"))
    training = scalars.read_curves(steps.path("model"))
    path = steps.path("curves.png")
    try:
        demo_results.draw_curves(
            path,
            training,
            scalars.read_curves(reporting.eval_folder(steps.path("model"))),
            baseline,
        )
        print(f"{path}: loss and next-sentence accuracy over the steps")
    except ImportError:
        print(pictures.not_drawn(path))
    print(f"{steps.path('logs')}: the whole logs of the scripts")
    durations = steps.durations()
    minutes, seconds = divmod(round(sum(s for _, s in durations)), 60)
    parts = ", ".join(f"{title.lower()} {s:.0f} s" for title, s in durations)
    took = f"Took {minutes} min {seconds} s: {parts}"
    print(textwrap.fill(took, MAX_WIDTH, subsequent_indent="    "))
    speeds = training.get("sequences_per_second", {}).values()
    speed = statistics.median(speeds) if speeds else float("nan")
    table = demo_results.format_table(scores, baseline, speed)
    print(f"\n{table}", flush=True)
    return demo_results.is_better(scores, baseline)


if __name__ == "__main__":
    errors.run(main)
