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
import shlex
import subprocess
import sys
from pathlib import Path

from base import file_system, machine, script, startup, text_files
from base.errors import UserError
from base.flags import define, flag

import numpy as np
from absl import flags

from records import tfrecord
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
MAX_WIDTH = 100  # of the command lines, in columns

SENTENCES = (
    "Return [MASK] if the object is callable.",
    "If the key is not found, a KeyError is [MASK].",
    "This method must be overridden by a [MASK].",
    "The [MASK] statement is used to define a function.",
    "Open a [MASK] and return a [MASK] object.",
)


# What is shown of a log: files that were written, and reports of training.
SHOWN = (
    r"(Wrote [^;(]*\w)|"
    r"\b(step [\d,]+[^|]*) \| (loss [^|]*) .*\| (.*sequences/s).*(ETA .*)"
)


def run(work_dir: str, command: str) -> None:
    """Run a script of this project; print its command line.

    Its standard error goes to a file in `logs`, of which what SHOWN matches is
    printed; its standard output goes to the demo's.

    Args:
        work_dir: the work directory.
        command: the script and its flags, where $dir is the work directory.

    Raises:
        UserError: the script failed; quotes its last line.
    """
    words = [w.replace("$dir", work_dir) for w in shlex.split(command)]
    shown_command = commands.shell_lines(["python", *words], MAX_WIDTH - 2)
    print(f"$ {shown_command}", flush=True)
    script, *arguments = words
    path = os.path.join(work_dir, "logs", f"{Path(script).stem}.log")
    file_system.make_directory(os.path.dirname(path), "work_dir")
    last = "no message"
    # Append: a resumed run keeps the log of what came before.
    with open(path, "a", encoding="utf-8") as log:
        log.write(f"$ {shown_command}\n")
        process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, script), *arguments],
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            preexec_fn=machine.end_with_parent,
        )
        try:
            for line in process.stderr:
                log.write(line)
                log.flush()
                last = line.strip() or last
                if shown := re.search(SHOWN, line.rstrip("\n")):
                    parts = filter(None, shown.groups())
                    print(f"  {' | '.join(parts)}", flush=True)
        except KeyboardInterrupt:
            # Ctrl-C reached the script too: let it save its work.
            log.write(process.communicate()[1])
            raise
    if process.wait():
        last = last.removeprefix("ERROR: ")
        raise UserError(f"{script} failed: {last} (its log: {path})")


def main(_: list[str]) -> None:
    """Run the steps one after the other."""
    work_dir = FLAGS.work_dir
    file_system.check_no_pattern(work_dir, "work_dir")
    claim(work_dir, FLAGS.quick)
    num_documents, num_steps = (60, 8) if FLAGS.quick else (None, 3000)

    print("[1/6] Writing the corpus", flush=True)
    parts: dict[str, list[list[str]]] = {"train": [], "held_out": []}
    for name, text in list(demo_corpus.documents().items())[:num_documents]:
        is_held_out = demo_corpus.is_held_out(name)
        parts["held_out" if is_held_out else "train"].append(text)
    for name, chosen in parts.items():
        path = os.path.join(work_dir, f"{name}.txt")
        # A file that is changed would have its records made again.
        if not os.path.exists(path):
            demo_corpus.write(path, chosen)
        print(f"  {path}: {len(chosen)} documents")

    print("\n[2/6] Learning a vocabulary")
    run(
        work_dir,
        "build_vocab.py --input_file=$dir/train.txt "
        "--output_file=$dir/vocab.txt --vocab_size=4096 --num_unused_tokens=0",
    )

    lengths = "--max_seq_length=64 --max_predictions_per_seq=10"
    print("\n[3/6] Making masked records")
    for name, passes in (("train", 20), ("held_out", 2)):
        run(
            work_dir,
            f"create_pretraining_data.py --input_file=$dir/{name}.txt "
            f"--output_file=$dir/{name}.tfrecord --vocab_file=$dir/vocab.txt "
            f"--dupe_factor={passes} {lengths}",
        )

    print("\n[4/6] Pre-training and evaluating")
    # The smallest of the published miniatures, with a smaller vocabulary. No
    # dropout: it prevents overfitting, which takes longer than minutes. Wider
    # initial weights than the usual 0.02: at a hidden size of 128 the loss
    # falls faster from the start.
    run(
        work_dir,
        "run_pretraining.py --size=tiny --dropout=0 --initializer_range=0.05 "
        "--vocab_file=$dir/vocab.txt --input_file=$dir/train.tfrecord "
        "--eval_input_file=$dir/held_out.tfrecord --output_dir=$dir/model "
        f"--do_train=True --do_eval=True {lengths} "
        "--train_batch_size=32 --learning_rate=0.002 "
        f"--bias_correction=True --num_train_steps={num_steps} "
        f"--num_warmup_steps={max(1, num_steps // 20)} "
        f"--eval_steps={max(1, num_steps // 10)} --eval_batch_size=64 "
        "--max_eval_steps=10000 "
        f"--save_checkpoints_steps={max(1, num_steps // 5)} "
        f"--log_steps={max(1, num_steps // 20)}",
    )

    print("\n[5/6] Filling masks: likeliest tokens and probabilities")
    masked = " ".join(f"--text={shlex.quote(text)}" for text in SENTENCES)
    run(work_dir, f"fill_mask.py --init_checkpoint=$dir/model {masked}")

    print("\n[6/6] Results", flush=True)
    summarize(work_dir)


