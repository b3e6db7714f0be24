r"""Pre-train BERT, or the models of the paper's table 5.

    python run_pretraining.py --do_train --do_eval \
        --size=base --vocab_file=vocab.txt \
        --input_file='train.tfrecord-*' --eval_input_file='dev.tfrecord-*' \
        --output_dir=out --num_train_steps=100000 --num_warmup_steps=10000

trains on records made by create_pretraining_data.py, reports loss, accuracy
and speed while it trains, and writes `out/bert_model.ckpt`, `bert_config.json`,
`vocab.txt`, `tokenizer_config.json` and `eval_results.txt`. If it is killed at
any moment, the same command resumes the run and ends with the same bits. The
curves are in `out/curves.png`, and in
`tensorboard --logdir=out`.

Usual choices: --recipe=small_budget for a run of hours on one machine;
--bert_config_file for a model of another size, --init_checkpoint to begin with
the weights of another one, --train_batch_size, --learning_rate, --train_hours
in place of --num_train_steps, --eval_steps to score while training,
--save_checkpoints_steps, --dtype=bfloat16 where the processor has it.

--objective chooses what is predicted: masked tokens and whether sentence B
follows A, as for BERT (mlm_nsp, the default); masked tokens alone (mlm);
every next token (ltr), with a model whose tokens attend only to themselves and
to those before them; or every previous token (rtl).
"""

import contextlib
import copy
import dataclasses
import functools
import math

from base import file_system, lazy, script
from base.errors import UserError

import tensorflow as tf
from absl import flags, logging

import modeling
import tokenization
from checkpoints import hub, run_settings
from checkpoints.checkpoint import (
    Checkpoint,
    known_normalization,
    open_checkpoint,
    resolve_normalization,
)
from modeling import BertConfig
from pretraining import objectives, phases
from pretraining import run as pretraining_run
from pretraining.data import generation
from pretraining.data.instances import InstanceConfig
from pretraining.model import BertForPreTraining
from pretraining.on_the_fly import Masks, Schedule
from pretraining.phases import Plan
from pretraining.records import PretrainingFiles
from training import devices, recipes, reporting, start, train_step
from training import flags as training_flags
from training.settings import Settings

FLAGS = flags.FLAGS

_LENGTH = "{length}"  # in names of files

# Flags that cannot be given together.
EXCLUSIVE = (
    ("train_hours", "num_train_steps"),
    ("train_hours", "keep_steps"),
    ("train_hours", "stop_after_steps"),
    ("train_hours", "resume_from"),
    ("batch_schedule", "train_batch_size"),
    ("warmup_proportion", "num_warmup_steps"),
    ("size", "bert_config_file"),
    ("size", "init_checkpoint"),
)

# What programs written against the original import.
__getattr__ = lazy.attributes_of("compat.run_pretraining")

# What to do
flags.DEFINE_string(
    "recipe",
    None,
    "Values of flags from a file: small_budget is recipes/small_budget.flags, "
    "any other file is named by its path. A flag of the command wins over the "
    "recipe. docs/small_budgets.md.",
)
flags.DEFINE_bool("do_train", False, "Train on input_file.")
flags.DEFINE_bool("do_eval", False, "Evaluate; with --do_train, after it.")
flags.DEFINE_enum(
    "objective",
    objectives.DEFAULT,
    list(objectives.OBJECTIVES),
    "What the model is trained for, on the same records. mlm_nsp: masked "
    "tokens and next sentence, as BERT. mlm: masked tokens alone; pooler and "
    "next sentence head are not trained. ltr: every next token from those "
    "before it, with attention_direction left_to_right in the configuration "
    "that is written; masked tokens are restored, and a step takes 2 to 4 "
    "times as long. rtl: every previous token, likewise. mlm and ltr are "
    "'No NSP' and 'LTR & No NSP' of the paper's table 5. For --do_eval alone, "
    "give the objective that the model was trained for.",
)

