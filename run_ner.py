r"""Find named entities with BERT: fine-tune, or train on frozen features.

    python run_ner.py --train_file=eng.train --dev_file=eng.testa \
        --test_file=eng.testb --init_checkpoint=cased_L-12_H-768_A-12 \
        --output_dir=conll --document_context --max_seq_length=512 \
        --do_train --do_eval --do_predict

is the paper's recipe (section 5.3) and ends with `eval_results.txt` (precision,
recall and F1 by conlleval's rules, of all entities and of each type),
`predictions.txt` (the test file with a column of tags appended) and the
fine-tuned weights in `bert_model.ckpt`. After an interruption, the same command
continues the run.

Files have a word per line with its tag in a column (IOB1 or IOB2) and a blank
line between sentences, or are .jsonl with `tokens` and `tags`. With
--feature_based the encoder is frozen and a BiLSTM is trained on the layers
that --feature_layers names, the rows of the paper's table 7.
"""

from base import errors, file_system
from base.errors import UserError

from absl import flags, logging

from checkpoints.trained_for import TrainedFor
from finetuning import distillation, runner, sweeps
from finetuning import flags as finetuning_flags
from ops import recompute
from tasks.encoder import layers as features_layers
from tasks.ner import data as ner_data
from tasks.ner import job as ner_job
from tasks.ner.distillation import TaggerTeaching
from tasks.ner.job import NerJob, TaggerOptions
from tasks.settings import RunSettings
from tasks.source import find_source

FLAGS = flags.FLAGS

finetuning_flags.define_finetuning_flags(
    max_seq_length=128,
    what_is_cut="Longer sentences are split into overlapping windows of this "
    "many tokens.",
    train_on="train_file",
    score_on="dev_file",
    predict_on="test_file",
    predict_batch="Windows in a batch of --do_predict, and where "
    "--feature_based computes activations.",
)
flags.DEFINE_integer(
    "eval_batch_size", 8, "Windows in a batch of --do_eval.", lower_bound=1
)

# Data
flags.DEFINE_string("train_file", None, "Sentences to train on.")
flags.DEFINE_string("dev_file", None, "Sentences to score.")
flags.DEFINE_string(
    "test_file", None, "Sentences to tag, with or without tags."
)
flags.DEFINE_integer("token_column", 0, "Column of the word, from 0.")
flags.DEFINE_integer("label_column", -1, "Column of the tag; -1: the last.")
flags.DEFINE_bool(
    "document_context",
    False,
    "Fill each window up with the sentences around it in the document "
    "(-DOCSTART-, or `document` in JSONL).",
)

# Frozen features
flags.DEFINE_bool(
    "feature_based",
    False,
    "Train a BiLSTM on the encoder's frozen layers; a --learning_rate of about "
    "1e-3 suits it.",
)
flags.DEFINE_enum(
    "feature_layers",
    "concat_last_four",
    list(features_layers.table_7(num_layers=12)),
    "feature_based: the layers it reads.",
)
flags.DEFINE_integer(
    "lstm_units",
    768,
    "feature_based: width of each direction of its two layers. A BiLSTM that "
    "is trained together with the encoder has --bilstm_units instead.",
    lower_bound=1,
)

distillation.define_flags("It was fine-tuned on the same tags.")

# Flag -> the flag of the file it needs.
_NEEDED = {
    "do_train": "train_file",
    "do_eval": "dev_file",
    "eval_steps": "dev_file",
    "do_predict": "test_file",
}


def main(_: list[str]) -> int:
    """Train, score, predict and export; return the exit status."""
    check_flags()
    settings = finetuning_flags.read(FLAGS)
    sweep = sweeps.read(FLAGS, __file__)
    if sweep:
        return runner.run_sweep(settings, create_job, sweep)
    job = create_job(settings, settings.do_train)
    return runner.run_job(job, settings.do_train, settings.do_eval)


