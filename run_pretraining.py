r"""Pre-train BERT: masked language model and next sentence prediction.

    python run_pretraining.py --do_train --do_eval \
        --bert_config_file=bert_config.json --vocab_file=vocab.txt \
        --input_file='train.tfrecord-*' --eval_input_file='dev.tfrecord-*' \
        --output_dir=out --num_train_steps=100000 --num_warmup_steps=10000

trains on records made by create_pretraining_data.py, reports loss, accuracy
and speed as it goes, and ends with `out/bert_model.ckpt`, `bert_config.json`,
`vocab.txt` and `eval_results.txt`. Killed at any moment and started again
with the same command, it goes on where it was and ends with the same bits.
Curves: `tensorboard --logdir=out`.
"""

import math

from base import errors, file_system
from base.errors import UserError

import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from checkpoints import lookup, model_files, weight_files
from pretraining import model as pretraining_model
from pretraining import records as pretraining_records
from records import streaming
from training import fit, loop, reporting, train_step
from training import flags as training_flags
from training.settings import Recipe, Settings, from_flags

FLAGS = flags.FLAGS

# What to do
flags.DEFINE_bool("do_train", False, "Train.")
flags.DEFINE_bool("do_eval", False, "Evaluate, after training if both.")

# Model
flags.DEFINE_string(
    "bert_config_file",
    None,
    "JSON file that says how large the model is; default: the one beside "
    "init_checkpoint.",
)
flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Weights to start from: a prefix (.../bert_model.ckpt) or a directory "
    "that holds one. Read only when output_dir holds no run yet.",
)
flags.DEFINE_string(
    "resume_from",
    None,
    "Another run (its output_dir or a model.ckpt-<step> in it) whose weights, "
    "optimizer moments and step this run continues, on other records: the "
    "second phase of two. Read only when output_dir holds no run yet.",
)
flags.DEFINE_string(
    "vocab_file",
    None,
    "The vocabulary the records were made with; copied beside the weights, "
    "and its size compared with the configuration's. Default: the one beside "
    "init_checkpoint.",
)

# Data
flags.DEFINE_string(
    "input_file", None, "Training records: globs, separated by commas."
)
flags.DEFINE_string(
    "eval_input_file",
    None,
    "Held-out records: globs, separated by commas. Without it, evaluation "
    "uses input_file, which after training on it says little.",
)
flags.DEFINE_integer(
    "max_seq_length", 128, "As in create_pretraining_data.py.", lower_bound=1
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "As in create_pretraining_data.py.",
    lower_bound=1,
)

# Training
flags.DEFINE_string(
    "output_dir", None, "Where checkpoints, curves and results go."
)
flags.DEFINE_integer("num_train_steps", 100000, "Steps in all.", lower_bound=1)
flags.DEFINE_integer(
    "stop_after_steps",
    0,
    "End after so many steps although the learning rate is scheduled for "
    "num_train_steps: the first phase of two. 0: at num_train_steps.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "num_warmup_steps",
    10000,
    "Steps over which the learning rate rises from 0.",
    lower_bound=0,
)
training_flags.define_training_flags()
training_flags.define_tpu_flags()

# Evaluation
flags.DEFINE_integer(
    "eval_batch_size", 8, "Sequences in an evaluation batch.", lower_bound=1
)
flags.DEFINE_integer(
    "max_eval_steps", 100, "Evaluate at most so many batches.", lower_bound=1
)
flags.DEFINE_integer(
    "eval_steps",
    0,
    "While training, evaluate on eval_input_file every so many steps; 0: "
    "only at the end, with --do_eval.",
    lower_bound=0,
)


# --- main and its steps ---------------------------------------------------


