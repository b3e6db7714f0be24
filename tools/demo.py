"""Pre-train a tiny BERT from text to scores, in minutes on two cores.

    python -m tools.demo

writes out Python's reference manual and docstrings as a corpus, learns a
vocabulary, makes masked records (training and held-out documents apart),
pre-trains a tiny BERT, evaluates it on the held-out documents and fills masks.
Every step is one of the project's scripts, run with the command line that is
printed. At the end demo_output/model has the scores and their curves.png.

Started again, it resumes where it stopped; finished steps are not repeated.
--quick trains for fewer steps.
"""

import dataclasses
import os
import shlex
import sys

from base import child_processes, file_system, script, startup, text_files
from base.errors import UserError
from base.flags import define, flag

from absl import flags

from tools import commands, demo_corpus

FLAGS = flags.FLAGS


@dataclasses.dataclass(frozen=True)
class Flags:
    """Where the demo works, and how long."""

    work_dir: str = flag(
        "demo_output", required=True, is_output=True, alias="output"
    )
    """Directory for corpus, records, model and curves; new, or of an earlier
    run."""

    quick: bool = flag(False)
    """Run a few steps only, to see that everything works; the model learns
    nothing."""


define(Flags)


SENTENCES = (
    "Return [MASK] if the object is callable.",
    "If the key is not found, a KeyError is [MASK].",
    "This method must be overridden by a [MASK].",
    "The [MASK] statement is used to define a function.",
    "Open a [MASK] and return a [MASK] object.",
)


def run(work_dir: str, command: str) -> None:
    """Run a script of this project; print its command line.

    Args:
        work_dir: the work directory.
        command: the script and its flags, where $dir is the work directory.

    Raises:
        UserError: the script failed.
    """
    words = [w.replace("$dir", work_dir) for w in shlex.split(command)]
    print(f"$ {commands.shell_lines(['python', *words])}", flush=True)
    script, *arguments = words
    path = os.path.join(startup.ROOT, script)
    if child_processes.run([sys.executable, path, *arguments]):
        raise UserError(f"{script} failed, see above")


def main(_: list[str]) -> None:
    """Run the steps one after the other."""
    work_dir = FLAGS.work_dir
    file_system.check_no_pattern(work_dir, "work_dir")
    claim(work_dir, FLAGS.quick)
    num_documents, num_steps = (60, 8) if FLAGS.quick else (None, 3000)

    print("[1/5] Writing the corpus", flush=True)
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

    print("\n[2/5] Learning a vocabulary")
    run(
        work_dir,
        "build_vocab.py --input_file=$dir/train.txt "
        "--output_file=$dir/vocab.txt --vocab_size=4096 --num_unused_tokens=0",
    )

    lengths = "--max_seq_length=64 --max_predictions_per_seq=10"
    print("\n[3/5] Making masked records")
    for name, passes in (("train", 20), ("held_out", 2)):
        run(
            work_dir,
            f"create_pretraining_data.py --input_file=$dir/{name}.txt "
            f"--output_file=$dir/{name}.tfrecord --vocab_file=$dir/vocab.txt "
            f"--dupe_factor={passes} {lengths}",
        )

    print("\n[4/5] Pre-training and evaluating")
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

    print("\n[5/5] Filling masks: likeliest tokens and probabilities")
    masked = " ".join(f"--text={shlex.quote(text)}" for text in SENTENCES)
    run(work_dir, f"fill_mask.py --init_checkpoint=$dir/model {masked}")

    print(f"\n{work_dir}/model/curves.png: loss and accuracy by step")
    print('Next: README.md, "A classifier of your own", in two to five minutes')


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
        text_files.write_json(path, {"quick": is_quick})
    elif found != {"quick": is_quick}:
        raise UserError(
            f"--work_dir={work_dir} was begun "
            f"{'without' if is_quick else 'with'} --quick: give the same "
            "flags, or another --work_dir"
        )


if __name__ == "__main__":
    script.run(main)
