r"""Find named entities with BERT: fine-tune, or train on frozen features.

    python run_ner.py --train_file=eng.train --dev_file=eng.testa \
        --test_file=eng.testb --init_checkpoint=cased_L-12_H-768_A-12 \
        --output_dir=conll --document_context --max_seq_length=512 \
        --do_train --do_eval --do_predict

is the paper's recipe (section 5.3) and ends with `eval_results.txt` (precision,
recall and F1 by conlleval's rules, of all entities and of each type),
`predictions.txt` (the test file with a column of tags, as conlleval reads it)
and the fine-tuned weights in `bert_model.ckpt`. After an interruption, the same
command resumes the run. --do_export writes a SavedModel, too.

Usual choices: --train_batch_size, --learning_rate, --num_train_epochs,
--random_seed, --dtype=bfloat16 where the processor has it.

Files have a word per line with its tag in a column (IOB or BIOES) and a blank
line between sentences, or are .jsonl with `tokens` and `tags`. With
--feature_based the encoder is frozen and a BiLSTM is trained on the layers
that --feature_layers names, the rows of the paper's table 7.
"""

import dataclasses

from base import script, startup
from base.errors import UserError
from base.flags import define, flag, read

from absl import flags

from checkpoints.model import Checkpoint
from checkpoints.trained_for import TrainedFor
from finetuning import flags as finetuning_flags
from finetuning.flags import Work
from tasks.encoder.layers import table_7
from tasks.ner.data import Columns
from tasks.settings import DistillationFlags, RunSettings

FLAGS = flags.FLAGS

finetuning_flags.define(
    ("train_file", "dev_file", "test_file"),
    what_is_cut="Largest number of tokens that the model reads at once; longer "
    "sentences are split into overlapping windows.",
    rows="Windows",
    and_of=", and of the activations of --feature_based",
)


@dataclasses.dataclass(frozen=True)
class Flags:
    """Files, columns and frozen features."""

    # Data
    train_file: str | None = flag(exists="file")
    """Sentences to train on."""

    dev_file: str | None = flag(exists="file")
    """Sentences to score the model on."""

    test_file: str | None = flag(exists="file")
    """Sentences to tag, with or without tags."""

    token_column: int = flag(0)
    """Column of the word, from 0."""

    label_column: int = flag(-1)
    """Column of the tag; -1: the last."""

    document_context: bool = flag(False)
    """Fill each window up with the sentences around it in the document
    (-DOCSTART-, or `document` in JSONL)."""

    # Frozen features
    feature_based: bool = flag(
        False,
        excludes=dict.fromkeys(
            ("freeze_layers", "layer_decay", "teacher_answers", "recompute"),
            "that is for fine-tuning: the encoder is frozen",
        ),
    )
    """Train a BiLSTM on the encoder's frozen layers; --learning_rate is 1e-3
    without the flag."""

    feature_layers: str = flag(
        "concat_last_four",
        choices=table_7(num_layers=12),
        needs={"feature_based": ""},
    )
    """With --feature_based: the encoder layers that the BiLSTM reads."""

    lstm_units: int = flag(768, low=1, needs={"feature_based": ""})
    """With --feature_based: units of each direction in the BiLSTM's two layers.
    A BiLSTM that is trained together with the encoder has --bilstm_units
    instead."""


define(Flags)
define(DistillationFlags, without=("learn_all_answers",))


def main(_: list[str]) -> int:
    """Train, score, predict and export; return the exit status."""
    check_flags()
    finetuning_flags.check_flags(FLAGS)
    with startup.importing():
        from finetuning import runner

    return runner.run_script(FLAGS, __file__, create_work)


def create_work(settings: RunSettings, source: Checkpoint) -> Work:
    """Return the job the flags describe, its files read and checked."""
    from tasks.ner.job import NerJob

    own = source.trained_for
    if settings.do_train:
        frozen = FLAGS.feature_based
        own = own._replace(
            document_context=FLAGS.document_context,
            feature_layers=FLAGS.feature_layers if frozen else None,
            lstm_units=FLAGS.lstm_units if frozen else None,
        )
    else:
        own = read_model_options(own)
    if own.feature_layers and own.bilstm_layers:
        raise UserError(
            "--bilstm_layers is for fine-tuning: a model on frozen features "
            "has a BiLSTM of its own, --lstm_units wide"
        )
    job = NerJob(
        settings,
        dataclasses.replace(source, trained_for=own),
        (FLAGS.train_file, FLAGS.dev_file, FLAGS.test_file),
        Columns(FLAGS.token_column, FLAGS.label_column),
    )
    options, wrapper = read(DistillationFlags, FLAGS), None
    if settings.do_train and options.teacher_answers:
        # Only runs that ask for an extra import it.
        from extras.distillation.words import TaggerDistillation

        wrapper = TaggerDistillation(job, options)
    return Work(job, wrapper)


def read_model_options(trained_for: TrainedFor) -> TrainedFor:
    """Return the options a model was trained with.

    Raises:
        UserError: a flag was given that contradicts them.
    """
    context = trained_for.document_context
    if context is None:  # a model that was trained elsewhere
        context = FLAGS.document_context
    for name, value in (
        ("feature_based", trained_for.feature_layers is not None),
        ("feature_layers", trained_for.feature_layers),
        ("lstm_units", trained_for.lstm_units),
        ("document_context", context),
    ):
        if FLAGS[name].present and FLAGS[name].value != value:
            raise UserError(
                f"--{name}={FLAGS[name].value}, but the model was trained "
                f"with {name}={value}: leave the flag out"
            )
    return trained_for._replace(document_context=context)


def check_flags() -> None:
    """Raise a UserError for flags that cannot work, before files are read."""
    if FLAGS.token_column == FLAGS.label_column:
        raise UserError(
            f"--token_column and --label_column are both {FLAGS.token_column}: "
            "word and tag need a column each"
        )
    is_frozen = FLAGS.do_train and FLAGS.feature_based
    if is_frozen and not FLAGS.init_checkpoint:
        raise UserError(
            "--feature_based needs --init_checkpoint: features of an "
            "untrained encoder are noise"
        )


if __name__ == "__main__":
    script.run(main)
