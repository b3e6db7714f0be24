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
import dataclasses
from typing import TYPE_CHECKING

from base import lazy, logs, script, startup
from base.errors import UserError
from base.flags import check, define, flag, read

from absl import flags

from checkpoints import published, run_folder
from ops.choices import NAMED_SIZES, OBJECTIVES
from pretraining.data.schema import MASKING_FLAGS, InstanceConfig
from training.settings import (
    MAX_BATCH_SIZE,
    OF_FINE_TUNING,
    DeviceChoice,
    TrainingSettings,
)

if TYPE_CHECKING:
    from pretraining.run import PretrainingPlan, Runs

FLAGS = flags.FLAGS

# What programs written against the original import.
__getattr__ = lazy.attributes_of("compat.run_pretraining")

# Flags of runs whose number of steps is given.
_STEPS = ("num_train_steps", "keep_steps", "stop_after_steps", "resume_from")


@dataclasses.dataclass(frozen=True)
class Flags:
    """What to do, the model, the records and the evaluation."""

    # What to do
    recipe: str | None = flag()
    """Values of flags from a file: small_budget is recipes/small_budget.flags,
    any other file is named by its path. A flag of the command wins over the
    recipe. docs/small_budgets.md."""

    do_train: bool = flag(False, needs={"input_file": ""})
    """Train on input_file."""

    do_eval: bool = flag(False, needs={"eval_input_file or input_file": ""})
    """Evaluate; with --do_train, after it."""

    objective: str = flag(OBJECTIVES[0], choices=OBJECTIVES)
    """What the model is trained for, on the same records. mlm_nsp: masked
    tokens and next sentence, as BERT. mlm: masked tokens alone; pooler and next
    sentence head are not trained. ltr: every next token from those before it,
    with attention_direction left_to_right in the configuration that is written;
    masked tokens are restored, and a step takes 2 to 4 times as long. rtl:
    every previous token, likewise. mlm and ltr are 'No NSP' and 'LTR & No NSP'
    of the paper's table 5. For --do_eval alone, give the objective that the
    model was trained for."""

    # Model
    size: str | None = flag(
        choices=NAMED_SIZES,
        needs={"vocab_file": ""},
        excludes={"bert_config_file": "", "init_checkpoint": ""},
    )
    """Size of a new model, in place of bert_config_file: tiny has 2 layers of
    128 units, mini 4 of 256, small 4 of 512, medium 8 of 512, base 12 of 768,
    large 24 of 1024. It has an embedding for each token of vocab_file, and 512
    positions."""

    bert_config_file: str | None = flag()
    """JSON file with the sizes of the model; default: bert_config.json beside
    init_checkpoint."""

    initializer_range: float | None = flag(low=0, high=1)
    """Standard deviation of new weights, instead of the configuration's. The
    bert_config.json that is written keeps its own."""

    sinusoidal_positions: float | None = flag(low=0, high=0.99)
    """Begin with position embeddings that are sines and cosines of this
    amplitude (Vaswani et al., arXiv:1706.03762, section 3.5), in place of
    random ones: the model finds sooner which tokens are neighbors. They are
    trained as before, and the result is an ordinary BERT. Weights of
    --init_checkpoint stay as they are."""

    dropout: float | None = flag(low=0, high=0.99)
    """Dropout of activations and attention in this training, instead of the
    configuration's two probabilities. The bert_config.json that is written
    keeps its own, for fine-tuning."""

    init_checkpoint: str | None = flag()
    """Weights to start from: a prefix (.../bert_model.ckpt), a directory that
    holds one, or hf://owner/name[@revision] on the Hugging Face hub. Read only
    when output_dir holds no run yet."""

    new_head: bool = flag(False, needs={"do_train": "", "init_checkpoint": ""})
    """Begin with new weights for a head of the objective that init_checkpoint
    lacks, as sentence encoders and fine-tuned models do: masked LM, next
    sentence. A new head wants a long training."""

    vocab_file: str | None = flag()
    """The vocabulary the records were made with; copied beside the weights, and
    its size compared with the configuration's. Default: the one beside
    init_checkpoint."""

    do_lower_case: bool | None = flag()
    """Whether create_pretraining_data.py lower-cased the text; written beside
    the vocabulary, for the scripts that use the model. Default: as for the
    checkpoint that the run begins with, if its files or its name show it, else
    true unless the vocabulary has capitals."""

    # Data
    input_file: str | None = flag()
    """Training records: globs, separated by commas."""

    eval_input_file: str | None = flag()
    """Held-out records: globs, separated by commas. Without them, evaluation
    uses input_file, whose scores are better than those of other text once the
    model has trained on it."""

    # Training
    train_hours: float | None = flag(
        low=1e-4, excludes=dict.fromkeys(_STEPS, "")
    )
    """Train for so many hours, in place of num_train_steps: some steps are
    timed when the run begins, and the number of steps that fits is written to
    output_dir. A resumed run keeps this number. Reading, compiling, evaluating
    and saving take time besides."""

    warmup_proportion: float | None = flag(
        low=0, high=1, excludes={"num_warmup_steps": ""}
    )
    """The warm-up as a share of all steps, instead of num_warmup_steps. With
    train_hours the default is 0.1. A run of schedule=wsd that goes on keeps the
    steps of its warm-up."""

    # Evaluation
    eval_batch_size: int = flag(8, 1, MAX_BATCH_SIZE)
    """Records in an evaluation batch."""

    max_eval_steps: int = flag(100, low=1)
    """Evaluate at most this many batches."""