def claim(work_dir: str, is_quick: bool) -> None:
    """Check that a directory is new, or was begun by the demo as it runs now.

    Raises:
        UserError: it has other files, which the demo might replace.
    """
    file_system.make_directory(work_dir, "work_dir")
    path = os.path.join(work_dir, "demo.json")
    found = text_files.read_own_json(path)
    if not found:
        file_system.check_new_directory(work_dir, "work_dir", ())
        file_system.write_text(path, json.dumps({"quick": is_quick}))
    elif found != {"quick": is_quick}:
        raise UserError(
            f"--work_dir={work_dir} was begun "
            f"{'without' if is_quick else 'with'} --quick: give the same "
            "flags, or another --work_dir"
        )


# --- Results -----------------------------------------------------------------


def summarize(work_dir: str) -> None:
    """Print the table of scores, beside those of what is most frequent."""
    train_ids, _ = read_labels(f"{work_dir}/train.tfrecord")
    ids, labels = read_labels(f"{work_dir}/held_out.tfrecord")
    vocabulary = text_files.read_text(f"{work_dir}/vocab.txt").splitlines()
    counted = baseline(train_ids, ids, labels, len(vocabulary))
    scores = text_files.read_numbers(f"{work_dir}/model/eval_results.txt")
    print(f"{work_dir}/model/curves.png: loss and accuracy by step")
    print(f"{work_dir}/logs: the whole logs of the scripts")
    print(
        f"\nHeld-out documents, {len(labels):,} sequences, {len(ids):,} masked "
        f"tokens:\n    {'':<25}{'BERT':<17}unigram"
    )
    for name, form, note in (
        ("masked_lm_perplexity", ".2f", ""),
        ("masked_lm_accuracy", ".1%", ""),
        ("next_sentence_accuracy", ".1%", " (the more frequent answer)"),
    ):
        title = name.replace("_", " ").replace("lm", "LM")
        score = f"{scores[name]:{form}}"
        print(f"    {title:<25}{score:<17}{counted[name]:{form}}{note}")
    print(
        '\nNext: README.md, "A classifier of your own", in two to five minutes'
    )


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
        "masked_lm_perplexity": math.exp(loss),
        "masked_lm_accuracy": float((held_out_ids == counts.argmax()).mean()),
        "next_sentence_accuracy": max(share, 1 - share),
    }


def read_labels(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the true tokens [masked tokens] and labels [records] of a file."""
    # Imported late, since TensorFlow takes seconds to import, and memory that
    # the scripts need until here.
    with startup.importing():
        import tensorflow as tf

        from pretraining.data import schema as pretraining_schema
        from records import streaming

    sizes = tfrecord.describe_first_record(path)
    lengths = sizes["input_ids"], sizes["masked_lm_ids"]
    schema = pretraining_schema.schema(*lengths)
    ids, labels = [], []
    for serialized in tf.data.TFRecordDataset(path).batch(1024):
        batch = streaming.parse_batch(serialized, schema)
        is_masked = batch["masked_lm_weights"] > 0
        ids.append(tf.boolean_mask(batch["masked_lm_ids"], is_masked).numpy())
        labels.append(batch["next_sentence_labels"].numpy())
    return np.concatenate(ids), np.concatenate(labels)


if __name__ == "__main__":
    script.run(main)
