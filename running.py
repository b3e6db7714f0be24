"""What every runner does: begin or resume, train, write scores, export."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
from absl import flags, logging

import checkpoints
import devices
import huggingface
import optimization
import reporting
import tokenization
import training
from errors import UserError
from modeling import BertConfig

# What a run may not change when it goes on, and what it may.
_FIXED = ("train_batch_size", "random_seed", "optimizer")
_ADJUSTABLE = (
    "learning_rate",
    "weight_decay_rate",
    "bias_correction",
    "continuous_schedule",
    "gradient_accumulation_steps",
    "dtype",
    "jit_compile",
)


# A CPU takes some 40 s to compile all lengths and gains a fifth of a step.
_STEPS_THAT_PAY = 2000


class Recipe(NamedTuple):
    """How weights begin and change; every field mirrors a flag."""

    num_warmup_steps: int
    learning_rate: float = 5e-5
    optimizer: str = "adamw"
    weight_decay_rate: float = 0.01
    bias_correction: bool = False
    continuous_schedule: bool = False
    keep_checkpoint_max: int = 5
    init_checkpoint: str | None = None
    resume_from: str | None = None
    dtype: str = "float32"


def from_flags(kind: type, flag_values: flags.FlagValues, **more: Any) -> Any:
    """Return a Settings or Recipe from the flags of the same names.

    Args:
        kind: a NamedTuple class.
        flag_values: FLAGS of a runner.
        **more: fields that have no flag there.
    """
    names = [n for n in kind._fields if n in flag_values and n not in more]
    return kind(**{name: flag_values[name].value for name in names}, **more)


def create_strategy(flag_values: flags.FlagValues) -> tf.distribute.Strategy:
    """Return where the flags say to run; call before other TensorFlow work."""
    f = flag_values
    devices.avoid_broken_amx(f.dtype)
    return devices.create_strategy(
        f.use_tpu,
        f.tpu_name,
        f.tpu_zone,
        f.gcp_project,
        f.master,
        f.num_tpu_cores,
    )


def claim_output_dir(
    flag_values: flags.FlagValues,
    identity: Mapping[str, Any],
    adjustable: Sequence[str],
) -> None:
    """Refuse an output_dir that belongs to another model or other data.

    Args:
        flag_values: FLAGS of a runner.
        identity: model and data of the run; what may not change.
        adjustable: flags that may, beside those all runners have.

    Raises:
        UserError: names what differs.
    """

    def values(names: Sequence[str]) -> dict[str, Any]:
        return {name: flag_values[name].value for name in names}

    checkpoints.claim_output_dir(
        flag_values.output_dir,
        {**identity, **values(_FIXED)},
        values((*_ADJUSTABLE, *adjustable)),
        devices.is_chief(),
    )


def check_length(max_seq_length: int, config: BertConfig) -> None:
    """Compare --max_seq_length with the positions a model has.

    Raises:
        UserError: there are fewer.
    """
    if max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"--max_seq_length={max_seq_length} is more than the "
            f"model's max_position_embeddings={config.max_position_embeddings}"
        )


def compiles(
    strategy: tf.distribute.Strategy,
    settings: training.Settings,
    is_one_length: bool,
) -> bool:
    """Whether XLA pays: on a CPU each length costs seconds to compile."""
    is_cpu = devices.what_compiles(strategy, True) == "pieces"
    if not settings.jit_compile or not is_cpu or is_one_length:
        return settings.jit_compile
    pays = settings.last_step >= _STEPS_THAT_PAY
    if not pays:
        logging.info(
            "XLA compiles the update alone: more pays from %d steps on where "
            "every length is compiled apart",
            _STEPS_THAT_PAY,
        )
    return pays


def fit(
    strategy: tf.distribute.Strategy,
    model,
    task: training.Task,
    settings: training.Settings,
    recipe: Recipe,
    batches: training.Batches,
    flops_per_example: Callable[[int], float],
    evaluate: Callable[[int], bool | None],
) -> int:
    """Train a model from wherever output_dir says it is; return steps done.

    Args:
        strategy: where the model's variables were made.
        model: callable by `task`.
        task: see training.Task.
        settings: of the loop.
        recipe: of the optimizer, and what to start from.
        batches: see training.Batches.
        flops_per_example: see reporting.Meter.
        evaluate: see training.train.
    """
    optimizer, state = _create_state(strategy, model, settings, recipe)
    first = begin(
        state,
        model,
        recipe.init_checkpoint,
        settings.random_seed,
        recipe.resume_from,
    )
    if first >= settings.last_step:
        logging.info(
            "%s holds a finished run of %d steps: nothing to train",
            settings.output_dir,
            first,
        )
        return first
    peak = devices.measure_matmul_peak(recipe.dtype, strategy)
    logging.info("Matrix-product peak, measured: %.1f GFLOP/s", peak / 1e9)
    schedule = optimization.create_schedule(
        recipe.learning_rate,
        settings.num_train_steps,
        recipe.num_warmup_steps,
        recipe.continuous_schedule,
    )
    return training.train(
        training.Step(strategy, model, task, optimizer, schedule, settings),
        state,
        batches,
        reporting.Meter(settings.train_batch_size, flops_per_example, peak),
        evaluate,
        first,
    )


def _create_state(
    strategy: tf.distribute.Strategy,
    model,
    settings: training.Settings,
    recipe: Recipe,
) -> tuple[optimization.AdamWeightDecay, checkpoints.TrainingState]:
    """Return the optimizer, its slots made, and what is saved of both."""
    with strategy.scope():
        optimizer = optimization.create_optimizer(
            recipe.optimizer, recipe.weight_decay_rate, recipe.bias_correction
        )
        slots = optimizer.create_slots(model.trainable_variables)
    return optimizer, checkpoints.TrainingState(
        settings.output_dir,
        model.variables,
        slots,
        recipe.keep_checkpoint_max,
        devices.is_chief(),
    )


def log_beginning(num_records: int, settings: training.Settings) -> None:
    """Say how much there is to train, as the original does."""
    size, steps = settings.train_batch_size, settings.last_step
    logging.info("***** Running training *****")
    logging.info("  Num examples = %d", num_records)
    logging.info("  Batch size = %d", size)
    logging.info("  Num steps = %d", steps)
    logging.info("  Num epochs = %.1f", size * steps / num_records)


def begin(
    state: checkpoints.TrainingState,
    model,
    init_checkpoint: str | None,
    random_seed: int,
    resume_from: str | None = None,
) -> int:
    """Resume, continue, warm-start or start anew; return the steps done.

    Args:
        state: of the run; what output_dir holds comes first.
        model: its variables are set.
        init_checkpoint: weights alone.
        random_seed: for the message.
        resume_from: weights, moments and step of another run.
    """
    state.clean()
    latest = state.latest()
    if latest:
        done = state.restore(latest)
        logging.info("Resuming %s: %d steps are done", latest, done)
        if init_checkpoint:
            logging.info("init_checkpoint is not read: output_dir has a run")
        if resume_from:
            logging.info("resume_from is not read: output_dir has a run")
        return done
    if resume_from:
        source = checkpoints.find_training_checkpoint(resume_from)
        done = state.restore(source)
        logging.info("Continuing %s: %d steps are done", source, done)
        return done
    if init_checkpoint:
        checkpoints.restore_weights(model.variables, init_checkpoint)
        logging.info("Starting from the weights of %s", init_checkpoint)
    else:
        logging.info("Starting from new weights, seed %d", random_seed)
    return 0


def load_tokenizer(
    prefix: str,
    config: BertConfig,
    vocab_file: str | None,
    do_lower_case: bool | None,
    needed: Sequence[str] = ("[CLS]", "[SEP]"),
) -> tokenization.FullTokenizer:
    """Return the tokenizer of a model, checked against it.

    Args:
        prefix: of a checkpoint; empty without one.
        config: of the model.
        vocab_file: the flag's; None: the file beside the checkpoint.
        do_lower_case: the flag's; None: what lies beside the checkpoint says.
        needed: tokens the vocabulary has to have.

    Raises:
        UserError: there is no vocabulary, it lacks a token or does not fit.
    """
    vocab_file = checkpoints.find_vocab(prefix, vocab_file)
    do_lower_case = checkpoints.resolve_lower_case(do_lower_case, prefix)
    tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    tokenization.validate_special_tokens(tokenizer.vocab, needed, vocab_file)
    check_vocab(len(tokenizer.vocab), vocab_file, config)
    return tokenizer


def check_vocab(size: int, vocab_file: str, config: BertConfig) -> None:
    """Compare a vocabulary with the configuration.

    Raises:
        UserError: the model has fewer rows than there are tokens.
    """
    if size > config.vocab_size:
        raise UserError(
            f"{vocab_file} has {size} tokens, vocab_size of the configuration "
            f"is {config.vocab_size}: they belong to different models"
        )
    if size < config.vocab_size:
        logging.info(
            "vocab_size %d exceeds the %d tokens of %s",
            config.vocab_size,
            size,
            vocab_file,
        )


def write_results(
    output_dir: str,
    results: Mapping[str, float],
    step: int,
    name: str = "eval_results.txt",
    folder: str = "eval",
) -> None:
    """Log scores; write them as `key = value` lines and for TensorBoard."""
    logging.info("***** Eval results *****")
    lines = [f"{key} = {results[key]}" for key in sorted(results)]
    for line in lines:
        logging.info("  %s", line)
    if not devices.is_chief():
        return
    path = checkpoints.join(output_dir, name)
    checkpoints.write_text(path, "\n".join(lines) + "\n")
    writer = tf.summary.create_file_writer(checkpoints.join(output_dir, folder))
    with writer.as_default(step=step):
        for key, value in results.items():
            if key != "global_step" and math.isfinite(value):
                tf.summary.scalar(key, value)
    writer.close()


def export(
    output_dir: str,
    model,
    config: BertConfig,
    vocab_file: str | None,
    do_lower_case: bool | None = None,
) -> str:
    """Write weights alone, configuration, vocabulary and casing.

    Returns:
        The prefix of the weights, `bert_model.ckpt` in output_dir.
    """
    prefix = checkpoints.join(output_dir, checkpoints.WEIGHTS_NAME)
    if not devices.is_chief():
        return prefix
    checkpoints.write_text(
        checkpoints.join(output_dir, checkpoints.BERT_CONFIG_NAME),
        config.to_json_string(),
    )
    if vocab_file and do_lower_case is not None:
        with tf.io.gfile.GFile(vocab_file, "rb") as file:
            vocabulary = file.read()
        huggingface.write_tokenizer(
            output_dir,
            vocabulary,
            do_lower_case,
            config.max_position_embeddings,
        )
    elif vocab_file:
        path = checkpoints.join(output_dir, "vocab.txt")
        tf.io.gfile.copy(vocab_file, path, overwrite=True)
    checkpoints.write(prefix, checkpoints.as_tensors(model.variables))
    logging.info("Wrote the weights alone to %s", prefix)
    return prefix