define(Flags)
define(
    InstanceConfig,
    "max_seq_length",
    *MASKING_FLAGS,
    words={"unmasked": " For unmasked records."},
)
define(
    TrainingSettings,
    without=OF_FINE_TUNING,
    required=["output_dir"],
    defaults={"num_warmup_steps": 10000},
    needs={"eval_steps": "eval_input_file"},
    words={
        "records": "",
        "usual_rate": "",
        "score_on": "eval_input_file",
        "then": "; 0: only at the end, with --do_eval",
        "why_bias_correction": "The original does not: without it the first "
        "updates are larger, which a long warm-up makes up for.",
    },
)
define(DeviceChoice)


# --- main and its steps ------------------------------------------------------


def main(_: list[str]) -> int:
    """Train and evaluate as the flags ask; return the exit status."""
    if FLAGS.recipe:
        from training import recipes

        recipes.apply(FLAGS, FLAGS.recipe)
        check(FLAGS)
    check_flags()
    with startup.importing():
        from pretraining.run import PretrainingRun, Runs
        from training.plan import carry_out
    with contextlib.ExitStack() as stack:
        if FLAGS.do_train:
            stack.enter_context(run_folder.locked(FLAGS.output_dir))
        runs = Runs.read(FLAGS.output_dir, FLAGS.resume_from)
        return carry_out(PretrainingRun(make_plan(runs, stack)))


def make_plan(runs: "Runs", stack: contextlib.ExitStack) -> "PretrainingPlan":
    """Return what the flags ask for, all files checked.

    Errors in records are named until the stack is left.
    """
    from pretraining import flags as pretraining_flags
    from pretraining import objectives
    from pretraining.run import PretrainingPlan, with_casing
    from records import streaming
    from training import devices, dtypes, train_step

    source = pretraining_flags.open_source(FLAGS, runs)
    settings = pretraining_flags.read_settings(FLAGS, runs)
    strategy = devices.create_strategy(read(DeviceChoice, FLAGS))
    if FLAGS.do_train:
        source = with_casing(source, runs.resume_from)
    continued = runs.both if FLAGS.do_train else ()
    dtype = dtypes.resolve(settings.dtype, strategy, continued)
    settings = dataclasses.replace(settings, dtype=dtype)
    train_step.check_batch_size(settings, strategy.num_replicas_in_sync)
    data, eval_data = pretraining_flags.open_records(FLAGS, source)
    for files in filter(None, (eval_data, data)):
        stack.enter_context(files.naming_bad_files())
    if eval_data:  # before the training, not after it
        count = strategy.num_replicas_in_sync
        streaming.check_divides(
            "eval_batch_size", FLAGS.eval_batch_size, count, f"{count} devices"
        )
    objective = objectives.OBJECTIVES[FLAGS.objective]
    objective.log()
    plan = PretrainingPlan(
        folder=runs.folder,
        strategy=strategy,
        source=source,
        settings=settings,
        identity=None,
        runs=runs,
        config=pretraining_flags.config_of_run(FLAGS, source),
        objective=objective,
        data=data,
        eval_data=eval_data,
        do_eval=FLAGS.do_eval,
        eval_batch_size=FLAGS.eval_batch_size,
        max_eval_steps=FLAGS.max_eval_steps,
        train_hours=FLAGS.train_hours,
        new_head=FLAGS.new_head,
    )
    if FLAGS.do_train:
        plan = plan.identified()
        if (
            FLAGS.train_hours
            and "num_train_steps" not in runs.folder.adjustable
        ):
            steps = plan.steps_that_fit()
            settings = pretraining_flags.with_steps(
                FLAGS, settings, steps, runs
            )
            identity = plan.identity._replace(results=settings.adjustable())
            plan = dataclasses.replace(
                plan, settings=settings, identity=identity
            )
    logs.say("Model: %s", source.in_words())
    return plan


def check_flags() -> None:
    """Check what can be checked before any file is read.

    Raises:
        UserError: names the flags.
    """
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise UserError("give --do_train, --do_eval or both")
    if not (FLAGS.size or FLAGS.bert_config_file or FLAGS.init_checkpoint):
        raise UserError(
            "--size (such as --size=base) or --bert_config_file is required "
            "without --init_checkpoint"
        )
    for step in FLAGS.keep_steps:
        if step > FLAGS.num_train_steps:
            raise UserError(
                f"--keep_steps: {step} is not a step of this run; give numbers "
                f"from 1 to {FLAGS.num_train_steps} (--num_train_steps), "
                "separated by commas"
            )
    if published.is_of_hub(FLAGS.resume_from):
        raise UserError(
            f"--resume_from={FLAGS.resume_from}: a model on the hub has "
            "weights alone, without the moments and the step of a run; give it "
            "as --init_checkpoint"
        )


if __name__ == "__main__":
    script.run(main)