def create_job(settings: RunSettings, is_training: bool) -> NerJob:
    """Return the job the flags describe, its files read and checked."""
    source = find_source(settings, is_training)
    if is_training:
        layers = FLAGS.feature_layers if FLAGS.feature_based else None
        options = TaggerOptions(
            FLAGS.document_context, layers, FLAGS.lstm_units
        )
    else:
        options = read_model_options(source.trained_for)
    if options.feature_layers and source.bilstm.bilstm_layers:
        raise UserError(
            "--bilstm_layers is for fine-tuning: a model on frozen features "
            "has a BiLSTM of its own, --lstm_units wide"
        )
    files = ner_job.DataFiles(
        FLAGS.train_file,
        FLAGS.dev_file,
        FLAGS.test_file,
        ner_data.Columns(FLAGS.token_column, FLAGS.label_column),
    )
    job = NerJob(
        settings,
        source,
        is_training,
        files,
        options,
        FLAGS.eval_batch_size,
    )
    if is_training and (options := distillation.read(FLAGS)):
        distillation.distil(options, TaggerTeaching(job))
    return job


def read_model_options(trained_for: TrainedFor) -> TaggerOptions:
    """Return the options a model was trained with.

    Raises:
        UserError: a flag was given that contradicts them.
    """
    found = ner_job.options_in(trained_for, FLAGS.document_context)
    is_feature_based = found.feature_layers is not None
    for name, value in (
        ("feature_based", is_feature_based),
        ("feature_layers", found.feature_layers),
        ("lstm_units", found.lstm_units if is_feature_based else None),
        ("document_context", found.document_context),
    ):
        if FLAGS[name].present and FLAGS[name].value != value:
            raise UserError(
                f"--{name}={FLAGS[name].value}, but the model was trained "
                f"with {name}={value}: leave the flag out"
            )
    return found


def check_flags() -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flags.
    """
    finetuning_flags.check(FLAGS)
    distillation.check(FLAGS)
    for name, file in _NEEDED.items():
        if FLAGS[name].value and not FLAGS[file].value:
            raise UserError(f"--{name} needs --{file}")
    if FLAGS.token_column == FLAGS.label_column:
        raise UserError(
            f"--token_column and --label_column are both {FLAGS.token_column}: "
            "word and tag need a column each"
        )
    for name in dict.fromkeys(_NEEDED.values()):
        path = FLAGS[name].value
        if path and not file_system.exists(path):
            raise UserError(f"--{name}={path}: no such file")
    if FLAGS.feature_based:
        check_feature_based_flags()
        return
    for name in ("feature_layers", "lstm_units"):
        if FLAGS[name].present and FLAGS.do_train:
            raise UserError(f"--{name} is for --feature_based")


def check_feature_based_flags() -> None:
    """Check the flags of training on frozen features.

    Raises:
        UserError: there is no trained encoder.
    """
    if not FLAGS.do_train:
        return
    if not FLAGS.init_checkpoint:
        raise UserError(
            "--feature_based needs --init_checkpoint: features of an "
            "untrained encoder are noise"
        )
    if FLAGS.reinit_top_layers:
        raise UserError(
            "--reinit_top_layers is for fine-tuning: the layers of "
            "--feature_based are frozen, and new ones would be noise"
        )
    if FLAGS.teacher_checkpoint:
        raise UserError(
            "--teacher_checkpoint is for fine-tuning: leave it or "
            "--feature_based out"
        )
    if FLAGS.recompute != recompute.NONE:
        raise UserError(
            f"--recompute={FLAGS.recompute} is for fine-tuning: the encoder of "
            "--feature_based is frozen, and nothing of it is kept"
        )
    rates = ("learning_rate", "sweep_learning_rates")
    if not any(FLAGS[name].present for name in rates):
        logging.warning(
            "--learning_rate=%g is what fine-tuning takes; a new BiLSTM "
            "(--feature_based) learns little from it: try 1e-3",
            FLAGS.learning_rate,
        )


if __name__ == "__main__":
    errors.run(main)
