r"""Fine-tune BERT on multiple choice; score it, predict with it.

    python run_swag.py --data_dir=swag_data --output_dir=swag_out \
        --init_checkpoint=uncased_L-12_H-768_A-12 \
        --do_train --do_eval --do_predict \
        --train_batch_size=16 --learning_rate=2e-5 --num_train_epochs=3

reads SWAG's train.csv, val.csv and test.csv (paper section 4.4), and ends with
`eval_results.txt`, `test_results.tsv` (a probability per choice), `test.tsv`
(the number of the likeliest choice), and the fine-tuned weights in
`bert_model.ckpt`. After an interruption, the same command resumes the run.
--do_export writes a SavedModel, too.

Usual choices: --max_seq_length, --random_seed, --dtype=bfloat16 where the
processor has it.

Your own questions, with any number of choices, are read from train.jsonl,
dev.jsonl and test.jsonl, one object per line:

    {"context": "He takes the ball.", "start": "Then he",
     "choices": ["eats it.", "throws it."], "label": 1}

`start`, which begins every choice, is optional; the test file needs no
`label`.
"""

import dataclasses

from base import script, startup
from base.flags import define, flag

from absl import flags

from checkpoints.model import Checkpoint
from finetuning import flags as finetuning_flags
from finetuning.flags import Work
from tasks.settings import RunSettings

FLAGS = flags.FLAGS

finetuning_flags.define(
    ("data_dir", "data_dir", "data_dir"),
    what_is_cut="Largest number of tokens of context and choice together; "
    "longer ones are cut.",
    train_on="the training questions",
    score_on="the development questions",
    predict_on="the test questions",
    rows="Choices",
)


@dataclasses.dataclass(frozen=True)
class Flags:
    """The questions."""

    data_dir: str | None = flag(exists="directory")
    """Directory of train, val (or dev) and test, each .csv in SWAG's columns or
    .jsonl."""


define(Flags)


def main(_: list[str]) -> int:
    """Train, score, predict and export; return the exit status."""
    finetuning_flags.check_flags(FLAGS)
    with startup.importing():
        from finetuning import runner

    return runner.run_script(FLAGS, __file__, create_work)


def create_work(settings: RunSettings, source: Checkpoint) -> Work:
    """Return the job the flags describe, its files read and checked."""
    from tasks.swag.job import SwagJob

    return Work(SwagJob(settings, source, FLAGS.data_dir))


if __name__ == "__main__":
    script.run(main)