# Model
flags.DEFINE_enum(
    "size",
    None,
    list(modeling.NAMED_SIZES),
    "Size of a new model, in place of bert_config_file: tiny has 2 layers of "
    "128 units, mini 4 of 256, small 4 of 512, medium 8 of 512, base 12 of "
    "768, large 24 of 1024. It has an embedding for each token of vocab_file, "
    "and 512 positions.",
)
flags.DEFINE_string(
    "bert_config_file",
    None,
    "JSON file with the sizes of the model; default: bert_config.json beside "
    "init_checkpoint.",
)
flags.DEFINE_float(
    "initializer_range",
    None,
    "Standard deviation of new weights, instead of the configuration's. The "
    "bert_config.json that is written keeps its own.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_float(
    "sinusoidal_positions",
    None,
    "Begin with position embeddings that are sines and cosines of this "
    "amplitude (Vaswani et al., arXiv:1706.03762, section 3.5), in place of "
    "random ones: the model finds sooner which tokens are neighbors. They are "
    "trained as before, and the result is an ordinary BERT. Weights of "
    "--init_checkpoint stay as they are.",
    lower_bound=0.0,
    upper_bound=0.99,
)
flags.DEFINE_float(
    "dropout",
    None,
    "Dropout of activations and attention in this training, instead of the "
    "configuration's two probabilities. The bert_config.json that is written "
    "keeps its own, for fine-tuning.",
    lower_bound=0.0,
    upper_bound=0.99,
)
flags.DEFINE_string(
    "init_checkpoint",
    None,
    "Weights to start from: a prefix (.../bert_model.ckpt), a directory that "
    "holds one, or hf://owner/name[@revision] on the Hugging Face hub. Read "
    "only when output_dir holds no run yet.",
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
flags.DEFINE_bool(
    "do_lower_case",
    None,
    "Whether create_pretraining_data.py lower-cased the text; written beside "
    "the vocabulary, for the scripts that use the model. Default: as for the "
    "checkpoint that the run begins with, if its files or its name show it, "
    "else true unless the vocabulary has capitals.",
)

# Data
flags.DEFINE_string(
    "input_file", None, "Training records: globs, separated by commas."
)
flags.DEFINE_string(
    "eval_input_file",
    None,
    "Held-out records: globs, separated by commas. Without them, evaluation "
    "uses input_file, whose scores are better than those of other text once "
    "the model has trained on it.",
)
flags.DEFINE_integer(
    "max_seq_length",
    128,
    "Tokens per sequence, as in create_pretraining_data.py.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "Largest number of tokens to predict in a sequence, as in "
    "create_pretraining_data.py; not used for packed records with masks, which "
    "have a number of their own.",
    lower_bound=1,
)

# Masks of records that create_pretraining_data.py --unmasked made
flags.DEFINE_float(
    "masked_lm_prob",
    0.15,
    "Unmasked records: share of tokens to predict; they are drawn anew each "
    "time a record is read.",
    lower_bound=1e-6,
    upper_bound=1,
)
flags.DEFINE_list(
    "masked_lm_prob_schedule",
    [],
    "Unmasked records: share of tokens to predict at the first and at the last "
    "step of the training, such as 0.30,0.15; in between it changes linearly. "
    "Evaluation takes masked_lm_prob.",
)
flags.DEFINE_float(
    "mask_token_prob",
    0.8,
    "Unmasked records: share of the tokens to predict that [MASK] replaces.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_float(
    "random_token_prob",
    0.1,
    "Unmasked records: share of the tokens to predict that a random token "
    "replaces.",
    lower_bound=0,
    upper_bound=1,
)
flags.DEFINE_bool(
    "do_whole_word_mask",
    False,
    "Unmasked records: predict all tokens of a word or none of them.",
)

# Training
flags.DEFINE_string(
    "output_dir", None, "Directory for checkpoints, curves and results."
)
flags.DEFINE_alias("output", "output_dir")
flags.DEFINE_integer(
    "num_train_steps", 100000, "Number of steps.", lower_bound=1
)
flags.DEFINE_float(
    "train_hours",
    None,
    "Train for so many hours, in place of num_train_steps: some steps are "
    "timed when the run begins, and the number of steps that fits is written "
    "to output_dir. A resumed run keeps this number. Reading, compiling, "
    "evaluating and saving take time besides.",
    lower_bound=1e-4,
)
flags.DEFINE_list(
    "batch_schedule",
    [],
    "In place of train_batch_size: batch sizes, each with the share of the "
    "steps at which it ends. 32:0.3,128:1 means batches of 32 in the first 30% "
    "of the steps, and of 128 in the others.",
)
flags.DEFINE_list(
    "length_schedule",
    [],
    "Lengths of the sequences, each with the share of the steps at which it "
    "ends: 64:0.8,128:1. Each length has records of its own, for which "
    "{length} in input_file stands. The last length is max_seq_length; shorter "
    "ones have max_predictions_per_seq in proportion, rounded up.",
)
flags.DEFINE_integer(
    "stop_after_steps",
    0,
    "End after this many steps, while the learning rate is scheduled for "
    "num_train_steps: the first phase of two. 0: at num_train_steps.",
    lower_bound=0,
)
flags.DEFINE_integer(
    "num_warmup_steps",
    10000,
    "Steps in which the learning rate rises from 0.",
    lower_bound=0,
)
flags.DEFINE_float(
    "warmup_proportion",
    None,
    "The same as a share of all steps, instead of num_warmup_steps. With "
    "train_hours the default is 0.1.",
    lower_bound=0.0,
    upper_bound=1.0,
)
flags.DEFINE_list(
    "keep_steps",
    [],
    "Keep the weights alone after each of these steps, such as 1000,2000: "
    "output_dir/step-1000 is a model that every script takes as "
    "--init_checkpoint. They have a third of a checkpoint's size, and "
    "--keep_checkpoint_max does not delete them.",
)
training_flags.define_training_flags(
    bias_correction=False,
    why_bias_correction="The original does not: without it the first updates "
    "are larger, which a long warm-up makes up for.",
)
training_flags.define_tpu_flags()

# Evaluation
flags.DEFINE_integer(
    "eval_batch_size",
    8,
    "Records in an evaluation batch.",
    lower_bound=1,
    upper_bound=2**17,
)
flags.DEFINE_integer(
    "max_eval_steps", 100, "Evaluate at most this many batches.", lower_bound=1
)
flags.DEFINE_integer(
    "eval_steps",
    0,
    "While training, evaluate on eval_input_file every this many steps; 0: "
    "only at the end, with --do_eval.",
    lower_bound=0,
)

# --- main and its steps ------------------------------------------------------


def main(_: list[str]) -> int:
    """Run the command of the flags; return the exit status."""
    if FLAGS.recipe:
        recipes.apply(FLAGS, FLAGS.recipe, EXCLUSIVE)
    check_flags()
    if not FLAGS.do_train:
        return train_and_evaluate()
    with run_settings.locked(FLAGS.output_dir):
        return train_and_evaluate()


def train_and_evaluate() -> int:
    """Train and evaluate as the flags ask; return the exit status."""
    checkpoint = open_source()
    plan = read_plan()
    settings = read_settings(plan)
    strategy = devices.create_strategy(training_flags.read_devices(FLAGS))
    settings = start.with_dtype(settings, strategy, FLAGS.do_train)
    objective = read_objective()
    tokenizer = read_tokenizer(checkpoint)
    config = of_this_training(checkpoint.config)
    masks = read_masks(checkpoint)
    by_length = read_training_data(config, masks, plan)
    data = by_length.get(FLAGS.max_seq_length)
    eval_data = read_evaluation_data(config, masks, data)
    check_masks(*by_length.values(), eval_data)
    objective.log(*pretraining_run.lengths_of(data or eval_data))
    if data:
        identity_of = functools.partial(
            pretraining_run.identity_of,
            config=config,
            objective=objective,
            data=by_length,
            plan=plan,
            vocab_file=checkpoint.vocab_file,
            eval_data=eval_data if FLAGS.eval_input_file else None,
        )
        identity = identity_of(settings)
        start.claim_output_dir(
            strategy, settings, identity, pretraining_run.HINTS
        )
        pretraining_run.warn_of_missed_steps(settings)
    else:
        file_system.make_directory(FLAGS.output_dir)
    tf.keras.utils.set_random_seed(FLAGS.random_seed)
    with strategy.scope():
        model = BertForPreTraining(
            config, settings.dtype, objective.predicts_next_sentence
        )
    model.config = checkpoint.config  # is written beside the weights
    pretraining = pretraining_run.PretrainingRun(
        strategy,
        model,
        objective,
        settings,
        plan,
        tokenizer,
        eval_data,
        FLAGS.eval_batch_size,
        FLAGS.max_eval_steps,
    )
    with contextlib.ExitStack() as stack:
        for source in filter(None, (eval_data, *by_length.values())):
            stack.enter_context(source.naming_bad_files())
        if data:
            if plan.hours and not recorded_steps():
                logging.info("Timing steps, to know how many fit")
                seconds = pretraining.seconds_per_step(by_length)
                steps = max(1, round(3600 * plan.hours / seconds))
                logging.info(
                    "--train_hours=%g: %s steps of %.4g s",
                    plan.hours,
                    f"{steps:,}",
                    seconds,
                )
                settings = pretraining.settings = with_steps(settings, steps)
                warn_of_warmup(settings)
                identity = identity_of(settings)
            step = pretraining.train(by_length, identity)
            if step < settings.last_step:
                return 1
        else:
            step = pretraining.restore_for_evaluation()
        if FLAGS.do_eval and pretraining.evaluated_step != step:
            pretraining.evaluate(step)
    if data and settings.pictures:
        pretraining.draw_curves()
    if pretraining.results:
        reporting.log_results(FLAGS.output_dir, pretraining.results)
    return 0


def read_plan() -> Plan:
    """Return how the flags divide the run into phases."""
    batches = phases.constant(FLAGS.train_batch_size)
    if FLAGS.batch_schedule:
        batches = phases.parse("batch_schedule", FLAGS.batch_schedule)
    lengths = phases.constant(FLAGS.max_seq_length)
    if FLAGS.length_schedule:
        lengths = phases.parse("length_schedule", FLAGS.length_schedule)
        last = lengths[-1][0]
        if not FLAGS["max_seq_length"].present:
            FLAGS.max_seq_length = last
        longest = FLAGS.max_seq_length
        if {last, max(lengths)[0]} != {longest}:
            raise UserError(
                "--length_schedule has to end with the longest length, and "
                f"with --max_seq_length={longest}; found {last}"
            )
        if FLAGS.do_train and _LENGTH not in FLAGS.input_file:
            raise UserError(
                "--length_schedule needs records of each length: give "
                f"--input_file with {_LENGTH} in its names, such as "
                f"data/train{_LENGTH}-*"
            )
    return Plan(FLAGS.train_hours, batches, lengths)


def of_this_training(config: BertConfig) -> BertConfig:
    """Return a configuration with the values that flags give instead."""
    config = copy.copy(config)
    if FLAGS.initializer_range is not None:
        config.initializer_range = FLAGS.initializer_range
    if FLAGS.sinusoidal_positions is not None:
        config.sinusoidal_positions = FLAGS.sinusoidal_positions
    if FLAGS.dropout is not None:
        config.hidden_dropout_prob = FLAGS.dropout
        config.attention_probs_dropout_prob = FLAGS.dropout
    return config


def read_settings(plan: Plan) -> Settings:
    """Return the training flags as plain values.

    The batch size is that of the last phase. With --train_hours the number of
    steps is that of the run in output_dir, or 1 until it is known.
    """
    steps = FLAGS.num_train_steps
    if plan.hours:
        steps = recorded_steps() or 1
    settings = training_flags.read_settings(
        FLAGS, steps, FLAGS.num_warmup_steps
    )
    return with_steps(settings, steps)._replace(
        keep_steps=read_keep_steps(), train_batch_size=plan.batch_size[-1][0]
    )


def recorded_steps() -> int:
    """Return the steps of the run in output_dir; 0 before it begins."""
    found = run_settings.read_adjustable(FLAGS.output_dir)
    return found.get("num_train_steps", 0)


def with_steps(settings: Settings, steps: int) -> Settings:
    """Return the settings of a run with so many steps, and its warm-up."""
    share = FLAGS.warmup_proportion
    if share is None and FLAGS.train_hours:
        share = 0.1
    if share is not None and not FLAGS["num_warmup_steps"].present:
        settings = settings._replace(num_warmup_steps=int(share * steps))
    return settings._replace(num_train_steps=steps)


def warn_of_warmup(settings: Settings) -> None:
    """Warn of a warm-up that does not end within the run."""
    if settings.num_warmup_steps > settings.num_train_steps:
        logging.warning(
            "num_warmup_steps=%d exceeds num_train_steps=%d: the learning "
            "rate never reaches %g; give a smaller --num_warmup_steps",
            settings.num_warmup_steps,
            settings.num_train_steps,
            settings.learning_rate,
        )


def read_objective() -> objectives.PretrainingObjective:
    """Return the objective of the run, that of --resume_from if any."""
    objective = objectives.OBJECTIVES[FLAGS.objective]
    if FLAGS.resume_from:
        pretraining_run.check_same_objective(
            FLAGS.resume_from,
            objective,
            "--resume_from",
            "its weights alone can be given as --init_checkpoint",
        )
    return objective


def read_keep_steps() -> tuple[int, ...]:
    """Return the steps of --keep_steps in order.

    Raises:
        UserError: a value is not a step of this run.
    """
    steps = set()
    for text in filter(None, map(str.strip, FLAGS.keep_steps)):
        # Python turns no more than 4,300 digits into a number.
        step = int(text) if text.isdecimal() and len(text) < 20 else 0
        if not 1 <= step <= FLAGS.num_train_steps:
            raise UserError(
                f"--keep_steps: {text!r} is not a step of this run; give "
                f"numbers from 1 to {FLAGS.num_train_steps} "
                "(--num_train_steps), separated by commas"
            )
        steps.add(step)
    return tuple(sorted(steps))


def open_source() -> Checkpoint:
    """Return the checkpoint, or the files, that the flags name; check them.

    A default of --max_seq_length becomes one that the model has positions for.
    """
    if FLAGS.size:
        tokens = len(tokenization.load_vocab(FLAGS.vocab_file))
        checkpoint = Checkpoint(
            "",
            BertConfig.from_size(FLAGS.size, tokens),
            vocab_file=FLAGS.vocab_file,
            given_lower_case=FLAGS.do_lower_case,
        )
    else:
        checkpoint = open_checkpoint(
            training_flags.read_init_checkpoint(FLAGS),
            FLAGS.bert_config_file,
            FLAGS.vocab_file,
            FLAGS.do_lower_case,
        )
    objectives.set_direction(
        checkpoint.config,
        FLAGS.objective,
        FLAGS.bert_config_file or checkpoint.prefix,
    )
    FLAGS.max_seq_length = checkpoint.fitting_length(
        FLAGS.max_seq_length,
        bool(FLAGS["max_seq_length"].present or FLAGS.length_schedule),
    )
    if FLAGS.resume_from:
        pretraining_run.check_same_vocabulary(
            FLAGS.resume_from, checkpoint.vocab_file
        )
    if checkpoint.vocab_file:
        vocab = tokenization.load_vocab(checkpoint.vocab_file)
        checkpoint.check_vocab(len(vocab))
    return checkpoint


def read_tokenizer(
    checkpoint: Checkpoint,
) -> pretraining_run.TokenizerFiles | None:
    """Return the vocabulary to write and its casing; None if none is written.

    The casing is that of the flag, of the checkpoint that the run begins with,
    or of the vocabulary.

    Raises:
        UserError: the flag contradicts the checkpoint, or there is no
            vocabulary beside which it could be written.
    """
    if not FLAGS.do_train:
        return None
    if not checkpoint.vocab_file:
        if FLAGS.do_lower_case is not None:
            raise UserError(
                "--do_lower_case is written beside the vocabulary: give "
                "--vocab_file"
            )
        return None
    prefix = checkpoint.prefix or FLAGS.resume_from or ""
    if "do_lower_case" not in known_normalization(prefix):
        prefix = ""  # the vocabulary decides, also for a model of the hub
    normalization = resolve_normalization(
        FLAGS.do_lower_case, prefix, checkpoint.vocab_file
    )
    return pretraining_run.TokenizerFiles(checkpoint.vocab_file, normalization)


def read_masks(checkpoint: Checkpoint) -> Masks | None:
    """Return how unmasked records are masked; None without a vocabulary.

    Raises:
        UserError: probabilities that do not fit together.
    """
    if not checkpoint.vocab_file:
        return None
    names = [field.name for field in dataclasses.fields(InstanceConfig)]
    config = InstanceConfig(
        **{name: FLAGS[name].value for name in names if name in FLAGS}
    )
    generation.check_values(config)
    schedule, given = None, FLAGS.masked_lm_prob_schedule
    if given:
        try:
            first, last = map(FLAGS["masked_lm_prob"].parser.parse, given)
        except ValueError:
            raise UserError(
                f"--masked_lm_prob_schedule={','.join(given)}: wanted two "
                "shares, such as 0.30,0.15"
            ) from None
        schedule = Schedule(first, last)
    vocab = tokenization.load_vocab(checkpoint.vocab_file)
    return Masks(
        generation.masking_vocabulary(vocab, checkpoint.vocab_file, config),
        config,
        schedule,
    )


def check_masks(*data: PretrainingFiles | None) -> None:
    """Raise a UserError if flags of masks are given and all records have masks.

    With a recipe, which may have set the flags, it warns that they are not
    used. It also warns if a record has too few places for the tokens to
    predict.
    """
    found = [some.masks for some in data if some and some.masks]
    names = ("masked_lm_prob", "masked_lm_prob_schedule", "mask_token_prob")
    for name in (*names, "random_token_prob", "do_whole_word_mask"):
        if FLAGS[name].present and not found:
            problem = (
                f"--{name} is for records without masks "
                "(create_pretraining_data.py --unmasked); these have some"
            )
            if not FLAGS.recipe:
                raise UserError(problem)
            logging.warning("%s, and keep them", problem)
    for masks in found[:1]:
        generation.warn_of_few_predictions(masks.largest())


def read_training_data(
    config: BertConfig, masks: Masks | None, plan: Plan
) -> dict[int, PretrainingFiles]:
    """Return the training records of each length; none without --do_train."""
    lengths = {length for length, _ in plan.length if FLAGS.do_train}
    return {
        length: read_data(config, masks, "input_file", length)
        for length in sorted(lengths)
    }


def read_data(
    config: BertConfig,
    masks: Masks | None,
    flag: str,
    length: int | None = None,
) -> PretrainingFiles:
    """Return the records of --input_file or --eval_input_file.

    Their sequences have `length` tokens, --max_seq_length by default.
    """
    longest, most = FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
    length = length or longest
    predictions = math.ceil(most * length / longest)
    if masks:
        masks = masks.of_length(length, predictions)
    return pretraining_run.read_data(
        FLAGS[flag].value.replace(_LENGTH, str(length)),
        flag,
        config,
        length,
        predictions,
        masks,
    )


def read_evaluation_data(
    config: BertConfig,
    masks: Masks | None,
    train_data: PretrainingFiles | None,
) -> PretrainingFiles | None:
    """Return the held-out records; warn where they are not held out."""
    if not FLAGS.do_eval and not FLAGS.eval_steps:
        return None
    if FLAGS.eval_input_file:
        data = read_data(config, masks, "eval_input_file")
        if train_data:
            pretraining_run.warn_of_shared_files(train_data, data)
        return data
    if train_data:
        logging.warning(
            "No --eval_input_file: evaluating on the training records, whose "
            "scores are better than those of other text"
        )
    return train_data or read_data(config, masks, "input_file")


def check_flags() -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flags.
    """
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("give --do_train, --do_eval or both")
    training_flags.require(FLAGS, "output_dir")
    if not (FLAGS.size or FLAGS.bert_config_file or FLAGS.init_checkpoint):
        raise UserError(
            "--size (such as --size=base) or --bert_config_file is required "
            "without --init_checkpoint"
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
    if hub.is_name(FLAGS.resume_from):
        raise UserError(
            f"--resume_from={FLAGS.resume_from}: a model on the hub has "
            "weights alone, without the moments and the step of a run; give it "
            "as --init_checkpoint"
        )
    for one, other in EXCLUSIVE:
        if FLAGS[one].present and FLAGS[other].present:
            raise UserError(f"give --{one} or --{other}, not both")
    if FLAGS.size:
        training_flags.require(FLAGS, "vocab_file")
    settings = read_settings(read_plan())
    if not FLAGS.train_hours:
        warn_of_warmup(settings)
    train_step.check_batch_size(settings, replicas=1)


if __name__ == "__main__":
    script.run(main)