def validate_flags() -> None:
    """Check what can be checked before anything is read.

    Raises:
        UserError: names the flags.
    """
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("give --do_train, --do_eval or both")
    if not FLAGS.output_dir:
        raise UserError("--output_dir is required")
    if not FLAGS.bert_config_file and not FLAGS.init_checkpoint:
        raise UserError(
            "--bert_config_file is required without --init_checkpoint"
        )
    if FLAGS.do_train and not FLAGS.input_file:
        raise UserError("--do_train needs --input_file")
    if not FLAGS.input_file and not FLAGS.eval_input_file:
        raise UserError("--do_eval needs --eval_input_file")
    if FLAGS.eval_steps and not FLAGS.eval_input_file:
        raise UserError("--eval_steps needs --eval_input_file")
    if FLAGS.init_checkpoint and FLAGS.resume_from:
        raise UserError(
            "give --init_checkpoint (weights alone, steps from 0) or "
            "--resume_from (weights, moments and step), not both"
        )
    if FLAGS.num_warmup_steps > FLAGS.num_train_steps:
        logging.warning(
            "num_warmup_steps=%d exceeds num_train_steps=%d: the learning "
            "rate never reaches %g",
            FLAGS.num_warmup_steps,
            FLAGS.num_train_steps,
            FLAGS.learning_rate,
        )
    train_step.check_batch_size(create_settings(), replicas=1)


def read_config() -> modeling.BertConfig:
    """Read the configuration; compare it with the flags and vocabulary."""
    prefix = FLAGS.init_checkpoint and lookup.find_checkpoint(
        FLAGS.init_checkpoint
    )
    config = model_files.read_config(prefix or "", FLAGS.bert_config_file)
    model_files.check_length(FLAGS.max_seq_length, config)
    vocab_file = find_vocab()
    if vocab_file:
        vocab = tokenization.load_vocab(vocab_file)
        model_files.check_vocab(len(vocab), vocab_file, config)
    return config


def find_vocab() -> str | None:
    """Return the vocabulary named or beside init_checkpoint, if any."""
    if FLAGS.vocab_file or not FLAGS.init_checkpoint:
        return FLAGS.vocab_file
    prefix = lookup.find_checkpoint(FLAGS.init_checkpoint)
    return lookup.beside(prefix, "vocab.txt")


def read_data(config: modeling.BertConfig, flag: str) -> streaming.RecordFiles:
    """Find and check the files a flag names."""
    files = file_system.find_files(FLAGS[flag].value, flag)
    data = pretraining_records.find_data(
        files, config, FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
    )
    logging.info("*** Input Files (--%s) ***", flag)
    for path in files[:20]:
        logging.info("  %s, %d records", path, data.counts[path])
    if len(files) > 20:
        logging.info("  ... and %d more", len(files) - 20)
    logging.info("  %d records in %d files", data.num_records, len(files))
    return data


def read_evaluation_data(
    config: modeling.BertConfig, train_data: streaming.RecordFiles | None
) -> streaming.RecordFiles | None:
    """Return the held-out data; warn when it is not held out."""
    if not FLAGS.do_eval and not FLAGS.eval_steps:
        return None
    if not FLAGS.eval_input_file:
        if train_data:
            logging.warning(
                "No --eval_input_file: evaluating on the training records, "
                "which says how well they are remembered, not how good the "
                "model is"
            )
        return train_data or read_data(config, "input_file")
    data = read_data(config, "eval_input_file")
    shared = set(data.files) & set(train_data.files if train_data else ())
    if shared:
        logging.warning(
            "%d evaluation files are training files too, the first: %s",
            len(shared),
            min(shared),
        )
    return data


def create_settings() -> Settings:
    """Collect the flags the loop needs."""
    return from_flags(Settings, FLAGS)


def claim_output_dir(
    config: modeling.BertConfig, data: streaming.RecordFiles
) -> None:
    """Refuse an output_dir that belongs to another model or other data."""
    counts = {path.rsplit("/", 1)[-1]: n for path, n in data.counts.items()}
    lengths = {name: f.length for name, f in data.schema.items()}
    identity = {
        "model": config.to_dict(),
        "data": counts,
        "max_seq_length": lengths["input_ids"],
        "max_predictions_per_seq": lengths["masked_lm_ids"],
    }
    fit.claim_output_dir(
        FLAGS, identity, ("num_train_steps", "num_warmup_steps")
    )


