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

from base import file_system, lazy, script
from base.errors import UserError

from absl import flags

import modeling
from checkpoints import hub, run_settings
from pretraining import flags as pretraining_flags
from pretraining import objectives
from pretraining.run import PretrainingRun
from training import devices, start, train_step
from training import flags as training_flags

FLAGS = flags.FLAGS

# Flags that cannot be given together.
EXCLUSIVE = (
    ("train_hours", "num_train_steps"),
    ("train_hours", "keep_steps"),
    ("train_hours", "stop_after_steps"),
    ("train_hours", "resume_from"),
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
    """Train and evaluate as the flags ask; return the exit status."""
    if FLAGS.recipe:
        from training import recipes

        recipes.apply(FLAGS, FLAGS.recipe, EXCLUSIVE)
    check_flags()
    locked = run_settings.locked(FLAGS.output_dir)
    with locked if FLAGS.do_train else contextlib.nullcontext():
        source = pretraining_flags.open_source(FLAGS)
        settings = pretraining_flags.read_settings(FLAGS)
        strategy = devices.create_strategy(training_flags.read_devices(FLAGS))
        settings = start.with_dtype(settings, strategy, FLAGS.do_train)
        train_step.check_batch_size(settings, strategy.num_replicas_in_sync)
        data, eval_data = pretraining_flags.open_records(FLAGS, source)
        objective = objectives.OBJECTIVES[FLAGS.objective]
        objective.log(*(data or eval_data).lengths)
        pretraining = PretrainingRun(
            strategy,
            source,
            pretraining_flags.config_of_run(FLAGS, source),
            objective,
            settings,
            data,
            eval_data,
            FLAGS.eval_batch_size,
            FLAGS.max_eval_steps,
            FLAGS.train_hours,
        )
        with pretraining.naming_bad_files():
            if FLAGS.do_train:
                pretraining.claim_output_dir()
                if FLAGS.train_hours and not pretraining_flags.known_steps(
                    FLAGS
                ):
                    pretraining.settings = pretraining_flags.with_steps(
                        FLAGS, settings, pretraining.steps_that_fit()
                    )
                step = pretraining.train()
                if step < pretraining.settings.last_step:
                    return 1
            else:
                file_system.make_directory(FLAGS.output_dir)
                step = pretraining.restore_for_evaluation()
            if FLAGS.do_eval:
                pretraining.evaluate(step)
        pretraining.report()
        return 0


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


if __name__ == "__main__":
    script.run(main)