class Run:
    """Model, evaluation and the files they leave in output_dir."""

    def __init__(
        self,
        strategy: tf.distribute.Strategy,
        model: pretraining_model.BertForPreTraining,
        eval_data: streaming.RecordFiles | None,
    ):
        self.model = model
        self.strategy = strategy
        self.evaluated_step: int | None = None
        self.evaluator = eval_data and loop.Evaluator(
            strategy,
            model,
            pretraining_model.PRETRAINING,
            eval_data.evaluation(FLAGS.eval_batch_size, FLAGS.max_eval_steps),
            FLAGS.jit_compile,
        )

    def train(
        self, config: modeling.BertConfig, data: streaming.RecordFiles
    ) -> bool:
        """Train to the end; return whether the end was reached."""
        settings = create_settings()
        fit.log_beginning(data.num_records, settings)
        done = fit.fit(
            self.strategy,
            self.model,
            pretraining_model.PRETRAINING,
            settings,
            from_flags(Recipe, FLAGS),
            loop.Batches(
                lambda start: data.training(
                    FLAGS.train_batch_size, FLAGS.random_seed, start
                ),
                lambda step: FLAGS.max_seq_length,
            ),
            lambda length: reporting.training_flops(
                config, 1, length, FLAGS.max_predictions_per_seq
            ),
            self.evaluate,
        )
        if done < settings.last_step:
            return False
        model_files.export(FLAGS.output_dir, self.model, config, find_vocab())
        return True

    def evaluate(self, step: int) -> None:
        """Evaluate; write the scores to log, summaries, eval_results.txt."""
        logging.info("***** Running evaluation *****")
        means = self.evaluator()
        means.pop("tokens")
        # A perplexity beyond any float is as bad as one that fits.
        means["masked_lm_perplexity"] = math.exp(
            min(means["masked_lm_loss"], 700.0)
        )
        results = {**means, "global_step": step}
        reporting.write_results(FLAGS.output_dir, results, step)
        self.evaluated_step = step

    def restore_for_evaluation(self) -> int:
        """Set the weights to evaluate without training; return their step."""
        latest = tf.train.latest_checkpoint(FLAGS.output_dir)
        source = latest or FLAGS.init_checkpoint
        if not source:
            raise UserError(
                f"--do_eval: {FLAGS.output_dir} holds no checkpoint and there "
                "is no --init_checkpoint; untrained weights would score noise"
            )
        weight_files.restore_weights(
            self.model.variables, source, required=r"^(bert|cls)/"
        )
        return weight_files.global_step(source)


def main(_: list[str]) -> int:
    """Train and evaluate as the flags say; return the exit status."""
    validate_flags()
    strategy = fit.strategy_from_flags(FLAGS)
    config = read_config()
    data = read_data(config, "input_file") if FLAGS.do_train else None
    eval_data = read_evaluation_data(config, data)
    if data:
        claim_output_dir(config, data)
    else:
        file_system.make_directory(FLAGS.output_dir)
    tf.keras.utils.set_random_seed(FLAGS.random_seed)
    with strategy.scope():
        model = pretraining_model.BertForPreTraining(config, FLAGS.dtype)
    run = Run(strategy, model, eval_data)
    sources = [source for source in (data, eval_data) if source]
    with streaming.blaming_files(
        [path for source in sources for path in source.files],
        sources[0].bounds,
    ):
        step = create_settings().last_step
        if data and not run.train(config, data):
            return 1
        if not data:
            step = run.restore_for_evaluation()
        if FLAGS.do_eval and run.evaluated_step != step:
            run.evaluate(step)
    return 0


if __name__ == "__main__":
    errors.run(main)
